/* SPDX-License-Identifier: BSD-3-Clause */
/* The pattern of a sparse matrix on the device, in the two orders that products walk: row by row, and column by column.
 *
 * An entry is a block of the pattern. In each direction the entries of a group (a row, or a column, of blocks) follow each
 * other by the units of the other direction, which are taken some at a time, a slice: what the products have of their
 * input in shared memory. Values are read where the optimizer keeps them, so sparse_refresh has nothing to copy.
 */
#ifndef DP_KERNELS_CUDA_SPARSE_SPARSE_PLAN_H
#define DP_KERNELS_CUDA_SPARSE_SPARSE_PLAN_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DP_CUDA_SLICE 64 /* channels of a slice; a slice of 64 tokens takes 17 KiB. Square blocks have one slice, of all */

/* One direction; device memory. */
struct dp_cuda_walk {
    int64_t groups, slices;
    const uint32_t *cut;   /* (slices + 1, groups): the group's first entry in the slice, and behind its last one */
    const uint16_t *index; /* of an entry: its unit in the other direction */
    const uint32_t *place; /* of an entry: its number in dp_sparse's order; NULL: the entry's own number */
};

struct dp_cuda_plan {
    int64_t rows, cols, nnz, block; /* block: rows of one */
    struct dp_cuda_walk by_row, by_column;
    void *memory; /* device: all of the above */
    size_t bytes; /* with this struct */
};

/* What sparse_prepare made of sp, when it is for a matrix (rows, cols); NULL and err (DP_EINVAL, the operation's name in
 * front) when there is none, or it is for another pattern. */
const struct dp_cuda_plan *dp_cuda_plan_of(struct dp_cuda *cu, const struct dp_sparse *sp, int64_t rows, int64_t cols,
                                           struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
