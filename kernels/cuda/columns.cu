/* SPDX-License-Identifier: BSD-3-Clause */
/* Column sums in two passes, a thread per column in both: the tokens of each run in order, then the runs in order. How
 * long a run is follows from the number of tokens alone. No shared memory. */
#include "kernels/cuda/columns.h"

#include "kernels/cuda/cu.h"

#define THREADS 128 /* of a block */

static __global__ void __launch_bounds__(THREADS)
    run_sums_kernel(int64_t n, int64_t c, int64_t run, float *part, const float *x, bool tiles)
{
    const int64_t j = (int64_t)blockIdx.x * THREADS + threadIdx.x, first = (int64_t)blockIdx.y * run;
    const int64_t end = n < first + run ? n : first + run;
    float sum = 0.0f;

    if (j >= c)
        return;
    for (int64_t i = first; i < end; i++)
        sum += x[tiles ? (i / DP_TILE * c + j) * DP_TILE + i % DP_TILE : i * c + j];
    part[(int64_t)blockIdx.y * 2 * c + j] = sum;
}

/* Blocks of y = 1 make the second sums. */
static __global__ void __launch_bounds__(THREADS)
    add_runs_kernel(int64_t runs, int64_t c, float *first, float *second, const float *part)
{
    const int64_t j = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float *const out = blockIdx.y ? second : first;
    float sum = 0.0f;

    if (j >= c)
        return;
    for (int64_t i = 0; i < runs; i++)
        sum += part[(2 * i + blockIdx.y) * c + j];
    out[j] += sum;
}

int dp_cuda_add_runs(struct dp_cuda *cu, int64_t runs, int64_t c, float *first, float *second, const float *part,
                     struct dp_err *err)
{
    return DP_LAUNCH(cu, err, add_runs_kernel, dim3(dp_blocks(c, THREADS), second ? 2 : 1), THREADS, 0, runs, c, first,
                     second, part);
}

int dp_cuda_add_columns(struct dp_cuda *cu, int64_t n, int64_t c, float *sums, const float *x,
                        enum dp_token_format format, float *part, struct dp_err *err)
{
    const int64_t runs = dp_cuda_runs(n);

    if (!runs)
        return 0;
    if (DP_LAUNCH(cu, err, run_sums_kernel, dim3(dp_blocks(c, THREADS), (unsigned)runs), THREADS, 0, n, c,
                  dp_cuda_run(n), part, x, format == DP_TILES) < 0)
        return -1;
    return dp_cuda_add_runs(cu, runs, c, sums, nullptr, part, err);
}
