/* The index that the sparse kernels walk.
 *
 * A direction is the pattern of a matrix (rows, cols) cut into chunks of 512 rows and blocks of
 * 128-384 columns: the block of a token tile that a chunk reads stays in the L1/L2 cache, and so
 * does the chunk's index while all tiles pass. Of every (chunk, block) the index lists the row
 * pieces, sorted by their number of nonzeros: equal trip counts in a row are what the branch
 * predictor needs (twice as fast as unsorted at 90 %).
 *
 * Offsets lie in the order of the walk. The forward direction reads w in CSR order, where the
 * optimizer writes it, piece by piece (the kernel prefetches: pieces sorted by count are no stream);
 * the backward direction, the same index of w^T, keeps a copy of the values in the order of its walk,
 * which sparse_refresh renews.  Memory: 2 bytes per nonzero forward, 6 backward, 8 bytes per piece.
 */
#ifndef DP_KERNELS_CPU_PLAN_H
#define DP_KERNELS_CPU_PLAN_H

#include "kernels/backend.h"

#define DP_PLAN_CHUNK 512
#define DP_PLAN_SPARE 6 /* zero pieces behind the last one, for kernels that look ahead */

struct dp_plan_piece {
    uint32_t start; /* first value: forward in CSR order, backward in the order of the walk */
    uint16_t row;   /* within the chunk */
    uint16_t count; /* nonzeros, may be 0 in block 0: the row's outputs start there */
};

struct dp_plan_dir {
    int64_t rows, cols, block;
    int64_t n_chunks, n_blocks;
    uint32_t *first; /* [n_chunks * n_blocks + 1] pieces of (chunk, block) */
    uint32_t *first_offset; /* [n_chunks * n_blocks + 1] nonzeros before (chunk, block) */
    struct dp_plan_piece *piece;
    uint16_t *offset; /* [nnz] (column - first column of its block) * 32: bytes / 8 into a token tile */
};

struct dp_plan {
    struct dp_plan_dir fwd, bwd; /* of w, of w^T */
    uint32_t *cursor;            /* [cols] room for sparse_refresh */
    float *bwd_values;           /* [nnz] in the order of bwd.offset */
    size_t bytes;
};

#endif
