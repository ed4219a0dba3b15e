/* SPDX-License-Identifier: BSD-3-Clause */
/* 0 where a bit is not set, a thread per element. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */

static __global__ void __launch_bounds__(THREADS) mask_kernel(int64_t n, float *x, const uint64_t *keep)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n && !(keep[i / 64] >> (i % 64) & 1))
        x[i] = 0.0f;
}

int dp_cuda_mask(struct dp_backend *be, const struct dp_mask *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "mask", err);

    if (!cu)
        return -1;
    if (a->n < 0)
        return dp_cuda_refuse(cu, err, "%lld elements", (long long)a->n);
    return DP_LAUNCH(cu, err, mask_kernel, dp_blocks(a->n, THREADS), THREADS, 0, a->n, a->x, a->keep);
}
