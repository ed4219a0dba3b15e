/* SPDX-License-Identifier: BSD-3-Clause */
/* A sum of doubles in the order of the elements: a block reads ahead, one thread of it adds. */
#include "kernels/cuda/layers/sum.h"

#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */

static __global__ void __launch_bounds__(THREADS) sum_kernel(int64_t n, double *sum, const double *x, bool add_to_sum)
{
    DP_SHARED(double, part, [THREADS]);
    const int thread = (int)threadIdx.x;
    double total = 0.0;

    for (int64_t first = 0; first < n; first += THREADS) {
        const int there = n - first < THREADS ? (int)(n - first) : THREADS;

        if (thread < there)
            part[thread] = x[first + thread];
        __syncthreads();
        if (thread == 0)
            for (int i = 0; i < there; i++)
                total += part[i];
        __syncthreads();
    }
    if (thread == 0)
        *sum = add_to_sum ? *sum + total : total;
}

int dp_cuda_add_doubles(struct dp_cuda *cu, int64_t n, double *sum, const double *x, bool add_to_sum,
                        struct dp_err *err)
{
    return DP_LAUNCH(cu, err, sum_kernel, 1, THREADS, 0, n, sum, x, add_to_sum);
}

int dp_cuda_sum(struct dp_backend *be, const struct dp_sum *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "sum", err);

    if (!cu)
        return -1;
    if (a->n < 0)
        return dp_cuda_refuse(cu, err, "%lld elements", (long long)a->n);
    return dp_cuda_add_doubles(cu, a->n, a->sum, a->x, a->add_to_sum, err);
}
