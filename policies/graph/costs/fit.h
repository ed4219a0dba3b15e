/* SPDX-License-Identifier: BSD-3-Clause */
/* Coefficients of struct dp_costs from profiles whose operators were measured on one kind of device. */
#ifndef DP_POLICIES_GRAPH_COSTS_FIT_H
#define DP_POLICIES_GRAPH_COSTS_FIT_H

#include "policies/graph/costs/costs.h"

/* g: [n] finished profiles with their times; use: [n] which of them, NULL: all. Sets c->profiled and c->type; the rest of *c is
 * left as it is. The same profiles in the same order give the same numbers.
 * returns 0, or -1: DP_EINVAL (no operator with a time, or too many types), DP_ENOMEM. */
int dp_costs_fit(const struct dp_graph *g, uint32_t n, const bool *use, struct dp_costs *c, struct dp_err *err);

#endif
