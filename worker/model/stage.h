/* SPDX-License-Identifier: BSD-3-Clause */
/* A stage: the contiguous layers that one worker owns, and the activations of its microbatches.
 *
 * The stage runs layers; it knows nothing of other workers. The runtime feeds it input
 * activations and takes them away.  A message between stages: (batch * context, channels) float32.
 */
#ifndef DP_WORKER_MODEL_STAGE_H
#define DP_WORKER_MODEL_STAGE_H

#include "worker/model/layer.h"

struct dp_stage;

/* layers: n pointers, neighbours in the model; ownership moves in (also on failure nothing is lost:
 * on failure the caller still owns them). n may be 0: an empty stage. */
struct dp_stage *dp_stage_create(const struct dp_train_config *config, struct dp_backend *be,
                                 struct dp_layer **layers, uint32_t n, struct dp_err *err);
/* Destroys the layers too. */
void dp_stage_destroy(struct dp_stage *stage);

/* Layers that this worker has now; 0 on a worker that a hand-over emptied. */
uint32_t dp_stage_n_layers(const struct dp_stage *stage);
struct dp_layer *dp_stage_layer(struct dp_stage *stage, uint32_t i); /* i-th of the stage, borrowed */
/* Take layers out (ownership moves to the caller's array of dp_stage_n_layers() entries); the stage is
 * empty afterwards. */
void dp_stage_take_layers(struct dp_stage *stage, struct dp_layer **out);

/* Forward of microbatch mb (0..microbatches-1).
 * in:      [device] activations; ignored when the stage holds layer 0.
 * tokens:  batch*context inputs; used when the stage holds layer 0.
 * targets: batch*context; used when the stage holds the head, NULL: no loss.
 * out:     [device] = activations; ignored when the stage holds the head.
 * loss:    = sum over tokens of the loss in nats, where the stage holds the head.
 * keep:    false for evaluation: nothing is kept for backward. */
int dp_stage_forward(struct dp_stage *stage, uint32_t mb, const float *in, const uint32_t *tokens,
                     const uint32_t *targets, float *out, double *loss, bool keep, struct dp_err *err);

/* Backward of microbatch mb, which forward kept; += into the gradients; frees what was kept.
 * dout: [device] gradient of out, ignored with the head. din: [device] =, ignored with layer 0.
 * The gradient is that of the mean loss over all tokens of the step. */
int dp_stage_backward(struct dp_stage *stage, uint32_t mb, const float *dout, float *din,
                      const uint32_t *tokens, struct dp_err *err);

/* Sum of squares of each layer's gradients: out[i] for layer i of the stage. The caller adds up all
 * layers of the model in layer order. */
int dp_stage_grad_squares(struct dp_stage *stage, double *out, struct dp_err *err);

/* One AdamW step at optimizer step `step` (from 0), gradients multiplied by grad_scale, then zeroed;
 * sparse copies refreshed. The learning rate is dp_train_lr(config, step). */
int dp_stage_step(struct dp_stage *stage, uint64_t step, double grad_scale, struct dp_err *err);

/* Linear warm-up, then cosine from lr to min_lr at the last step. */
double dp_train_lr(const struct dp_train_config *config, uint64_t step);

/* Bytes held: layers, kept activations, workspace. act_bytes_per_layer: [n_layers] bytes kept for one
 * microbatch, NULL: not wanted. */
size_t dp_stage_bytes(const struct dp_stage *stage, uint64_t *act_bytes_per_layer);

#endif
