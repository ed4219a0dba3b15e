/* The ops of one version; each is declared like its member of struct dp_backend_ops. */
#ifndef DP_KERNELS_CPU_OPS_H
#define DP_KERNELS_CPU_OPS_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

#define DP_CPU_OPS(O)                                                                              \
    O(linear) O(linear_bwd_input) O(linear_bwd_weight) O(embedding) O(embedding_bwd) O(layernorm)  \
    O(layernorm_bwd) O(attention) O(attention_bwd) O(gelu) O(gelu_bwd) O(add) O(cross_entropy)     \
    O(adamw) O(sum_squares)

#define DP_OP_DECL(op) int DP_FN(op)(struct dp_backend *be, const struct dp_##op *a, struct dp_err *err);
DP_CPU_OPS(DP_OP_DECL)

/* The dense side of the three linear ops (dense.c), without dbias. */
int DP_FN(dense)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err);
int DP_FN(dense_bwd_input)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err);
int DP_FN(dense_bwd_weight)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err);

/* The sparse side (sparse.c): y with its bias, dx and dw; linear.c does the rest. */
int DP_FN(spmm)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err);
int DP_FN(spmm_bwd)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err);
int DP_FN(sddmm)(struct dp_backend *be, const struct dp_linear_bwd_weight *a, struct dp_err *err);

/* Token tiles (pack.c): 64 tokens of one channel are neighbours in memory. */
#define DP_TILE 64
static inline int64_t dp_tiles(int64_t n)
{
    return (n + DP_TILE - 1) / DP_TILE;
}
/* tiles (dp_tiles(n), c, 64) = x (n, c), rows ld floats apart; missing tokens of the last tile are 0. */
void DP_FN(pack)(float *tiles, const float *x, int64_t ld, int64_t n, int64_t c);
/* y (n, ld)[0..n)[0..c) = tile (c, 64) transposed, + bias (c) where not NULL; n <= 64. */
void DP_FN(unpack)(float *y, int64_t ld, const float *tile, int64_t n, int64_t c, const float *bias);

/* A product that is too small for the GEMM library (small_gemm.c), with any strides for a:
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
