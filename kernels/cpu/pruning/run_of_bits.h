/* SPDX-License-Identifier: BSD-3-Clause */
/* Bits of a set (common/bits.h) that begin anywhere in a word. */
#ifndef DP_KERNELS_CPU_PRUNING_RUN_OF_BITS_H
#define DP_KERNELS_CPU_PRUNING_RUN_OF_BITS_H

#include <stdint.h>

/* The lowest n (1 ... 64). */
static inline uint64_t dp_low_bits(int64_t n)
{
    return ~UINT64_C(0) >> (64 - n);
}

/* Bits i ... i + n - 1, n 1 ... 64, as the lowest ones of a word. Reads no word that has none of them. */
static inline uint64_t dp_run_of_bits(const uint64_t *bits, int64_t i, int64_t n)
{
    int64_t at = i & 63;
    uint64_t run = bits[i >> 6] >> at;

    if (at + n > 64)
        run |= bits[(i >> 6) + 1] << (64 - at);
    return run & dp_low_bits(n);
}

#endif
