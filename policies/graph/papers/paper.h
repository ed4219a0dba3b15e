/* SPDX-License-Identifier: BSD-3-Clause */
/* What the planners of papers.h share: each cuts one chain, the rest is here. */
#ifndef DP_POLICIES_GRAPH_PAPERS_PAPER_H
#define DP_POLICIES_GRAPH_PAPERS_PAPER_H

#include "policies/graph/papers/pieces.h"
#include "policies/graph/papers/papers.h"

/* The best answer so far. */
struct dp_paper_best {
    double objective_s; /* INFINITY: there is none */
    uint32_t n_stages, room;
    struct dp_graph_stage *stage; /* [room]: group, machines and replicas are set */
    uint32_t *stage_of_unit;      /* [units] */
    uint32_t *way_of;             /* [nodes] how each runs, where knows_ways */
    bool knows_ways;
    const struct dp_graph *g;     /* of the question: borrowed */
    const struct dp_units *u;
    bool recomputes;
    uint32_t more_weights, microbatch; /* see struct dp_graph_plan */
    bool was_ended;                    /* by the watch */
    char how[200];                     /* a line without its end */
};

/* Cut a chain: where that is better than *best, dp_paper_keep() and set what else is in it.
 * returns 0, or -1: out of memory. */
typedef int dp_paper_cut_fn(const struct dp_pieces *c, const struct dp_paper_ask *ask, struct dp_paper_best *best);
dp_paper_cut_fn dp_paper_cut_2bw, dp_paper_cut_alpa, dp_paper_cut_dapple, dp_paper_cut_piper, dp_paper_cut_classes;
/* The pieces of an order that dp_paper_cut_classes() can look at, in seconds. 0: too few for a plan worth having. */
uint32_t dp_paper_pieces_of_classes(const struct dp_classes *c, bool is_straight);
/* Piper over all cuts of best->u. is_too_many: = there are more than dp_paper_cuts_of_piper(), which orders are clustered to; then,
 * or without memory, returns -1, else 0. */
int dp_paper_all_of_piper(const struct dp_paper_ask *ask, struct dp_paper_best *best, bool *is_too_many, struct dp_err *err);
uint32_t dp_paper_cuts_of_piper(uint32_t devices, uint32_t n_edges);

/* Stage s has the pieces up to end[s]; stage: [n_stages], copied. n_stages <= best->room. */
void dp_paper_keep(struct dp_paper_best *best, const struct dp_pieces *c, double objective_s, const uint32_t *end,
                   const struct dp_graph_stage *stage, uint32_t n_stages);

/* Ask the watch, if there is one, whether to go on. returns: do so? */
bool dp_paper_go_on(const struct dp_paper_ask *ask, struct dp_paper_best *best);

/* bytes + kept * times within the limit, without overflow? */
bool dp_paper_fits(uint64_t bytes, uint64_t kept, uint64_t times, uint64_t limit);

#endif
