/* SPDX-License-Identifier: BSD-3-Clause */
/* See replan.h. The chain is the simulator's case of the plan, so that a policy sees the costs that `dynpipe simulate`
 * shows it; what its answer is worth comes from the graph alone, as of every plan. */
#include "policies/sim/replan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/check.h"
#include "policies/graph/units.h"
#include "policies/sim/balance.h"
#include "policies/sim/case/read_graph.h"
#include "policies/sim/recut.h"

/* Cut the chain. *layout: the answer; release it whatever comes back. found: = without a policy. */
static int cut(struct dp_sim_case *c, const struct dp_sim_replan *ask, struct dp_sim_layout *layout, struct dp_sim_recut *found,
               struct dp_err *err)
{
    c->memory_bytes = ask->accel_bytes == UINT64_MAX ? 0 : ask->accel_bytes;
    c->own = ask->own;
    c->own_state = ask->own_state;
    if (dp_sim_case_check(c, err) < 0 || (!ask->policy && dp_sim_recut_run(c, found, err) < 0) ||
        dp_sim_layout_create(c, layout, err) < 0 ||
        dp_sim_layout_set(c, c->count, c->n_count, layout, err) < 0)
        return -1;
    return !ask->policy ? 0 : dp_sim_balance(c, c->event[0].layer, ask->policy, ask->devices, layout, err);
}

/* Stages of the nodes by the layers that their units are in p. An input goes where the first of its takers is. */
static int place_nodes(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_sim_layout *l, uint32_t *stage_of,
                       struct dp_err *err)
{
    uint32_t *place = NULL, *count = calloc((size_t)p->n_stages + 1, sizeof *count);
    struct dp_units u;
    int rc = -1;

    if (dp_units_create(&u, g, err) < 0) {
        free(count);
        return -1;
    }
    place = calloc((size_t)u.n + 1, sizeof *place);
    if (!place || !count)
        dp_err_set(err, DP_ENOMEM, "graph of %u nodes: out of memory", g->n_nodes);
    else
        rc = dp_sim_place_units(g, p, &u, place, count, err);
    for (uint32_t i = 0; i < g->n_nodes && rc == 0; i++)
        stage_of[i] = u.unit_of[i] == DP_NO_UNIT ? l->n_stages - 1 : dp_sim_layout_stage(l, place[u.unit_of[i]]);
    for (uint32_t e = 0; e < g->n_edges && rc == 0; e++) {
        const struct dp_graph_edge *edge = &g->edge[e];

        if (u.unit_of[edge->from] == DP_NO_UNIT && stage_of[edge->to] < stage_of[edge->from])
            stage_of[edge->from] = stage_of[edge->to];
    }
    dp_units_release(&u);
    free(place);
    free(count);
    return rc;
}

/* Put the answer into p. */
static int take(const struct dp_graph *g, const struct dp_sim_layout *l, struct dp_graph_plan *p, struct dp_err *err)
{
    struct dp_graph_stage *stage = calloc(l->n_stages, sizeof *stage);
    uint32_t *stage_of = calloc(g->n_nodes, sizeof *stage_of);

    if (!stage || !stage_of || place_nodes(g, p, l, stage_of, err) < 0) {
        if (!stage || !stage_of)
            dp_err_set(err, DP_ENOMEM, "graph of %u nodes: out of memory", g->n_nodes);
        free(stage);
        free(stage_of);
        return -1;
    }
    for (uint32_t s = 0; s < l->n_stages; s++)
        stage[s].machines = stage[s].replicas = 1;
    free(p->stage);
    free(p->stage_of);
    p->stage = stage;
    p->stage_of = stage_of;
    p->n_stages = p->n_devices = l->n_stages;
    p->is_optimal = false;
    return dp_graph_check(g, p->stage_of, p->n_stages, err);
}

static int weigh(const struct dp_graph *g, const struct dp_plan_hierarchical *net, uint64_t accel_bytes, struct dp_graph_plan *p,
                 struct dp_err *err)
{
    int rc = p->algorithm == DP_PLAN_HIERARCHICAL ? dp_plan_hierarchical_evaluate(g, net, p, err)
             : dp_plan_maxload_evaluate(g, NULL, p, err);

    for (uint32_t s = 0; rc == 0 && s < p->n_stages; s++)
        if (p->stage[s].bytes > accel_bytes)
            rc = dp_err_set(err, DP_ENOMEM, "stage %u of its answer needs %.4g GB of %.4g GB", s, (double)p->stage[s].bytes / 1e9,
                            (double)accel_bytes / 1e9);
    return rc;
}

static void say_why(const char *name, uint64_t before_ns, struct dp_graph_plan *p)
{
    uint32_t slowest = 0;

    for (uint32_t s = 1; s < p->n_stages; s++)
        slowest = p->stage[s].load_ns > p->stage[slowest].load_ns ? s : slowest;
    snprintf(p->why, sizeof p->why,
             "policy %.64s cut the order of the best plan found, which takes %.4g ms; stage %u sets the pace: %.4g ms of compute, "
             "%.4g ms of traffic",
             name, (double)before_ns / 1e6, slowest, (double)p->stage[slowest].compute_ns / 1e6,
             (double)p->stage[slowest].traffic_ns / 1e6);
}

int dp_sim_replan_run(const struct dp_graph *g, const struct dp_plan_hierarchical *net, const struct dp_sim_replan *ask,
                      struct dp_graph_plan *p, struct dp_err *err)
{
    struct dp_sim_case c = {.schedule = DP_SCHED_1F1B, .devices = ask->devices, .chunks = 1, .replicas = 1, .buckets = 1,
                            .iterations = 1, .microbatches = ask->microbatches};
    const char *name = ask->own ? ask->own->name : ask->policy ? ask->policy : "the least iteration";
    struct dp_sim_layout layout = {0};
    struct dp_sim_recut found = {0};
    uint64_t before_ns = p->load_ns;
    int rc;

    c.inside.latency_ns = ask->latency_ns;
    rc = dp_sim_from_plan(g, p, net, NULL, &c, err);
    if (rc == 0)
        rc = cut(&c, ask, &layout, &found, err);
    if (rc == 0 && (take(g, &layout, p, err) < 0 || weigh(g, net, ask->accel_bytes, p, err) < 0))
        rc = dp_err_prefix(err, ask->policy ? "policy %s" : "%s", name);
    if (rc == 0 && ask->policy)
        say_why(name, before_ns, p);
    p->is_optimal = rc == 0 && found.is_exact;
    dp_sim_layout_release(&layout);
    dp_sim_case_release(&c);
    return rc;
}
