/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels with what tests/gpu/resources looks for, so that its test sees it found. Nobody launches them. */
#include "kernels/cuda/cu.h"

#define THREADS 256
#define MANY 64 /* floats of an array */
#define MORE 128 /* floats of a thread, which has 64 registers when a block has 1024 threads */

/* An array whose index the compiler does not know lies on the stack. */
__global__ void __launch_bounds__(THREADS) frame_kernel(float *y, const int *at)
{
    float x[MANY];

    DP_UNROLL
    for (int i = 0; i < MANY; i++)
        x[i] = y[i];
    DP_NO_UNROLL
    for (int i = 0; i < MANY; i++)
        x[at[i]] += 1.0f;
    y[threadIdx.x] = x[at[threadIdx.x]];
}

/* More live values than registers. */
__global__ void __launch_bounds__(1024) spill_kernel(float *y)
{
    float x[MORE];

    DP_UNROLL
    for (int i = 0; i < MORE; i++)
        x[i] = y[i * 1024 + threadIdx.x];
    __syncthreads();
    DP_UNROLL
    for (int i = 0; i < MORE; i++)
        y[i * 1024 + threadIdx.x] = x[MORE - 1 - i] + x[i] * x[(i * 7 + 3) % MORE];
}

__global__ void unbounded_kernel(float *y)
{
    y[threadIdx.x] = 1.0f;
}

__global__ void __launch_bounds__(THREADS) good_kernel(float *y)
{
    DP_SHARED(float, x, [1024]);

    for (int i = (int)threadIdx.x; i < 1024; i += THREADS)
        x[i] = y[i];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 1024; i += THREADS)
        y[i] = x[1023 - i];
}

/* One asynchronous copy, one ldmatrix, one mma, in memory whose size is decided at the launch. */
template <int UNUSED, bool NEITHER> __global__ void __launch_bounds__(32) tensor_kernel(float *y, const float *x)
{
    DP_SHARED_DYNAMIC(float, tile);
    uint32_t a[4];
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    dp_copy16(tile + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
    dp_copies_commit();
    dp_copies_wait<0>();
    __syncthreads();
    dp_ldmatrix4(a, tile + 4 * threadIdx.x);
    dp_mma_bf16(c, a, a);
    DP_UNROLL
    for (int i = 0; i < 4; i++)
        y[4 * threadIdx.x + i] = c[i];
}
template __global__ void tensor_kernel<64, true>(float *y, const float *x);
