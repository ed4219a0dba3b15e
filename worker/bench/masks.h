/* SPDX-License-Identifier: BSD-3-Clause */
/* Which weights are left: random, or what a trained and pruned network kept. */
#ifndef DP_WORKER_BENCH_MASKS_H
#define DP_WORKER_BENCH_MASKS_H

#include "kernels/bench/mask.h"
#include "worker/model/layer.h"

#define BENCH_BLOCK_MATRICES 4 /* the prunable ones: qkv, attn.proj, fc, mlp.proj */

/* The prunable matrices of a checkpoint's blocks. */
struct bench_masks {
    char path[1024];
    int64_t n_blocks, channels;
    int64_t block_rows; /* of what was pruned: kernels/granularity.h */
    const char *name[BENCH_BLOCK_MATRICES]; /* attn.qkv, ... */
    struct bench_mask (*block)[BENCH_BLOCK_MATRICES];
};

/* path: folder of a checkpoint (worker/checkpoint/checkpoint.h). The caller destroys the result. NULL and err on
 * failure. */
struct bench_masks *bench_masks_load(const char *path, struct dp_backend *be, struct dp_err *err);
void bench_masks_destroy(struct bench_masks *masks);
/* As folder/block<layer>-<matrix>.pbm, layer from 1; the folder is made. The files are named on stdout. */
int bench_masks_draw(const struct bench_masks *masks, const char *folder, struct dp_err *err);

/* Prune every prunable matrix of the layer, which is new, to what block (index - 1) mod n_blocks of the masks
 * kept, or, shuffled, to as many random elements. The layer's configuration has the granularity of the masks.
 */
int bench_masks_apply(const struct bench_masks *masks, bool is_shuffled, struct dp_layer *layer,
                      struct dp_err *err);
/* Prune every prunable matrix to random weights, or blocks where its configuration prunes blocks, each of
 * which goes with the probability `sparsity`. */
int bench_masks_random(double sparsity, struct dp_layer *layer, struct dp_err *err);

/* How even the nonzeros of the layer's prunable matrices lie: += its part of a mean over n matrices. */
int bench_spread_add(const struct dp_layer *layer, double n, struct bench_spread *out, struct dp_err *err);

#endif
