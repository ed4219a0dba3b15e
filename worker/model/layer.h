/* SPDX-License-Identifier: BSD-3-Clause */
/* One layer: the unit that moves between workers.
 *
 * Layer 0 is the embedding (wte, wpe), layers 1..blocks are transformer blocks, layer blocks + 1 is
 * the final norm and the head. A layer owns its parameters, gradients, both AdamW moments, sparse
 * patterns and its random key; nothing of it lives anywhere else, so saving, loading and moving it
 * are one operation: dp_layer_write / dp_layer_read. The byte stream of a layer depends only on the
 * layer's state, never on the worker that holds it.
 *
 * With a tied head, the head layer keeps a copy of wte: after backward the head's gradient is added
 * to the embedding's (embedding + head, in this order), the embedding's owner steps wte, and the new
 * values go back to the head (runtime: worker/step/tied_head.c).
 */
#ifndef DP_WORKER_MODEL_LAYER_H
#define DP_WORKER_MODEL_LAYER_H

#include <stdio.h>

#include "kernels/autotune.h"
#include "kernels/backend.h"
#include "worker/model/train_config.h"

enum dp_layer_kind { DP_LAYER_EMBEDDING, DP_LAYER_BLOCK, DP_LAYER_HEAD };

/* One parameter tensor with everything that belongs to it element by element. w, g, m, v have `n`
 * elements: rows * cols, or sparse->nnz in CSR order once the tensor is stored sparse. */
struct dp_param {
    const char *name;   /* "attn.qkv.weight" ...; static */
    int64_t rows, cols; /* cols == 1 for vectors */
    int64_t n;
    float *w, *g, *m, *v; /* [device]; m, v NULL for the head's copy of wte; g, too, in a frozen layer */
    bool decays;    /* weight decay applies (matrices and embeddings) */
    bool is_linear; /* matrix of a linear layer: the first backward of a step overwrites g ... */
    bool g_is_void; /* ... and until then what lies in g means nothing */
    bool prunable;  /* qkv, attention output, both MLP matrices */
    int64_t nnz;    /* elements that are left */
    uint64_t *keep; /* [device] one bit per element while pruned but stored dense; NULL: all are left */
    struct dp_sparse *sparse;  /* NULL: stored dense */
    uint64_t first_global;     /* index of element (0, 0) among all prunable weights of the model:
                                  ties at the pruning threshold are broken by it */
};

#define DP_LAYER_MAX_PARAMS 12 /* a block has so many (model.c) */
#define DP_LAYER_NOTES 3 /* a sum, of how many steps, and what it is compared with */

/* What a scheme (worker/scheme/) remembers of a layer from step to step. It moves with the layer. */
struct dp_layer_notes {
    uint32_t rule; /* whose numbers they are, 0: nobody's, and all of them 0 */
    double value[DP_LAYER_NOTES];
};

struct dp_layer {
    uint32_t index;
    enum dp_layer_kind kind;
    const struct dp_train_config *config; /* borrowed */
    struct dp_backend *be;                /* borrowed */
    const struct dp_tune *tune;           /* borrowed */
    uint32_t n_params;
    struct dp_param param[DP_LAYER_MAX_PARAMS];
    bool is_frozen;          /* it only goes forward: nothing of it is learned any more */
    struct dp_layer_notes notes;
    uint64_t *touched;       /* tied embedding: one bit per row of wte that has a gradient; else NULL */
    uint32_t *touched_rows;  /* [device] tied embedding: room for a list of all rows; else NULL */
    uint64_t rng_key, rng_counter; /* counter-based generator (Philox) of this layer */
    /* measured: sums of device time since the reader set them to zero, over so many microbatches that
     * went forward and backward (a frozen layer: forward), run or left out; complete when the backend's laps have been
     * collected */
    uint64_t fwd_ns, bwd_input_ns, bwd_weight_ns, timed_microbatches;
};

/* Number of layers of a model: blocks + 2. */
uint32_t dp_model_layers(const struct dp_train_config *config);
/* Weights that pruning chooses from, in the whole model. */
uint64_t dp_model_prunable(const struct dp_train_config *config);

/* A layer with GPT-2's initial weights (normal 0.02, residual projections scaled by 1/sqrt(2 blocks)),
 * from the run's seed and the layer's index alone. */
struct dp_layer *dp_layer_create(const struct dp_train_config *config, uint32_t index,
                                 struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err);
void dp_layer_destroy(struct dp_layer *layer);

/* The layer only goes forward from here on: gradients and moments are gone. Between steps; one that is frozen stays as it is.
 * DP_EINVAL for a tied embedding, which learns through the head. */
int dp_layer_freeze(struct dp_layer *layer, struct dp_err *err);
/* A layer that was trained before begins anew: its weights and what is left of them stay, moments are 0 again, nothing is
 * frozen, key and notes are those of a new one. */
int dp_layer_renew(struct dp_layer *layer, struct dp_err *err);

/* Gradients are those of a layer between two steps, whatever was added to them since. */
int dp_layer_clear_gradients(struct dp_layer *layer, struct dp_err *err);

/* Bytes of parameters, gradients, moments, patterns and plans; with the head, of the logits' workspace. */
size_t dp_layer_state_bytes(const struct dp_layer *layer);

/* The layer as one byte stream (little-endian, versioned header, each tensor with name, shape, format
 * and CRC-32C). Gradients are not in it: between steps they are zero. *out: malloc'ed, the caller
 * frees. */
int dp_layer_write(const struct dp_layer *layer, uint8_t **out, size_t *bytes, struct dp_err *err);
/* A layer from such a stream: bit for bit the one that was written. DP_ECORRUPT when a checksum or a
 * length does not match, DP_EINVAL when it belongs to another model. */
struct dp_layer *dp_layer_read(const struct dp_train_config *config, struct dp_backend *be,
                               const struct dp_tune *tune, const uint8_t *data, size_t bytes,
                               struct dp_err *err);

/* Keep exactly the elements of param whose bit in `keep` is set (indexes of the dense matrix, row-major);
 * choose dense or sparse storage by the tune table; moments shrink along. keep: borrowed, [host]. A bit
 * of an element that is already gone, or a part of a block where the run prunes blocks and the storage is to
 * be sparse, is DP_EINVAL; on failure the param is as it was. */
int dp_param_prune(struct dp_layer *layer, struct dp_param *param, const uint64_t *keep, struct dp_err *err);
/* The same of a prunable param from what a backend chose: chosen: [device], ours from here on, a bit per block of the run's
 * granularity that param has now, in the order of kernels/backend.h. A sparse param has that granularity. */
int dp_param_keep_chosen(struct dp_layer *layer, struct dp_param *param, uint64_t *chosen, struct dp_err *err);

/* The tied head. Its copy of wte has a gradient but no moments and is left out of grad squares and the
 * optimizer step; the embedding's wte stands for both. After the last backward of a step, in this order:
 *   dp_layer_tied_merge(embedding, gradient of the head)   embedding + head, becomes wte's gradient
 *   grad squares, dp_stage_step
 *   dp_layer_tied_split(embedding, what merge left there)  each has its own gradient again
 *   dp_layer_tied_set(head, weights of the embedding)      head's w =
 * All arrays are [device], dp_layer_tied_count() floats. */
int64_t dp_layer_tied_count(const struct dp_train_config *config);
/* Borrowed; NULL where the model is not tied or the layer is neither embedding nor head. */
float **dp_layer_tied_gradient(struct dp_layer *layer);
float *dp_layer_tied_weight(struct dp_layer *layer);
/* Only the rows of tokens that occurred are added; then the two arrays change places: *head_gradient is
 * the embedding's afterwards, set to zero. Of the backend's memory, like wte's. split() changes places
 * again, so that the embedding begins the next step with zeros and no pass over wte makes them. */
int dp_layer_tied_merge(struct dp_layer *embedding, float **head_gradient, struct dp_err *err);
void dp_layer_tied_split(struct dp_layer *embedding, float **head_gradient);
int dp_layer_tied_set(struct dp_layer *head, const float *wte, struct dp_err *err);

/* The dense shapes that pruning may turn sparse, with n = batch * context: measure those that the table
 * lacks. Does nothing when the run does not prune. */
int dp_model_tune(const struct dp_train_config *config, struct dp_backend *be, struct dp_tune *tune,
                  struct dp_err *err);

#endif
