/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left of a matrix's arrays: a block of threads per row of blocks, whose new elements its threads take in turn. In a
 * sparse matrix an element's old block is looked for by its column. That it is there is checked here, on the host, where
 * the patterns are, too. */
#include "kernels/cuda/sparse/sparse_plan.h"

#include "kernels/cuda/cu.h"

#define THREADS 128 /* of a block */

struct arrays {
    float *y[DP_GATHER_MAX];
    const float *x[DP_GATHER_MAX];
};

/* One row of blocks: m of them from `first` on. */
struct row {
    int64_t first, m;
};

static __device__ __forceinline__ struct row row_of(const struct dp_cuda_walk &by_row, int64_t row)
{
    const int64_t first = by_row.cut[row];

    return {first, (int64_t)by_row.cut[by_row.slices * by_row.groups + row] - first};
}

/* The number in its row of the block with this column, which is there. */
static __device__ __forceinline__ int64_t find_column(const struct dp_cuda_walk &by_row, const struct row &r, uint16_t column)
{
    int64_t low = 0, high = r.m;

    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;

        if (by_row.index[r.first + middle] <= column)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* from.cut NULL: x is dense. */
static __global__ void __launch_bounds__(THREADS)
    gather_kernel(int64_t cols, int64_t block, int64_t width, struct dp_cuda_walk to, struct dp_cuda_walk from, int n_arrays,
                  struct arrays a)
{
    const int64_t row = blockIdx.x, strip_rows = block < 4 ? block : 4, strip = strip_rows * width;
    const struct row now = row_of(to, row), before = from.cut ? row_of(from, row) : now;

    for (int64_t e = threadIdx.x; e < now.m * block * width; e += THREADS) {
        /* struct dp_sparse: strips of up to four rows, in them blocks, in them columns, in them rows */
        const int64_t s = e / (strip * now.m), k = e / strip % now.m, in_strip = e % strip;
        const uint16_t column = to.index[now.first + k];
        int64_t at;

        if (from.cut)
            at = before.first * block * width + (s * before.m + find_column(from, before, column)) * strip + in_strip;
        else
            at = (row * block + s * strip_rows + in_strip % strip_rows) * cols + column * width + in_strip / strip_rows;
        DP_UNROLL
        for (int i = 0; i < DP_GATHER_MAX; i++)
            if (i < n_arrays)
                a.y[i][now.first * block * width + e] = a.x[i][at];
    }
}

/* Is every block of `to` one of `from`? */
static int check_blocks(struct dp_cuda *cu, const struct dp_sparse *to, const struct dp_sparse *from, struct dp_err *err)
{
    for (int64_t r = 0; r < to->rows / dp_sparse_block(to); r++) {
        int64_t j = from->row_ptr[r];

        for (int64_t k = to->row_ptr[r]; k < to->row_ptr[r + 1]; k++, j++) {
            while (j < from->row_ptr[r + 1] && from->col[j] < to->col[k])
                j++;
            if (j == from->row_ptr[r + 1] || from->col[j] != to->col[k])
                return dp_cuda_refuse(cu, err, "row of blocks %lld has column %d, which was not there before", (long long)r,
                                      to->col[k]);
        }
    }
    return 0;
}

int dp_cuda_gather(struct dp_backend *be, const struct dp_gather *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "gather", err);
    const struct dp_sparse *to = a->to, *from = a->from;
    const struct dp_cuda_plan *plan, *old = nullptr;
    struct arrays arrays = {};

    if (!cu)
        return -1;
    if (a->n_arrays < 0 || a->n_arrays > DP_GATHER_MAX)
        return dp_cuda_refuse(cu, err, "%lld arrays, at most %d", (long long)a->n_arrays, DP_GATHER_MAX);
    if (from && (from->rows != to->rows || from->cols != to->cols || dp_sparse_block(from) != dp_sparse_block(to)))
        return dp_cuda_refuse(cu, err, "(%lld, %lld) from (%lld, %lld), blocks of %lld and %lld rows", (long long)to->rows,
                              (long long)to->cols, (long long)from->rows, (long long)from->cols,
                              (long long)dp_sparse_block(to), (long long)dp_sparse_block(from));
    plan = dp_cuda_plan_of(cu, to, to->rows, to->cols, err);
    if (!plan)
        return -1;
    if (from && !(old = dp_cuda_plan_of(cu, from, to->rows, to->cols, err)))
        return -1;
    if (from && check_blocks(cu, to, from, err) < 0)
        return -1;
    for (int64_t i = 0; i < a->n_arrays; i++) {
        arrays.y[i] = a->y[i];
        arrays.x[i] = a->x[i];
    }
    return DP_LAUNCH(cu, err, gather_kernel, dp_blocks(plan->by_row.groups, 1), THREADS, 0, to->cols, plan->block,
                     dp_block_cols(plan->block), plan->by_row, old ? old->by_row : dp_cuda_walk{}, (int)a->n_arrays, arrays);
}
