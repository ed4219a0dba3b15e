/* SPDX-License-Identifier: BSD-3-Clause */
/* What a planner moves: the units of a graph, the nodes that cannot be parted.
 *
 * One unit holds (1) the nodes of one colour, forward and backward; (2) everything on a cycle that
 * arises when (1) is seen as one thing; (3) a piece without work of its own (a weight, a view) that
 * touches one other unit only: it goes with that one, and no answer gets worse by it. Inputs of a
 * profile are in no unit (DP_NO_UNIT): they cost nothing and belong to the first stage.
 *
 * Order: a forward edge u -> v means that u's unit is not on a later stage than v's; so does the edge
 * v' -> u' along which the gradient comes back. A plan in which this holds for a sequence of its stages is
 * one in which data visits every stage once on the way forward and once on the way back: its quotient has no
 * cycle.
 *
 * Traffic: every node that sends is a net, with the units of the node and of those that take its
 * output. A device that holds some, but not all of a net pays net_ns once: the sender for sending, each
 * taker for receiving, however many edges there are (Tarnawski et al., NeurIPS'20, "Efficient algorithms
 * for device placement of DNN graph operators").
 */
#ifndef DP_POLICIES_GRAPH_UNITS_H
#define DP_POLICIES_GRAPH_UNITS_H

#include "policies/graph/graph.h"

#define DP_NO_UNIT UINT32_MAX

struct dp_units {
    uint32_t n;               /* in an order that no edge contradicts */
    uint64_t *accel_ns;       /* [n] forward and backward */
    uint64_t *cpu_ns;         /* [n] */
    uint64_t *bytes;          /* [n] */
    uint64_t *kept_bytes;     /* [n] besides, of each microbatch under way */
    bool *only_on_cpu;        /* [n] */
    uint32_t *pred_at, *pred; /* CSR: units that come no later, [n + 1] and their list */
    uint32_t *succ_at, *succ; /* the same edges the other way */
    uint32_t n_nets;
    uint64_t *net_ns;             /* [n_nets] > 0 */
    uint32_t *net_size;           /* [n_nets] units of it, >= 2 */
    uint32_t *net_of_at, *net_of; /* CSR: nets of a unit */
    uint32_t *unit_of;            /* [n_nodes of the graph] or DP_NO_UNIT */
};

/* g: finished, outlives nothing here. returns 0, or -1 (DP_ENOMEM). */
int dp_units_create(struct dp_units *u, const struct dp_graph *g, struct dp_err *err);
void dp_units_release(struct dp_units *u);

#endif
