/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of elements as bitmaps of 64-bit words. */
#ifndef DP_COMMON_BITS_H
#define DP_COMMON_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t dp_bits_words(int64_t n)
{
    return ((size_t)n + 63) / 64;
}

static inline bool dp_bits_get(const uint64_t *bits, int64_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

static inline void dp_bits_set(uint64_t *bits, int64_t i)
{
    bits[i >> 6] |= (uint64_t)1 << (i & 63);
}

static inline int64_t dp_bits_count(const uint64_t *bits, int64_t n)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n >> 6; i++)
        sum += __builtin_popcountll(bits[i]);
    if (n & 63)
        sum += __builtin_popcountll(bits[n >> 6] & (((uint64_t)1 << (n & 63)) - 1));
    return sum;
}

#endif
