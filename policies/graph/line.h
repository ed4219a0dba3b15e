/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders of a graph's units in which no edge leads backwards: what is left of a graph that has too many
 * ideals. Depth first keeps branches together, so that few activations cross a cut (the "-linearize"
 * of dnn-partitioning); which branch first matters, so there are several orders, and the caller takes
 * the best answer. */
#ifndef DP_POLICIES_GRAPH_LINE_H
#define DP_POLICIES_GRAPH_LINE_H

#include "policies/graph/units.h"

enum dp_line_kind {
    DP_LINE_DEPTH,      /* the unit that became ready last comes next; of several the last one */
    DP_LINE_DEPTH_BACK, /* of several the first one */
    DP_LINE_TIGHT,      /* the ready unit that lets the least traffic cross the cut behind it */
    DP_LINE_BREADTH,    /* first ready, first served */
    DP_N_LINES
};

/* order: [u->n] =. returns 0 or -1 (DP_ENOMEM). */
int dp_line_make(const struct dp_units *u, enum dp_line_kind kind, uint32_t *order, struct dp_err *err);

/* Does every unit of the order need the one before it? Then there is no other order. */
bool dp_line_is_chain(const struct dp_units *u, const uint32_t *order);

#endif
