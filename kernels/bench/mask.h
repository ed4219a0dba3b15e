/* SPDX-License-Identifier: BSD-3-Clause */
/* Which weights of a matrix are kept, as a picture: netpbm's bitmap, a pixel per weight, black (1) where it
 * is kept, a row of pixels per row of the matrix. https://netpbm.sourceforge.net/doc/pbm.html
 *
 * So a mask can go from a checkpoint to bench_linear, which knows no checkpoints, and be looked at. */
#ifndef DP_KERNELS_BENCH_MASK_H
#define DP_KERNELS_BENCH_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define BENCH_MASK_MAX_SIDE 65536         /* rows, columns: DP_SPARSE_MAX */
#define BENCH_MASK_MAX ((int64_t)1 << 28) /* weights */

struct bench_mask {
    int64_t rows, cols, nnz; /* outputs, inputs, weights that are kept */
    uint64_t *keep;          /* one bit per weight, row-major (common/bits.h); heap */
};

/* Raw (P4) or plain (P1), one picture; path "-" is stdin. Its sides are checked against the bytes that follow
 * before memory is taken. The caller releases *out, which stays as it was on failure. */
int bench_mask_read(const char *path, struct bench_mask *out, struct dp_err *err);
/* Raw; a file that is there is overwritten. */
int bench_mask_write(const struct bench_mask *m, const char *path, struct dp_err *err);
void bench_mask_release(struct bench_mask *m);

/* Rows of the largest blocks (kernels/granularity.h) that are kept or not as a whole. */
int64_t bench_mask_block_rows(const struct bench_mask *m);

/* How even the nonzeros of a matrix lie: standard deviation over mean of the numbers in rows and in columns,
 * fractions of rows and columns that have none. Random masks of density d have sqrt((1 - d) / (d * columns))
 * per row, and none that is empty. */
struct bench_spread {
    double row_cv, col_cv, empty_rows, empty_cols;
};
/* From the numbers of nonzeros in each row and column. */
void bench_spread_get(const int64_t *in_row, int64_t rows, const int64_t *in_col, int64_t cols,
                      struct bench_spread *out);

#endif
