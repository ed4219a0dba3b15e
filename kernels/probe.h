/* A linear layer made up for timing: random numbers, one dense matrix and sparse ones of chosen
 * sparsity. Shared by the autotune (autotune.h) and by kernels/bench, so that what is tuned, what is
 * published and what trains is the same call. */
#ifndef DP_KERNELS_PROBE_H
#define DP_KERNELS_PROBE_H

#include "kernels/backend.h"

#define DP_PROBE_MAX_PATTERNS 16

enum dp_probe_op { DP_PROBE_FORWARD, DP_PROBE_INPUT, DP_PROBE_WEIGHT, DP_PROBE_N_OPS };

/* A random pattern: fraction of zeros, 0..1, in blocks of 1 or 4 rows. */
struct dp_probe_pattern {
    double sparsity;
    int64_t block_rows;
};

struct dp_probe;

/* n tokens through (c_out, c_in), with each of the patterns, which come from a fixed seed. order: how
 * activations lie for the sparse ops. NULL and err on failure. */
struct dp_probe *dp_probe_create(struct dp_backend *be, int64_t c_out, int64_t c_in, int64_t n,
                                 const struct dp_probe_pattern *patterns, int n_patterns,
                                 enum dp_token_order order, struct dp_err *err);
void dp_probe_destroy(struct dp_probe *p);

/* Device time of each op, dense (pattern -1) or with a pattern; ops below 50 us are repeated and
 * averaged. The first call of each warms up, its times are worth nothing. */
int dp_probe_time(struct dp_probe *p, int pattern, double ns[DP_PROBE_N_OPS], struct dp_err *err);

/* Nonzeros and bytes of the plan of a pattern. */
int64_t dp_probe_nnz(const struct dp_probe *p, int pattern);
size_t dp_probe_plan_bytes(const struct dp_probe *p, int pattern);

/* Median of n numbers; sorts them. */
double dp_probe_median(double *x, int n);

#endif
