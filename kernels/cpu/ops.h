/* SPDX-License-Identifier: BSD-3-Clause */
/* The ops of one version; each is declared like its member of struct dp_backend_ops. */
#ifndef DP_KERNELS_CPU_OPS_H
#define DP_KERNELS_CPU_OPS_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

#define DP_OP_DECL(op) int DP_FN(op)(struct dp_backend *be, const struct dp_##op *a, struct dp_err *err);
DP_BACKEND_OPS(DP_OP_DECL)
/* Bytes of scratch that the head takes for n tokens, c channels and a vocabulary of v, with gradients. */
size_t DP_FN(head_bytes)(struct dp_backend *be, int64_t n, int64_t c, int64_t v);

/* The dense side of the three linear ops (dense/dense.c), without dbias. */
int DP_FN(dense)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err);
int DP_FN(dense_bwd_input)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err);
int DP_FN(dense_bwd_weight)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err);

/* The sparse side: y and dx with all that follows them (sparse/spmm.c), dw and dbias (sddmm.c). The plan fits. */
int DP_FN(spmm)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err);
int DP_FN(spmm_bwd)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err);
int DP_FN(sddmm)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err);
/* dbias (c) += sums over the tokens of dy, tiles of n tokens, in the order of tiles. */
int DP_FN(tile_sums)(struct dp_backend *be, float *dbias, const float *dy, int64_t n, int64_t c,
                     struct dp_err *err);

/* Token tiles (sparse/pack.c). */
static inline int64_t dp_tiles(int64_t n)
{
    return (n + DP_TILE - 1) / DP_TILE;
}
/* tiles (dp_tiles(n), c, 64) = x (n, c), rows ld floats apart; missing tokens of the last tile are 0. */
void DP_FN(pack)(float *tiles, const float *x, int64_t ld, int64_t n, int64_t c);
/* y (n, ld)[0..n)[0..c) = tile (c, 64) transposed; n <= 64. */
void DP_FN(unpack)(float *y, int64_t ld, const float *tile, int64_t n, int64_t c);
/* pack with ld = c on the backend's threads. */
int DP_FN(pack_all)(struct dp_backend *be, float *tiles, const float *x, int64_t n, int64_t c, struct dp_err *err);

/* Tokens that a sparse op packs and uses before the next ones: as many tiles as keep `channels` of them in
 * the second-level cache, but enough that the index is not read from memory for too few; an even number. */
static inline int64_t dp_pack_group(int64_t n, int64_t channels)
{
    int64_t tiles = 512 * 1024 / (DP_TILE * (int64_t)sizeof(float) * channels) & ~(int64_t)1;

    tiles = tiles < 4 ? 4 : tiles;
    return tiles < dp_tiles(n) ? tiles * DP_TILE : dp_tiles(n) * DP_TILE;
}

/* A product that is too small for the GEMM library (dense/small_gemm.c), with any strides for a:
 * c (m, n) = or += a b,  a(i, k) = a[i * a_row + k * a_col], b: (k, ldb), c: (m, ldc); n is a multiple of
 * VW. Row i meets the diagonal in column `diagonal` + i. A matrix with a shape is
 *   C_LOWER: wanted up to the diagonal only; what lies behind it may be written or not
 *   A_LOWER: zero behind the diagonal, and read up to DP_GEMM_BAND columns behind it
 *   A_UPPER: zero in front of the diagonal, and not read there. */
#define DP_GEMM_BAND 6
enum dp_gemm_shape { DP_GEMM_FULL, DP_GEMM_C_LOWER, DP_GEMM_A_LOWER, DP_GEMM_A_UPPER };
struct dp_small_gemm {
    int64_t m, n, k;
    enum dp_gemm_shape shape;
    int64_t diagonal;
    bool accumulate;
    const float *a, *b;
    float *c;
    int64_t a_row, a_col, ldb, ldc;
};
void DP_FN(small_gemm)(const struct dp_small_gemm *g);

#endif
