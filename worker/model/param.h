/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one parameter: what worker/model/layer.c, layer_io.c and layer_prune.c share. */
#ifndef DP_WORKER_MODEL_PARAM_H
#define DP_WORKER_MODEL_PARAM_H

#include "worker/model/layer.h"

/* A layer with its shapes, key and no memory for parameters yet. */
struct dp_layer *dp_layer_blank(const struct dp_train_config *config, uint32_t index,
                                struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err);

/* What a param has: its weights alone where its layer is frozen, gradients, too, in the head's copy of wte, else all. */
enum dp_param_arrays { DP_PARAM_W = 1, DP_PARAM_WG = 2, DP_PARAM_ALL = 4 };

/* Device arrays of p->n floats each, zeroed: those of w, g, m, v that p has not yet. On failure what
 * was allocated stays in p for dp_param_release(). */
int dp_param_alloc(struct dp_backend *be, struct dp_param *p, enum dp_param_arrays arrays, struct dp_err *err);
/* Gradients and moments are gone; weights and pattern stay. */
void dp_param_freeze(struct dp_backend *be, struct dp_param *p);
/* Free everything and forget it; shape and name stay. */
void dp_param_release(struct dp_backend *be, struct dp_param *p);

/* An unprepared CSR pattern with room for the columns of nnz weights in blocks of block_rows. */
struct dp_sparse *dp_param_sparse_alloc(int64_t rows, int64_t cols, int64_t nnz, int64_t block_rows,
                                        struct dp_err *err);
void dp_param_sparse_free(struct dp_backend *be, struct dp_sparse *sp); /* with its plan; NULL is fine */

/* Blocks of block_rows rows that p has: of its pattern, or all of a dense matrix. */
int64_t dp_param_blocks(const struct dp_param *p, int64_t block_rows);

/* Where weight (row, col) lies in p's arrays; -1: it is not stored. */
int64_t dp_param_find(const struct dp_param *p, int64_t row, int64_t col);

/* Elements kept, as a bitmap over the dense matrix that the caller frees. */
uint64_t *dp_param_dup_kept(struct dp_backend *be, const struct dp_param *p, struct dp_err *err);

#endif
