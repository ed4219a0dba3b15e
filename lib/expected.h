/* SPDX-License-Identifier: BSD-3-Clause */
/* What a trainer has said that layers will cost, kept so that a daemon that comes back hears it again (EXPECT).
 *
 * Of each step that something is expected from there is one entry, with the newest cost of each layer. What this connection has
 * not had yet is due, in runs of layers beside each other.
 */
#ifndef DP_LIB_EXPECTED_H
#define DP_LIB_EXPECTED_H

#include <stdbool.h>

#include "common/message/msg.h"

#define DP_EXPECTED_STEPS 64 /* as many as changes that are known to come (common/run/change.h) */

struct dp_expected;

/* Nothing is expected. n_layers: of the model, at most DP_MAX_LAYERS. NULL with DP_ENOMEM. */
struct dp_expected *dp_expected_create(uint32_t n_layers, struct dp_err *err);
void dp_expected_destroy(struct dp_expected *e); /* NULL is fine */

/* From `step` on layers first to first + n - 1 cost load[n]; n 0: nothing is expected from that step on any more. Both replace what
 * was said before, and are due then.
 * returns: 0, or -1: layers that the model has not (DP_EINVAL), too many steps, or no memory (DP_ENOMEM); then nothing has changed. */
int dp_expected_set(struct dp_expected *e, uint64_t step, uint32_t first, const struct dp_layer_load *load, uint32_t n,
                    struct dp_err *err);

/* `step` steps are completed: what was expected from an earlier one on has been measured since, and is forgotten. */
void dp_expected_pass(struct dp_expected *e, uint64_t step);

/* A new connection: everything is due again. */
void dp_expected_restart(struct dp_expected *e);

/* What is due next, into *m but for its rank. returns: false: nothing is. It stays due until dp_expected_sent(). */
bool dp_expected_due(const struct dp_expected *e, struct dp_msg_expect *m);
void dp_expected_sent(struct dp_expected *e, const struct dp_msg_expect *m);

#endif
