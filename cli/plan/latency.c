/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for the shortest iteration: asked for, and where messages take long to arrive. The least load of the busiest device
 * says how fast a pipeline is that is full, but it fills and drains once an iteration, and where messages have a latency each stage
 * more makes it wait for two of them. Microbatches under way are too few to hide that. So plans for fewer
 * devices, too, and without replicas, are simulated, the best straight one is cut anew for its iteration
 * (policies/sim/recut.h), and the shortest iteration of all wins. Alpa's plan is among them, since its objective
 * is such an iteration. See plan.h. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/sim/replan.h"

#define LARGE 1e6 /* nodes * devices: beyond, few numbers of devices are tried */
#define FEW 3u /* then only the largest numbers, so many of them */

struct best {
    struct dp_graph_plan plan;
    uint64_t iteration_ns; /* 0: none yet */
    uint32_t devices;      /* or machines, that it was asked for */
    uint32_t n_tried;
};

static void keep_better(struct best *best, struct dp_graph_plan *p, uint64_t iteration_ns, uint32_t devices)
{
    best->n_tried++;
    if (!iteration_ns || (best->iteration_ns && iteration_ns >= best->iteration_ns)) {
        dp_graph_plan_release(p);
        return;
    }
    dp_graph_plan_release(&best->plan);
    best->plan = *p;
    best->iteration_ns = iteration_ns;
    best->devices = devices;
}

/* Plans for all numbers of devices, or some of them, the largest first. */
static void try_numbers(const struct dp_plan_problem *asked, struct dp_graph *g, struct best *best)
{
    struct dp_plan_problem q = *asked;
    uint32_t *varied = &q.devices[q.n_levels > 1], numbers[DP_TRADE_ROWS], n = dp_trade_numbers(*varied, numbers);
    bool is_large = (double)g->n_nodes * q.devices[0] * (q.n_levels > 1 ? q.devices[1] : 1) > LARGE;

    for (uint32_t i = n; i-- > 0 && (!is_large || i + FEW >= n);) {
        struct dp_graph_plan p = {0};

        *varied = numbers[i];
        if (dp_plan_search(&q, g, &p, NULL) == 0)
            keep_better(best, &p, dp_plan_iteration_ns(g, asked, &p), numbers[i]);
        else
            dp_graph_plan_release(&p);
    }
}

/* A plan with stages s and s + 1 as one, on the devices of both. returns 0, or -1: that is none. */
static int make_joined(const struct dp_plan_problem *q, const struct dp_graph *g, const struct dp_graph_plan *from, uint32_t s,
                       struct dp_graph_plan *out)
{
    const struct dp_plan_hierarchical net = dp_plan_network(q);

    *out = *from;
    out->is_optimal = false;
    out->n_stages--;
    out->stage = calloc(from->n_stages, sizeof *out->stage);
    out->stage_of = calloc(g->n_nodes, sizeof *out->stage_of);
    if (!out->stage || !out->stage_of)
        return -1;
    memcpy(out->stage, from->stage, (s + 1) * sizeof *out->stage);
    memcpy(out->stage + s + 1, from->stage + s + 2, (out->n_stages - s - 1) * sizeof *out->stage);
    out->stage[s].replicas += from->stage[s + 1].replicas;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        out->stage_of[i] = from->stage_of[i] - (from->stage_of[i] > s);
    if (dp_plan_hierarchical_evaluate(g, &net, out, NULL) < 0)
        return -1;
    for (uint32_t i = 0; i < out->n_stages; i++)
        if (out->stage[i].bytes > q->memory_bytes)
            return -1;
    return 0;
}

/* Join stages of the best plan as long as that helps: up to data parallelism, which waits for no message. */
static void join_stages(const struct dp_plan_problem *q, struct dp_graph *g, struct best *best)
{
    uint64_t before_ns = 0;

    while (best->iteration_ns && best->iteration_ns != before_ns && (double)g->n_nodes * best->plan.n_stages <= LARGE) {
        struct best next = {.iteration_ns = 0};

        before_ns = best->iteration_ns;
        for (uint32_t s = 0; s + 1 < best->plan.n_stages; s++) {
            struct dp_graph_plan p;

            if (make_joined(q, g, &best->plan, s, &p) == 0)
                keep_better(&next, &p, dp_plan_iteration_ns(g, q, &p), best->devices);
            else
                dp_graph_plan_release(&p);
        }
        best->n_tried += next.n_tried;
        if (next.iteration_ns)
            keep_better(best, &next.plan, next.iteration_ns, next.devices);
    }
}

static void recut(const struct dp_plan_problem *asked, struct dp_graph *g, struct best *best)
{
    const struct dp_sim_replan ask = {.devices = asked->devices[0], .microbatches = asked->microbatches,
                                      .latency_ns = asked->latency_ns[0], .accel_bytes = asked->memory_bytes};
    const struct dp_plan_hierarchical net = dp_plan_network(asked);
    struct dp_plan_problem q = *asked;
    struct dp_graph_plan p = {0};

    q.devices[0] = best->devices;
    if (best->iteration_ns && dp_plan_search(&q, g, &p, NULL) == 0 && dp_sim_replan_run(g, &net, &ask, &p, NULL) == 0) {
        p.is_optimal = p.is_optimal && p.n_ideals == p.n_units + 1; /* in its only order */
        keep_better(best, &p, dp_plan_iteration_ns(g, asked, &p), asked->devices[0]);
        return;
    }
    dp_graph_plan_release(&p);
}

/* One device a stage, all alike. */
static void try_straight(const struct dp_plan_problem *asked, struct dp_graph *g, struct best *best)
{
    struct dp_plan_problem q = *asked;
    struct best straight = {.iteration_ns = 0};

    q.is_straight = q.algorithm == DP_PLAN_HIERARCHICAL;
    try_numbers(&q, g, &straight);
    recut(&q, g, &straight);
    keep_better(best, &straight.plan, straight.iteration_ns, straight.devices);
    best->n_tried += straight.n_tried - 1;
}

/* What Alpa would plan for all devices. Its plan then is one with replicas like others. */
static void try_alpa(const struct dp_plan_problem *asked, struct dp_graph *g, struct best *best)
{
    struct dp_plan_problem q = *asked;
    struct dp_graph_plan p = {0};

    q.algorithm = DP_PLAN_ALPA;
    if (dp_plan_search(&q, g, &p, NULL) < 0) {
        dp_graph_plan_release(&p);
        return;
    }
    p.algorithm = DP_PLAN_HIERARCHICAL;
    p.objective_ns = 0;
    keep_better(best, &p, dp_plan_iteration_ns(g, asked, &p), asked->devices[asked->n_levels > 1]);
}

int dp_plan_for_iteration(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_graph_plan *p, struct dp_err *err)
{
    bool is_single = q->n_levels == 1 && !q->speed && !q->n_cpus;
    bool is_straight = q->is_straight || q->algorithm != DP_PLAN_HIERARCHICAL;
    struct best best = {.iteration_ns = 0};
    uint32_t slowest = 0;

    if (!is_single || !is_straight)
        try_numbers(q, g, &best);
    if (!is_straight)
        try_alpa(q, g, &best);
    if (is_single && !is_straight)
        join_stages(q, g, &best);
    if (is_single)
        try_straight(q, g, &best);
    if (!best.iteration_ns) /* too large to simulate, or there is none: say why */
        return dp_plan_search(q, g, p, err);
    *p = best.plan;
    p->is_optimal = p->is_optimal && is_straight && is_single && best.devices == q->devices[0];
    for (uint32_t s = 1; s < p->n_stages; s++)
        slowest = p->stage[s].load_ns > p->stage[slowest].load_ns ? s : slowest;
    snprintf(p->why, sizeof p->why,
             "%sthe simulated iteration counts: of %u plans, for fewer devices and cut anew, too, this one has the "
             "shortest; stage %u sets the pace: %.4g ms",
             dp_plan_has_latency(q) ? "with a latency " : "", best.n_tried, slowest, (double)p->load_ns / 1e6);
    return 0;
}
