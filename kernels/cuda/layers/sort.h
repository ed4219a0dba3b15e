/* SPDX-License-Identifier: BSD-3-Clause */
/* Places sorted by what stands there. */
#ifndef DP_KERNELS_CUDA_LAYERS_SORT_H
#define DP_KERNELS_CUDA_LAYERS_SORT_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DP_CUDA_SORT_MOST ((int64_t)1 << 30) /* keys: their places take 30 of 32 bits */

/* Bytes of `sorted` for n keys. */
size_t dp_cuda_sort_bytes(int64_t n);
/* sorted[0 ... n - 1] = key[place] << 32 | place, ascending: equal keys in the order of their places. What follows them
 * up to dp_cuda_sort_bytes is overwritten. n: up to DP_CUDA_SORT_MOST. */
int dp_cuda_sort(struct dp_cuda *cu, uint64_t *sorted, const uint32_t *key, int64_t n, struct dp_err *err);

#ifdef __cplusplus
}
#endif
#endif
