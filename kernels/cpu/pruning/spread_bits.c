/* SPDX-License-Identifier: BSD-3-Clause */
/* Bits of blocks to bits of weights, word by word of the latter. */
#include "common/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pruning/run_of_bits.h"

#define PART 1024 /* words of a task */

/* Of the n weights (n at most 64) from (row, col) on, in one row. */
static uint64_t spread_run(const struct dp_spread_bits *a, int64_t row, int64_t col, int64_t n)
{
    int64_t width = dp_block_cols(a->block_rows), at = row / a->block_rows * (a->cols / width);
    uint64_t run = 0;

    if (width == 1)
        return dp_run_of_bits(a->bits, at + col, n);
    for (int64_t j = 0, count; j < n; j += count) {
        count = dp_least_i64(width - (col + j) % width, n - j);
        if (dp_run_of_bits(a->bits, at + (col + j) / width, 1))
            run |= dp_low_bits(count) << j;
    }
    return run;
}

static int spread_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_spread_bits *a = arg;
    int64_t all = a->rows * a->cols, end = dp_least_i64((task + 1) * PART, (all + 63) / 64);

    (void)thread;
    (void)err;
    for (int64_t i = task * PART; i < end; i++) {
        int64_t n = dp_least_i64(64, all - 64 * i);
        uint64_t word = 0;

        for (int64_t j = 0, count; j < n; j += count) {
            int64_t row = (64 * i + j) / a->cols, col = (64 * i + j) % a->cols;

            count = dp_least_i64(n - j, a->cols - col);
            word |= spread_run(a, row, col, count) << j;
        }
        a->keep[i] = word;
    }
    return 0;
}

int DP_FN(spread_bits)(struct dp_backend *be, const struct dp_spread_bits *a, struct dp_err *err)
{
    struct dp_spread_bits copy = *a;
    int64_t words = (a->rows * a->cols + 63) / 64;

    return dp_cpu_parallel(be, (words + PART - 1) / PART, spread_task, &copy, err);
}
