/* SPDX-License-Identifier: BSD-3-Clause */
/* What the gradient (cutter_back.c) has of the way forwards (cutter.c). */
#ifndef DP_POLICIES_LEARN_CUTTER_INSIDE_H
#define DP_POLICIES_LEARN_CUTTER_INSIDE_H

#include "policies/learn/net/cutter.h"

/* [WIDTH] a unit after the last round. */
static inline const float *dp_cutter_unit(const struct dp_cutter_code *code, uint32_t unit)
{
    return code->x + ((size_t)DP_CUTTER_ROUNDS * code->n + unit) * DP_CUTTER_WIDTH;
}

/* Edges of a unit, both ways. */
static inline uint32_t dp_cutter_neighbours(const struct dp_units *u, uint32_t v)
{
    return u->pred_at[v + 1] - u->pred_at[v] + u->succ_at[v + 1] - u->succ_at[v];
}

/* mean: [WIDTH] = of the rows of x [units][WIDTH] of a unit and its neighbours. */
void dp_cutter_mean(float *mean, const struct dp_units *u, const float *x, uint32_t v);

#endif
