/* SPDX-License-Identifier: BSD-3-Clause */
/* A stage: the contiguous layers that one worker owns, and the activations of its microbatches.
 *
 * The stage runs layers; it knows nothing of other workers. The runtime feeds it input
 * activations and takes them away.  A message between stages: (batch * context, channels) activations.
 *
 * Frozen layers are the first ones of the model, so of a stage too. They only go forward and keep nothing; a stage of frozen
 * layers alone has no backward.
 */
#ifndef DP_WORKER_MODEL_STAGE_H
#define DP_WORKER_MODEL_STAGE_H

#include "common/run/layout.h"
#include "worker/model/layer.h"

struct dp_stage;

/* Most microbatches that a worker's stage keeps for their backward at once, in a layout; 0 for one without layers. */
uint32_t dp_stage_in_flight(const struct dp_train_config *config, const struct dp_layout *layout, uint32_t rank);

/* Bytes of the activations that it keeps of them, with its input; frozen: layers of the model that are. */
size_t dp_stage_activation_bytes(const struct dp_train_config *config, const struct dp_backend *be,
                                 const struct dp_layout *layout, uint32_t rank, uint32_t frozen);

/* By how much that is more in the next layout than in the old one; 0: it is not. */
size_t dp_stage_activation_growth(const struct dp_train_config *config, const struct dp_backend *be, const struct dp_layout *old,
                                  const struct dp_layout *next, uint32_t rank, uint32_t frozen);

/* layers: n pointers, neighbours in the model; ownership moves in (also on failure nothing is lost:
 * on failure the caller still owns them). n may be 0: an empty stage. in_flight: microbatches that it has room for
 * between their forward and their backward, which begin in the order of their numbers: number mb always has the same
 * memory as mb + in_flight. */
struct dp_stage *dp_stage_create(const struct dp_train_config *config, struct dp_backend *be,
                                 struct dp_layer **layers, uint32_t n, uint32_t in_flight, struct dp_err *err);
/* Destroys the layers too. */
void dp_stage_destroy(struct dp_stage *stage);

/* Layers that this worker has now; 0 on a worker that a hand-over emptied. */
uint32_t dp_stage_n_layers(const struct dp_stage *stage);
struct dp_layer *dp_stage_layer(struct dp_stage *stage, uint32_t i); /* i-th of the stage, borrowed */
struct dp_layer *dp_stage_find(struct dp_stage *stage, uint32_t index); /* of that index in the model, borrowed; NULL: it has none */
/* Its first layers that are frozen. */
uint32_t dp_stage_n_frozen(const struct dp_stage *stage);
/* The first n of its layers only go forward from here on. Between steps; n below those that are frozen changes nothing.
 * On failure some of them may be. */
int dp_stage_freeze(struct dp_stage *stage, uint32_t n, struct dp_err *err);
/* Take layers out (ownership moves to the caller's array of dp_stage_n_layers() entries); the stage is
 * empty afterwards. */
void dp_stage_take_layers(struct dp_stage *stage, struct dp_layer **out);

/* Does this layer run for microbatch mb of optimizer step `step` (from 0)? Pure; where not, y = x and dx = dy. */
typedef bool dp_layer_runs_fn(const struct dp_layer *layer, uint64_t step, uint32_t mb);
/* A training step begins; runs NULL: all layers run for all microbatches. */
void dp_stage_begin_step(struct dp_stage *stage, uint64_t step, dp_layer_runs_fn *runs);

/* Parts of a step, each of which is as a rule the same calls of the backend in every step, for each microbatch. */
enum dp_stage_part { DP_STAGE_FORWARD, DP_STAGE_BACKWARD, DP_STAGE_SQUARES, DP_STAGE_STEP, DP_N_STAGE_PARTS };
/* With pipeline.record on, a backend that replays what it has recorded is told where a part begins and ends; else nothing is
 * done. returns 0, or -1 and the backend's error. What is left open when a call fails needs no end. */
int dp_stage_part_begin(const struct dp_stage *stage, enum dp_stage_part part, uint32_t mb, struct dp_err *err);
int dp_stage_part_end(const struct dp_stage *stage, struct dp_err *err);

/* Forward of microbatch mb (0..microbatches-1).
 * in:      [device] activations; ignored when the stage holds layer 0. With keep they stay as they are until backward, but for
 *          a stage whose first layer is frozen.
 * tokens:  [device] batch*context inputs; used when the stage holds layer 0.
 * targets: [device] batch*context; used when the stage holds the head, NULL: no loss.
 * out:     [device] = activations; ignored when the stage holds the head.
 * loss:    [device] = sum over tokens of the loss in nats, where the stage holds the head, or, in evaluation
 *          (keep false), += that. NULL: not wanted.
 * keep:    false for evaluation: nothing is kept for backward, and nothing may be kept of any other microbatch. */
int dp_stage_forward(struct dp_stage *stage, uint32_t mb, void *in, const uint32_t *tokens,
                     const uint32_t *targets, void *out, double *loss, bool keep, struct dp_err *err);

/* Backward of microbatch mb, which forward kept; += into the gradients. A stage whose layers are all frozen has none.
 * d: [device] gradient of out, which becomes that of in where it lies. With the head it need not be anything before, with
 * layer 0 or a frozen layer it is nothing afterwards; NULL: with the head, where nobody wants it afterwards.
 * The gradient is that of the mean loss over all tokens of the step. */
int dp_stage_backward(struct dp_stage *stage, uint32_t mb, void *d, const uint32_t *tokens, struct dp_err *err);

/* Before the first backward of a step: the tokens of all its microbatches, [host]. A tied embedding adds only these
 * rows to the head's gradient; any other stage has no use for them. */
void dp_stage_touch_tokens(struct dp_stage *stage, const uint32_t *tokens, int64_t n);

/* Sums of squares of each layer's gradients: the device is told to form them, and waited for to read them. out[i],
 * [host], for layer i of the stage; the caller adds up all layers of the model in layer order. */
int dp_stage_sum_squares(struct dp_stage *stage, struct dp_err *err);
int dp_stage_grad_squares(struct dp_stage *stage, double *out, struct dp_err *err);

/* Sums of squares of the first moments of each layer, 0 of a frozen one: told and waited for. Between the calls above and
 * dp_stage_step(). out: [dp_stage_n_layers()], [host]. */
int dp_stage_moment_squares(struct dp_stage *stage, double *out, struct dp_err *err);

/* One AdamW step at optimizer step `step` (from 0), gradients multiplied by grad_scale, then zeroed;
 * sparse copies refreshed. The learning rate is dp_train_lr(config, step). */
int dp_stage_step(struct dp_stage *stage, uint64_t step, double grad_scale, struct dp_err *err);

/* Linear warm-up, then cosine from lr to min_lr at the last step. */
double dp_train_lr(const struct dp_train_config *config, uint64_t step);

/* The same step again, of a part of a layer that is in no stage (worker/shadow/). What depends on the step, on the device: out, [device].
 * Then elements first to first + n - 1 of a param with moments, whose gradients are zeroed. first: a multiple of 64. What kernels need of
 * a sparse param's weights is not refreshed: dp_layer_weights_arrived(). */
int dp_step_scalars_put(const struct dp_train_config *config, struct dp_backend *be, struct dp_step_scalars *out, uint64_t step,
                        double grad_scale, struct dp_err *err);
int dp_param_step(struct dp_layer *layer, struct dp_param *param, int64_t first, int64_t n, const struct dp_step_scalars *step,
                  struct dp_err *err);

/* Bytes held: layers, room for activations, workspace; without what forward is given. act_bytes_per_layer: [n_layers]
 * bytes kept for one microbatch, with the layer's input, NULL: not wanted. */
size_t dp_stage_bytes(const struct dp_stage *stage, uint64_t *act_bytes_per_layer);

#endif
