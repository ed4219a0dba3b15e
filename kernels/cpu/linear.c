/* The three linear ops: dense through the GEMM, sparse through sparse.c. */
#include "kernels/cpu/ops.h"

static int check_sparse(const struct dp_sparse *sp, int64_t c_out, int64_t c_in, struct dp_err *err)
{
    if (!sp->plan)
        return dp_err_set(err, DP_EINVAL, "linear: sparse matrix without a plan, call sparse_prepare");
    if (sp->rows != c_out || sp->cols != c_in)
        return dp_err_set(err, DP_EINVAL, "linear: sparse matrix (%lld, %lld), the shapes say (%lld, %lld)",
                          (long long)sp->rows, (long long)sp->cols, (long long)c_out, (long long)c_in);
    return 0;
}

static void add_bias(float *y, int64_t n, int64_t c, const float *bias)
{
    for (int64_t i = 0; i < n; i++) {
        float *row = y + i * c;
        int64_t j = 0;

        for (; j + VW <= c; j += VW)
            vf_store(row + j, vf_load(row + j) + vf_load(bias + j));
        if (j < c)
            vf_store_n(row + j, vf_load_n(row + j, c - j) + vf_load_n(bias + j, c - j), c - j);
    }
}

int DP_FN(linear)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    struct dp_gemm g = {.trans_a = 'N', .trans_b = 'T', .m = a->n, .n = a->c_out, .k = a->c_in,
                        .alpha = 1.0f, .a = a->x, .lda = a->c_in, .b = a->w, .ldb = a->c_in,
                        .c = a->y, .ldc = a->c_out};

    if (a->sparse)
        return check_sparse(a->sparse, a->c_out, a->c_in, err) < 0 ? -1 : DP_FN(spmm)(be, a, err);
    if (dp_cpu_gemm(be, &g, err) < 0)
        return -1;
    if (a->bias)
        add_bias(a->y, a->n, a->c_out, a->bias);
    return 0;
}

int DP_FN(linear_bwd_input)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    struct dp_gemm g = {.trans_a = 'N', .trans_b = 'N', .m = a->n, .n = a->c_in, .k = a->c_out,
                        .alpha = 1.0f, .a = a->dy, .lda = a->c_out, .b = a->w, .ldb = a->c_in,
                        .c = a->dx, .ldc = a->c_in};

    if (a->sparse)
        return check_sparse(a->sparse, a->c_out, a->c_in, err) < 0 ? -1 : DP_FN(spmm_bwd)(be, a, err);
    return dp_cpu_gemm(be, &g, err);
}

/* dbias += column sums of dy, tokens in order: four registers of columns at a time. */
static void add_column_sums(float *dbias, const float *dy, int64_t n, int64_t c)
{
    int64_t j = 0;

    for (; j + 4 * VW <= c; j += 4 * VW) {
        vf sum[4] = {{0}, {0}, {0}, {0}};

        for (int64_t i = 0; i < n; i++) {
            DP_UNROLL
            for (int u = 0; u < 4; u++)
                sum[u] += vf_load(dy + i * c + j + u * VW);
        }
        DP_UNROLL
        for (int u = 0; u < 4; u++)
            vf_store(dbias + j + u * VW, vf_load(dbias + j + u * VW) + sum[u]);
    }
    for (; j < c; j++) {
        float sum = 0.0f;

        for (int64_t i = 0; i < n; i++)
            sum += dy[i * c + j];
        dbias[j] += sum;
    }
}

int DP_FN(linear_bwd_weight)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    struct dp_gemm g = {.trans_a = 'T', .trans_b = 'N', .m = a->c_out, .n = a->c_in, .k = a->n,
                        .alpha = 1.0f, .beta = 1.0f, .a = a->dy, .lda = a->c_out, .b = a->x,
                        .ldb = a->c_in, .c = a->dw, .ldc = a->c_in};

    if (a->sparse) {
        if (check_sparse(a->sparse, a->c_out, a->c_in, err) < 0 || DP_FN(sddmm)(be, a, err) < 0)
            return -1;
    } else if (a->n > 0 && dp_cpu_gemm(be, &g, err) < 0) {
        return -1;
    }
    if (a->dbias)
        add_column_sums(a->dbias, a->dy, a->n, a->c_out);
    return 0;
}
