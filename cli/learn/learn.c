/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe learn: networks that make orders of graphs, into a file for `dynpipe plan --weights`. The work is done in
 * policies/learn. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/learn/learn.h"
#include "cli/show/save.h"
#include "common/numbers.h"
#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define ITERATIONS 1000u /* some minutes of a core */
#define SAID 10u         /* times that a training says how far it is */

struct progress {
    const char *what; /* is made */
    uint32_t iterations;
    float sum; /* of rewards since it was told last */
    uint32_t n;
};

static bool tell(void *arg, uint32_t iteration, float reward)
{
    struct progress *p = arg;
    uint64_t done = (uint64_t)iteration + 1;

    p->sum += reward;
    p->n++;
    if (done * SAID / p->iterations == (done - 1) * SAID / p->iterations)
        return true;
    fprintf(stderr, "dynpipe learn: %u of %u iterations, %s %+.2f %% above the few orders\n", (unsigned)done, p->iterations, p->what,
            100.0 * expm1(-(double)p->sum / p->n));
    p->sum = 0;
    p->n = 0;
    return true;
}

static int learn(const struct dp_cli *cli, enum dp_learn_method method, struct dp_err *err)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct progress p = {.what = method == DP_LEARN_DRL_PP ? "placements" : "orders",
                         .iterations = cli->simulate.iterations ? (uint32_t)cli->simulate.iterations : ITERATIONS};
    struct dp_learn ask = {.method = method,
                           .seed = cli->simulate.seed,
                           .iterations = p.iterations,
                           .threads = cli->learn.threads,
                           .on_iteration = tell,
                           .arg = &p};
    struct dp_weights w = {0};
    size_t bytes;
    char *data;
    int rc = -1;

    if (!ask.threads)
        ask.threads = processors < 1 ? 1 : processors > DP_TEAM_MOST ? DP_TEAM_MOST : (uint32_t)processors;
    if (dp_learn_run(&ask, &w, err) == 0 && dp_weights_encode(&w, &data, &bytes, err) == 0 &&
        dp_show_save(cli->learn.output, data, bytes, err) == 0) {
        printf("%s: %u network%s, after %u iterations of %s with seed %llu; CRC %08x\n", cli->learn.output, w.n,
               dp_plural(w.n), ask.iterations,
               dp_learn_method_name(ask.method), (unsigned long long)ask.seed, w.crc);
        if (w.kind == DP_WEIGHTS_ORDERS)
            fprintf(stderr, "dynpipe learn: of %u networks %u were trained, the others are random rules\n", w.n, w.n_trained);
        rc = 0;
    }
    dp_weights_release(&w);
    return rc;
}

/* Do its options go together? */
static int check(const struct dp_cli *cli, struct dp_err *err)
{
    const struct dp_cli_learn *l = &cli->learn;

    if (l->evaluate && (l->output || l->method || l->threads || cli->simulate.iterations))
        return dp_err_set(err, DP_EINVAL, "--evaluate learns nothing: of the other options it takes --seed");
    if (l->evaluate && !cli->n_files)
        return dp_err_set(err, DP_EINVAL, "no graph given; use `dynpipe learn --evaluate=FILE GRAPH...`");
    if (!l->evaluate && cli->n_files)
        return dp_err_set(err, DP_EINVAL, "unexpected argument '%s': graphs are for --evaluate=FILE", cli->files[0]);
    if (!l->evaluate && !l->output)
        return dp_err_set(err, DP_EINVAL, "no file to write; use `dynpipe learn -o FILE`");
    return 0;
}

enum dp_exit dp_cmd_learn(const struct dp_cli *cli)
{
    enum dp_learn_method method = DP_LEARN_PPO;
    struct dp_err err;

    if (cli->learn.method && !strcmp(cli->learn.method, "help")) { /* names first: for shell completion, too */
        for (int m = 0; m < DP_LEARN_N; m++)
            printf("%-21s %s\n", dp_learn_method_name((enum dp_learn_method)m), dp_learn_method_help((enum dp_learn_method)m));
        return DP_EXIT_OK;
    }
    if (check(cli, &err) < 0) {
        dp_cmd_fail(cli, &err);
        return DP_EXIT_USAGE;
    }
    if (cli->learn.evaluate)
        return dp_learn_evaluate(cli, &err) < 0 ? dp_cmd_fail(cli, &err) : DP_EXIT_OK;
    if (cli->learn.method && dp_learn_method_find(cli->learn.method, &method, &err) < 0) {
        dp_err_prefix(&err, "--method=%s", cli->learn.method);
        dp_cmd_fail(cli, &err);
        return DP_EXIT_USAGE;
    }
    return learn(cli, method, &err) < 0 ? dp_cmd_fail(cli, &err) : DP_EXIT_OK;
}
