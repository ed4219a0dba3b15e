/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with a sparse w. The operations of kernels/cuda/layers/linear.cu, which have begun, come to sparse.cu when
 * a->sparse is given; nothing of the arguments has been checked. It checks them and has csr.cu and blocks.cu multiply.
 *
 * Strict float. Sums over channels are in the order of the pattern, sums over tokens in the order of tokens, cut into parts
 * by shapes alone; so the bits are the same for all formats of activations, and at all addresses.
 */
#ifndef DP_KERNELS_CUDA_SPARSE_SPARSE_H
#define DP_KERNELS_CUDA_SPARSE_SPARSE_H

#include "kernels/cuda/sparse/sparse_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

int dp_cuda_sparse_linear(struct dp_cuda *cu, const struct dp_linear *a, struct dp_err *err);
int dp_cuda_sparse_linear_bwd_input(struct dp_cuda *cu, const struct dp_linear_bwd_input *a, struct dp_err *err);
int dp_cuda_sparse_linear_bwd_weight(struct dp_cuda *cu, const struct dp_linear_bwd_weight *a, struct dp_err *err);

/* y (n, c_out) = x (n, c_in) w^T with by_row, x (n, c_in) w with by_column; what follows as in dp_cuda_product
 * (product.h), whose fields of these names have the format of y. */
struct dp_cuda_sparse_product {
    const struct dp_cuda_plan *plan;
    bool by_column;
    int64_t n;
    float *y;
    const float *x, *w;
    enum dp_token_format x_format, y_format;
    const float *bias, *residual, *gelu_x;
    float *gelu;
};

/* The weight gradient's sums over tokens, cut into parts: part (parts, nnz) when there are more than one, then dw is made
 * of them by whoever calls; else dw += or =. */
struct dp_cuda_sparse_gradient {
    const struct dp_cuda_plan *plan;
    int64_t n, part_n, parts; /* part_n: tokens of a part */
    float *dw, *part;
    const float *dy, *x;
    enum dp_token_format dy_format, x_format;
    bool add;
};

/* Single weights and blocks of 4 x 1. n is positive. */
int dp_cuda_csr_product(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err);
int dp_cuda_csr_gradient(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err);
/* Square blocks. */
int dp_cuda_block_product(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err);
int dp_cuda_block_gradient(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err);
/* Blocks of threads that the gradient of one part of the tokens takes; and tokens of which a part is a multiple. */
int64_t dp_cuda_csr_gradient_blocks(const struct dp_cuda_plan *plan);
int64_t dp_cuda_block_gradient_blocks(const struct dp_cuda_plan *plan);
#define DP_CUDA_PART_UNIT 16 /* the slices of tokens of both gradients fit */

#ifdef __cplusplus
}
#endif
#endif
