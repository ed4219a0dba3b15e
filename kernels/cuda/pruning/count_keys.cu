/* SPDX-License-Identifier: BSD-3-Clause */
/* How many keys fall into each bin. A block counts PART elements in shared memory (8 KiB of bins) and adds what is not 0 to
 * memory; integers, so that nobody's order shows. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define PART 16384  /* elements of a block */
#define MOST_BITS 11 /* of the number of a bin, as backend.h says */

static __global__ void __launch_bounds__(THREADS)
    count_kernel(int64_t n, const float *x, const uint64_t *left, uint32_t prefix, uint32_t shift, uint32_t bits,
                 unsigned long long *bins)
{
    DP_SHARED(uint32_t, counts, [1 << MOST_BITS]);
    const int64_t first = (int64_t)blockIdx.x * PART, end = n < first + PART ? n : first + PART;
    const uint32_t n_bins = 1u << bits;

    for (uint32_t b = threadIdx.x; b < n_bins; b += THREADS)
        counts[b] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS) {
        const uint32_t key = __float_as_uint(x[i]) & 0x7fffffffu;

        if ((!left || (left[i / 64] >> (i % 64) & 1)) && key >> (shift + bits) == prefix >> (shift + bits))
            atomicAdd(&counts[key >> shift & (n_bins - 1)], 1u);
    }
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < n_bins; b += THREADS)
        if (counts[b])
            atomicAdd(&bins[b], (unsigned long long)counts[b]);
}

int dp_cuda_count_keys(struct dp_backend *be, const struct dp_count_keys *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "count_keys", err);

    if (!cu)
        return -1;
    if (a->n < 0 || a->bits > MOST_BITS || a->shift > 31 || a->shift + a->bits > 31)
        return dp_cuda_refuse(cu, err, "%lld elements, %u bits from bit %u on", (long long)a->n, a->bits, a->shift);
    return DP_LAUNCH(cu, err, count_kernel, dp_blocks(a->n, PART), THREADS, 0, a->n, a->x, a->left, a->prefix, a->shift,
                     a->bits, reinterpret_cast<unsigned long long *>(a->bins));
}
