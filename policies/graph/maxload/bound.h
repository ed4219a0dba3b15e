/* SPDX-License-Identifier: BSD-3-Clause */
/* Lower bounds that hold whatever the plan: what an answer is compared with when nobody knows the best. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_BOUND_H
#define DP_POLICIES_GRAPH_MAXLOAD_BOUND_H

#include "policies/graph/plan.h"
#include "policies/graph/units.h"

/* No plan with at most n_accel accelerators and n_cpus CPUs, one stage a device, has a busiest device
 * with less to do: the larger of
 * - the dearest unit, on the kind of device where it is cheapest and may be;
 * - all work spread without loss, as if units could be cut and sent for nothing, over both kinds.
 * UINT64_MAX where a unit fits nowhere. by: = which. O(n log n). returns 0, or -1 (DP_ENOMEM). */
int dp_bound_maxload(const struct dp_units *u, uint32_t n_accel, const double *speed, uint32_t n_cpus, uint64_t accel_bytes,
                     uint64_t *bound_ns, enum dp_plan_bound *by, struct dp_err *err);

/* The dearest unit, traffic included: of all units the largest of the least loads that a stage with the unit can have (flow.h), on
 * an accelerator as fast as the fastest, or on a CPU where there is one. For the same plans as above.
 * max_steps: where it ends, with what it knows then; 0: a hundredth of a second or so, UINT64_MAX: never.
 * bound_ns: = it, or as it is where that is more. unit: = the one that it comes from, or as it is.
 * returns 0, or -1 (DP_ENOMEM). */
int dp_bound_stage(const struct dp_units *u, uint32_t n_accel, const double *speed, uint32_t n_cpus, uint64_t max_steps, uint64_t *bound_ns,
                   uint32_t *unit, struct dp_err *err);

/* At most so much work, as an accelerator's time, can CPUs do in cpu_time_ns; what must be theirs
 * (only_on_cpu) counts as nothing and takes no time. returns 0, or -1 (DP_ENOMEM). */
int dp_bound_cpus_take(const struct dp_units *u, uint64_t cpu_time_ns, uint64_t *accel_ns,
                       struct dp_err *err);

#endif
