/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that are listed go over to another matrix: a block per row. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */

static __global__ void __launch_bounds__(THREADS) merge_kernel(int64_t c, float *y, float *x, const uint32_t *rows)
{
    const int64_t at = (int64_t)rows[blockIdx.x] * c;

    for (int64_t j = threadIdx.x; j < c; j += THREADS) {
        y[at + j] += x[at + j];
        x[at + j] = 0.0f;
    }
}

int dp_cuda_merge_rows(struct dp_backend *be, const struct dp_merge_rows *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "merge_rows", err);

    if (!cu)
        return -1;
    if (a->n < 0 || a->c < 0)
        return dp_cuda_refuse(cu, err, "%lld rows of %lld columns", (long long)a->n, (long long)a->c);
    return DP_LAUNCH(cu, err, merge_kernel, dp_blocks(a->n, 1), THREADS, 0, a->c, a->y, a->x, a->rows);
}
