/* SPDX-License-Identifier: BSD-3-Clause */
/* The tied head across workers: gradient to the embedding, new weights back to the head.
 *
 * worker/model/layer.h gives the order; this file moves the tensors where embedding and head live on two
 * workers. Sends overlap with the work that follows: dp_tied_head_settle() ends them before the tensors
 * change.
 */
#ifndef DP_WORKER_STEP_TIED_HEAD_H
#define DP_WORKER_STEP_TIED_HEAD_H

#include "common/run/layout.h"
#include "worker/model/stage.h"
#include "worker/net/transport.h"

struct dp_tied_head {
    const struct dp_train_config *config;
    struct dp_backend *be;
    struct dp_transport *transport; /* NULL: the worker is alone */
    uint32_t rank;
    float *host, *device; /* one tensor, made on first use; the same memory on a host backend */
    struct dp_transport_request *sending;
};

/* All pointers borrowed. Models without a tied head make every call below do nothing. */
void dp_tied_head_init(struct dp_tied_head *t, const struct dp_train_config *config, struct dp_backend *be,
                       struct dp_transport *transport, uint32_t rank);
void dp_tied_head_release(struct dp_tied_head *t);

/* After the last backward of step `step`: embedding gradient += head gradient. */
int dp_tied_head_gradients(struct dp_tied_head *t, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step,
                           uint64_t *wait_ns, struct dp_err *err);
/* After the optimizer step: the head's copy = the embedding's weights. */
int dp_tied_head_weights(struct dp_tied_head *t, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step,
                         uint64_t *wait_ns, struct dp_err *err);
/* Wait until what was sent may change. Before the optimizer step, and before layers move. */
int dp_tied_head_settle(struct dp_tied_head *t, uint64_t *wait_ns, struct dp_err *err);

#endif
