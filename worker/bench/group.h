/* SPDX-License-Identifier: BSD-3-Clause */
/* One row of bench_train: a model at one or several sparsities, stepped in alternation with the measurement
 * of the processor's peak. */
#ifndef DP_WORKER_BENCH_GROUP_H
#define DP_WORKER_BENCH_GROUP_H

#include <jansson.h>

#include "kernels/bench/options.h"
#include "worker/bench/subject.h"

#define BENCH_MAX_VARIANTS 24 /* sparsities and masks of one row */
#define BENCH_MAX_THREADS 4 /* numbers of threads that one call compares */
#define BENCH_MAX_MASKS 8 /* each holds a checkpoint's bits */
#define BENCH_MAX_STEPS 1001 /* odd, for the median */

struct bench_options {
    const char *backend;
    int n_threads, threads[BENCH_MAX_THREADS]; /* each of them with all variants */
    int steps;
    clockid_t clock; /* see bench_subject_create() */
    bool clip, trace;
    int n_sparsities; /* 0: those of the row */
    double sparsity[BENCH_MAX_VARIANTS];
    int n_granularities;
    int64_t granularity[DP_N_GRANULARITIES]; /* of random zeros: rows of a block */
    int n_masks;
    const char *masks[BENCH_MAX_MASKS]; /* folders of checkpoints */
};

struct bench_row {
    struct bench_shape shape;
    int n_sparsities;
    double sparsity[BENCH_MAX_VARIANTS];
};

/* Build all variants with each number of threads, one step to warm up, then options->steps rounds of: peak,
 * one step of each variant. The caller frees the result; doc/benchmarks.md has its members. NULL and err on
 * failure. */
json_t *bench_group_run(const struct bench_row *row, const struct bench_options *options, struct dp_err *err);

/* For bench_peers, which runs programs in turns: build the row's one variant, say on stdout in one line of
 * JSON what it is, after the members of head; then for each line "N" of stdin make N steps and print {"ns":
 * [...], "loss": of the last, "peak_gflops"}. Ends with the input. */
int bench_group_follow(json_t *head, const struct bench_row *row, const struct bench_options *options,
                       struct dp_err *err);

#endif
