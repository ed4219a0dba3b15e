/* SPDX-License-Identifier: BSD-3-Clause */
/* See papers.h and paper.h. The orders are those of line.h; an answer is checked and weighed from nodes and edges alone, as every
 * plan is. */
#include "policies/graph/papers/paper.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/check.h"
#include "policies/graph/line.h"

/* A line for each planner. */
static const struct paper {
    enum dp_plan_algorithm algorithm;
    uint32_t levels;      /* of devices that it knows */
    uint32_t most_pieces; /* of a chain: its time rises with their square */
    uint32_t most_devices; /* likewise */
    double most_work;      /* pieces^2 devices^3, where that is its time: then fewer pieces; 0: not so */
    dp_paper_cut_fn *cut;
} papers[] = {
    {DP_PLAN_2BW, 1, 512, 65535, 0, dp_paper_cut_2bw},
    {DP_PLAN_ALPA, 2, 64, 4096, 0, dp_paper_cut_alpa},
    {DP_PLAN_DAPPLE, 1, 64, 64, 3e8, dp_paper_cut_dapple}, /* 32 pieces on 64 devices */
    {DP_PLAN_PIPER, 1, 0, 256, 0, dp_paper_cut_piper}, /* pieces: by devices and edges */
    {DP_PLAN_CLASSES, 1, 0, DP_CLASSES_DEVICES, 0, dp_paper_cut_classes}, /* pieces: by its classes */
};

static const struct paper *find(enum dp_plan_algorithm algorithm)
{
    for (size_t i = 0; i < sizeof papers / sizeof *papers; i++)
        if (papers[i].algorithm == algorithm)
            return &papers[i];
    return NULL;
}

bool dp_paper_is(enum dp_plan_algorithm algorithm)
{
    return find(algorithm) != NULL;
}

uint32_t dp_paper_levels(enum dp_plan_algorithm algorithm)
{
    return find(algorithm) ? find(algorithm)->levels : 0;
}

/* ---- for those who cut ---- */

void dp_paper_keep(struct dp_paper_best *best, const struct dp_pieces *c, double objective_s, const uint32_t *end,
                   const struct dp_graph_stage *stage, uint32_t n_stages)
{
    best->objective_s = objective_s;
    best->n_stages = n_stages;
    memcpy(best->stage, stage, n_stages * sizeof *stage);
    for (uint32_t u = 0; u < c->n_units; u++) {
        uint32_t s = 0, high = n_stages - 1;

        while (s < high) { /* the first stage that ends behind the unit's piece */
            uint32_t middle = s + (high - s) / 2;

            if (end[middle] > c->piece_of[u])
                high = middle;
            else
                s = middle + 1;
        }
        best->stage_of_unit[u] = s;
    }
}

bool dp_paper_go_on(const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    const struct dp_plan_watch *w = ask->net->watch;

    if (w && !w->go_on(w->arg, 0, best->objective_s < INFINITY ? (uint64_t)(best->objective_s * 1e9) : 0, 0))
        best->was_ended = true;
    return !best->was_ended;
}

bool dp_paper_fits(uint64_t bytes, uint64_t kept, uint64_t times, uint64_t limit)
{
    return limit == UINT64_MAX || (bytes <= limit && (!times || kept <= (limit - bytes) / times));
}

/* ---- around them ---- */

/* Of all levels, or of all classes. */
static uint64_t devices_of(const struct dp_paper_ask *ask)
{
    const struct dp_plan_hierarchical *net = ask->net;

    if (ask->classes)
        return dp_classes_devices(ask->classes);
    return (uint64_t)net->devices[0] * (net->n_levels > 1 ? net->devices[1] : 1);
}

static uint32_t most_pieces(const struct paper *paper, const struct dp_graph *g, const struct dp_paper_ask *ask)
{
    uint32_t n = paper->most_pieces;

    if (ask->classes)
        return dp_paper_pieces_of_classes(ask->classes, ask->net->is_straight);
    if (paper->algorithm == DP_PLAN_PIPER)
        return dp_paper_cuts_of_piper(ask->net->devices[0], g->n_edges) - 1;
    while (paper->most_work > 0 && pow(n, 2) * pow(ask->net->devices[0], 3) > paper->most_work)
        n /= 2;
    return n;
}

static int cut_orders(const struct paper *paper, const struct dp_graph *g, const struct dp_units *u, const struct dp_paper_ask *ask,
                      struct dp_paper_best *best, struct dp_graph_plan *p, struct dp_err *err)
{
    uint32_t most = most_pieces(paper, g, ask);
    size_t n = (size_t)u->n + 1;
    uint32_t *order = calloc(n, sizeof *order), *first = calloc(n, sizeof *first);
    int rc = order && first ? 0 : dp_err_set(err, DP_ENOMEM, "orders: out of memory");

    for (int kind = 0; rc == 0 && kind < DP_N_LINES && !best->was_ended; kind++) {
        struct dp_pieces c;

        rc = dp_line_make(u, (enum dp_line_kind)kind, order, err);
        if (rc < 0 || (kind > 0 && !memcmp(order, first, n * sizeof *order)))
            continue;
        if (kind == 0)
            memcpy(first, order, n * sizeof *order);
        rc = dp_pieces_create(&c, g, u, order, most, err);
        if (rc == 0 && paper->cut(&c, ask, best) < 0)
            rc = dp_err_set(err, DP_ENOMEM, "a chain of %u pieces: out of memory", c.n);
        p->is_optimal = ask->classes && c.n == u->n && dp_line_is_chain(u, order) && !best->was_ended;
        dp_pieces_release(&c);
        p->n_orders++;
    }
    free(order);
    free(first);
    return rc;
}

/* All cuts, where the planner knows how and they are not too many; else those of a few orders. */
static int cut_all(const struct paper *paper, const struct dp_graph *g, const struct dp_units *u, const struct dp_paper_ask *ask,
                   struct dp_paper_best *best, struct dp_graph_plan *p, struct dp_err *err)
{
    bool is_too_many = paper->algorithm != DP_PLAN_PIPER;

    if (!is_too_many && dp_paper_all_of_piper(ask, best, &is_too_many, err) == 0)
        return 0;
    return is_too_many ? cut_orders(paper, g, u, ask, best, p, err) : -1;
}

/* What every plan is compared with: one device, the fastest; all of them with all parameters, where they are alike; and no plan is
 * below. */
static int set_baselines(const struct dp_graph *g, const struct dp_units *u, const struct dp_paper_ask *ask, struct dp_graph_plan *p,
                         struct dp_err *err)
{
    struct dp_plan_hierarchical net = *ask->net;
    double params = 0, speed = 0;
    uint64_t devices;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        p->single_ns += g->node[i].is_input ? 0 : dp_graph_accel_ns(&g->node[i]);
        params += (double)g->node[i].param_bytes;
    }
    if (ask->classes) {
        for (uint32_t i = 0; i < ask->classes->n; i++)
            speed = fmax(speed, ask->classes->of[i].speed);
        p->single_ns = dp_plan_time_ns(p->single_ns, speed);
        p->bound_ns = dp_classes_bound_ns(ask->classes, ask->net, g, u, &p->bound_by);
        return 0;
    }
    p->data_parallel_ns = dp_plan_data_parallel_ns(ask->net, p->single_ns, params, &devices);
    p->bound_ns = p->single_ns / devices;
    net.is_straight = false;
    return g->is_piper ? 0 : dp_plan_hierarchical_bound(g, u, &net, &p->bound_ns, &p->bound_by, err); /* other ways: other parameters */
}

static int weigh(const struct dp_graph *g, const struct dp_paper_ask *ask, struct dp_graph_plan *p, struct dp_err *err)
{
    int rc = ask->classes ? dp_classes_evaluate(g, ask->classes, ask->net, p, err) : dp_plan_hierarchical_evaluate(g, ask->net, p, err);

    for (uint32_t s = 0; rc == 0 && s < p->n_stages; s++) {
        uint64_t limit = ask->classes ? ask->classes->of[p->stage[s].device_class].accel_bytes : ask->net->accel_bytes;

        if (p->stage[s].bytes > limit)
            rc = dp_err_set(err, DP_EINVAL, "the answer does not keep its memory: stage %u", s);
    }
    return rc;
}

/* The same with nodes that run as the planner chose. */
static int weigh_ways(const struct dp_graph *g, const struct dp_paper_ask *ask, struct dp_graph_plan *p, struct dp_err *err)
{
    struct dp_graph as_run = *g;
    int rc;

    as_run.node = malloc((g->n_nodes + 1) * sizeof *as_run.node);
    if (!as_run.node)
        return dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    memcpy(as_run.node, g->node, g->n_nodes * sizeof *as_run.node);
    dp_graph_take_ways(&as_run, p->way_of);
    rc = weigh(&as_run, ask, p, err);
    free(as_run.node);
    return rc;
}

static int write_plan(const struct dp_graph *g, const struct dp_units *u, const struct dp_paper_ask *ask,
                      const struct dp_paper_best *best, struct dp_graph_plan *p, struct dp_err *err)
{
    uint32_t slowest = 0;

    p->n_stages = best->n_stages;
    p->stage = calloc((size_t)best->n_stages + 1, sizeof *p->stage);
    p->stage_of = calloc((size_t)g->n_nodes + 1, sizeof *p->stage_of);
    if (best->knows_ways)
        p->way_of = calloc((size_t)g->n_nodes + 1, sizeof *p->way_of);
    if (!p->stage || !p->stage_of || (best->knows_ways && !p->way_of))
        return dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    memcpy(p->stage, best->stage, best->n_stages * sizeof *p->stage);
    for (uint32_t s = 0; s < best->n_stages; s++)
        p->n_devices += p->stage[s].replicas;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        p->stage_of[i] = u->unit_of[i] == DP_NO_UNIT ? 0 : best->stage_of_unit[u->unit_of[i]];
    if (p->way_of)
        memcpy(p->way_of, best->way_of, g->n_nodes * sizeof *p->way_of);
    p->recomputes = best->recomputes;
    p->more_weights = best->more_weights;
    p->microbatch = best->microbatch;
    p->objective_ns = ask->classes ? 0 : (uint64_t)(best->objective_s * 1e9 + 0.5);
    p->was_ended = best->was_ended;
    if (dp_graph_check(g, p->stage_of, p->n_stages, err) < 0 || (p->way_of ? weigh_ways : weigh)(g, ask, p, err) < 0)
        return -1;
    for (uint32_t s = 0; s < p->n_stages; s++)
        slowest = p->stage[s].load_ns > p->stage[slowest].load_ns ? s : slowest;
    snprintf(p->why, sizeof p->why, "%s; stage %u sets the pace", best->how, slowest);
    return 0;
}

static int plan_units(const struct paper *paper, const struct dp_graph *g, const struct dp_units *u, const struct dp_paper_ask *ask,
                      struct dp_graph_plan *p, struct dp_err *err)
{
    uint64_t devices = devices_of(ask);
    struct dp_paper_best best = {.objective_s = INFINITY, .g = g, .u = u, .room = devices < u->n ? (uint32_t)devices : u->n};
    int rc = -1;

    best.stage = calloc((size_t)best.room + 1, sizeof *best.stage);
    best.stage_of_unit = calloc((size_t)u->n + 1, sizeof *best.stage_of_unit);
    best.way_of = calloc((size_t)g->n_nodes + 1, sizeof *best.way_of);
    p->algorithm = paper->algorithm;
    p->n_units = u->n;
    if (set_baselines(g, u, ask, p, err) < 0)
        goto out;
    if (!best.stage || !best.stage_of_unit || !best.way_of)
        dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    else if (cut_all(paper, g, u, ask, &best, p, err) < 0)
        ;
    else if (best.n_stages)
        rc = write_plan(g, u, ask, &best, p, err);
    else if (best.was_ended)
        dp_err_set(err, DP_ETIMEOUT, "the time limit ended the search before there was a plan");
    else if (ask->classes)
        dp_err_set(err, DP_ENOMEM, "algorithm %s found no plan that fits the memory of %llu devices",
                   dp_plan_algorithm_name(paper->algorithm), (unsigned long long)devices);
    else
        dp_err_set(err, DP_ENOMEM, "algorithm %s found no plan that fits %llu devices of %.4g GB", dp_plan_algorithm_name(paper->algorithm),
                   (unsigned long long)devices, (double)ask->net->accel_bytes / 1e9);
out:
    free(best.stage);
    free(best.stage_of_unit);
    free(best.way_of);
    return rc;
}

/* Is it a question for this planner? */
static int check(const struct dp_graph *g, const struct paper *paper, const struct dp_paper_ask *ask, struct dp_err *err)
{
    const struct dp_plan_hierarchical *net = ask->net;
    const char *name = dp_plan_algorithm_name(paper->algorithm);

    if (g->kind != DP_GRAPH_PROFILE || !net->microbatches)
        return dp_err_set(err, DP_EINVAL, "algorithm %s: a profile and microbatches are needed", name);
    if ((paper->algorithm == DP_PLAN_CLASSES) != (ask->classes != NULL))
        return dp_err_set(err, DP_EINVAL, "algorithm %s %s classes of devices", name, ask->classes ? "knows no" : "needs");
    if (!ask->classes && (net->n_levels < 1 || net->n_levels > paper->levels))
        return dp_err_set(err, DP_EINVAL, "algorithm %s: %u level(s) of devices are needed", name, paper->levels);
    for (uint32_t l = 0; !ask->classes && l < net->n_levels; l++)
        if (net->devices[l] < 1 || net->devices[l] > 65535 || !(net->bytes_per_s[l] > 0.0))
            return dp_err_set(err, DP_EINVAL, "level %u of the network: %u devices, %g bytes/s", l, net->devices[l], net->bytes_per_s[l]);
    if (devices_of(ask) > paper->most_devices)
        return dp_err_set(err, DP_EINVAL, "algorithm %s plans for %u devices at most", name, paper->most_devices);
    if (!most_pieces(paper, g, ask))
        return dp_err_set(err, DP_EINVAL, "algorithm %s: so many devices of %u classes are too many for it", name, ask->classes->n);
    return 0;
}

int dp_paper_find(const struct dp_graph *g, enum dp_plan_algorithm algorithm, const struct dp_paper_ask *ask, struct dp_graph_plan *out,
                  struct dp_err *err)
{
    const struct paper *paper = find(algorithm);
    struct dp_units u;
    int rc = -1;

    *out = (struct dp_graph_plan){0};
    if (!paper)
        return dp_err_set(err, DP_EINVAL, "algorithm %s is of no paper", dp_plan_algorithm_name(algorithm));
    if (check(g, paper, ask, err) < 0 || dp_units_create(&u, g, err) < 0)
        return -1;
    if (u.n == 0)
        dp_err_set(err, DP_EINVAL, "the graph has nothing but inputs");
    else
        rc = plan_units(paper, g, &u, ask, out, err);
    dp_units_release(&u);
    return rc;
}
