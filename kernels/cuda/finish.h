/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows a product, element by element; for kernels. */
#ifndef DP_KERNELS_CUDA_FINISH_H
#define DP_KERNELS_CUDA_FINISH_H

#include "kernels/cuda/gelu.h"

/* product.h has the meaning. */
struct dp_finish {
    float *c, *gelu;
    const float *bias, *residual, *gelu_x;
    bool add;
};

static __device__ __forceinline__ void dp_finish_element(const struct dp_finish &f, int64_t at, int64_t column, float s)
{
    if (f.bias)
        s += f.bias[column];
    if (f.residual)
        s += f.residual[at];
    if (f.gelu_x) {
        const float x = f.gelu_x[at];

        s *= dp_gelu_slope(x);
        if (f.gelu)
            f.gelu[at] = dp_gelu(x);
    } else if (f.gelu) {
        f.gelu[at] = dp_gelu(s);
    }
    f.c[at] = f.add ? f.c[at] + s : s;
}

#endif
