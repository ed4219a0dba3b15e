/* SPDX-License-Identifier: BSD-3-Clause */
/* y = a + b */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */

static __global__ void __launch_bounds__(THREADS) add_kernel(int64_t n, float *y, const float *a, const float *b)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        y[i] = a[i] + b[i];
}

int dp_cuda_add(struct dp_backend *be, const struct dp_add *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "add", err);

    if (!cu)
        return -1;
    if (a->n < 0)
        return dp_cuda_refuse(cu, err, "%lld elements", (long long)a->n);
    return DP_LAUNCH(cu, err, add_kernel, dp_blocks(a->n, THREADS), THREADS, 0, a->n, a->y, a->a, a->b);
}
