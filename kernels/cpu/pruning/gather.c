/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left of a matrix's arrays: each row of blocks by itself, its old and new blocks side by side. */
#include "common/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define PART 16 /* rows of blocks in a task */

/* One row of blocks: where its m blocks begin in a pattern's order. */
struct row {
    const uint16_t *col;
    int64_t first, m;
};

static struct row row_at(const struct dp_sparse *sp, int64_t row)
{
    int64_t first = sp->row_ptr[row];

    return (struct row){.col = sp->col + first, .first = first, .m = sp->row_ptr[row + 1] - first};
}

/* Single weights of a dense row. */
static void dense_weights(float *restrict y, const float *restrict x, struct row to)
{
    for (int64_t k = 0; k < to.m; k++)
        y[to.first + k] = x[to.col[k]];
}

/* Single weights of a sparse row: each is written, and stays written if it is wanted. returns how many were found. */
static int64_t sparse_weights(float *restrict y, const float *restrict x, struct row to, struct row from)
{
    int64_t k = 0;

    y += to.first;
    x += from.first;
    for (int64_t j = 0; k < to.m && j < from.m; j++) {
        y[k] = x[j];
        k += from.col[j] == to.col[k];
    }
    return k;
}

/* Blocks of a dense matrix: the weights of four rows of a column follow each other. */
static void dense_blocks(float *y, const float *x, int64_t cols, int64_t block, struct row to)
{
    int64_t width = dp_block_cols(block);

    y += to.first * dp_block_weights(block);
    for (int64_t group = 0; group < block; group += 4)
        for (int64_t k = 0; k < to.m; k++)
            for (int64_t c = 0; c < width; c++) {
                const float *w = x + group * cols + to.col[k] * width + c;

                DP_UNROLL
                for (int r = 0; r < 4; r++)
                    *y++ = w[r * cols];
            }
}

/* returns how many were found. */
static int64_t sparse_blocks(float *y, const float *x, int64_t block, struct row to, struct row from)
{
    int64_t strip = 4 * dp_block_cols(block), k = 0;

    y += to.first * dp_block_weights(block);
    x += from.first * dp_block_weights(block);
    for (int64_t group = 0; group < block; group += 4, x += from.m * strip, y += to.m * strip) {
        k = 0;
        for (int64_t j = 0; k < to.m && j < from.m; j++)
            if (from.col[j] == to.col[k])
                memcpy(y + k++ * strip, x + j * strip, (size_t)strip * sizeof *y);
    }
    return k;
}

static int gather_row(const struct dp_gather *a, int64_t row, struct dp_err *err)
{
    int64_t block = dp_sparse_block(a->to), cols = a->to->cols;
    struct row to = row_at(a->to, row);

    for (int64_t i = 0; i < a->n_arrays; i++) {
        const float *dense = a->x[i] + row * block * cols;
        int64_t found = to.m;

        if (!a->from && block == 1)
            dense_weights(a->y[i], dense, to);
        else if (!a->from)
            dense_blocks(a->y[i], dense, cols, block, to);
        else if (block == 1)
            found = sparse_weights(a->y[i], a->x[i], to, row_at(a->from, row));
        else
            found = sparse_blocks(a->y[i], a->x[i], block, to, row_at(a->from, row));
        if (found < to.m)
            return dp_err_set(err, DP_EINVAL, "gather: row of blocks %lld has column %d, which was not there before",
                              (long long)row, to.col[found]);
    }
    return 0;
}

static int gather_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_gather *a = arg;
    int64_t end = dp_least_i64((task + 1) * PART, a->to->rows / dp_sparse_block(a->to));
    int rc = 0;

    (void)thread;
    for (int64_t row = task * PART; row < end && rc == 0; row++)
        rc = gather_row(a, row, err);
    return rc;
}

int DP_FN(gather)(struct dp_backend *be, const struct dp_gather *a, struct dp_err *err)
{
    struct dp_gather copy = *a;
    int64_t rows = a->to->rows / dp_sparse_block(a->to);
    const struct dp_sparse *from = a->from;

    if (a->n_arrays < 0 || a->n_arrays > DP_GATHER_MAX)
        return dp_err_set(err, DP_EINVAL, "gather: %lld arrays, at most %d", (long long)a->n_arrays, DP_GATHER_MAX);
    if (from && (from->rows != a->to->rows || from->cols != a->to->cols || dp_sparse_block(from) != dp_sparse_block(a->to)))
        return dp_err_set(err, DP_EINVAL, "gather: (%lld, %lld) from (%lld, %lld), blocks of %lld and %lld rows",
                          (long long)a->to->rows, (long long)a->to->cols, (long long)from->rows, (long long)from->cols,
                          (long long)dp_sparse_block(a->to), (long long)dp_sparse_block(from));
    return dp_cpu_parallel(be, (rows + PART - 1) / PART, gather_task, &copy, err);
}
