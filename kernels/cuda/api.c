/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of runtime calls, filled with those of CUDA's runtime. */
#include "kernels/cuda/api.h"

#define DP_CUDA_MEMBER(name, parameters, names) .name = cuda##name,

const struct dp_cuda_api dp_cuda_api = {
    DP_CUDA_CALLS(DP_CUDA_MEMBER)
    .GetErrorName = cudaGetErrorName,
    .GetErrorString = cudaGetErrorString,
};
