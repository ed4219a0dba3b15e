/* SPDX-License-Identifier: BSD-3-Clause */
/* Batcher's bitonic sort: stages of compare-exchanges at fixed places, so that nothing depends on who comes first, and
 * keys that are all different (their places are part of them), so that the result is the stable one. The keys are padded
 * to a power of two with the largest one.
 *
 * A block sorts CHUNK neighbours in shared memory (16 KiB); beyond that, stage by stage, exchanges at distances of CHUNK
 * and more are a pass over memory each, and those below one pass together. Up to CHUNK keys take one launch, 65536
 * take 21. */
#include "kernels/cuda/layers/sort.h"

#include "kernels/cuda/cu.h"

#define THREADS 512 /* of a block */
#define CHUNK 2048 /* keys of a block, 16 KiB */

/* a and b, b at the higher place, in the order that the stage of `size` wants at that place. */
static __device__ __forceinline__ void exchange(uint64_t *a, uint64_t *b, int64_t place, int64_t size)
{
    const uint64_t x = *a, y = *b;

    if ((x > y) == !(place & size)) {
        *a = y;
        *b = x;
    }
}

/* Place of the lower key of pair i at a distance, a power of two. */
static __device__ __forceinline__ int64_t lower(int64_t i, int64_t distance)
{
    return (i / distance * 2) * distance + i % distance;
}

/* Stages from ... to (powers of two), of each only the distances within a chunk. keys: what is sorted for the first
 * time, NULL afterwards. */
static __global__ void __launch_bounds__(THREADS)
    chunk_kernel(uint64_t *sorted, const uint32_t *keys, int64_t n, int64_t padded, int64_t from, int64_t to)
{
    DP_SHARED(uint64_t, part, [CHUNK]);
    const int64_t first = (int64_t)blockIdx.x * CHUNK;
    const int count = padded < CHUNK ? (int)padded : CHUNK;

    for (int i = (int)threadIdx.x; i < count; i += THREADS) {
        const int64_t at = first + i;

        if (keys)
            part[i] = at < n ? (uint64_t)keys[at] << 32 | (uint64_t)at : UINT64_MAX;
        else
            part[i] = sorted[at];
    }
    __syncthreads();
    for (int64_t size = from; size <= to; size *= 2) {
        for (int distance = (int)(size < CHUNK ? size / 2 : CHUNK / 2); distance; distance /= 2) {
            for (int i = (int)threadIdx.x; i < count / 2; i += THREADS) {
                const int at = (int)lower(i, distance);

                exchange(&part[at], &part[at + distance], first + at, size);
            }
            __syncthreads();
        }
    }
    for (int i = (int)threadIdx.x; i < count; i += THREADS)
        sorted[first + i] = part[i];
}

/* One distance of one stage, a pair a thread. */
static __global__ void __launch_bounds__(THREADS)
    far_kernel(uint64_t *sorted, int64_t pairs, int64_t size, int64_t distance)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, at = lower(i, distance);

    if (i < pairs)
        exchange(sorted + at, sorted + at + distance, at, size);
}

static int64_t pad(int64_t n)
{
    int64_t padded = 1;

    while (padded < n)
        padded *= 2;
    return padded;
}

size_t dp_cuda_sort_bytes(int64_t n)
{
    return (size_t)pad(n) * sizeof(uint64_t);
}

int dp_cuda_sort(struct dp_cuda *cu, uint64_t *sorted, const uint32_t *key, int64_t n, struct dp_err *err)
{
    const int64_t padded = pad(n);

    if (DP_LAUNCH(cu, err, chunk_kernel, dp_blocks(padded, CHUNK), THREADS, 0, sorted, key, n, padded, 2,
                  padded < CHUNK ? padded : CHUNK) < 0)
        return -1;
    for (int64_t size = 2 * CHUNK; size <= padded; size *= 2) {
        for (int64_t distance = size / 2; distance >= CHUNK; distance /= 2)
            if (DP_LAUNCH(cu, err, far_kernel, dp_blocks(padded / 2, THREADS), THREADS, 0, sorted, padded / 2, size,
                          distance) < 0)
                return -1;
        if (DP_LAUNCH(cu, err, chunk_kernel, dp_blocks(padded, CHUNK), THREADS, 0, sorted, nullptr, n, padded, size,
                      size) < 0)
            return -1;
    }
    return 0;
}
