/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-graphs: what the searches for orders of a graph find (policies/graph/search/), with as many steps each, beside the
 * few orders that they all begin with; and how long the default search takes.
 *
 * Every graph is planned for 4, 8 and 16 devices at 1.25, 5 and 12 GB/s where its file has no costs of transfers. The best
 * known load of a question is the exact one where the graph has at most 30 000 ideals, else the best of all these searches and
 * of two of 50 million steps; gaps are above it. Files are named on the command line; without, generated networks of irregular
 * cells are planned. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/stdout.h"
#include "policies/graph/bench/cells.h"
#include "policies/graph/plan.h"
#include "policies/graph/read/read.h"

#define N_DEVICES 3         /* numbers of devices */
#define N_BANDWIDTHS 3      /* bandwidths */
#define EXACT_IDEALS 30000u /* seconds */

static const uint32_t devices[N_DEVICES] = {4, 8, 16};
static const double bandwidths[N_BANDWIDTHS] = {1.25e9, 5e9, 12e9};

enum column { FEW, RANDOM, GENETIC, ANNEAL, SEARCH, BOUND, N_COLUMNS };
static const char *const titles[N_COLUMNS] = {"few orders", "random", "genetic", "anneal", "line", "bound"};

struct sums { /* of gaps, in percent */
    double mean[N_COLUMNS], worst[N_COLUMNS], seconds, most_seconds;
    uint32_t n;
};

static int plan(const struct dp_graph *g, enum dp_plan_algorithm algorithm, uint32_t n, uint64_t seed, uint64_t steps,
                struct dp_graph_plan *p, struct dp_err *err)
{
    const struct dp_plan_maxload ask = {.algorithm = algorithm,
                                        .n_accel = n,
                                        .accel_bytes = g->accel_bytes,
                                        .max_ideals = EXACT_IDEALS,
                                        .seed = seed,
                                        .search_steps = steps};

    return dp_plan_maxload_find(g, &ask, p, err);
}

static void note_gap(struct sums *s, enum column c, uint64_t load, uint64_t best)
{
    double gap = 100.0 * ((double)load - (double)best) / (double)best;

    if (c == BOUND) /* how far it is below */
        gap = -gap;
    s->mean[c] += gap;
    s->worst[c] = gap > s->worst[c] ? gap : s->worst[c];
}

/* One question. returns 0 or -1. */
static int compare(const struct dp_graph *g, uint32_t n, uint64_t seed, struct sums *s, struct dp_err *err)
{
    static const enum dp_plan_algorithm algorithm[N_COLUMNS] = {[RANDOM] = DP_PLAN_RANDOM,
                                                                [GENETIC] = DP_PLAN_GENETIC,
                                                                [ANNEAL] = DP_PLAN_ANNEAL,
                                                                [SEARCH] = DP_PLAN_LINE};
    uint64_t load[N_COLUMNS] = {0}, best = UINT64_MAX;
    struct dp_graph_plan p;

    for (int c = RANDOM; c <= SEARCH; c++) {
        uint64_t before = dp_thread_cpu_ns();
        double seconds;

        if (plan(g, algorithm[c], n, seed, 0, &p, err) < 0)
            return -1;
        seconds = (double)(dp_thread_cpu_ns() - before) / 1e9;
        if (c == SEARCH) {
            s->seconds += seconds;
            s->most_seconds = seconds > s->most_seconds ? seconds : s->most_seconds;
        }
        load[c] = p.load_ns;
        load[FEW] = p.line_ns;
        load[BOUND] = p.bound_ns;
        best = p.load_ns < best ? p.load_ns : best;
        dp_graph_plan_release(&p);
    }
    for (int more = 0; more < 3; more++) { /* exact, where that can be */
        if (plan(g, more == 0 ? DP_PLAN_AUTO : more == 1 ? DP_PLAN_LINE : DP_PLAN_ANNEAL, n, seed + 1, UINT64_C(50000000), &p, err) <
            0)
            return -1;
        best = p.load_ns < best ? p.load_ns : best;
        if (p.is_optimal)
            more = 3;
        dp_graph_plan_release(&p);
    }
    for (int c = 0; c < N_COLUMNS; c++)
        note_gap(s, (enum column)c, load[c], best);
    s->n++;
    return 0;
}

static void show(const char *name, const struct sums *s)
{
    printf("| %s | %u |", name, s->n);
    for (int c = 0; c < N_COLUMNS; c++)
        printf(" %.2f, %.2f |", s->n ? s->mean[c] / s->n : 0, s->worst[c]);
    printf(" %.3f, %.3f |\n", s->n ? s->seconds / s->n : 0, s->most_seconds);
    fflush(stdout);
}

static void add(struct sums *all, const struct sums *s)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        all->mean[c] += s->mean[c];
        all->worst[c] = s->worst[c] > all->worst[c] ? s->worst[c] : all->worst[c];
    }
    all->seconds += s->seconds;
    all->most_seconds = s->most_seconds > all->most_seconds ? s->most_seconds : all->most_seconds;
    all->n += s->n;
}

static int compare_graph(struct dp_graph *g, const char *name, uint64_t seed, struct sums *all, struct dp_err *err)
{
    struct sums s = {.n = 0};
    int rc = 0;

    for (int d = 0; rc == 0 && d < N_DEVICES; d++)
        for (int b = 0; rc == 0 && b < (g->kind == DP_GRAPH_PROFILE ? N_BANDWIDTHS : 1); b++) {
            if (g->kind == DP_GRAPH_PROFILE)
                rc = dp_graph_set_bandwidth(g, bandwidths[b], err);
            if (rc == 0)
                rc = compare(g, devices[d], seed, &s, err);
        }
    if (rc == 0)
        show(name, &s);
    add(all, &s);
    return rc;
}

static int compare_generated(uint64_t seed, struct sums *all, struct dp_err *err)
{
    static const uint32_t sizes[] = {325, 1250};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof sizes / sizeof *sizes; i++) {
        struct dp_graph g;
        char name[32];

        snprintf(name, sizeof name, "cells of %u", sizes[i]);
        rc = dp_cells_make(&g, sizes[i], seed, err);
        if (rc == 0)
            rc = compare_graph(&g, name, seed, all, err);
        dp_graph_release(&g);
    }
    return rc;
}

int main(int argc, char *argv[])
{
    struct sums all = {.n = 0};
    struct dp_err err = {.text = ""};
    uint64_t seed = 0;
    int at = 1, rc = 0;

    if (argc > 1 && !strncmp(argv[1], "--seed=", 7)) {
        seed = strtoull(argv[1] + 7, NULL, 10);
        at = 2;
    } else if (argc > 1 && argv[1][0] == '-') {
        printf("usage: bench_graphs [--seed=N] [GRAPH...]\n%% above the best known load of a question: mean, worst\n");
        return strcmp(argv[1], "--help") ? 2 : 0;
    }
    printf("| graph | questions |");
    for (int c = 0; c < N_COLUMNS; c++)
        printf(" %s |", titles[c]);
    printf(" seconds of `line` |\n|---|---|---|---|---|---|---|---|---|\n");
    if (at == argc)
        rc = compare_generated(seed, &all, &err);
    for (; rc == 0 && at < argc; at++) {
        const char *name = strrchr(argv[at], '/');
        struct dp_graph g;

        rc = dp_graph_read(argv[at], &g, &err);
        if (rc == 0)
            rc = compare_graph(&g, name ? name + 1 : argv[at], seed, &all, &err);
        dp_graph_release(&g);
    }
    if (rc == 0)
        show("all", &all);
    else
        fprintf(stderr, "bench_graphs: %s\n", err.text);
    return rc == 0 && dp_stdout_flush(&err) == 0 ? 0 : 1;
}
