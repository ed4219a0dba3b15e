/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of operators that nobody measured: a roofline of the device, times a residual that was learned from profiles of other
 * networks.
 *
 *   roof = launch + max(arithmetic / flops_per_s, traffic / bytes_per_s)        of forward and backward together
 *   time = roof * exp(sum over i of term[i] * feature[i])
 *
 * Arithmetic is three times the forward pass (two products of its size go back), traffic what both read and write. The
 * features have no unit, so that coefficients of one device say something of another: how much larger the operator is than
 * a launch, how much arithmetic there is for its traffic, how long its sums are, how large its window is. */
#ifndef DP_POLICIES_GRAPH_COSTS_COSTS_H
#define DP_POLICIES_GRAPH_COSTS_COSTS_H

#include "policies/graph/costs/operator.h"

#define DP_COSTS_TERMS 5        /* coefficients of a type of operators */
#define DP_COSTS_MAX_TYPES 256  /* in a file */
#define DP_COSTS_TEXT 256       /* bytes of a line of a file, with its NUL */
#define DP_COSTS_MEASURED 8     /* kinds of operators whose measuring is judged, and advised */

/* What a device attains, not what its vendor promises (device.h). All > 0. */
struct dp_costs_roof {
    double flops_per_s, bytes_per_s;
    double launch_s; /* of an operator, forward and backward together */
};

struct dp_costs_type {
    char type[DP_OPERATOR_TYPE];
    uint32_t operators;   /* that it was learned from */
    bool is_free;         /* took no time in any profile: a view, or what the profiler does not see */
    double forward_share; /* of the time, 0..1 */
    double term[DP_COSTS_TERMS];
    double low[DP_COSTS_TERMS], high[DP_COSTS_TERMS]; /* of the features that it was learned from: those of others are taken for these */
};

/* How much slower plans are than plans by measured times, in percent, over the questions of a comparison. */
struct dp_costs_error {
    double mean, median, worst;
};

struct dp_costs {
    char source[DP_COSTS_TEXT], licence[DP_COSTS_TEXT]; /* of the profiles */
    struct dp_costs_roof profiled;                      /* the device of the profiles, as fitted */
    uint32_t n_types;
    struct dp_costs_type type[DP_COSTS_MAX_TYPES]; /* sorted by name */
    /* Of networks whose family was left out; n_questions 0: not measured. */
    uint32_t n_questions;
    struct dp_costs_error roofline, estimate, with_measured;
};

/* A type of operators, or NULL: not learned, and the roofline stands. */
const struct dp_costs_type *dp_costs_find(const struct dp_costs *c, const char *type);

/* Seconds, forward and backward. */
double dp_costs_roof_s(const struct dp_operator *op, const struct dp_costs_roof *roof);
void dp_costs_features(const struct dp_operator *op, const struct dp_costs_roof *roof, double feature[DP_COSTS_TERMS]);
/* The same times the residual; 0 for what is free. c NULL: the roofline alone. */
double dp_costs_time_s(const struct dp_costs *c, const struct dp_operator *op, const struct dp_costs_roof *roof);

/* Overwrite the times of a profile's nodes with estimates. keeps_measured: but for nodes with a time above 0, and for nodes with
 * the same text and sizes as one of those; the estimates of the others are then scaled by what those take.
 * returns 0, or -1: DP_EINVAL (not a profile, or its nodes have no text; an operator would take too long), DP_ENOMEM. */
int dp_costs_estimate(const struct dp_costs *c, const struct dp_costs_roof *roof, bool keeps_measured, struct dp_graph *g,
                      struct dp_err *err);

/* The operators whose measuring says most: of the kinds (text and sizes) with the largest sum of times in g, one each.
 * node: = indices. returns: how many, at most DP_COSTS_MEASURED; 0: out of memory, too. */
uint32_t dp_costs_advise(const struct dp_graph *g, uint32_t node[DP_COSTS_MEASURED]);

#endif
