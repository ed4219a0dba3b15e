/* SPDX-License-Identifier: BSD-3-Clause */
/* Least and largest values, endings of words, orders for qsort() and medians. */
#ifndef DP_COMMON_NUMBERS_H
#define DP_COMMON_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint32_t dp_least_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint64_t dp_least_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t dp_most_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline int64_t dp_least_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Behind a word of which there are so many. */
static inline const char *dp_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* For qsort(): rising. No NaN among doubles. */
static inline int dp_by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static inline int dp_by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The upper median, one of the values; sorts them. n > 0. */
static inline uint64_t dp_median_u64(uint64_t *v, size_t n)
{
    qsort(v, n, sizeof *v, dp_by_u64);
    return v[n / 2];
}

static inline double dp_median_double(double *v, size_t n)
{
    qsort(v, n, sizeof *v, dp_by_double);
    return v[n / 2];
}

#endif
