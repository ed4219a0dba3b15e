/* SPDX-License-Identifier: BSD-3-Clause */
/* See mask.h; files: mask_file.c. */
#include "kernels/bench/mask.h"

#include <math.h>
#include <stdlib.h>

#include "common/bits.h"

void bench_mask_release(struct bench_mask *m)
{
    free(m->keep);
    *m = (struct bench_mask){0};
}

bool bench_mask_has_blocks(const struct bench_mask *m)
{
    if (m->rows % 4)
        return false;
    for (int64_t i = 0; i < m->rows * m->cols; i++)
        if (dp_bits_get(m->keep, i) != dp_bits_get(m->keep, i / m->cols / 4 * 4 * m->cols + i % m->cols))
            return false;
    return true;
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
