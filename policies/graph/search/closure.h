/* SPDX-License-Identifier: BSD-3-Clause */
/* What has to come along when a unit leaves its stage: whoever moves to a later stage takes its successors of the same
 * stage with it, whoever moves to an earlier one its predecessors. Then no edge leads backwards. */
#ifndef DP_POLICIES_GRAPH_SEARCH_CLOSURE_H
#define DP_POLICIES_GRAPH_SEARCH_CLOSURE_H

#include "policies/graph/units.h"

struct dp_closure {
    const struct dp_units *units; /* borrowed */
    uint32_t *mark;               /* [units] number of the closure that the unit was in last */
    uint32_t *unit;               /* [n] of the last closure */
    uint32_t n, number, most;
    uint64_t steps; /* edges that were looked at */
};

/* most: larger closures are not of interest. u must outlive it. returns 0 or -1 (DP_ENOMEM); either way release it. */
int dp_closure_create(struct dp_closure *c, const struct dp_units *u, uint32_t most, struct dp_err *err);
void dp_closure_release(struct dp_closure *c);

/* Sets c->unit and c->n for `unit`, which leaves its stage for a later (or an earlier) one. returns: is it of interest? */
bool dp_closure_find(struct dp_closure *c, const uint32_t *stage, uint32_t unit, bool is_later);

#endif
