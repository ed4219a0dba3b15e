/* SPDX-License-Identifier: BSD-3-Clause */
/* The dense product of two matrices and what follows it: all that linear layers and the head multiply goes through
 * dp_cuda_multiply, whoever does the work.
 *
 * Strict float: no TF32. The same bits for the same shapes, whatever the addresses and the number of multiprocessors.
 */
#ifndef DP_KERNELS_CUDA_PRODUCT_H
#define DP_KERNELS_CUDA_PRODUCT_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c (m, n) = a b, row-major. a: (m, k), or (k, m) with a_across; b: (n, k), that is one row per column of c, or (k, n)
 * with b_across. Leading dimensions are what they are without padding. a_across without b_across is not there.
 *
 * What becomes of an element s of the product, where the pointers are not NULL:
 *     s += bias[column]; s += residual[element];
 *     with gelu_x: gelu[element] = gelu(gelu_x[element]); s *= gelu'(gelu_x[element]);
 *     without: gelu[element] = gelu(s);
 *     c[element] = s, or += s with add, which goes with none of the others.
 * None of gelu, gelu_x, residual (each (m, n)) may be c. */
struct dp_cuda_product {
    int64_t m, n, k;
    float *c;
    const float *a, *b;
    bool a_across, b_across;
    const float *bias, *residual, *gelu_x;
    float *gelu;
    bool add;
};

/* Bytes of workspace that the product takes: a multiple of 256, may be 0. Only shapes count, not pointers. */
size_t dp_cuda_product_bytes(const struct dp_cuda *cu, const struct dp_cuda_product *p);
/* Begin the product on the computing lane. workspace: of the bytes above, 256-byte aligned, for as long as the work
 * lasts. returns: 0, or -1 and err; DP_EINVAL for sizes that no kernel takes. */
int dp_cuda_multiply(struct dp_cuda *cu, const struct dp_cuda_product *p, void *workspace, struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
