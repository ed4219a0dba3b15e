/* Which weights are left: random, or what a trained and pruned network kept. */
#ifndef DP_WORKER_BENCH_MASKS_H
#define DP_WORKER_BENCH_MASKS_H

#include "worker/layer.h"

#define BENCH_BLOCK_MATRICES 4

/* The prunable matrices of a checkpoint's blocks. */
struct bench_mask {
    int64_t n, nnz; /* elements, and those that are left */
    uint64_t *keep; /* one bit per element, row-major */
};
struct bench_masks {
    char path[1024];
    int64_t n_blocks, channels;
    int64_t block_rows; /* 1: single weights were pruned, 4: blocks of 4 x 1 */
    struct bench_mask (*block)[BENCH_BLOCK_MATRICES];
};

/* path: folder of a checkpoint (worker/checkpoint.h). The caller destroys the result. NULL and err on
 * failure. */
struct bench_masks *bench_masks_load(const char *path, struct dp_backend *be, struct dp_err *err);
void bench_masks_destroy(struct bench_masks *masks);

/* Prune every prunable matrix of the layer, which is new, to what block (index - 1) mod n_blocks of the masks
 * kept, or, shuffled, to as many random elements. The layer's configuration has the granularity of the masks.
 */
int bench_masks_apply(const struct bench_masks *masks, bool is_shuffled, struct dp_layer *layer,
                      struct dp_err *err);
/* Prune every prunable matrix to random weights, or blocks where its configuration prunes blocks, each of
 * which goes with the probability `sparsity`. */
int bench_masks_random(double sparsity, struct dp_layer *layer, struct dp_err *err);

/* How even the nonzeros of a layer's prunable matrices lie: standard deviation over mean of the numbers in
 * rows and in columns, fractions of rows and columns that have none; each the mean over the matrices. Random
 * masks of density d have sqrt((1 - d) / (d * columns)) per row, and none that is empty. */
struct bench_spread {
    double row_cv, col_cv, empty_rows, empty_cols;
};
/* += the layer's part of a mean over n matrices. */
int bench_spread_add(const struct dp_layer *layer, double n, struct bench_spread *out, struct dp_err *err);

#endif
