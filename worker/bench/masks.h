/* Which weights are left: random, or what a trained and pruned network kept. */
#ifndef DP_WORKER_BENCH_MASKS_H
#define DP_WORKER_BENCH_MASKS_H

#include "worker/layer.h"

#define BENCH_BLOCK_MATRICES 4

struct bench_mask {
    int64_t rows, cols, nnz;
    uint64_t *keep; /* one bit per element, row-major */
    /* Spread of the nonzeros: standard deviation over mean of the numbers in rows and in columns, and how
     * many have none. Random masks of density d have sqrt((1 - d) / (d columns)) and none. */
    double row_cv, col_cv;
    int64_t empty_rows, empty_cols;
};

/* The prunable matrices of a checkpoint's blocks. */
struct bench_masks {
    char path[1024];
    int64_t n_blocks, channels;
    struct bench_mask (*block)[BENCH_BLOCK_MATRICES];
    double sparsity;                               /* of all of them */
    double row_cv, col_cv, empty_rows, empty_cols; /* means over the matrices; empty: fractions */
};

/* path: folder of a checkpoint (worker/checkpoint.h). The caller destroys the result. NULL and err on
 * failure. */
struct bench_masks *bench_masks_load(const char *path, struct dp_backend *be, struct dp_err *err);
void bench_masks_destroy(struct bench_masks *masks);

/* Prune every prunable matrix of the layer, which is new, to what block (index - 1) mod n_blocks of the masks
 * kept, or, shuffled, to as many random elements. */
int bench_masks_apply(const struct bench_masks *masks, bool is_shuffled, struct dp_layer *layer,
                      struct dp_err *err);
/* Prune every prunable matrix to random elements, each of which goes with the probability `sparsity`. */
int bench_masks_random(double sparsity, struct dp_layer *layer, struct dp_err *err);

#endif
