/* SPDX-License-Identifier: BSD-3-Clause */
/* A linear layer made up for timing: random numbers, one dense matrix and sparse ones of chosen
 * sparsity or pattern. Shared by the autotune (autotune.h) and by kernels/bench, so that what is tuned, what is
 * published and what trains is the same call. */
#ifndef DP_KERNELS_TIMED_LINEAR_H
#define DP_KERNELS_TIMED_LINEAR_H

#include "kernels/backend.h"

#define DP_TIMED_MAX_PATTERNS 40 /* sparsities or masks in one call: 8 of each granularity */

enum dp_timed_op { DP_TIMED_FORWARD, DP_TIMED_INPUT, DP_TIMED_WEIGHT, DP_TIMED_N_OPS };

/* A pattern in blocks of block_rows rows (kernels/granularity.h). keep: one bit per weight, row-major (common/bits.h),
 * whole blocks; NULL: random, with the fraction `sparsity`, 0..1, of zeros. */
struct dp_timed_pattern {
    double sparsity;
    int64_t block_rows;
    const uint64_t *keep;
};

struct dp_timed_linear;

/* n tokens through (c_out, c_in), with each of the patterns, the random ones from a fixed seed. format: how
 * activations lie for the sparse ops. NULL and err on failure. */
struct dp_timed_linear *dp_timed_linear_create(struct dp_backend *be, int64_t c_out, int64_t c_in, int64_t n,
                                               const struct dp_timed_pattern *patterns, int n_patterns,
                                               enum dp_token_format format, struct dp_err *err);
void dp_timed_linear_destroy(struct dp_timed_linear *p);

typedef uint64_t dp_timed_clock_fn(struct dp_backend *be); /* ns */

/* Time of each op by the clock, NULL: device time, dense (pattern -1) or with a pattern; ops below 50 us are repeated
 * and averaged. The first call of each warms up, its times are worth nothing. */
int dp_timed_linear_time(struct dp_timed_linear *p, int pattern, dp_timed_clock_fn *now, double ns[DP_TIMED_N_OPS],
                         struct dp_err *err);

/* A pattern, borrowed; bytes of its plan. */
const struct dp_sparse *dp_timed_linear_sparse(const struct dp_timed_linear *p, int pattern);
size_t dp_timed_linear_plan_bytes(const struct dp_timed_linear *p, int pattern);

/* Median of n numbers; sorts them. */
double dp_timed_median(double *x, int n);

#endif
