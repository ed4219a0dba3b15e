/* SPDX-License-Identifier: BSD-3-Clause */
/* Alpa's program between operators; papers.h has its objective. For one t_max a table least[piece][devices] holds the least sum of
 * times for the pieces from there on, on the last so many devices, some of which may be idle; so it is known how many lie behind a stage.
 *
 * The paper tries one t_max after the other. The least sum falls as t_max rises, so between two that were tried nothing is better
 * than the sum of the upper one with (N - 1) times the lower one: intervals that cannot hold a better answer are left out, and what
 * comes out is the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "policies/graph/papers/paper.h"

struct table {
    const struct dp_pieces *c;
    const struct dp_plan_hierarchical *net;
    uint32_t devices; /* all of them; in a machine: net->devices[0] */
    uint32_t n_meshes;
    uint32_t *mesh;   /* [n_meshes] devices of a submesh, ascending */
    double *stage_s;  /* [n_meshes][n][n + 1] from, to */
    double *times;    /* [n_times] all of them, ascending */
    uint32_t n_times;
    double *least;    /* [n + 1][devices + 1] */
    uint32_t *end;    /* [room] of the answer, and its stages */
    struct dp_graph_stage *stage;
};

static double *least_of(const struct table *t, uint32_t piece)
{
    return t->least + (size_t)piece * (t->devices + 1);
}

static double *stage_of(const struct table *t, uint32_t mesh, uint32_t from, uint32_t to)
{
    return &t->stage_s[((size_t)mesh * t->c->n + from) * (t->c->n + 1) + to];
}

/* A stage on a submesh, as hierarchical.h weighs its replicas. */
static double weigh(const struct table *t, uint32_t mesh, uint32_t from, uint32_t to)
{
    uint32_t m = t->mesh[mesh], inside = m < t->net->devices[0] ? m : t->net->devices[0], machines = m / inside;
    double params = (double)(t->c->param_bytes[to] - t->c->param_bytes[from]);
    double compute = (double)(t->c->compute_ns[to] - t->c->compute_ns[from]) / 1e9;
    double s = (compute + dp_plan_sync_s(t->net, 0, params, inside, from == 0)) / inside;

    return machines > 1 ? (s + dp_plan_sync_s(t->net, 1, params, machines, from == 0)) / machines
           : t->net->n_levels > 1 ? s + dp_plan_sync_s(t->net, 1, params, 1, from == 0)
                                  : s;
}

/* With `behind` devices behind it: is it inside of a machine, or of whole ones, and does it fit? */
static bool may_be(const struct table *t, uint32_t mesh, uint32_t from, uint32_t to, uint32_t behind)
{
    uint32_t m = t->mesh[mesh], each = t->net->devices[0];
    uint64_t state = t->c->state_bytes[to] - t->c->state_bytes[from], kept = t->c->kept_bytes[to] - t->c->kept_bytes[from];

    if (m < each ? behind / each != (behind + m - 1) / each : behind % each != 0)
        return false;
    return dp_paper_fits(state, kept, (behind + (uint64_t)m - 1) / m + 1, t->net->accel_bytes);
}

/* The stage that begins at `from`, with u devices from it on, for which the sum is least. returns: the sum. */
static double best_stage(const struct table *t, double t_max, uint32_t from, uint32_t u, uint32_t *best_to, uint32_t *best_mesh)
{
    double best = INFINITY;

    for (uint32_t mesh = 0; mesh < t->n_meshes && t->mesh[mesh] <= u; mesh++) {
        uint32_t behind = u - t->mesh[mesh];

        for (uint32_t to = from + 1; to <= t->c->n; to++) {
            double s = *stage_of(t, mesh, from, to), rest = least_of(t, to)[behind];

            if (s <= t_max && s + rest < best && may_be(t, mesh, from, to, behind)) {
                best = s + rest;
                *best_to = to;
                *best_mesh = mesh;
            }
        }
    }
    return best;
}

/* The least sum within t_max. */
static double least_sum(struct table *t, double t_max)
{
    uint32_t n = t->c->n, to, mesh;

    for (uint32_t u = 0; u <= t->devices; u++)
        least_of(t, n)[u] = 0;
    for (uint32_t from = n; from-- > 0;) {
        double *least = least_of(t, from);

        least[0] = INFINITY;
        for (uint32_t u = 1; u <= t->devices; u++) /* the foremost of them has work, or not */
            least[u] = fmin(least[u - 1], best_stage(t, t_max, from, u, &to, &mesh));
    }
    return least_of(t, 0)[t->devices];
}

static void keep(struct table *t, double t_max, double objective_s, struct dp_paper_best *best)
{
    uint32_t n = 0, u = t->devices, group = 0, machine = UINT32_MAX;
    double sum = least_sum(t, t_max);

    for (uint32_t from = 0, to = 0, mesh = 0; from < t->c->n; from = to, u -= t->mesh[mesh]) {
        while (u > 0 && least_of(t, from)[u - 1] == least_of(t, from)[u])
            u--;
        (void)best_stage(t, t_max, from, u, &to, &mesh);
        if (n && (u - 1) / t->net->devices[0] != machine)
            group++;
        machine = (u - t->mesh[mesh]) / t->net->devices[0];
        t->end[n] = to;
        t->stage[n++] = (struct dp_graph_stage){
            .group = group, .replicas = t->mesh[mesh], .machines = 1 + (t->mesh[mesh] - 1) / t->net->devices[0]};
    }
    dp_paper_keep(best, t->c, objective_s, t->end, t->stage, n);
    best->microbatch = 1;
    snprintf(best->how, sizeof best->how, "Alpa: %u microbatches take %.4g ms, stages that add up to %.4g ms and at most %.4g ms of each",
             t->net->microbatches, objective_s * 1e3, sum * 1e3, t_max * 1e3);
}

/* t_max number i. returns: the least sum. */
static double try_time(struct table *t, const struct dp_paper_ask *ask, uint32_t i, struct dp_paper_best *best)
{
    double sum = dp_paper_go_on(ask, best) ? least_sum(t, t->times[i]) : INFINITY;
    double objective = sum + (t->net->microbatches - 1.0) * t->times[i];

    if (objective < best->objective_s)
        keep(t, t->times[i], objective, best);
    return sum;
}

/* Numbers from low to before high, whose least sum is known. */
static void search(struct table *t, const struct dp_paper_ask *ask, uint32_t low, uint32_t high, double high_sum,
                   struct dp_paper_best *best)
{
    while (low < high && high_sum + (t->net->microbatches - 1.0) * t->times[low] < best->objective_s) {
        uint32_t middle = low + (high - low) / 2;
        double sum = try_time(t, ask, middle, best);

        search(t, ask, middle + 1, high, high_sum, best);
        high = middle;
        high_sum = sum;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* 1, 2, 4 ... devices, a machine, and 2, 4 ... machines, all of them at last. */
static void list_meshes(struct table *t)
{
    uint32_t each = t->net->devices[0], machines = t->devices / each;

    for (uint32_t m = 1; m < each; m *= 2)
        t->mesh[t->n_meshes++] = m;
    for (uint32_t m = 1; m < machines; m *= 2)
        t->mesh[t->n_meshes++] = m * each;
    t->mesh[t->n_meshes++] = t->devices;
}

static int create(struct table *t, uint32_t room)
{
    size_t n = t->c->n;

    t->mesh = calloc(64, sizeof *t->mesh);
    if (!t->mesh)
        return -1;
    list_meshes(t);
    t->stage_s = calloc(t->n_meshes * n * (n + 1), sizeof *t->stage_s);
    t->times = calloc(t->n_meshes * n * (n + 1), sizeof *t->times);
    t->least = calloc((n + 1) * (t->devices + 1), sizeof *t->least);
    t->end = calloc((size_t)room + 1, sizeof *t->end);
    t->stage = calloc((size_t)room + 1, sizeof *t->stage);
    if (!t->stage_s || !t->times || !t->least || !t->end || !t->stage)
        return -1;
    for (uint32_t mesh = 0; mesh < t->n_meshes; mesh++)
        for (uint32_t from = 0; from < n; from++)
            for (uint32_t to = from + 1; to <= n; to++)
                t->times[t->n_times++] = *stage_of(t, mesh, from, to) = weigh(t, mesh, from, to);
    qsort(t->times, t->n_times, sizeof *t->times, ascending);
    return 0;
}

int dp_paper_cut_alpa(const struct dp_pieces *c, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    struct table t = {.c = c, .net = ask->net, .devices = ask->net->devices[0] * (ask->net->n_levels > 1 ? ask->net->devices[1] : 1)};
    int rc = create(&t, best->room);

    if (rc == 0) {
        uint32_t last = t.n_times - 1;

        search(&t, ask, 0, last, try_time(&t, ask, last, best), best);
    }
    free(t.mesh);
    free(t.stage_s);
    free(t.times);
    free(t.least);
    free(t.end);
    free(t.stage);
    return rc;
}
