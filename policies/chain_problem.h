/* SPDX-License-Identifier: BSD-3-Clause */
/* A snapshot as what the balancers understand: a chain of layers over the allowed devices. */
#ifndef DP_POLICIES_CHAIN_PROBLEM_H
#define DP_POLICIES_CHAIN_PROBLEM_H

#include "policies/policy.h"
#include "policies/solve/partition.h"

struct dp_chain_problem {
    struct dp_partition q; /* refers to the arrays below and to the layout in force; no costs */
    uint32_t index[DP_MAX_WORKERS]; /* [q.p] device of each bin */
    uint32_t cut[DP_MAX_WORKERS + 1], copies[DP_MAX_WORKERS];
    double speed[DP_MAX_WORKERS];
    uint64_t cap[DP_MAX_WORKERS];
    uint64_t weight[DP_MAX_LAYERS], fixed[DP_MAX_LAYERS], multi[DP_MAX_LAYERS];
};

/* All but weight[], which is 0. The caller frees it. returns NULL: out of memory. */
struct dp_chain_problem *dp_chain_problem_create(const struct dp_policy_in *in, bool with_speed);

#endif
