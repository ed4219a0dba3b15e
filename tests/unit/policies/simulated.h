/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan of a graph, simulated: what its devices are seen to do. */
#ifndef DP_TESTS_UNIT_POLICIES_SIMULATED_H
#define DP_TESTS_UNIT_POLICIES_SIMULATED_H

#include "policies/sim/case/read_graph.h"
#include "policies/sim/run.h"
#include "tests/unit/unit.h"

struct seen {
    uint64_t iteration_ns, mem[64];
    uint32_t n_used, stage_of[64];
};

static inline int see(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    struct seen *s = arg;

    (void)err;
    s->iteration_ns = p->out->iteration_ns;
    s->n_used = p->layout->n_used;
    for (uint32_t i = 0; i < p->layout->n_used; i++) {
        s->mem[i] = p->out->device[i].mem_bytes;
        s->stage_of[i] = p->layout->stage_of[i];
    }
    return 0;
}

/* c: schedule, devices and microbatches; the rest is the plan's. It is released. */
static inline void simulate_plan(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net,
                                 struct dp_sim_case *c, struct seen *seen)
{
    struct dp_sim_totals totals;
    struct dp_err err;

    if (dp_sim_from_plan(g, p, net, NULL, c, &err) < 0 || dp_sim_case_check(c, &err) < 0 || dp_sim_run(c, see, seen, &totals, &err) < 0)
        fail_msg("%s", err.text);
    dp_sim_case_release(c);
}

#endif
