/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of the options that several benchmarks have. What is wrong is an error with the option's text. */
#ifndef DP_KERNELS_BENCH_OPTIONS_H
#define DP_KERNELS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "kernels/granularity.h"

#define BENCH_MAX_SIDE (1 << 20) /* of a shape */

/* "7": from 1 to `most`. */
int bench_parse_count(const char *text, int most, int *out, struct dp_err *err);
/* "1,2": *n numbers from 1 to `most`, at most `cap`. */
int bench_parse_counts(const char *text, int most, int cap, int *out, int *n, struct dp_err *err);
/* "0,0.9": *n fractions, 0 <= x < 1, at most `cap`. */
int bench_parse_fractions(const char *text, int cap, double *out, int *n, struct dp_err *err);
/* "2x64x4": n numbers from 1 to BENCH_MAX_SIDE. */
int bench_parse_shape(const char *text, int n, int64_t *out, struct dp_err *err);
/* "4x1,32x32": names of kernels/granularity.h, or "both": weight and 4x1. out: rows of a block. */
int bench_parse_granularity(const char *text, int64_t out[DP_N_GRANULARITIES], int *n, struct dp_err *err);
/* "wall": CLOCK_MONOTONIC; "cpu": of the process */
int bench_parse_clock(const char *name, clockid_t *out, struct dp_err *err);
/* CPU time is a duration with one thread only. */
int bench_check_clock(clockid_t clock, const int *threads, int n, struct dp_err *err);

#endif
