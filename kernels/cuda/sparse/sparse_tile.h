/* SPDX-License-Identifier: BSD-3-Clause */
/* What kernels of sparse matrices share: activations in rows or tiles on their way into shared memory, and results on
 * their way out. A block of threads works on the tokens of one tile, whatever the format. */
#ifndef DP_KERNELS_CUDA_SPARSE_SPARSE_TILE_H
#define DP_KERNELS_CUDA_SPARSE_SPARSE_TILE_H

#include "kernels/cuda/cu.h"

#include "kernels/cuda/finish.h"
#include "kernels/cuda/sparse/sparse.h"

#define DP_TILE_LD (DP_TILE + 4) /* floats from a channel to the next one in shared memory: rows of 16 bytes stay whole */

/* An activation (n, c) that is read. */
struct dp_tokens {
    const float *p;
    int64_t n, c;
    bool tiles, wide; /* wide: 16 bytes at a time, along what is contiguous */
};

static inline struct dp_tokens dp_tokens_of(const void *p, int64_t n, int64_t c, enum dp_token_format format)
{
    const bool tiles = format == DP_TILES;

    return {static_cast<const float *>(p), n, c, tiles, reinterpret_cast<uintptr_t>(p) % 16 == 0 && (tiles || c % 4 == 0)};
}

static __device__ __forceinline__ int64_t dp_token_at(bool tiles, int64_t c, int64_t token, int64_t channel)
{
    return tiles ? (token / DP_TILE * c + channel) * DP_TILE + token % DP_TILE : token * c + channel;
}

/* CHANNELS channels of x from `first` on, of the tile that begins with token0, begin to arrive in to[channel][token],
 * DP_TILE_LD apart; what is not there becomes 0, but for the padding of tiles. CHANNELS: a multiple of 16. */
template <int THREADS, int CHANNELS>
static __device__ __forceinline__ void dp_fetch_channels(float *to, const struct dp_tokens &x, int64_t token0,
                                                         int64_t first)
{
    const int64_t left = x.c - first;
    const int channels = left < CHANNELS ? (int)left : CHANNELS;

    if (x.tiles) {
        const float *from = x.p + token0 * x.c + first * DP_TILE;

        if (x.wide) {
            DP_NO_UNROLL
            for (int i = 0; i < CHANNELS * DP_TILE / 4 / THREADS; i++) {
                const int e = i * THREADS + (int)threadIdx.x, channel = e / (DP_TILE / 4), token = e % (DP_TILE / 4) * 4;
                const bool there = channel < channels;

                dp_copy16(to + channel * DP_TILE_LD + token, from + (there ? channel * DP_TILE + token : 0), there);
            }
        } else {
            DP_NO_UNROLL
            for (int i = 0; i < CHANNELS * DP_TILE / THREADS; i++) {
                const int e = i * THREADS + (int)threadIdx.x, channel = e / DP_TILE, token = e % DP_TILE;
                const bool there = channel < channels;

                dp_copy4(to + channel * DP_TILE_LD + token, from + (there ? channel * DP_TILE + token : 0), there);
            }
        }
        return;
    }
    DP_NO_UNROLL
    for (int i = 0; i < CHANNELS * DP_TILE / THREADS; i++) {
        const int e = i * THREADS + (int)threadIdx.x;
        const int channel = e % 16 + e / (16 * DP_TILE) * 16, token = e / 16 % DP_TILE;
        const bool there = channel < channels && token0 + token < x.n;

        dp_copy4(to + channel * DP_TILE_LD + token, x.p + (there ? (token0 + token) * x.c + first + channel : 0), there);
    }
}

/* The sums tile[token * token_ld + out * out_ld] of TOKENS tokens from token0 on and OUTS outputs from out0 on, of which
 * there are n and c, go where f says; padding of tiles becomes 0. */
template <int THREADS, int TOKENS, int OUTS>
static __device__ __forceinline__ void dp_finish_tile(const struct dp_finish &f, const float *tile, int token_ld, int out_ld,
                                                      bool tiles, int64_t n, int64_t c, int64_t token0, int64_t out0)
{
    DP_NO_UNROLL
    for (int e = (int)threadIdx.x; e < TOKENS * OUTS; e += THREADS) {
        const int token = tiles ? e % TOKENS : e / OUTS, out = tiles ? e / TOKENS : e % OUTS;
        const int64_t at = dp_token_at(tiles, c, token0 + token, out0 + out);

        if (out0 + out >= c)
            continue;
        if (token0 + token < n) {
            dp_finish_element(f, at, out0 + out, tile[token * token_ld + out * out_ld]);
        } else if (tiles) {
            f.c[at] = 0.0f;
            if (f.gelu)
                f.gelu[at] = 0.0f;
        }
    }
}

#endif
