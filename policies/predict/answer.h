/* SPDX-License-Identifier: BSD-3-Clause */
/* A policy is asked: its answer is checked, and its time predicted by the simulator. */
#ifndef DP_POLICIES_PREDICT_ANSWER_H
#define DP_POLICIES_PREDICT_ANSWER_H

#include "policies/policy.h"

/* Ask a policy, check its answer, predict its time. On failure *out is undefined; err->code is DP_EINVAL
 * or DP_ENOMEM where the policy knows no layout for these devices or the layout does not fit into their
 * memory, and one for which dp_policy_is_broken() holds where it should not be asked again.
 * in: must pass dp_policy_in_check(). */
int dp_policy_run(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                  struct dp_policy_out *out, struct dp_err *err);

/* Predict a layout that passes dp_layout_check() for this snapshot: sets both times of *out. returns 0, or -1
 * where it does not fit into memory (DP_ENOMEM). */
int dp_policy_predict(const struct dp_policy_in *in, struct dp_policy_out *out, struct dp_err *err);

#endif
