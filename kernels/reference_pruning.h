/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes over weights of kernels/backend.h in plain C, element by element: reference.h for what is about bits and order
 * and so not about float or double.
 */
#ifndef DP_KERNELS_REFERENCE_PRUNING_H
#define DP_KERNELS_REFERENCE_PRUNING_H

#include <math.h>
#include <string.h>

#include "common/bits.h"
#include "common/crc32c.h"
#include "kernels/backend.h"

/* Where weight (row, col) lies in the arrays of a matrix; -1: it is not there. sp NULL: dense. */
static inline int64_t dp_ref_place(const struct dp_sparse *sp, int64_t cols, int64_t row, int64_t col)
{
    int64_t block, width, first, m;

    if (!sp)
        return row * cols + col;
    block = dp_sparse_block(sp);
    width = dp_block_cols(block);
    first = sp->row_ptr[row / block];
    m = sp->row_ptr[row / block + 1] - first;
    for (int64_t k = first; k < first + m; k++)
        if (sp->col[k] == col / width) {
            if (width > 1)
                return first * block * block + row % block / 4 * 4 * block * m + (k - first) * 4 * block + 4 * (col % block) +
                       row % 4;
            return k * block + row % block;
        }
    return -1;
}

static inline uint32_t dp_ref_key(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* *is_there: is block i (of all blocks of the matrix) in the pattern? Where it is, its norm. */
static inline float dp_ref_norm(const float *w, const struct dp_sparse *sp, int64_t cols, int64_t block, int64_t i, bool *is_there)
{
    int64_t width = dp_block_cols(block), row = i / (cols / width) * block, col = i % (cols / width) * width;
    double sum[128] = {0};

    *is_there = dp_ref_place(sp, cols, row, col) >= 0;
    for (int64_t c = 0; *is_there && c < width; c++)
        for (int64_t r = 0; r < block; r++) {
            double x = (double)w[dp_ref_place(sp, cols, row + r, col + c)];

            sum[c] += x * x;
        }
    for (int64_t half = width / 2; half > 0; half /= 2)
        for (int64_t c = 0; c < half; c++)
            sum[c] += sum[c + half];
    return (float)sqrt(sum[0]);
}

static inline void dp_ref_count_keys(const struct dp_count_keys *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        uint32_t key = dp_ref_key(a->x[i]);

        if ((!a->left || dp_bits_get(a->left, i)) && key >> (a->shift + a->bits) == a->prefix >> (a->shift + a->bits))
            a->bins[key >> a->shift & ((1u << a->bits) - 1)]++;
    }
}

static inline void dp_ref_choose(const struct dp_choose *a)
{
    uint64_t ties = a->ties;

    memset(a->chosen, 0, dp_bits_words(a->n) * sizeof *a->chosen);
    for (int64_t i = 0; i < a->n; i++) {
        uint32_t key = dp_ref_key(a->x[i]);

        if (a->left && !dp_bits_get(a->left, i))
            continue;
        if (key > a->key || (key == a->key && ties > 0))
            dp_bits_set(a->chosen, i);
        if (key == a->key && ties > 0)
            ties--;
    }
}

static inline void dp_ref_spread_bits(const struct dp_spread_bits *a)
{
    int64_t width = dp_block_cols(a->block_rows);

    memset(a->keep, 0, dp_bits_words(a->rows * a->cols) * sizeof *a->keep);
    for (int64_t e = 0; e < a->rows * a->cols; e++)
        if (dp_bits_get(a->bits, e / a->cols / a->block_rows * (a->cols / width) + e % a->cols / width))
            dp_bits_set(a->keep, e);
}

static inline void dp_ref_mask(const struct dp_mask *a)
{
    for (int64_t i = 0; i < a->n; i++)
        if (!dp_bits_get(a->keep, i))
            a->x[i] = 0.0f;
}

static inline void dp_ref_gather(const struct dp_gather *a)
{
    for (int64_t i = 0; i < a->n_arrays; i++)
        for (int64_t e = 0; e < a->to->rows * a->to->cols; e++) {
            int64_t row = e / a->to->cols, col = e % a->to->cols, at = dp_ref_place(a->to, a->to->cols, row, col);

            if (at >= 0)
                a->y[i][at] = a->x[i][dp_ref_place(a->from, a->to->cols, row, col)];
        }
}

static inline void dp_ref_merge_rows(const struct dp_merge_rows *a)
{
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = a->rows[i] * a->c; j < (a->rows[i] + 1) * a->c; j++) {
            a->y[j] += a->x[j];
            a->x[j] = 0.0f;
        }
}

static inline void dp_ref_digest(const struct dp_digest *a)
{
    for (int64_t at = 0; at < a->bytes; at += a->piece)
        a->crc[at / a->piece] = dp_crc32c(0, (const char *)a->x + at,
                                          (size_t)(a->bytes - at < a->piece ? a->bytes - at : a->piece));
}

#endif
