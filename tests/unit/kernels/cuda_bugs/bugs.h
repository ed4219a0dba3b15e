/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that kernels are known for, planted one at a time in small kernels: does the emulator find them? */
#ifndef DP_TESTS_UNIT_CUDA_BUGS_H
#define DP_TESTS_UNIT_CUDA_BUGS_H

#include "kernels/backend.h"

/* B(name, kernel or lanes that it is planted in, what is wrong). The first is none. doc/cuda.md has the same list. */
#define BUGS(B)                                                                               \
    B(NONE, "all", "nothing")                                                                 \
    B(TREE_FILL, "tree", "no barrier before a tree")                                          \
    B(TREE_STEP, "tree", "no barrier between the steps of a tree")                            \
    B(TREE_HALF, "tree", "a tree that begins with half of its values")                        \
    B(TREE_BRANCH, "tree", "a barrier in a branch")                                           \
    B(TREE_TAIL, "tree", "one element too many is read")                                      \
    B(TREE_SHARED, "tree", "an index beyond shared memory")                                   \
    B(TREE_AGAIN, "tree", "shared memory is used again without a barrier")                    \
    B(ROWS_DISTANCE, "rows", "a shuffle over the wrong distance")                             \
    B(ROWS_MASK, "rows", "a shuffle from a thread that its mask lacks")                       \
    B(ROWS_BRANCH, "rows", "a shuffle that not all threads of the warp come to")              \
    B(ROWS_SYNCWARP, "rows", "no __syncwarp between write and read")                          \
    B(ROWS_BOUND, "rows", "a bound of rows that is off by one, results right")                \
    B(PRODUCT_WAIT, "product", "a wait for one asynchronous copy too few")                    \
    B(PRODUCT_BARRIER, "product", "no barrier behind a wait for asynchronous copies")         \
    B(PRODUCT_STAGE, "product", "a copy into the stage that is being read")                   \
    B(PRODUCT_HALVES, "product", "halves of k swapped in ldmatrix")                           \
    B(PRODUCT_FRAGMENT, "product", "rows of an mma fragment swapped")                         \
    B(PRODUCT_TAIL, "product", "tokens behind the last one are written")                      \
    B(PRODUCT_READ, "product", "tokens behind the last one are read")                         \
    B(PRODUCT_ALIGN, "product", "an asynchronous copy from an odd address")                   \
    B(PRODUCT_COMMIT, "product", "copies that nobody committed")                              \
    B(PRODUCT_LANE, "product", "a column of ldmatrix from the wrong thread")                  \
    B(COLUMNS_BLOCKS, "columns", "two blocks add to the same sum")                            \
    B(COLUMNS_ORDER, "columns", "a block reads what another one of its launch writes")        \
    B(COLUMNS_PART, "columns", "one partial sum too many is read")                            \
    B(COUNT_PLAIN, "count", "a histogram without atomic operations")                          \
    B(COUNT_WORD, "count", "the wrong word of a bit mask")                                    \
    B(LANES_IN, "lanes", "computing does not wait for what comes in")                         \
    B(LANES_OUT, "lanes", "what goes out does not wait for computing")                        \
    B(LANES_AGAIN, "lanes", "what comes in overwrites what is still being read")              \
    B(LANES_STAGING, "lanes", "staging memory is written again before its ticket")            \
    B(LANES_EARLY, "lanes", "staging memory is read before its ticket")                       \
    B(LANES_HOST, "lanes", "a kernel gets memory of the host")                                \
    B(LANES_FREED, "lanes", "a kernel gets memory that was given back")

#define BUG_ENUM(name, where, text) BUG_##name,
enum bug { BUGS(BUG_ENUM) N_BUGS };

#ifdef __cplusplus
extern "C" {
#endif
/* Launches of the kernels with a fault in them. returns: 0, or -1 and err.
 * sums[i] = sum of elements 256 i ... of x, twice the same with more than 256 a block: */
int bugs_tree(struct dp_backend *be, enum bug bug, int n, float *sums, const float *x, struct dp_err *err);
/* y (rows, 50) = x minus its row's mean, then each row turned around */
int bugs_rows(struct dp_backend *be, enum bug bug, int rows, float *y, const float *x, struct dp_err *err);
/* y (n, 64) = x (n, k) w (64, k)^T; x and w bfloat16, k a multiple of 64 */
int bugs_product(struct dp_backend *be, enum bug bug, int n, int k, float *y, const uint16_t *x, const uint16_t *w,
                 struct dp_err *err);
/* y (c) = column sums of x (n, c) */
int bugs_columns(struct dp_backend *be, enum bug bug, int n, int c, float *y, const float *x, struct dp_err *err);
/* counts (16) += how many of x have that remainder of 16, where keep has a bit */
int bugs_count(struct dp_backend *be, enum bug bug, int n, uint32_t *counts, const uint32_t *x, const uint64_t *keep,
               struct dp_err *err);
#ifdef __cplusplus
}
#endif
#endif
