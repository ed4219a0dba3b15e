/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe simulate --cluster: a job mix on a cluster, without and with DynPipe, under each scheduler of
 * the description. */
#include "cli/simulate/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/json.h"
#include "cli/show/save.h"
#include "cli/show/text.h"
#include "cli/simulate/timeline.h"

/* Options that say something about a training run. NULL: none of them is given. */
static const char *misplaced(const struct dp_cli *cli)
{
    const struct dp_cli_simulate *o = &cli->simulate;

    return o->schedule       ? "schedule"
           : o->balance      ? "balance"
           : o->scheme       ? "scheme"
           : o->advise       ? "advise"
           : cli->arguments  ? "arguments"
           : o->chrome_trace ? "chrome-trace"
           : o->devices      ? "devices"
           : o->chunks       ? "chunks"
           : o->microbatches ? "microbatches"
           : o->replicas     ? "replicas"
           : o->iterations   ? "iterations"
           : o->draw         ? "draw"
           : o->gb_per_s > 0 ? "bandwidth"
                             : NULL;
}

static int simulate(const struct dp_cluster_case *c, struct dp_cluster_pair *pair, struct dp_err *err)
{
    for (int with = 0; with < 2; with++)
        if (dp_cluster_run(&c->mix, &c->machine, pair->scheduler, with, pair->times[with], err) < 0 ||
            dp_cluster_stats_fill(&c->mix, c->machine.nodes, with, pair->times[with], &pair->stats[with], err) < 0)
            return -1;
    dp_cluster_compare(&c->mix, pair->times[0], pair->times[1], &pair->moved);
    return 0;
}

static int save_swf(const struct dp_cluster_case *c, const struct dp_cluster_pair *pair, const char *path, struct dp_err *err)
{
    char *text = NULL, title[128];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return dp_show_save(path, NULL, 0, err);
    dp_cluster_swf_write(&c->mix, pair->times[0], dp_cluster_schedulers[pair->scheduler].name, c->machine.nodes,
                         dp_text_clean(title, sizeof title, c->name), out);
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return dp_show_save(path, text, bytes, err);
}

/* Every scheduler; the last one is drawn. list: elements are added. */
static int simulate_all(const struct dp_cli *cli, const struct dp_cluster_case *c, struct dp_cluster_pair *pair, json_t *list,
                        struct dp_err *err)
{
    for (uint32_t k = 0; k < c->n_schedulers; k++) {
        pair->scheduler = c->scheduler[k];
        if (simulate(c, pair, err) < 0)
            return dp_err_prefix(err, "%s: %s", cli->simulate.cluster, dp_cluster_schedulers[pair->scheduler].name);
        if (json_array_append_new(list, dp_cluster_pair_document(c, pair)) < 0)
            return dp_err_set(err, DP_ENOMEM, "out of memory");
    }
    if (cli->simulate.save_swf && save_swf(c, pair, cli->simulate.save_swf, err) < 0)
        return -1;
    if (cli->svg) {
        char title[256];

        dp_text_clean(title, sizeof title, c->name[0] ? c->name : cli->simulate.cluster);
        return dp_cluster_svg(c, pair, title, cli->svg, err);
    }
    return 0;
}

/* document: = new reference. */
static int make_document(const struct dp_cli *cli, const struct dp_cluster_case *c, json_t **document, struct dp_err *err)
{
    struct dp_cluster_pair pair = {0};
    json_t *list = json_array();
    int rc = -1;

    for (int with = 0; with < 2; with++)
        pair.times[with] = calloc((size_t)c->mix.n_jobs + 1, sizeof *pair.times[with]);
    if (!pair.times[0] || !pair.times[1])
        dp_err_set(err, DP_ENOMEM, "%u jobs: out of memory", c->mix.n_jobs);
    else
        rc = simulate_all(cli, c, &pair, list, err);
    free(pair.times[0]);
    free(pair.times[1]);
    if (rc == 0) {
        *document = dp_cluster_document(c);
        if (json_object_set(*document, "schedulers", list) < 0)
            rc = dp_err_set(err, DP_ENOMEM, "out of memory");
    }
    json_decref(list);
    return rc;
}

static enum dp_exit show(const struct dp_cli *cli, json_t *document)
{
    struct dp_err err;

    if (cli->json) {
        json_t *whole = dp_json_envelope("simulate", "cluster", json_incref(document));

        dp_json_print(whole, false);
        json_decref(whole);
    } else if (dp_cluster_print(cli, document, &err) < 0) {
        fprintf(stderr, "dynpipe simulate: %s\n", err.text);
        return DP_EXIT_USAGE;
    }
    return DP_EXIT_OK;
}

enum dp_exit dp_simulate_cluster(const struct dp_cli *cli)
{
    const char *wrong = misplaced(cli);
    struct dp_cluster_case *c;
    json_t *document = NULL;
    enum dp_exit code;
    struct dp_err err;

    if (wrong || cli->n_files > 1) {
        fprintf(stderr, wrong ? "dynpipe simulate: --%s cannot be combined with --cluster\n"
                              : "dynpipe simulate: %swith --cluster one workload file can be given\n", wrong ? wrong : "");
        return DP_EXIT_USAGE;
    }
    c = calloc(1, sizeof *c); /* large for a stack */
    if (!c) {
        dp_err_set(&err, DP_ENOMEM, "out of memory");
        return dp_cmd_fail(cli, &err);
    }
    if (dp_cluster_read(cli->simulate.cluster, cli->n_files ? cli->files[0] : NULL, cli->simulate.seed, c, &err) < 0) {
        free(c);
        return dp_cmd_fail(cli, &err);
    }
    if (cli->simulate.scheduler) {
        c->n_schedulers = 1;
        if (dp_cluster_scheduler_find(cli->simulate.scheduler, &c->scheduler[0], &err) < 0)
            c->n_schedulers = 0;
    }
    if (c->n_schedulers && make_document(cli, c, &document, &err) == 0)
        code = show(cli, document);
    else
        code = dp_cmd_fail(cli, &err);
    json_decref(document);
    dp_cluster_case_release(c);
    free(c);
    return code;
}
