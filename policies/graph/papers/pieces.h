/* SPDX-License-Identifier: BSD-3-Clause */
/* An order of a graph's units as a chain of pieces, with sums, for planners that cut chains. A long order is clustered: its
 * pieces are ranges of units then, and a stage is a range of pieces. */
#ifndef DP_POLICIES_GRAPH_PAPERS_PIECES_H
#define DP_POLICIES_GRAPH_PAPERS_PIECES_H

#include "policies/graph/units.h"

/* Pieces [from, to) have compute_ns[to] - compute_ns[from], and so on. */
struct dp_pieces {
    uint32_t n;            /* pieces */
    uint32_t n_units;
    uint32_t *piece_of;    /* [n_units] */
    uint64_t *compute_ns;  /* [n + 1] sums before a piece, all of them: forward and backward */
    uint64_t *forward_ns;
    uint64_t *param_bytes, *state_bytes, *kept_bytes;
    uint64_t *cross_bytes; /* [n + 1] no sum: outputs of units before the piece that it or a later one takes, once each */
};

/* order: [u->n], no unit before one that it needs. At most `most` pieces, 1 or more: none but single units has more than 1.5
 * times its share of the compute, or the least more than that with which they are so few; of the ways to cluster so, one whose
 * dearest cut, in bytes, is least.
 * returns 0 or -1 (DP_ENOMEM). Release it whatever comes back. */
int dp_pieces_create(struct dp_pieces *c, const struct dp_graph *g, const struct dp_units *u, const uint32_t *order, uint32_t most,
                    struct dp_err *err);
void dp_pieces_release(struct dp_pieces *c);

#endif
