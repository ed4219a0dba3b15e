/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run measures that the simulator does not know: cores that others use, links that are slower than the
 * configuration says, and time that belongs to no layer. Learned from a measured step, put into the snapshot
 * that predictions and policies are made from.
 *
 *   slots      the time of every device of a slot times a factor
 *   links      what messages between two slots take longer, where workers could measure it (links.h)
 *   link       a latency more for each message between neighbours, all alike: what is waited and nothing above
 *              explains, since waiting alone does not tell behind which link
 *   rest       what is left of the measured step, added to every prediction; where the measured step is the
 *              shorter one, predictions are scaled down
 */
#ifndef DP_POLICIES_DECIDE_CORRECTION_H
#define DP_POLICIES_DECIDE_CORRECTION_H

#include "policies/policy.h"
#include "policies/predict/links.h"

struct dp_correction {
    double slot[DP_MAX_WORKERS]; /* by slot, >= 1; 0 counts as 1 */
    struct dp_links links;
    uint64_t link_ns;
    uint64_t rest_ns;
    double scale; /* 0..1; 0 counts as 1 */
};

/* The snapshot with slots and links as they are. device: [in->n_devices], filled, must live as long as out, and so
 * must *c.
 * The same array may be in->device's. */
void dp_correction_apply(const struct dp_correction *c, const struct dp_policy_in *in, struct dp_device *device,
                         struct dp_policy_in *out);

/* Wall time of a step, from the iteration that was predicted with the corrected snapshot; and back. */
uint64_t dp_correction_wall_ns(const struct dp_correction *c, uint64_t iteration_ns);
uint64_t dp_correction_iteration_ns(const struct dp_correction *c, uint64_t wall_ns);

/* The layout's wall time of a step. returns 0, or -1 (see dp_predict_layout()). */
int dp_correction_predict(const struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                          uint64_t *wall_ns, struct dp_err *err);

/* Set rest_ns and scale, so that the layout takes measured_ns; slots and links stay. returns 0 or -1. */
int dp_correction_settle(struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                         uint64_t measured_ns, struct dp_err *err);
/* Set link_ns, too: what slots, links and usual_rest_ns do not explain of measured_ns, link_ns does, where there are any.
 * returns 0 or -1. */
int dp_correction_learn(struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                        uint64_t measured_ns, uint64_t usual_rest_ns, struct dp_err *err);

/* Does it say anything of slots or links? */
bool dp_correction_is_neutral(const struct dp_correction *c, uint32_t n_slots);

#endif
