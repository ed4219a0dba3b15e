/* SPDX-License-Identifier: BSD-3-Clause */
/* What pruning does to the loads: a trend learnt from the run's own history, and the loads at a sparsity. */
#ifndef DP_POLICIES_DECIDE_PRUNING_H
#define DP_POLICIES_DECIDE_PRUNING_H

#include "policies/policy.h"

/* The parameters that most layers have, those of a block; of several numbers that are as common the largest. Takes n_layers squared. */
uint64_t dp_most_common_params(const struct dp_layer_load *layer, uint32_t n_layers);

#define DP_PRUNE_LEVELS 32 /* 3 % apart at least, so down to a density of 0.4; then every other one goes */

/* Sums over the layers that can be pruned, once per density that the run has been at. */
struct dp_prune_level {
    double nnz, ns; /* ns: of one microbatch, forward and both backward parts */
    uint32_t n;     /* times that this density was measured */
};

struct dp_prune_trend {
    uint32_t n;
    struct dp_prune_level level[DP_PRUNE_LEVELS]; /* from dense to sparse */
};

/* One more measurement, on devices of speed 1. Densities closer than 3 % are one level. Nothing is learnt where one of these layers is
 * frozen: its time falls for another reason. */
void dp_prune_learn(struct dp_prune_trend *t, const struct dp_layer_load *layer, uint32_t n_layers);

/* Time that a nonzero less saves, in ns per nonzero; 0: not known yet. Time over nonzeros is flat while
 * matrices are dense, a line from where the sparse kernels win: so the steepest chord that ends at the
 * newest level is closest to the line. */
double dp_prune_slope(const struct dp_prune_trend *t);

/* Loads as they will be at `sparsity`: every prunable layer keeps the same part of what it has now, and
 * its time falls by slope (dp_prune_slope) for each nonzero; slope 0, and of frozen layers: DP_PRUNABLE_TIME of its time is
 * proportional to its nonzeros, as measured with 0.64 for blocks of the CPU backend.
 * out, opt_out: [n_layers] =; opt NULL: no optimizer times. */
#define DP_PRUNABLE_TIME 0.65
/* sparsity below that of now changes nothing. Layers that are not pruned stay; out may not be now. */
void dp_loads_at_sparsity(const struct dp_layer_load *now, const uint64_t *opt, double slope, uint32_t n_layers,
                          double sparsity, struct dp_layer_load *out, uint64_t *opt_out);

#endif
