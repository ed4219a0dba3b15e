/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of attention: some 64 rows, a head's width. The GEMM library spends more on a call than on
 * the arithmetic there (7 us for 3.5 us of work at 32 x 128 x 32).
 *
 * Outer products: MR rows of c times NR vectors of columns stay in registers while k runs; a is read one
 * number at a time, so it may be transposed for free; b must be contiguous along its columns. With
 * AVX-512 24 of 32 registers accumulate and one step takes 10 loads for 24 multiply-adds, with AVX2 12 of
 * 16 and 8 loads for 12: both more chains than the 8 that hide a latency of four at two a cycle.
 */
#include "kernels/cpu/ops.h"

#define MR (VW == 4 ? 4 : 6) /* with NR: as many accumulators as the registers hold beside a row of b */
#define NR (VW == 16 ? 4 : 2) /* see above */

static inline __attribute__((always_inline)) void add_tile(vf acc[MR][NR], const float *c, int64_t ldc,
                                                           const int rows, const int vectors)
{
    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        DP_UNROLL
        for (int v = 0; v < vectors; v++)
            acc[r][v] += vf_load(c + r * ldc + v * VW);
    }
}

/* rows x vectors of c at (i, j), from products k0 ... k1 - 1. */
static inline __attribute__((always_inline)) void tile(const struct dp_small_gemm *g, int64_t i, int64_t j,
                                                       int64_t k0, int64_t k1, const int rows, const int vectors)
{
    const float *a = g->a + i * g->a_row + k0 * g->a_col, *b = g->b + j + k0 * g->ldb;
    const int64_t ldc = g->ldc, a_row = g->a_row, a_col = g->a_col, ldb = g->ldb;
    float *c = g->c + i * ldc + j;
    vf acc[MR][NR];

    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        DP_UNROLL
        for (int v = 0; v < vectors; v++)
            acc[r][v] = (vf){0};
    }
    for (int64_t k = k0; k < k1; k++, a += a_col, b += ldb) {
        vf x[NR];

        DP_UNROLL
        for (int v = 0; v < vectors; v++)
            x[v] = vf_load(b + v * VW);
        DP_UNROLL
        for (int r = 0; r < rows; r++) {
            vf one = vf_set1(a[r * a_row]);

            DP_UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] += one * x[v];
        }
    }
    if (g->accumulate)
        add_tile(acc, c, ldc, rows, vectors);
    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        DP_UNROLL
        for (int v = 0; v < vectors; v++)
            vf_store(c + r * ldc + v * VW, acc[r][v]);
    }
}

/* A band of `rows` rows from i on, without what lies on the other side of the diagonal. */
static inline __attribute__((always_inline)) void band(const struct dp_small_gemm *g, int64_t i, const int rows)
{
    int64_t j = 0, n = g->n, k0 = 0, k1 = g->k, end = g->diagonal + i + rows;

    if (g->shape == DP_GEMM_C_LOWER && end < n)
        n = (end + VW - 1) / VW * VW;
    else if (g->shape == DP_GEMM_A_LOWER && end < k1)
        k1 = end;
    else if (g->shape == DP_GEMM_A_UPPER && g->diagonal + i > 0)
        k0 = g->diagonal + i;
    for (; j + NR * VW <= n; j += NR * VW)
        tile(g, i, j, k0, k1, rows, NR);
    if (NR > 2 && n - j == 3 * VW)
        tile(g, i, j, k0, k1, rows, NR - 1);
    else if (NR > 2 && n - j == 2 * VW)
        tile(g, i, j, k0, k1, rows, 2);
    else if (n - j == VW)
        tile(g, i, j, k0, k1, rows, 1);
}

void DP_FN(small_gemm)(const struct dp_small_gemm *g)
{
    int64_t i = 0;

    for (; i + MR <= g->m; i += MR)
        band(g, i, MR);
    for (; MR > 4 && i + 4 <= g->m; i += 4)
        band(g, i, 4);
    for (; i + 2 <= g->m; i += 2)
        band(g, i, 2);
    if (i < g->m)
        band(g, i, 1);
}
