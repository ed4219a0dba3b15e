/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with a sparse w: arguments, and the cut of a weight gradient into parts. */
#include "kernels/cuda/sparse/sparse.h"

#include "kernels/cuda/columns.h"
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define WANTED_BLOCKS 264 /* two for each multiprocessor of a large card, when tokens are cut into parts ... */
#define LEAST_PART 512 /* ... of no fewer tokens than this */
#define MOST_PARTS 32 /* the second pass reads that many */

/* The plan; NULL and err when it does not fit. */
static const struct dp_cuda_plan *check(struct dp_cuda *cu, const struct dp_sparse *sp, int64_t n, int64_t c_in,
                                        int64_t c_out, struct dp_err *err)
{
    if (n < 0) {
        dp_cuda_refuse(cu, err, "%lld tokens", (long long)n);
        return nullptr;
    }
    return dp_cuda_plan_of(cu, sp, c_out, c_in, err);
}

static int multiply(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err)
{
    if (!p->n)
        return 0;
    return p->plan->block < 32 ? dp_cuda_csr_product(cu, p, err) : dp_cuda_block_product(cu, p, err);
}

int dp_cuda_sparse_linear(struct dp_cuda *cu, const struct dp_linear *a, struct dp_err *err)
{
    struct dp_cuda_sparse_product p = {};

    p.plan = check(cu, a->sparse, a->n, a->c_in, a->c_out, err);
    if (!p.plan)
        return -1;
    p.n = a->n;
    p.y = static_cast<float *>(a->y), p.gelu = static_cast<float *>(a->gelu);
    p.x = static_cast<const float *>(a->x), p.w = a->w;
    p.x_format = a->x_format, p.y_format = a->y_format;
    p.bias = a->bias, p.residual = static_cast<const float *>(a->residual);
    return multiply(cu, &p, err);
}

int dp_cuda_sparse_linear_bwd_input(struct dp_cuda *cu, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    struct dp_cuda_sparse_product p = {};

    p.plan = check(cu, a->sparse, a->n, a->c_in, a->c_out, err);
    if (!p.plan)
        return -1;
    p.by_column = true;
    p.n = a->n;
    p.y = static_cast<float *>(a->dx), p.gelu = static_cast<float *>(a->gelu);
    p.x = static_cast<const float *>(a->dy), p.w = a->w;
    p.x_format = a->dy_format, p.y_format = a->dx_format;
    p.gelu_x = static_cast<const float *>(a->gelu_x);
    return multiply(cu, &p, err);
}

/* The parts' sum, in order; a thread per weight. */
static __global__ void __launch_bounds__(THREADS)
    add_parts_kernel(int64_t nnz, int64_t parts, const float *part, float *dw, bool add)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float sum;

    if (at >= nnz)
        return;
    sum = part[at];
    for (int64_t i = 1; i < parts; i++)
        sum += part[i * nnz + at];
    dw[at] = add ? dw[at] + sum : sum;
}

/* Parts follow from the matrix and the number of tokens. */
static void cut_tokens(struct dp_cuda_sparse_gradient *g)
{
    const int64_t blocks =
        g->plan->block < 32 ? dp_cuda_csr_gradient_blocks(g->plan) : dp_cuda_block_gradient_blocks(g->plan);
    int64_t parts = WANTED_BLOCKS / (blocks > 0 ? blocks : 1);

    parts = parts > g->n / LEAST_PART ? g->n / LEAST_PART : parts;
    parts = parts > MOST_PARTS ? MOST_PARTS : parts < 1 ? 1 : parts;
    g->part_n = (g->n + parts * DP_CUDA_PART_UNIT - 1) / (parts * DP_CUDA_PART_UNIT) * DP_CUDA_PART_UNIT;
    g->parts = g->part_n ? (g->n + g->part_n - 1) / g->part_n : 1;
}

static int gradient(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err)
{
    if (!g->plan->nnz)
        return 0;
    if ((g->plan->block < 32 ? dp_cuda_csr_gradient(cu, g, err) : dp_cuda_block_gradient(cu, g, err)) < 0)
        return -1;
    if (!g->part)
        return 0;
    return DP_LAUNCH(cu, err, add_parts_kernel, dp_blocks(g->plan->nnz, THREADS), THREADS, 0, g->plan->nnz, g->parts, g->part,
                     g->dw, g->add);
}

/* dw and dbias one after the other, in the same workspace. */
int dp_cuda_sparse_linear_bwd_weight(struct dp_cuda *cu, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    struct dp_cuda_sparse_gradient g = {};
    size_t bytes, column_bytes;
    float *workspace = nullptr;

    g.plan = check(cu, a->sparse, a->n, a->c_in, a->c_out, err);
    if (!g.plan)
        return -1;
    g.n = a->n;
    g.dw = a->dw;
    g.dy = static_cast<const float *>(a->dy), g.x = static_cast<const float *>(a->x);
    g.dy_format = a->dy_format, g.x_format = a->x_format;
    g.add = !a->overwrite;
    cut_tokens(&g);
    bytes = g.parts > 1 ? (size_t)(g.parts * g.plan->nnz) * sizeof(float) : 0;
    column_bytes = a->dbias ? (size_t)(dp_cuda_runs(a->n) * 2 * a->c_out) * sizeof(float) : 0;
    bytes = bytes < column_bytes ? column_bytes : bytes;
    if (bytes && !(workspace = static_cast<float *>(dp_cuda_scratch(cu, bytes, err))))
        return -1;
    g.part = g.parts > 1 ? workspace : nullptr;
    if (gradient(cu, &g, err) < 0)
        return -1;
    if (!a->dbias)
        return 0;
    return dp_cuda_add_columns(cu, a->n, a->c_out, a->dbias, g.dy, a->dy_format, workspace, err);
}
