/* SPDX-License-Identifier: BSD-3-Clause */
/* The largest keys, and of those that are just as large as the limit the first ones. Three launches: how many ties each PART
 * elements have, how many there are in front of each part, and the bits. In shared memory a part has two words of 32 bits
 * for each 32 of its elements: greater, and tied. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define PART 2048   /* elements of a block */
#define PIECES (PART / 32) /* of 32 elements, one a thread of a warp */
#define SCAN 1024 /* threads that add up the parts */

/* Bits of the part's pieces of 32 elements; a warp per piece. */
static __device__ __forceinline__ void look(uint32_t *greater, uint32_t *tied, int64_t n, const float *x,
                                            const uint64_t *left, uint32_t limit)
{
    const int lane = (int)threadIdx.x % 32;

    for (int piece = (int)threadIdx.x / 32; piece < PIECES; piece += THREADS / 32) {
        const int64_t i = (int64_t)blockIdx.x * PART + piece * 32 + lane;
        const bool there = i < n && (!left || (left[i / 64] >> (i % 64) & 1));
        const uint32_t key = there ? __float_as_uint(x[i]) & 0x7fffffffu : 0;
        const uint32_t above = __ballot_sync(DP_ALL_THREADS, there && key > limit);
        const uint32_t equal = __ballot_sync(DP_ALL_THREADS, there && key == limit);

        if (lane == 0) {
            greater[piece] = above;
            tied[piece] = equal;
        }
    }
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS)
    ties_kernel(int64_t n, const float *x, const uint64_t *left, uint32_t limit, uint64_t *ties)
{
    DP_SHARED(uint32_t, greater, [PIECES]);
    DP_SHARED(uint32_t, tied, [PIECES]);
    uint64_t count = 0;

    look(greater, tied, n, x, left, limit);
    if (threadIdx.x)
        return;
    for (int i = 0; i < PIECES; i++)
        count += (uint64_t)__popc(tied[i]);
    ties[blockIdx.x] = count;
}

/* ties[i] becomes what stands in front of it; a thread has `each` neighbours. */
static __global__ void __launch_bounds__(SCAN) scan_kernel(int64_t parts, int64_t each, uint64_t *ties)
{
    DP_SHARED(uint64_t, sums, [2][SCAN]);
    const int thread = (int)threadIdx.x;
    const int64_t first = thread * each, end = parts < first + each ? parts : first + each;
    uint64_t sum = 0;
    int turn = 0;

    for (int64_t i = first; i < end; i++)
        sum += ties[i];
    sums[0][thread] = sum;
    for (int back = 1; back < SCAN; back *= 2, turn ^= 1) {
        __syncthreads();
        sums[turn ^ 1][thread] = sums[turn][thread] + (thread >= back ? sums[turn][thread - back] : 0);
    }
    __syncthreads();
    sum = sums[turn][thread] - sum;
    for (int64_t i = first; i < end; i++) {
        const uint64_t here = ties[i];

        ties[i] = sum;
        sum += here;
    }
}

/* The lowest `most` set bits. */
static __device__ __forceinline__ uint32_t lowest(uint32_t bits, uint64_t most)
{
    uint32_t out = 0;

    if ((uint64_t)__popc(bits) <= most)
        return bits;
    for (; most; most--) {
        out |= bits & (0u - bits);
        bits &= bits - 1;
    }
    return out;
}

/* A thread per word of 64 bits: what the limit leaves of its two pieces' ties. */
static __global__ void __launch_bounds__(THREADS)
    bits_kernel(int64_t n, uint64_t *chosen, const float *x, const uint64_t *left, uint32_t limit, uint64_t wanted,
                const uint64_t *ties)
{
    DP_SHARED(uint32_t, greater, [PIECES]);
    DP_SHARED(uint32_t, tied, [PIECES]);
    const int word = (int)threadIdx.x;
    const int64_t at = (int64_t)blockIdx.x * (PIECES / 2) + word;
    uint64_t rest, before, bits = 0;

    look(greater, tied, n, x, left, limit);
    if (word >= PIECES / 2 || at >= (n + 63) / 64)
        return;
    before = ties[blockIdx.x];
    for (int i = 0; i < 2 * word; i++)
        before += (uint64_t)__popc(tied[i]);
    rest = wanted > before ? wanted - before : 0;
    for (int half = 0; half < 2; half++) {
        const uint32_t t = lowest(tied[2 * word + half], rest);

        bits |= (uint64_t)(greater[2 * word + half] | t) << (32 * half);
        rest -= (uint64_t)__popc(t);
    }
    chosen[at] = bits;
}

int dp_cuda_choose(struct dp_backend *be, const struct dp_choose *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "choose", err);
    const unsigned parts = dp_blocks(a->n, PART);
    uint64_t *ties;

    if (!cu)
        return -1;
    if (a->n < 0)
        return dp_cuda_refuse(cu, err, "%lld elements", (long long)a->n);
    if (!a->n)
        return 0;
    ties = static_cast<uint64_t *>(dp_cuda_scratch(cu, parts * sizeof *ties, err));
    if (!ties || DP_LAUNCH(cu, err, ties_kernel, parts, THREADS, 0, a->n, a->x, a->left, a->key, ties) < 0 ||
        DP_LAUNCH(cu, err, scan_kernel, 1, SCAN, 0, parts, dp_blocks(parts, SCAN), ties) < 0)
        return -1;
    return DP_LAUNCH(cu, err, bits_kernel, parts, THREADS, 0, a->n, a->chosen, a->x, a->left, a->key, a->ties, ties);
}
