/* Products of attention: some 32 rows, a head's width. The GEMM library spends more on a call than on
 * the arithmetic there (7 us for 3.5 us of work at 32 x 128 x 32).
 *
 * Outer products: MR rows of c times two vectors of columns stay in registers while k runs; a is read
 * one number at a time, so it may be transposed for free; b must be contiguous along its columns.
 */
#include "kernels/cpu/ops.h"

#define MR (VW == 16 ? 8 : 4)
#define NR 2

/* rows x vectors of c at (i, j). last: 0, or how many columns the only vector has. */
static inline __attribute__((always_inline)) void tile(const struct dp_small_gemm *g, int64_t i, int64_t j,
                                                       const int rows, const int vectors, int64_t last)
{
    const float *a = g->a + i * g->a_row, *b = g->b + j;
    float *c = g->c + i * g->ldc + j;
    vf acc[MR][NR], alpha = vf_set1(g->alpha);

    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        DP_UNROLL
        for (int v = 0; v < vectors; v++)
            acc[r][v] = (vf){0};
    }
    for (int64_t k = 0; k < g->k; k++, a += g->a_col, b += g->ldb) {
        vf x[NR];

        DP_UNROLL
        for (int v = 0; v < vectors; v++)
            x[v] = last ? vf_load_n(b, last) : vf_load(b + v * VW);
        DP_UNROLL
        for (int r = 0; r < rows; r++) {
            vf one = vf_set1(a[r * g->a_row]);

            DP_UNROLL
            for (int v = 0; v < vectors; v++)
                acc[r][v] += one * x[v];
        }
    }
    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        DP_UNROLL
        for (int v = 0; v < vectors; v++) {
            float *at = c + r * g->ldc + v * VW;

            if (last)
                vf_store_n(at, (g->accumulate ? vf_load_n(at, last) : (vf){0}) + alpha * acc[r][v], last);
            else
                vf_store(at, (g->accumulate ? vf_load(at) : (vf){0}) + alpha * acc[r][v]);
        }
    }
}

/* A band of `rows` rows from i on. */
static inline __attribute__((always_inline)) void band(const struct dp_small_gemm *g, int64_t i,
                                                       const int rows)
{
    int64_t j = 0;

    for (; j + NR * VW <= g->n; j += NR * VW)
        tile(g, i, j, rows, NR, 0);
    for (; j + VW <= g->n; j += VW)
        tile(g, i, j, rows, 1, 0);
    if (j < g->n)
        tile(g, i, j, rows, 1, g->n - j);
}

void DP_FN(small_gemm)(const struct dp_small_gemm *g)
{
    int64_t i = 0;

    for (; i + MR <= g->m; i += MR)
        band(g, i, MR);
    for (; i < g->m; i++)
        band(g, i, 1);
}
