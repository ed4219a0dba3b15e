/* SPDX-License-Identifier: BSD-3-Clause */
/* The tied head across workers: gradient to the embedding, new weights back to the head.
 *
 * worker/model/layer.h gives the order; this file moves the tensors where embedding and head live on two
 * workers. Sends overlap with the work that follows: dp_tied_head_settle() ends them before the tensors
 * change. Where the device has memory of its own, a tensor goes through staging memory.
 */
#ifndef DP_WORKER_STEP_TIED_HEAD_H
#define DP_WORKER_STEP_TIED_HEAD_H

#include "common/run/layout.h"
#include "worker/model/stage.h"
#include "worker/step/device_wait.h"

struct dp_tied_head {
    const struct dp_train_config *config;
    const struct dp_device_wait *wait;
    uint32_t rank;
    float *device; /* one tensor, made on first use */
    void *host;    /* the same memory on a host backend, else staging memory */
    bool is_copied_out; /* to host, to be sent to worker `to` */
    dp_ticket ticket;   /* the last copy to host or from there; 0: there is none under way */
    uint32_t to;
    uint64_t tag;
    const void *data;   /* what is sent */
    struct dp_transport_request *sending;
};

/* All pointers borrowed. Models without a tied head make every call below do nothing. */
void dp_tied_head_init(struct dp_tied_head *t, const struct dp_train_config *config, const struct dp_device_wait *wait,
                       uint32_t rank);
void dp_tied_head_release(struct dp_tied_head *t);

/* After the last backward of step `step`: embedding gradient += head gradient. What goes to another worker may still be
 * on its way out of the device: dp_tied_head_send() comes before this worker waits for any other. */
int dp_tied_head_gradients(struct dp_tied_head *t, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step,
                           uint64_t *wait_ns, struct dp_err *err);
/* After the optimizer step: the head's copy = the embedding's weights. */
int dp_tied_head_weights(struct dp_tied_head *t, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step,
                         uint64_t *wait_ns, struct dp_err *err);
/* The layers were moved, and no step was made: the head's copy = the embedding's weights. step: optimizer steps completed. */
int dp_tied_head_renew(struct dp_tied_head *t, const struct dp_layout *layout, struct dp_stage *stage, uint64_t step,
                       uint64_t *wait_ns, struct dp_err *err);
/* Begin to send what came out of the device, which may have to be waited for. */
int dp_tied_head_send(struct dp_tied_head *t, struct dp_err *err);
/* Wait until what was sent may change. Before the optimizer step, and before layers move. */
int dp_tied_head_settle(struct dp_tied_head *t, uint64_t *wait_ns, struct dp_err *err);

#endif
