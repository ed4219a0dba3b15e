/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan of a graph cut anew by a policy. */
#ifndef DP_POLICIES_SIM_REPLAN_H
#define DP_POLICIES_SIM_REPLAN_H

#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/policy.h"

struct dp_sim_replan {
    const char *policy;          /* of the registry, or DP_SIM_OWN_POLICY (case.h); NULL: the least iteration (recut.h) */
    const struct dp_policy *own; /* with the latter, and what it is asked with */
    void *own_state;
    uint32_t devices, microbatches;
    uint64_t latency_ns; /* of a message */
    uint64_t accel_bytes; /* UINT64_MAX: no limit */
};

/* *p: a plan of one device a stage, none of them a CPU. The units of the graph stay in the order in which it has them,
 * and become the layers of a chain, with the plan's stages as the layout in force; the policy cuts it for `devices`
 * devices. The answer is checked and evaluated as any plan; why and is_optimal are set, bounds stay. Without a policy is_optimal
 * says whether every layout of the units in this order was simulated.
 * net: as for dp_sim_from_plan(). returns 0, or -1 with *p to be released and not used. */
int dp_sim_replan_run(const struct dp_graph *g, const struct dp_plan_hierarchical *net, const struct dp_sim_replan *ask,
                      struct dp_graph_plan *p, struct dp_err *err);

#endif
