/* SPDX-License-Identifier: BSD-3-Clause */
/* Sum of squares. A block of threads takes 4096 elements: thread t adds the squares of elements t, t + 256, ... in order,
 * in double, then the threads are added in a tree of which the lower half takes the upper one (2 KiB of shared memory).
 * What blocks make is added in their order, as dp_sum is. The order follows from n alone. */
#include "kernels/cuda/cu.h"

#include "kernels/cuda/layers/sum.h"

#define THREADS 256 /* of a block */
#define BLOCK 4096 /* elements */

static __global__ void __launch_bounds__(THREADS)
    squares_kernel(int64_t n, double *part, const float *x, const uint64_t *keep)
{
    DP_SHARED(double, tree, [THREADS]);
    const int thread = (int)threadIdx.x;
    const int64_t first = (int64_t)blockIdx.x * BLOCK + thread;
    double sum = 0.0;

    DP_UNROLL
    for (int k = 0; k < BLOCK / THREADS; k++) {
        const int64_t i = first + k * THREADS;

        if (i < n && (!keep || (keep[i / 64] >> (i % 64) & 1)))
            sum += (double)x[i] * (double)x[i];
    }
    tree[thread] = sum;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half)
            tree[thread] += tree[thread + half];
    }
    if (thread == 0)
        part[blockIdx.x] = tree[0];
}

int dp_cuda_sum_squares(struct dp_backend *be, const struct dp_sum_squares *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "sum_squares", err);
    const int64_t blocks = (a->n + BLOCK - 1) / BLOCK;
    double *part = nullptr;

    if (!cu)
        return -1;
    if (a->n < 0)
        return dp_cuda_refuse(cu, err, "%lld elements", (long long)a->n);
    if (blocks && !(part = static_cast<double *>(dp_cuda_scratch(cu, (size_t)blocks * sizeof *part, err))))
        return -1;
    if (DP_LAUNCH(cu, err, squares_kernel, dp_blocks(a->n, BLOCK), THREADS, 0, a->n, part, a->x, a->keep) < 0)
        return -1;
    return dp_cuda_add_doubles(cu, blocks, a->sum, part, false, err);
}
