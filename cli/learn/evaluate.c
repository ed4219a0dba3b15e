/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe learn --evaluate: a table of what orders by networks are worth, and a verdict. The work is done in
 * policies/learn/evaluate.h. */
#include "config.h"

#include "cli/learn/learn.h"

#include <stdio.h>
#include <string.h>

#include "policies/graph/read/read.h"
#include "policies/learn/evaluate.h"

static const uint32_t devices[] = {4, 8, 16};
static const double gb_per_s[] = {1.25, 5, 12}; /* of profiles */
#define N_DEVICES (sizeof devices / sizeof *devices)
#define N_BANDWIDTHS (sizeof gb_per_s / sizeof *gb_per_s)

struct table {
    const struct dp_weights *weights, *shuffled;
    uint64_t seed;
    struct dp_evaluation_sums sums;
};

static void show_head(void)
{
    printf("Percent above the best known load, one device a stage:\n");
    for (int r = 0; r < DP_N_RIVALS; r++)
        printf("  %-9s %s\n", dp_rival_name((enum dp_rival)r), dp_rival_help((enum dp_rival)r));
    printf("\n%-24s %7s %5s", "graph", "devices", "GB/s");
    for (int r = 0; r < DP_N_RIVALS; r++)
        printf(" %8s", dp_rival_name((enum dp_rival)r));
    printf("\n");
}

static void show_row(const char *name, uint32_t n, double bandwidth, const struct dp_evaluation *e)
{
    char speed[16] = "-";

    if (bandwidth > 0)
        snprintf(speed, sizeof speed, "%.4g", bandwidth);
    printf("%-24.24s %7u %5s", name, n, speed);
    for (int r = 0; r < DP_N_RIVALS; r++)
        printf(" %8.2f", dp_evaluation_gap(e, (enum dp_rival)r));
    printf("\n");
    fflush(stdout);
}

static int ask(struct table *t, struct dp_graph *g, const char *name, uint32_t n, double bandwidth, struct dp_err *err)
{
    struct dp_evaluation e;

    if (bandwidth > 0 && dp_graph_set_bandwidth(g, bandwidth * 1e9, err) < 0)
        return -1;
    if (dp_evaluate(g, n, t->weights, t->shuffled, t->seed, 0, true, &e, err) < 0)
        return dp_err_prefix(err, "%s, %u devices", name, n);
    show_row(name, n, bandwidth, &e);
    dp_evaluation_add(&t->sums, &e);
    return 0;
}

static int ask_all(struct table *t, const char *path, struct dp_err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct dp_graph g;
    int rc = dp_graph_read(path, &g, err);

    for (size_t d = 0; rc == 0 && d < N_DEVICES; d++)
        for (size_t b = 0; rc == 0 && b < (g.kind == DP_GRAPH_PROFILE ? N_BANDWIDTHS : 1); b++)
            rc = ask(t, &g, name, devices[d], g.kind == DP_GRAPH_PROFILE ? gb_per_s[b] : 0, err);
    dp_graph_release(&g);
    return rc;
}

static void show_line(const char *label, const double *of, double by, int digits)
{
    printf("%-38s", label);
    for (int r = 0; r < DP_N_RIVALS; r++)
        printf(" %8.*f", digits, of[r] / by);
    printf("\n");
}

static void show_verdict(const struct dp_evaluation_sums *s)
{
    show_line("mean", s->gap, s->n, 2);
    show_line("worst", s->worst, 1, 2);
    show_line("seconds of a core", s->cpu_s, s->n, 3);
    printf("\n");
    for (int r = DP_RIVAL_NETWORKS + 1; r < DP_N_RIVALS; r++) {
        double p = dp_sign_test(s->wins[r], s->losses[r]);

        printf("learned against %-9s %3u better, %3u worse of %u: p = %.2g, %s\n", dp_rival_name((enum dp_rival)r), s->wins[r],
               s->losses[r], s->n, p, p >= 0.05 ? "no difference that is proved" : s->wins[r] > s->losses[r] ? "better" : "worse");
    }
    printf("\n%s\n", dp_evaluation_wins_all(s)
                         ? "On these graphs what was learned is better than all others (sign test, p < 0.05)."
                         : "On these graphs learning added nothing that is proved: rules, or others, are as good.");
}

int dp_learn_evaluate(const struct dp_cli *cli, struct dp_err *err)
{
    struct dp_weights weights, shuffled = {0};
    struct table t = {.weights = &weights, .shuffled = &shuffled, .seed = cli->simulate.seed};
    int rc = dp_weights_read(cli->learn.evaluate, &weights, err);

    if (rc == 0)
        rc = dp_weights_want(cli->learn.evaluate, &weights, DP_WEIGHTS_ORDERS, err);
    if (rc == 0)
        rc = dp_weights_shuffle(&weights, cli->simulate.seed, &shuffled, err);
    if (rc == 0)
        show_head();
    for (uint32_t i = 0; rc == 0 && i < cli->n_files; i++)
        rc = ask_all(&t, cli->files[i], err);
    if (rc == 0)
        show_verdict(&t.sums);
    dp_weights_release(&weights);
    dp_weights_release(&shuffled);
    return rc;
}
