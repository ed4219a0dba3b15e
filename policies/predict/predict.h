/* SPDX-License-Identifier: BSD-3-Clause */
/* What one iteration of a running job will take under a layout: the simulator on a policy's snapshot. */
#ifndef DP_POLICIES_PREDICT_PREDICT_H
#define DP_POLICIES_PREDICT_PREDICT_H

#include "policies/policy.h"
#include "policies/sim/iteration/iteration.h"

/* Stage i of out is the i-th worker that owns layers; links as in->links has them, else all alike.
 * out: [dp_layout_active(layout)] or NULL. returns 0, or -1 (no layers, no microbatches, out of memory). */
int dp_predict_layout(const struct dp_policy_in *in, const struct dp_layout *layout, struct dp_sim_stage_out *out,
                      uint64_t *iteration_ns, struct dp_err *err);

#endif
