/* SPDX-License-Identifier: BSD-3-Clause */
/* See pattern.h. Counts first: they say how far row_ptr and col may be read. */
#include "kernels/pattern.h"

#include "kernels/granularity.h"

static int check_shape(const struct dp_sparse *sp, struct dp_err *err)
{
    int64_t block = dp_sparse_block(sp);

    if (sp->rows < 1 || sp->cols < 1 || sp->nnz < 0 || sp->rows > DP_SPARSE_MAX ||
        sp->cols > DP_SPARSE_MAX || sp->nnz >= UINT32_MAX)
        return dp_err_set(err, DP_EINVAL, "sparse matrix (%lld, %lld) with %lld nonzeros: out of range",
                          (long long)sp->rows, (long long)sp->cols, (long long)sp->nnz);
    if (!dp_granularity_name(block))
        return dp_err_set(err, DP_EINVAL, "sparse matrix: blocks of %lld rows; there are " DP_GRANULARITY_CHOICES,
                          (long long)sp->block_rows);
    if (sp->rows % block || sp->cols % dp_block_cols(block) || sp->nnz % dp_block_weights(block))
        return dp_err_set(err, DP_EINVAL, "sparse matrix (%lld, %lld) with %lld nonzeros: not whole blocks of %lldx%lld",
                          (long long)sp->rows, (long long)sp->cols, (long long)sp->nnz, (long long)block,
                          (long long)dp_block_cols(block));
    return 0;
}

int dp_sparse_check(const struct dp_sparse *sp, struct dp_err *err)
{
    int64_t rows, cols;

    if (check_shape(sp, err) < 0)
        return -1;
    rows = sp->rows / dp_sparse_block(sp);
    cols = sp->cols / dp_block_cols(dp_sparse_block(sp));
    if (sp->row_ptr[0] != 0 || sp->row_ptr[rows] != dp_sparse_n_blocks(sp))
        return dp_err_set(err, DP_EINVAL, "sparse matrix: row pointers do not span the %lld nonzeros",
                          (long long)sp->nnz);
    for (int64_t r = 0; r < rows; r++)
        if (sp->row_ptr[r + 1] < sp->row_ptr[r] || sp->row_ptr[r + 1] > dp_sparse_n_blocks(sp))
            return dp_err_set(err, DP_EINVAL, "sparse matrix: row pointer %lld falls or leaves the matrix",
                              (long long)r + 1);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t p = sp->row_ptr[r]; p < sp->row_ptr[r + 1]; p++)
            if (sp->col[p] >= cols || (p > sp->row_ptr[r] && sp->col[p] <= sp->col[p - 1]))
                return dp_err_set(err, DP_EINVAL, "sparse matrix: column %u in row %lld is out of order",
                                  sp->col[p], (long long)(r * dp_sparse_block(sp)));
    return 0;
}
