/* SPDX-License-Identifier: BSD-3-Clause */
/* An activation in another format: a block of threads takes CHANNELS channels of a tile through shared memory (4 KiB), read
 * in the order of one format and written in that of the other. It has read its part before it writes, so y may be x. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define CHANNELS 16 /* 64 bytes of a row */
#define LD (DP_TILE + 1) /* floats from a channel to the next one: neighbours of both orders in different banks */

/* Element e of a block's part, in a format's order. */
static __device__ __forceinline__ int channel_of(bool tiles, int e)
{
    return tiles ? e / DP_TILE : e % CHANNELS;
}

static __device__ __forceinline__ int token_of(bool tiles, int e)
{
    return tiles ? e % DP_TILE : e / CHANNELS;
}

static __device__ __forceinline__ int64_t place_of(bool tiles, int64_t c, int64_t token, int64_t channel)
{
    return tiles ? (token / DP_TILE * c + channel) * DP_TILE + token % DP_TILE : token * c + channel;
}

static __global__ void __launch_bounds__(THREADS)
    reorder_kernel(int64_t n, int64_t c, float *y, const float *x, bool y_tiles, bool x_tiles)
{
    DP_SHARED(float, part, [CHANNELS * LD]);
    const int64_t token0 = (int64_t)blockIdx.x * DP_TILE, channel0 = (int64_t)blockIdx.y * CHANNELS;

    for (int e = (int)threadIdx.x; e < CHANNELS * DP_TILE; e += THREADS) {
        const int channel = channel_of(x_tiles, e), token = token_of(x_tiles, e);
        const bool there = channel0 + channel < c && token0 + token < n;

        part[channel * LD + token] = there ? x[place_of(x_tiles, c, token0 + token, channel0 + channel)] : 0.0f;
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < CHANNELS * DP_TILE; e += THREADS) {
        const int channel = channel_of(y_tiles, e), token = token_of(y_tiles, e);

        if (channel0 + channel < c && (y_tiles || token0 + token < n))
            y[place_of(y_tiles, c, token0 + token, channel0 + channel)] = part[channel * LD + token];
    }
}

int dp_cuda_reorder(struct dp_backend *be, const struct dp_reorder *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "reorder", err);
    const dim3 grid(dp_blocks(a->n, DP_TILE), dp_blocks(a->c, CHANNELS));

    if (!cu)
        return -1;
    if (a->n < 0 || a->c < 1 || a->c > 65535 * CHANNELS)
        return dp_cuda_refuse(cu, err, "%lld tokens of %lld channels", (long long)a->n, (long long)a->c);
    return DP_LAUNCH(cu, err, reorder_kernel, grid, THREADS, 0, a->n, a->c, a->y, a->x, a->y_format == DP_TILES,
                     a->x_format == DP_TILES);
}
