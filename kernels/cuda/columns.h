/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over the tokens, column by column, in a fixed order: runs of tokens first, then the runs in order. */
#ifndef DP_KERNELS_CUDA_COLUMNS_H
#define DP_KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tokens of a run, of n: 64, more where there would be more than 128 runs. At least 1 run. */
static inline int64_t dp_cuda_run(int64_t n)
{
    return n > 64 * 128 ? (n + 127) / 128 : 64;
}

static inline int64_t dp_cuda_runs(int64_t n)
{
    return n > 0 ? (n + dp_cuda_run(n) - 1) / dp_cuda_run(n) : 0;
}

/* first (c) += the runs' sums in order, part: (runs, 2, c); second (c), or NULL, from the others. */
int dp_cuda_add_runs(struct dp_cuda *cu, int64_t runs, int64_t c, float *first, float *second, const float *part,
                     struct dp_err *err);
/* sums (c) += column sums of x (n, c), the same bits in each format. part: workspace of dp_cuda_runs(n) * 2 * c floats. */
int dp_cuda_add_columns(struct dp_cuda *cu, int64_t n, int64_t c, float *sums, const float *x,
                        enum dp_token_format format, float *part, struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
