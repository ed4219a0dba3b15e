/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of a seed, the same on every machine: splitmix64 (Steele, Lea, Flood 2014, OOPSLA), which
 * passes from state to state by adding a constant, so that a number can also be had by its place. */
#ifndef DP_POLICIES_CLUSTER_GENERATE_DRAW_H
#define DP_POLICIES_CLUSTER_GENERATE_DRAW_H

#include <stdint.h>

#include "common/err.h"

struct dp_cluster_draw {
    uint64_t state; /* the seed, to begin with */
};

/* [0, 1) and (0, 1] */
double dp_cluster_draw_next(struct dp_cluster_draw *d);
double dp_cluster_draw_positive(struct dp_cluster_draw *d);
/* The number of a seed at a place. */
double dp_cluster_draw_at(uint64_t seed, uint64_t place);

/* Gamma distribution of mean shape * scale (Marsaglia and Tsang 2000, ACM TOMS 26). shape >= 1. */
double dp_cluster_draw_gamma(struct dp_cluster_draw *d, double shape, double scale);

enum dp_cluster_kind { DP_CLUSTER_CONSTANT, DP_CLUSTER_EXPONENTIAL, DP_CLUSTER_UNIFORM, DP_CLUSTER_LOG_UNIFORM, DP_CLUSTER_CHOICES };

#define DP_CLUSTER_MAX_CHOICES 64u /* that a distribution lists by hand */

struct dp_cluster_distribution {
    enum dp_cluster_kind kind;
    double a, b; /* the value; the mean; from a to b */
    uint32_t n;  /* choices */
    double value[DP_CLUSTER_MAX_CHOICES], weight[DP_CLUSTER_MAX_CHOICES];
};

/* One number of a distribution; uses up one draw of d, a constant none. Exponential: -mean ln(u), u from (0, 1].
 * Log-uniform: the logarithm is drawn evenly. Choices: by weight. */
double dp_cluster_draw_from(struct dp_cluster_draw *d, const struct dp_cluster_distribution *from);

#endif
