/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange that ends every step: what all workers tell the leader, and its order (step_order.h) to all.
 *
 * After the last backward of a step each worker tells the leader its part: requests (a signal arrived),
 * the squares of its layers' gradients, what schemes measured of them, the losses of the microbatches where it holds the
 * head. The leader adds up in layer and microbatch order, decides, and answers all with one order. So a step
 * costs one round trip, and whatever changes the run (pruning, freezing, hand-over, checkpoint, end) happens on
 * all workers after the same step.
 */
#ifndef DP_WORKER_STEP_STEP_SYNC_H
#define DP_WORKER_STEP_STEP_SYNC_H

#include "worker/net/collectives.h"
#include "worker/step/step_order.h"

/* This worker's part of the step. */
struct dp_step_part {
    uint32_t requests;
    const double *squares; /* of its layers, in order; NULL without layers */
    const double *measured; /* [dp_schemes_measured()][its layers]; NULL where nothing is measured */
    const double *losses;  /* [microbatches] sum over tokens; used where it holds the head */
};

/* One round: part in, order out; collective. reached: by the schemes so far. migration: a hand-over that the leader's daemon prepares, 0 on
 * the others; shadow: what was ordered last about it. DP_EPROTO when an order names another step or epoch than this worker is in. */
int dp_step_sync(struct dp_collectives *s, const struct dp_train_config *config, uint64_t step,
                 const struct dp_step_part *part, const struct dp_reached *reached, uint64_t migration,
                 const struct dp_step_shadow *shadow, struct dp_step_order *order, struct dp_err *err);

#endif
