/* SPDX-License-Identifier: BSD-3-Clause */
/* One table of bench_linear: a matrix, dense and with several patterns of zeros, with each number of threads,
 * all in alternation: the three operations of a linear layer in as many tokens. */
#ifndef DP_KERNELS_BENCH_LINEAR_H
#define DP_KERNELS_BENCH_LINEAR_H

#include <jansson.h>
#include <time.h>

#include "kernels/bench/mask.h"
#include "kernels/bench/options.h"
#include "kernels/timed_linear.h"

#define BENCH_MAX_PATTERNS DP_TIMED_MAX_PATTERNS
#define BENCH_MAX_SPARSITIES (BENCH_MAX_PATTERNS / DP_N_GRANULARITIES) /* in one call */
#define BENCH_MAX_THREADS 4 /* numbers of threads that one call compares */

struct linear_options {
    const char *backend;
    int rounds;
    int n_threads, threads[BENCH_MAX_THREADS];
    clockid_t clock;           /* CLOCK_MONOTONIC, or else the device time of the calling thread */
    bool is_best;              /* compare the fastest rounds, not the medians */
    enum dp_token_format format; /* of the activations of sparse operations */
    int n_sparsities;
    double sparsity[BENCH_MAX_SPARSITIES]; /* of the random patterns */
    int n_granularities;
    int64_t granularity[DP_N_GRANULARITIES]; /* of the random patterns: rows of a block; those that fit a shape are measured */
};

struct linear_case {
    int64_t c_out, c_in, tokens;
    const struct bench_mask
        *mask;        /* (c_out, c_in): it and a random one of its density; NULL: as the options say */
    const char *path; /* of the mask */
};

/* be: one per number of threads. The caller frees the result, whose members doc/benchmarks.md has. NULL and
 * err on failure. */
json_t *linear_case_run(const struct linear_case *c, const struct linear_options *o,
                        struct dp_backend *const be[BENCH_MAX_THREADS], struct dp_err *err);

/* What it says, for people. */
void linear_table_print(json_t *result);

#endif
