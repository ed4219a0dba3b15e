/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of built-in policies: one line for each, and a file with its dp_policy_<id> and dp_policy_chain_<id>; names, in
 * errors, in `dynpipe simulate --balance=help` and behind TAB, are those of the struct. tests/cli/names.t holds the table in
 * doc/policies.md against it. */
#ifndef DP_POLICIES_LIST_H
#define DP_POLICIES_LIST_H

#include "policies/policy.h"

#define DP_POLICIES(P)        \
    P(keep)                   \
    P(uniform)                \
    P(param)                  \
    P(time)                   \
    P(iteration)              \
    P(time_comm)              \
    P(nicol)                  \
    P(diffusion_param)        \
    P(diffusion_time)         \
    /* baselines */           \
    P(deepspeed_param)        \
    P(deepspeed_time)         \
    P(deepspeed_range_param)  \
    P(deepspeed_range_time)   \
    P(dynmo_param)            \
    P(dynmo_time)             \
    P(dynmo_diffusion_param)  \
    P(dynmo_diffusion_time)   \
    P(torchgpipe_param)       \
    P(torchgpipe_time)

struct dp_policy_chain; /* balancer.h */

#define DP_POLICY_DECLARE(id)                   \
    extern const struct dp_policy dp_policy_##id; \
    extern const struct dp_policy_chain dp_policy_chain_##id;
DP_POLICIES(DP_POLICY_DECLARE)

/* The i-th policy of the list, NULL after the last. */
const struct dp_policy *dp_policy_at(size_t i);
/* By name; NULL and an error that lists the known names. */
const struct dp_policy *dp_policy_find(const char *name, struct dp_err *err);
/* What the i-th policy of the list can do with chains of any size, NULL after the last. */
const struct dp_policy_chain *dp_policy_chain_at(size_t i);

#endif
