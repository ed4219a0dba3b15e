/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine can do at best, measured: the figures that benchmarks are compared with. */
#ifndef DP_KERNELS_BENCH_LIMITS_H
#define DP_KERNELS_BENCH_LIMITS_H

#include <stdint.h>

enum dp_limit {
    DP_LIMIT_FMA,    /* fused multiply-adds in registers, two operations each: GFLOP/s */
    DP_LIMIT_READ,   /* the sum of an array: GB/s */
    DP_LIMIT_TRIAD,  /* a = b + s c (McCalpin's STREAM), 12 bytes an element: GB/s */
    DP_LIMIT_UPDATE, /* four arrays, each read and written in place, 8 bytes an element: GB/s */
    DP_LIMIT_N
};

#define DP_LIMIT_MAX_THREADS 64 /* whose ids and shares lie on a stack */

/* backend: "cpu", "cpu:avx512" ...; threads: 1..DP_LIMIT_MAX_THREADS, each with its own share of the
 * `floats` floats that the arrays have together (for DP_LIMIT_FMA: how long a pass is, at least 256).
 * returns: 0 where there is no memory or no thread for it. */
double dp_limit_measure(enum dp_limit limit, const char *backend, int threads, int64_t floats);

#endif
