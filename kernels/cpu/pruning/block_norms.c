/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms of blocks of weights, and which blocks are left. */
#include <math.h>

#include "common/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pruning/run_of_bits.h"

#define PART (1 << 14) /* weights of a task, about */
#define WORDS 16       /* of bits of blocks in a task */
#define MAX_EDGE 128   /* of a block */

struct call {
    struct dp_block_norms a;
    int64_t width, per_row; /* columns of a block, blocks of the whole row */
    int64_t n, part;        /* blocks, and those of a task */
};

static inline void add_squares(double *restrict sum, const float *restrict w, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        sum[j] += (double)w[j] * (double)w[j];
}

static float root_of_tree(double *sum, int64_t n)
{
    for (n /= 2; n > 0; n /= 2)
        for (int64_t j = 0; j < n; j++)
            sum[j] += sum[j + n];
    return (float)sqrt(sum[0]);
}

/* Blocks [i, i + n) of one column each, n at most 64, neighbours in a row of blocks. */
static void dense_columns(const struct call *call, int64_t i, int64_t n)
{
    const struct dp_block_norms *a = &call->a;
    const float *w = a->w + i / a->cols * a->block_rows * a->cols + i % a->cols;
    double sum[64] = {0};

    for (int64_t r = 0; r < a->block_rows; r++)
        add_squares(sum, w + r * a->cols, n);
    for (int64_t j = 0; j < n; j++)
        a->norm[i + j] = (float)sqrt(sum[j]);
}

static void dense_square(const struct call *call, int64_t i)
{
    const struct dp_block_norms *a = &call->a;
    const float *w = a->w + i / call->per_row * a->block_rows * a->cols + i % call->per_row * call->width;
    double sum[MAX_EDGE] = {0};

    for (int64_t r = 0; r < a->block_rows; r++)
        add_squares(sum, w + r * a->cols, call->width);
    a->norm[i] = root_of_tree(sum, call->width);
}

/* A block of one column, whose weights follow each other. */
static void sparse_column(const struct call *call, int64_t k)
{
    const struct dp_block_norms *a = &call->a;
    double sum = 0.0;

    for (int64_t r = 0; r < a->block_rows; r++)
        add_squares(&sum, a->w + k * a->block_rows + r, 1);
    a->norm[k] = (float)sqrt(sum);
}

/* The row of blocks that block k lies in. */
static int64_t row_of(const struct dp_sparse *sp, int64_t k)
{
    int64_t low = 0, high = sp->rows / sp->block_rows;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (sp->row_ptr[middle] <= k)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A square block, whose order struct dp_sparse says. */
static void sparse_square(const struct call *call, int64_t k)
{
    const struct dp_block_norms *a = &call->a;
    const int64_t *ptr = a->sparse->row_ptr + row_of(a->sparse, k);
    int64_t strip = 4 * call->width;
    const float *w = a->w + ptr[0] * a->block_rows * call->width + (k - ptr[0]) * strip;
    double sum[MAX_EDGE] = {0};

    for (int64_t r = 0; r < a->block_rows; r++) {
        const float *row = w + r / 4 * strip * (ptr[1] - ptr[0]) + r % 4;

        for (int64_t j = 0; j < call->width; j++)
            add_squares(&sum[j], row + 4 * j, 1);
    }
    a->norm[k] = root_of_tree(sum, call->width);
}

static int norms_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    int64_t i = task * call->part, end = dp_least_i64(i + call->part, call->n);

    (void)thread;
    (void)err;
    for (int64_t n = 1; i < end; i += n) {
        if (call->a.sparse && call->width == 1) {
            sparse_column(call, i);
        } else if (call->a.sparse) {
            sparse_square(call, i);
        } else if (call->width > 1) {
            dense_square(call, i);
        } else {
            n = dp_least_i64(64, dp_least_i64(end - i, call->per_row - i % call->per_row));
            dense_columns(call, i, n);
        }
    }
    return 0;
}

/* ---- which blocks are left ---- */

/* Bits of the n weights (n at most 64) from (row, col) on. */
static uint64_t kept_of(const struct dp_block_norms *a, int64_t row, int64_t col, int64_t n)
{
    return dp_run_of_bits(a->keep, row * a->cols + col, n);
}

/* Of blocks [i, i + n) of one column each, as dense_columns(): bits of those with all weights; *some: with any. */
static uint64_t left_columns(const struct call *call, int64_t i, int64_t n, uint64_t *some)
{
    const struct dp_block_norms *a = &call->a;
    uint64_t all = dp_low_bits(n);

    *some = 0;
    for (int64_t r = 0; r < a->block_rows; r++) {
        uint64_t run = kept_of(a, i / a->cols * a->block_rows + r, i % a->cols, n);

        all &= run;
        *some |= run;
    }
    return all;
}

static uint64_t left_square(const struct call *call, int64_t i, uint64_t *some)
{
    const struct dp_block_norms *a = &call->a;
    int64_t row = i / call->per_row * a->block_rows, col = i % call->per_row * call->width;
    bool all = true, any = false;

    for (int64_t r = 0; r < a->block_rows; r++)
        for (int64_t j = 0, n; j < call->width; j += n) {
            uint64_t run;

            n = dp_least_i64(64, call->width - j);
            run = kept_of(a, row + r, col + j, n);
            all = all && run == dp_low_bits(n);
            any = any || run;
        }
    *some = any;
    return all;
}

static int left_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    int64_t end = dp_least_i64((task + 1) * WORDS * 64, call->n), n;
    uint64_t mixed = 0;

    (void)thread;
    (void)err;
    for (int64_t i = task * WORDS * 64; i < end; i += 64) {
        uint64_t word = 0;

        for (int64_t j = 0; j < 64 && i + j < end; j += n) {
            uint64_t some, all;

            n = call->width > 1 ? 1 : dp_least_i64(64 - j, dp_least_i64(end - i - j, call->per_row - (i + j) % call->per_row));
            all = call->width > 1 ? left_square(call, i + j, &some) : left_columns(call, i + j, n, &some);
            word |= all << j;
            mixed += (uint64_t)__builtin_popcountll(some ^ all);
        }
        call->a.left[i / 64] = word;
    }
    __atomic_fetch_add(call->a.mixed, mixed, __ATOMIC_RELAXED);
    return 0;
}

int DP_FN(block_norms)(struct dp_backend *be, const struct dp_block_norms *a, struct dp_err *err)
{
    struct call call = {.a = *a, .width = dp_block_cols(a->block_rows)};

    if (a->block_rows < 1 || a->block_rows > MAX_EDGE || a->rows % a->block_rows || a->cols % call.width ||
        (a->sparse && (dp_sparse_block(a->sparse) != a->block_rows || a->keep)))
        return dp_err_set(err, DP_EINVAL, "block_norms: matrix (%lld, %lld), blocks of %lld rows", (long long)a->rows,
                          (long long)a->cols, (long long)a->block_rows);
    call.per_row = a->cols / call.width;
    call.n = a->sparse ? dp_sparse_n_blocks(a->sparse) : a->rows / a->block_rows * call.per_row;
    call.part = PART / dp_block_weights(a->block_rows) > 1 ? PART / dp_block_weights(a->block_rows) : 1;
    if (dp_cpu_parallel(be, (call.n + call.part - 1) / call.part, norms_task, &call, err) < 0)
        return -1;
    return a->keep ? dp_cpu_parallel(be, (call.n + WORDS * 64 - 1) / (WORDS * 64), left_task, &call, err) : 0;
}
