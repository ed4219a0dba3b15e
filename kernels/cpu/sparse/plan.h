/* SPDX-License-Identifier: BSD-3-Clause */
/* The index that the sparse kernels walk.
 *
 * A direction is the pattern of a matrix (rows, cols) cut into chunks of 512 rows, one where there are no more
 * than 1024, and blocks of 64-384 columns: the block of a token tile that a chunk reads stays in the L1 cache,
 * the chunk's sums and its dy of two tiles in the L2 cache. Of every (chunk, block) the index lists the row
 * pieces, sorted by their number of nonzeros: equal trip counts in a row are what the branch predictor needs
 * (twice as fast as unsorted at 90 %), and what lets two pieces be done together. Larger chunks have longer runs
 * of equal counts.
 *
 * Offsets lie in the order of the walk, and so do copies of the values, which refresh.c renews: the
 * optimizer's CSR order would be read in jumps (measured: 7 % at 90 % zeros, 20 % at 50 %). The backward
 * direction is the same index of w^T. Memory: 6 bytes per nonzero and direction, 8 per piece.
 *
 * With blocks of 4 x 1 an entry of the index is a block, a piece belongs to four rows, values are read in CSR
 * order (four times as much lies together), and both directions are indexes of w: forward with wide blocks
 * of columns, backward with blocks of columns of dx that stay in the L1 cache (spmm_blocks.c). Memory: half a
 * byte per nonzero and direction, 8 per piece. Square blocks are walked as blocks of 4 x 1.
 */
#ifndef DP_KERNELS_CPU_SPARSE_PLAN_H
#define DP_KERNELS_CPU_SPARSE_PLAN_H

#include "kernels/backend.h"

#define DP_PLAN_MAX_CHUNK 1024 /* rows; choose_chunk() has the reason */
#define DP_PLAN_SPARE 6 /* zero pieces behind the last one, for kernels that look ahead */

struct dp_plan_piece {
    uint32_t start; /* its first entry in CSR order of w; in an index of w^T: in the order of the walk */
    uint16_t row;   /* within the chunk, in units of row_width */
    uint16_t count; /* entries, may be 0 in block 0: the row's outputs start there */
};

struct dp_plan_dir {
    int64_t rows, cols, chunk, block; /* channels; chunk: at most DP_PLAN_MAX_CHUNK */
    int64_t row_width;                /* channels of a piece: 1, or 4 with blocks */
    int64_t n_chunks, n_blocks;
    uint32_t *first; /* [n_chunks * n_blocks + 1] pieces of (chunk, block) */
    uint32_t *first_offset; /* [n_chunks * n_blocks + 1] entries before (chunk, block) */
    struct dp_plan_piece *piece;
    float *values;    /* [entries] in the order of the walk; NULL with blocks of 4 x 1 */
    uint16_t *offset; /* [entries] (column - first column of its block) * 32: bytes / 8 into a token tile */
    size_t bytes;     /* of all these arrays */
};

struct dp_plan {
    struct dp_plan_dir fwd, bwd; /* bwd: of w^T, with blocks of 4 x 1 of w */
};

#endif
