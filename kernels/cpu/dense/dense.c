/* SPDX-License-Identifier: BSD-3-Clause */
/* The linear ops with a dense w: the library's GEMM on blocks, on the backend's threads.
 *
 * A block is small enough that what follows the product (bias, residual, GELU) finds it in the
 * second-level cache, and large enough that packing its operands costs the GEMM some 2 % (measured:
 * blocks of 128 columns cost 8 %). The cut depends on the shapes only, so do the sums.
 */
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define TOKENS 512      /* of a block */
#define FEW_TOKENS 256  /* where the columns make one block only */
#define OUT_COLUMNS 512 /* of y */
#define IN_COLUMNS 384  /* of dx */
#define W_ROWS 768      /* of dw */
#define TINY (1 << 20)  /* multiplications that are not worth a second thread */

/* How an output (rows, cols) is cut: blocks of `row_part` x `col_part`. */
struct cut {
    int64_t rows, cols, row_part, col_part, n_col_parts, n_tasks;
};

static struct cut cut_output(int64_t rows, int64_t cols, int64_t depth, int64_t target)
{
    bool tiny = (double)rows * (double)cols * (double)depth < TINY;
    struct cut s = {.rows = rows, .cols = cols, .row_part = TOKENS, .col_part = cols};

    if (!tiny)
        s.col_part = dp_cpu_part(cols, target);
    if (!tiny && s.col_part >= cols)
        s.row_part = dp_cpu_part(rows, FEW_TOKENS);
    s.n_col_parts = cols > 0 ? (cols + s.col_part - 1) / s.col_part : 0;
    s.n_tasks = s.n_col_parts * ((rows + s.row_part - 1) / s.row_part);
    return s;
}

struct block {
    int64_t row, rows, col, cols;
};

static struct block block_at(const struct cut *s, int64_t i)
{
    struct block b = {.row = i / s->n_col_parts * s->row_part, .col = i % s->n_col_parts * s->col_part};

    b.rows = s->rows - b.row < s->row_part ? s->rows - b.row : s->row_part;
    b.cols = s->cols - b.col < s->col_part ? s->cols - b.col : s->col_part;
    return b;
}

struct forward {
    const struct dp_linear *a;
    struct cut cut;
};

static int forward_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct forward *f = arg;
    const struct dp_linear *a = f->a;
    struct block b = block_at(&f->cut, i);
    const float *x = a->x, *residual = a->residual;
    float *y = a->y, *gelu = a->gelu;
    int64_t at = b.row * a->c_out + b.col;
    const struct dp_gemm g = {.trans_a = 'N', .trans_b = 'T', .m = b.rows, .n = b.cols, .k = a->c_in,
                              .alpha = 1.0f, .a = x + b.row * a->c_in, .lda = a->c_in,
                              .b = a->w + b.col * a->c_in, .ldb = a->c_in, .c = y + at, .ldc = a->c_out};

    (void)thread;
    if (dp_cpu_gemm(&g, err) < 0)
        return -1;
    if (!a->bias && !residual && !gelu)
        return 0;
    for (int64_t r = 0; r < b.rows; r++, at += a->c_out)
        dp_finish_row(y + at, a->bias ? a->bias + b.col : NULL, residual ? residual + at : NULL,
                      gelu ? gelu + at : NULL, b.cols);
    return 0;
}

int DP_FN(dense)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    struct forward f = {.a = a, .cut = cut_output(a->n, a->c_out, a->c_in, OUT_COLUMNS)};

    return dp_cpu_parallel(be, f.cut.n_tasks, forward_task, &f, err);
}

struct backward {
    const struct dp_linear_bwd_input *a;
    struct cut cut;
};

static int backward_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct backward *f = arg;
    const struct dp_linear_bwd_input *a = f->a;
    struct block b = block_at(&f->cut, i);
    const float *dy = a->dy, *gelu_x = a->gelu_x;
    float *dx = a->dx, *gelu = a->gelu;
    int64_t at = b.row * a->c_in + b.col;
    const struct dp_gemm g = {.trans_a = 'N', .trans_b = 'N', .m = b.rows, .n = b.cols, .k = a->c_out,
                              .alpha = 1.0f, .a = dy + b.row * a->c_out, .lda = a->c_out,
                              .b = a->w + b.col, .ldb = a->c_in, .c = dx + at, .ldc = a->c_in};

    (void)thread;
    if (dp_cpu_gemm(&g, err) < 0)
        return -1;
    for (int64_t r = 0; gelu_x && r < b.rows; r++, at += a->c_in)
        dp_times_gelu_slope(dx + at, gelu ? gelu + at : NULL, gelu_x + at, b.cols);
    return 0;
}

int DP_FN(dense_bwd_input)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    struct backward f = {.a = a, .cut = cut_output(a->n, a->c_in, a->c_out, IN_COLUMNS)};

    return dp_cpu_parallel(be, f.cut.n_tasks, backward_task, &f, err);
}

struct weight {
    const struct dp_linear_bwd_weight *a;
    int64_t part; /* rows of dw in a task */
};

/* Token blocks one after the other: their part of dw stays in the cache. */
static int weight_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct weight *f = arg;
    const struct dp_linear_bwd_weight *a = f->a;
    int64_t row = i * f->part, rows = a->c_out - row < f->part ? a->c_out - row : f->part;
    const float *dy = a->dy, *x = a->x;

    (void)thread;
    for (int64_t t = 0; t < a->n; t += TOKENS) {
        const struct dp_gemm g = {.trans_a = 'T', .trans_b = 'N', .m = rows, .n = a->c_in,
                                  .k = a->n - t < TOKENS ? a->n - t : TOKENS, .alpha = 1.0f,
                                  .beta = a->overwrite && t == 0 ? 0.0f : 1.0f,
                                  .a = dy + t * a->c_out + row, .lda = a->c_out, .b = x + t * a->c_in,
                                  .ldb = a->c_in, .c = a->dw + row * a->c_in, .ldc = a->c_in};

        if (dp_cpu_gemm(&g, err) < 0)
            return -1;
    }
    return 0;
}

int DP_FN(dense_bwd_weight)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err)
{
    bool tiny = (double)a->n * (double)a->c_out * (double)a->c_in < TINY;
    struct weight f = {.a = a, .part = tiny ? a->c_out : dp_cpu_part(a->c_out, W_ROWS)};

    if (a->c_out == 0)
        return 0;
    return dp_cpu_parallel(be, (a->c_out + f.part - 1) / f.part, weight_task, &f, err);
}
