/* SPDX-License-Identifier: BSD-3-Clause */
/* See mask.h; files: mask_file.c. */
#include "kernels/bench/mask.h"

#include <math.h>
#include <stdlib.h>

#include "common/bits.h"
#include "kernels/backend.h"
#include "kernels/granularity.h"

void bench_mask_release(struct bench_mask *m)
{
    free(m->keep);
    *m = (struct bench_mask){0};
}

static bool has_blocks(const struct bench_mask *m, int64_t block)
{
    const int64_t width = dp_block_cols(block);

    if (m->rows % block || m->cols % width)
        return false;
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        int64_t row = i / m->cols / block * block, col = i % m->cols / width * width;

        if (dp_bits_get(m->keep, i) != dp_bits_get(m->keep, row * m->cols + col))
            return false;
    }
    return true;
}

int64_t bench_mask_block_rows(const struct bench_mask *m)
{
    int i = DP_N_GRANULARITIES - 1;

    while (i > 0 && !has_blocks(m, dp_granularity_at(i)))
        i--;
    return dp_granularity_at(i);
}

static double coefficient_of_variation(const int64_t *count, int64_t n, double *empty)
{
    double mean = 0.0, squares = 0.0;

    *empty = 0.0;
    for (int64_t i = 0; i < n; i++) {
        mean += (double)count[i] / (double)n;
        *empty += count[i] == 0 ? 1.0 / (double)n : 0.0;
    }
    for (int64_t i = 0; i < n; i++)
        squares += ((double)count[i] - mean) * ((double)count[i] - mean) / (double)n;
    return mean > 0.0 ? sqrt(squares) / mean : 0.0;
}

void bench_spread_get(const int64_t *in_row, int64_t rows, const int64_t *in_col, int64_t cols,
                      struct bench_spread *out)
{
    out->row_cv = coefficient_of_variation(in_row, rows, &out->empty_rows);
    out->col_cv = coefficient_of_variation(in_col, cols, &out->empty_cols);
}
