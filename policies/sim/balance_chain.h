/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies on a case of any size: what balance.c asks where a snapshot of a run (policies/policy.h) is too small. */
#ifndef DP_POLICIES_SIM_BALANCE_CHAIN_H
#define DP_POLICIES_SIM_BALANCE_CHAIN_H

#include "policies/sim/case/case.h"

/* count: in: layers of the layout in force, out: of the answer, one number a stage; stages from `allowed` on get none.
 * The same answers as dp_policy_run()'s for every policy but `iteration`, which is the best, by the simulated iteration,
 * of all those (but deepspeed-range beyond 3 million layers * devices) and of some layouts between the fastest slowest stage
 * and the shortest way (front.h).
 * Memory is not checked.
 * returns 0, or -1. */
int dp_sim_balance_chain(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const char *policy, uint32_t allowed,
                         uint32_t *count, struct dp_err *err);

#endif
