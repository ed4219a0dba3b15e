/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a stage over the microbatches of one step, and passes activations and gradients to its neighbours.
 *
 * Receives are posted ahead; sends go out of pooled buffers and are waited for only when the buffer is
 * needed again or the step ends, so a stage does not wait for a successor that is still computing.
 * A worker without layers takes no part: its neighbours pass it over.
 */
#ifndef DP_WORKER_STEP_PIPELINE_H
#define DP_WORKER_STEP_PIPELINE_H

#include "common/run/layout.h"
#include "worker/model/data.h"
#include "worker/model/stage.h"
#include "worker/net/transport.h"

struct dp_pipeline;

/* Device time of the operations of a step. */
struct dp_pipeline_times {
    uint64_t forward_ns, backward_ns; /* all microbatches; layers, messages and copies at the stage's borders */
    uint64_t receive_ns;              /* part of it: spent while waiting for messages */
    /* Wall time of the first microbatch, 0: no neighbour there, or its message was there before anybody waited, so
     * that nobody knows since when. What the next worker's held_ns is shorter than ahead_ns, both messages took. */
    uint64_t ahead_ns; /* from sending its activation until its gradient was back */
    uint64_t held_ns;  /* from receiving its activation until its gradient was sent */
};

/* All borrowed for its life. transport NULL: the worker is alone. */
struct dp_pipeline *dp_pipeline_create(const struct dp_train_config *config, struct dp_backend *be,
                                       struct dp_transport *transport, uint32_t rank,
                                       const struct dp_data *data, struct dp_err *err);
void dp_pipeline_destroy(struct dp_pipeline *p);

/* Forward and backward of all microbatches of optimizer step `step` (from 0).
 * losses: [microbatches] sum over tokens, filled where the stage holds the head, else 0.
 * *wait_ns += time spent waiting for neighbours. */
int dp_pipeline_train(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                      uint64_t step, double *losses, uint64_t *wait_ns, struct dp_err *err);

/* Forward of the first n validation microbatches. *loss: sum over all tokens in order, where the
 * stage holds the head, else 0. step: optimizer steps completed, for the tags. */
int dp_pipeline_eval(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                     uint64_t step, uint32_t n, double *loss, uint64_t *wait_ns, struct dp_err *err);

/* What the training steps since the last call took; begins again at 0. */
struct dp_pipeline_times dp_pipeline_take_times(struct dp_pipeline *p);

/* Bytes of stage messages held. */
size_t dp_pipeline_bytes(const struct dp_pipeline *p);

#endif
