/* SPDX-License-Identifier: BSD-3-Clause */
/* The three linear ops: dense.c does those with a dense w, spmm.c and sddmm.c those with a
 * sparse one. */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

static int check_sparse(const struct dp_sparse *sp, int64_t c_out, int64_t c_in, struct dp_err *err)
{
    if (!sp->plan)
        return dp_err_set(err, DP_EINVAL, "linear: sparse matrix without a plan, call sparse_prepare");
    if (sp->rows != c_out || sp->cols != c_in)
        return dp_err_set(err, DP_EINVAL, "linear: sparse matrix (%lld, %lld), the shapes say (%lld, %lld)",
                          (long long)sp->rows, (long long)sp->cols, (long long)c_out, (long long)c_in);
    return 0;
}

/* A dense w takes rows; the plan of a sparse one fits the shapes. */
static int check(const struct dp_sparse *sp, int64_t c_out, int64_t c_in, enum dp_token_format a, enum dp_token_format b,
                 struct dp_err *err)
{
    if (sp)
        return check_sparse(sp, c_out, c_in, err);
    if (a != DP_ROWS || b != DP_ROWS)
        return dp_err_set(err, DP_EINVAL, "linear (%lld, %lld): tiles need a sparse w", (long long)c_out,
                          (long long)c_in);
    return 0;
}

int DP_FN(linear)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    if (check(a->sparse, a->c_out, a->c_in, a->x_format, a->y_format, err) < 0)
        return -1;
    return a->sparse ? DP_FN(spmm)(be, a, err) : DP_FN(dense)(be, a, err);
}

int DP_FN(linear_bwd_input)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    if (check(a->sparse, a->c_out, a->c_in, a->dy_format, a->dx_format, err) < 0)
        return -1;
    return a->sparse ? DP_FN(spmm_bwd)(be, a, err) : DP_FN(dense_bwd_input)(be, a, err);
}

#define SUM_COLUMNS 256 /* of dbias in a task */

/* dbias += column sums of dy, tokens in order: four registers of columns at a time. */
static int column_sums_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_linear_bwd_weight *a = arg;
    int64_t j = task * SUM_COLUMNS, n = a->n, c = a->c_out;
    int64_t end = j + SUM_COLUMNS < c ? j + SUM_COLUMNS : c;
    const float *dy = a->dy;
    float *dbias = a->dbias;

    (void)thread;
    (void)err;
    for (; j + 4 * VW <= end; j += 4 * VW) {
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
    for (; j < end; j++) {
        float sum = 0.0f;

        for (int64_t i = 0; i < n; i++)
            sum += dy[i * c + j];
        dbias[j] += sum;
    }
    return 0;
}

int DP_FN(linear_bwd_weight)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    struct dp_linear_bwd_weight sums = *a;

    if (check(a->sparse, a->c_out, a->c_in, a->dy_format, a->x_format, err) < 0)
        return -1;
    if (a->overwrite && (a->sparse || a->n == 0))
        memset(a->dw, 0, (size_t)(a->sparse ? a->sparse->nnz : a->c_out * a->c_in) * sizeof *a->dw);
    if ((a->sparse ? DP_FN(sddmm)(be, a, err) : DP_FN(dense_bwd_weight)(be, a, err)) < 0)
        return -1;
    if (!a->dbias)
        return 0;
    if (a->dy_format == DP_TILES)
        return DP_FN(tile_sums)(be, a->dbias, a->dy, a->n, a->c_out, err);
    return dp_cpu_parallel(be, (a->c_out + SUM_COLUMNS - 1) / SUM_COLUMNS, column_sums_task, &sums, err);
}
