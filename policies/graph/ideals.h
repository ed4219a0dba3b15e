/* SPDX-License-Identifier: BSD-3-Clause */
/* The ideals of a graph's units: sets that hold with every unit all that come before it. What lies
 * before a cut of a pipeline is one, so that a plan is a chain of ideals from nothing to everything,
 * and a stage the difference of two of them (Tarnawski et al., NeurIPS'20; PipeDream's antichains are
 * the same sets, seen from their last units).
 *
 * A chain of n units has n + 1 ideals, n units without edges 2^n: so there is a cap, and an order of
 * the units gives the n + 1 ideals of that order alone. */
#ifndef DP_POLICIES_GRAPH_IDEALS_H
#define DP_POLICIES_GRAPH_IDEALS_H

#include "policies/graph/units.h"

#define DP_IDEALS_CAP 100000u /* unless the caller says otherwise */

/* One unit less: ideal `id` is this one without `unit`. */
struct dp_ideal_step {
    uint32_t id, unit;
};

struct dp_ideals {
    uint32_t n;                /* the empty one is 0, the whole n - 1; a subset has a smaller number */
    uint32_t words;            /* of a bit set over the units */
    uint64_t *bits;            /* [n * words]; NULL: those of an order, where ideal i is its first i units */
    uint32_t *rank;            /* [units] of an order: place of the unit in it; else NULL */
    uint32_t *sub_at;          /* [n + 1] */
    struct dp_ideal_step *sub; /* CSR: the ideals with one unit less; an entry of sub_at each */
};

/* All ideals. is_too_many: = whether there are more than `cap` (then -1, too, and DP_ENOMEM).
 * returns 0 or -1. */
int dp_ideals_create(struct dp_ideals *out, const struct dp_units *u, uint32_t cap, bool *is_too_many,
                     struct dp_err *err);

/* Those of one order: order[u->n] lists every unit once, none before one of its predecessors. */
int dp_ideals_create_chain(struct dp_ideals *out, const struct dp_units *u, const uint32_t *order,
                           struct dp_err *err);

/* Free the tables; a struct of zeroes may be released, too. */
void dp_ideals_release(struct dp_ideals *ideals);

/* Is the unit in it? For those of an order see `rank`. */
bool dp_ideal_has(const struct dp_ideals *ideals, uint32_t id, uint32_t unit);
/* Is ideal a a subset of b (or b itself)? */
bool dp_ideal_is_within(const struct dp_ideals *ideals, uint32_t a, uint32_t b);

#endif
