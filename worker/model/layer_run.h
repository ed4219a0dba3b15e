/* SPDX-License-Identifier: BSD-3-Clause */
/* What a stage runs of its layers: embedding.c, block.c and head.c, forward and backward. */
#ifndef DP_WORKER_MODEL_LAYER_RUN_H
#define DP_WORKER_MODEL_LAYER_RUN_H

#include "worker/model/activations.h"
#include "worker/model/stage.h"

/* Borrowed; all zero in a stage without layers. */
struct dp_workspace *dp_stage_workspace(struct dp_stage *stage);

/* One layer, one microbatch. forward: act->x -> y (n, c) (the head: -> loss and act->dx). backward: work->d
 * is the gradient of y on entry and of x on return; += into the layer's gradients. They add what the device did since the
 * last lap to the layer's times, but for a forward without keep. targets NULL: no loss. keep: backward will follow. */
int dp_embedding_forward(struct dp_layer *l, const uint32_t *tokens, void *y, bool keep, struct dp_err *err);
int dp_embedding_backward(struct dp_layer *l, struct dp_workspace *work, const uint32_t *tokens, struct dp_err *err);
int dp_block_forward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, void *y, bool keep,
                     struct dp_err *err);
int dp_block_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, struct dp_err *err);
int dp_head_forward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *targets,
                    double *loss, bool keep, struct dp_err *err);
int dp_head_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, struct dp_err *err);

#endif
