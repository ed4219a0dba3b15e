/* SPDX-License-Identifier: BSD-3-Clause */
/* The least load that a stage with a certain unit can have on an accelerator, whatever the plan: what its units compute, and
 * the nets that it does not hold as a whole. Both together are a submodular function of the stage, so that a minimal cut
 * between source and sink finds the least of it:
 *
 *   the unit is the source; units on its side are in the stage, and each of them costs its compute, an arc to the sink;
 *   a net costs once when its units are on both sides;
 *   with a unit behind the source all units between the two are in the stage, and likewise before it: arcs that cannot be cut.
 *
 * Nothing else that a plan has to keep is asked for, so no stage of any plan has less. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_FLOW_H
#define DP_POLICIES_GRAPH_MAXLOAD_FLOW_H

#include "policies/graph/units.h"

struct dp_flow {
    const struct dp_units *units; /* borrowed */
    uint32_t n_places;            /* units, then two for each net of three units or more */
    uint32_t *at;                 /* [n_places + 1] arcs of a place */
    struct dp_flow_arc *arc;
    uint32_t n_arcs;
    uint64_t *work_ns;          /* [units] compute */
    uint64_t *drain;            /* [n_places] what may flow from it to the sink still */
    uint32_t *seen, *from;      /* [n_places] number of the search that came here last, and by which arc */
    uint32_t *queue, number;    /* queue: [n_places] */
    uint32_t *touched;          /* [n_touched] places that have flow, with room for all */
    bool *is_touched;           /* [n_places] */
    uint32_t n_touched;
    uint8_t *side;              /* [units] of the source: before it, behind it or neither */
    uint64_t steps, max_steps;  /* arcs that were looked at, since it was made; where it ends */
};

/* On accelerators of that speed. u must outlive it. returns 0 or -1 (DP_ENOMEM); either way release it. */
int dp_flow_create(struct dp_flow *f, const struct dp_units *u, double speed, uint64_t max_steps, struct dp_err *err);
void dp_flow_release(struct dp_flow *f);

/* No stage with this unit has a lower load, in ns: the cut above, rounded down. Where f->max_steps ends it, it is lower than it
 * could be. */
uint64_t dp_flow_least_ns(struct dp_flow *f, uint32_t unit);
/* Likewise of stages that hold none of the units of `without` ([units], not the unit itself; whoever lies behind one of them that is
 * behind the unit is one of them, too, and whoever lies before one that is before it). */
uint64_t dp_flow_least_without_ns(struct dp_flow *f, uint32_t unit, const bool *without);

#endif
