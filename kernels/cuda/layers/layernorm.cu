/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer norm, a warp per token: lane l adds elements l, l + 32, ... in order, then the lanes are added as dp_warp_sum
 * does. No shared memory. The gradients of gamma and beta are sums over tokens: kernels/cuda/columns.h has their order.
 */
#include "kernels/cuda/columns.h"
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define WARPS (THREADS / 32) /* of a block, and so its tokens */
#define COLUMNS 128 /* threads, one a column, of sums over tokens */
#define EPS 1e-5f /* that of GPT-2 */

/* rows: n, with tiles what the tiles have; tokens from n on are padding and become 0. */
template <bool TILES>
static __global__ void __launch_bounds__(THREADS)
    layernorm_kernel(int64_t rows, int64_t n, int64_t c, float *y, float *mean, float *rstd, const float *x,
                     const float *gamma, const float *beta)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    const int64_t step = TILES ? DP_TILE : 1; /* from one channel to the next one in y */
    float sum = 0.0f, squares = 0.0f, m, r;

    if (row >= rows)
        return;
    y += TILES ? row / DP_TILE * DP_TILE * c + row % DP_TILE : row * c;
    if (row >= n) {
        for (int64_t j = lane; j < c; j += 32)
            y[j * step] = 0.0f;
        return;
    }
    x += row * c;
    for (int64_t j = lane; j < c; j += 32)
        sum += x[j];
    m = dp_warp_sum(sum) / (float)c;
    for (int64_t j = lane; j < c; j += 32)
        squares += (x[j] - m) * (x[j] - m);
    r = 1.0f / sqrtf(dp_warp_sum(squares) / (float)c + EPS);
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
    for (int64_t j = lane; j < c; j += 32)
        y[j * step] = (x[j] - m) * r * gamma[j] + beta[j];
}

int dp_cuda_layernorm(struct dp_backend *be, const struct dp_layernorm *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "layernorm", err);
    const int64_t rows = a->y_format == DP_TILES ? (a->n + DP_TILE - 1) / DP_TILE * DP_TILE : a->n;

    if (!cu)
        return -1;
    if (a->n < 0 || a->c < 1)
        return dp_cuda_refuse(cu, err, "%lld tokens of %lld channels", (long long)a->n, (long long)a->c);
    return DP_LAUNCH(cu, err, (a->y_format == DP_TILES ? layernorm_kernel<true> : layernorm_kernel<false>),
                     dp_blocks(rows, WARPS), THREADS, 0, rows, a->n, a->c, a->y, a->mean, a->rstd, a->x, a->gamma,
                     a->beta);
}

/* A thread of the warp reads what it overwrites before it does, so dx may be dy. The products that are summed and the one that
 * the sum is taken from are rounded alike, not fused: what cancels, as everything does with one channel, leaves nothing that r,
 * up to 316, would make something of. */
static __global__ void __launch_bounds__(THREADS)
    dx_kernel(int64_t n, int64_t c, float *dx, const float *dy, const float *x, const float *gamma, const float *mean,
              const float *rstd, bool add_to_dx)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float sum = 0.0f, sum_x = 0.0f, m, r;

    if (row >= n)
        return;
    dx += row * c;
    dy += row * c;
    x += row * c;
    m = mean[row];
    r = rstd[row];
    for (int64_t j = lane; j < c; j += 32) {
        const float g = __fmul_rn(dy[j], gamma[j]);

        sum += g;
        sum_x += g * ((x[j] - m) * r);
    }
    sum = dp_warp_sum(sum) / (float)c;
    sum_x = dp_warp_sum(sum_x) / (float)c;
    for (int64_t j = lane; j < c; j += 32) {
        const float d = r * (__fmul_rn(dy[j], gamma[j]) - sum - (x[j] - m) * r * sum_x);

        dx[j] = add_to_dx ? dx[j] + d : d;
    }
}

/* A run of tokens, a thread per column: part (runs, 2, c), what it adds to dgamma and to dbeta. */
static __global__ void __launch_bounds__(COLUMNS)
    run_kernel(int64_t n, int64_t c, int64_t run, float *part, const float *dy, const float *x, const float *mean,
               const float *rstd)
{
    const int64_t j = (int64_t)blockIdx.x * COLUMNS + threadIdx.x, first = (int64_t)blockIdx.y * run;
    const int64_t end = n < first + run ? n : first + run;
    float gamma = 0.0f, beta = 0.0f;

    if (j >= c)
        return;
    for (int64_t i = first; i < end; i++) {
        const float d = dy[i * c + j];

        gamma += d * ((x[i * c + j] - mean[i]) * rstd[i]);
        beta += d;
    }
    part[(int64_t)blockIdx.y * 2 * c + j] = gamma;
    part[((int64_t)blockIdx.y * 2 + 1) * c + j] = beta;
}

int dp_cuda_layernorm_bwd(struct dp_backend *be, const struct dp_layernorm_bwd *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "layernorm_bwd", err);
    const int64_t runs = dp_cuda_runs(a->n);
    float *part;

    if (!cu)
        return -1;
    if (a->n < 0 || a->c < 1)
        return dp_cuda_refuse(cu, err, "%lld tokens of %lld channels", (long long)a->n, (long long)a->c);
    if (!a->n)
        return 0;
    part = static_cast<float *>(dp_cuda_scratch(cu, (size_t)(runs * 2 * a->c) * sizeof(float), err));
    if (!part)
        return -1;
    if (DP_LAUNCH(cu, err, run_kernel, dim3(dp_blocks(a->c, COLUMNS), (unsigned)runs), COLUMNS, 0, a->n, a->c,
                  dp_cuda_run(a->n), part, a->dy, a->x, a->mean, a->rstd) < 0 ||
        dp_cuda_add_runs(cu, runs, a->c, a->dgamma, a->dbeta, part, err) < 0)
        return -1;
    return DP_LAUNCH(cu, err, dx_kernel, dp_blocks(a->n, WARPS), THREADS, 0, a->n, a->c, a->dx, a->dy, a->x, a->gamma,
                     a->mean, a->rstd, a->add_to_dx);
}
