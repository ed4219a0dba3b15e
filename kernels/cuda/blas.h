/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA's cuBLASLt for dense products, where it is there and was asked for. Measured: doc/results/gpu.md.
 *
 * The library is looked up when the backend is opened, and only when the environment has DYNPIPE_CUDA_PRODUCTS=cublaslt;
 * with "own", or without the variable, products are our own. Strict float (CUBLAS_COMPUTE_32F_PEDANTIC), algorithms that
 * do not cut k, a workspace of a fixed size: the same bits for the same shapes on the same card and library.
 */
#ifndef DP_KERNELS_CUDA_BLAS_H
#define DP_KERNELS_CUDA_BLAS_H

#include "kernels/cuda/product.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DP_CUDA_BLAS_BYTES ((size_t)32 << 20) /* workspace */

/* What the environment asks for. Sets cu->blas, or leaves it NULL. returns: 0, or -1 and err when the variable has
 * another value, or the library was asked for and is missing or cannot be used. */
int dp_cuda_blas_open(struct dp_cuda *cu, struct dp_err *err);
void dp_cuda_blas_close(struct dp_cuda *cu);
/* c = a b, or += with add; not what follows it. workspace: DP_CUDA_BLAS_BYTES. returns: 0; 1: the library has no
 * algorithm for this that keeps to the rules; -1 and err. */
int dp_cuda_blas_product(struct dp_cuda *cu, const struct dp_cuda_product *p, void *workspace, struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
