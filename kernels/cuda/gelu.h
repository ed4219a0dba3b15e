/* SPDX-License-Identifier: BSD-3-Clause */
/* The GELU of GPT-2 for kernels, in float: kernels/reference.inc has it in double. */
#ifndef DP_KERNELS_CUDA_GELU_H
#define DP_KERNELS_CUDA_GELU_H

#include "kernels/cuda/cu.h"

#define DP_GELU_SCALE 0.7978845608028654f /* sqrt(2 / pi) */
#define DP_GELU_CUBE 0.044715f /* of the tanh formula, as in reference.inc */

/* 1 + e^(-2u): the tanh formula written so that nothing cancels where u is very negative */
static __device__ __forceinline__ float dp_gelu_divisor(float x)
{
    const float u = DP_GELU_SCALE * (x + DP_GELU_CUBE * x * x * x);

    return 1.0f + expf(-2.0f * u);
}

static __device__ __forceinline__ float dp_gelu(float x)
{
    return x / dp_gelu_divisor(x);
}

/* gelu'(x) */
static __device__ __forceinline__ float dp_gelu_slope(float x)
{
    const float s = 1.0f / dp_gelu_divisor(x);

    return s + x * s * (1.0f - s) * (2.0f * DP_GELU_SCALE * (1.0f + 3.0f * DP_GELU_CUBE * x * x));
}

#endif
