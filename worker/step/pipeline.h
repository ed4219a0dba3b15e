/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a stage over the microbatches of one step, and passes activations and gradients to its neighbours.
 *
 * Receives are posted ahead, and sends are waited for only when the step ends (neighbours.h), so a stage does not wait
 * for a successor that is still computing.
 * A worker without layers takes no part: its neighbours pass it over.
 */
#ifndef DP_WORKER_STEP_PIPELINE_H
#define DP_WORKER_STEP_PIPELINE_H

#include "common/run/layout.h"
#include "worker/model/data.h"
#include "worker/model/stage.h"
#include "worker/step/neighbours.h"

struct dp_pipeline;

/* Device time of a step's microbatches that no layer counts. Complete when the backend's laps have been collected. */
struct dp_pipeline_times {
    uint64_t data_ns;    /* before the first of them: tokens */
    uint64_t border_ns;  /* messages and copies at the stage's borders */
    uint64_t receive_ns; /* beside that: while waiting for messages. A processor handles them itself; with memory of its
                            own a device has nothing to do meanwhile. */
    /* Wall time of the first microbatch, 0: no neighbour there, or its message was there before anybody waited, so
     * that nobody knows since when. What the next worker's held_ns is shorter than ahead_ns, both messages took. */
    uint64_t ahead_ns; /* from sending its activation until its gradient was back */
    uint64_t held_ns;  /* from receiving its activation until its gradient was sent */
};

/* All borrowed for its life. */
struct dp_pipeline *dp_pipeline_create(const struct dp_train_config *config, const struct dp_device_wait *wait,
                                       uint32_t rank, const struct dp_data *data, struct dp_err *err);
void dp_pipeline_destroy(struct dp_pipeline *p);

/* From the next step on the first `frozen` layers of the model only go forward, and `runs` says which layers run for which
 * microbatch of a training step; NULL: all do. 0 and NULL to begin with. The same on all workers. A gradient goes back as far
 * as the stage with the first layer that is not frozen. */
void dp_pipeline_set_schemes(struct dp_pipeline *p, uint32_t frozen, dp_layer_runs_fn *runs);

/* Forward and backward of all microbatches of optimizer step `step` (from 0).
 * losses: [microbatches] sum over tokens, filled where the stage holds the head, else 0.
 * *wait_ns += time spent waiting for neighbours. */
int dp_pipeline_train(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                      uint64_t step, double *losses, uint64_t *wait_ns, struct dp_err *err);

/* Forward of the first n validation microbatches. *loss: sum over all tokens in order, where the
 * stage holds the head, else 0. step: optimizer steps completed, for the tags. */
int dp_pipeline_eval(struct dp_pipeline *p, const struct dp_layout *layout, struct dp_stage *stage,
                     uint64_t step, uint32_t n, double *loss, uint64_t *wait_ns, struct dp_err *err);

/* The neighbours will be others, or the run ends: nobody has another worker's memory open afterwards. All workers that have
 * not failed do it at the same boundary. */
int dp_pipeline_part(struct dp_pipeline *p, struct dp_err *err);

/* What the training steps since the last call took; begins again at 0. */
struct dp_pipeline_times dp_pipeline_take_times(struct dp_pipeline *p);

/* Bytes of stage messages held. */
size_t dp_pipeline_bytes(const struct dp_pipeline *p);

#endif
