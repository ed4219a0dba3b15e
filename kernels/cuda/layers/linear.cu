/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers: each is one product (kernels/cuda/product.h); with a sparse w, kernels/cuda/sparse/sparse.h has it. */
#include "kernels/cuda/columns.h"
#include "kernels/cuda/cu.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/sparse/sparse.h"

static int check(struct dp_cuda *cu, int64_t n, int64_t c_in, int64_t c_out, enum dp_token_format first,
                 enum dp_token_format second, struct dp_err *err)
{
    if (n < 0 || c_in < 1 || c_out < 1)
        return dp_cuda_refuse(cu, err, "%lld tokens, %lld channels in, %lld out", (long long)n, (long long)c_in,
                              (long long)c_out);
    if (first != DP_ROWS || second != DP_ROWS)
        return dp_cuda_refuse(cu, err, "a dense matrix takes rows only");
    return 0;
}

/* An activation: float, as info says. */
static float *act(void *p)
{
    return static_cast<float *>(p);
}

static const float *act(const void *p)
{
    return static_cast<const float *>(p);
}

static int run(struct dp_cuda *cu, const struct dp_cuda_product *p, struct dp_err *err)
{
    const size_t bytes = dp_cuda_product_bytes(cu, p);
    void *workspace = bytes ? dp_cuda_scratch(cu, bytes, err) : nullptr;

    if (bytes && !workspace)
        return -1;
    return dp_cuda_multiply(cu, p, workspace, err);
}

int dp_cuda_linear(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "linear", err);
    struct dp_cuda_product p = {};

    if (!cu)
        return -1;
    if (a->sparse)
        return dp_cuda_sparse_linear(cu, a, err);
    if (check(cu, a->n, a->c_in, a->c_out, a->x_format, a->y_format, err) < 0)
        return -1;
    p.m = a->n, p.n = a->c_out, p.k = a->c_in;
    p.c = act(a->y), p.a = act(a->x), p.b = a->w;
    p.bias = a->bias, p.residual = act(a->residual), p.gelu = act(a->gelu);
    return run(cu, &p, err);
}

int dp_cuda_linear_bwd_input(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "linear_bwd_input", err);
    struct dp_cuda_product p = {};

    if (!cu)
        return -1;
    if (a->gelu && !a->gelu_x)
        return dp_cuda_refuse(cu, err, "gelu without gelu_x");
    if (a->sparse)
        return dp_cuda_sparse_linear_bwd_input(cu, a, err);
    if (check(cu, a->n, a->c_in, a->c_out, a->dy_format, a->dx_format, err) < 0)
        return -1;
    p.m = a->n, p.n = a->c_in, p.k = a->c_out;
    p.c = act(a->dx), p.a = act(a->dy), p.b = a->w, p.b_across = true;
    p.gelu_x = act(a->gelu_x), p.gelu = act(a->gelu);
    return run(cu, &p, err);
}

/* dw and dbias one after the other, in the same workspace. */
int dp_cuda_linear_bwd_weight(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "linear_bwd_weight", err);
    const size_t column_bytes = a->dbias ? (size_t)(dp_cuda_runs(a->n) * 2 * a->c_out) * sizeof(float) : 0;
    struct dp_cuda_product p = {};
    void *workspace = nullptr;
    size_t bytes;

    if (!cu)
        return -1;
    if (a->sparse)
        return dp_cuda_sparse_linear_bwd_weight(cu, a, err);
    if (check(cu, a->n, a->c_in, a->c_out, a->dy_format, a->x_format, err) < 0)
        return -1;
    p.m = a->c_out, p.n = a->c_in, p.k = a->n;
    p.c = a->dw, p.a = act(a->dy), p.b = act(a->x), p.a_across = p.b_across = true;
    p.add = !a->overwrite;
    bytes = dp_cuda_product_bytes(cu, &p);
    bytes = bytes < column_bytes ? column_bytes : bytes;
    if (bytes && !(workspace = dp_cuda_scratch(cu, bytes, err)))
        return -1;
    if (dp_cuda_multiply(cu, &p, workspace, err) < 0)
        return -1;
    if (!a->dbias)
        return 0;
    return dp_cuda_add_columns(cu, a->n, a->c_out, a->dbias, act(a->dy), DP_ROWS, static_cast<float *>(workspace), err);
}
