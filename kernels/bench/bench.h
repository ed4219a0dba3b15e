/* SPDX-License-Identifier: BSD-3-Clause */
/* What the benchmarks share: medians. */
#ifndef DP_KERNELS_BENCH_BENCH_H
#define DP_KERNELS_BENCH_BENCH_H

#include <jansson.h>

#include "kernels/bench/mask.h"

#define DP_BENCH_MAX_ROUNDS 101 /* odd, for the median */

/* Of n samples, which it sorts: the median, and (largest - smallest) / median. */
struct dp_bench_result {
    double median, spread;
};
/* n >= 1, whatever the unit; the median of an even number is the mean of the two in the middle. */
struct dp_bench_result dp_bench_summarise(double *samples, int n);
/* The same as JSON: median, min, max. The caller frees it. */
json_t *bench_times_json(double *samples, int n);
json_t *bench_spread_json(const struct bench_spread *s);

#endif
