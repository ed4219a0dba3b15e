/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum of dp_sum, for operations that have begun. */
#ifndef DP_KERNELS_CUDA_LAYERS_SUM_H
#define DP_KERNELS_CUDA_LAYERS_SUM_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *sum = x[0] + x[1] + ... + x[n - 1] in that order; with add_to_sum *sum += that. */
int dp_cuda_add_doubles(struct dp_cuda *cu, int64_t n, double *sum, const double *x, bool add_to_sum,
                        struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
