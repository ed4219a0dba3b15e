/* SPDX-License-Identifier: BSD-3-Clause */
/* Generated profiles whose ideals are too many: networks of irregular cells, for the benchmark and the tests of searches for
 * orders. */
#ifndef DP_POLICIES_GRAPH_BENCH_CELLS_H
#define DP_POLICIES_GRAPH_BENCH_CELLS_H

#include <stdio.h>

#include "policies/graph/graph.h"
#include "policies/graph/search/draw.h"

#define DP_CELL_NODES 20u /* of a cell, its join among them */

static inline int dp_cells_add_node(struct dp_graph *g, uint64_t *draws, struct dp_err *err)
{
    char name[16];
    struct dp_graph_node node = {.name = name, .colour = g->n_nodes};
    uint64_t times;

    snprintf(name, sizeof name, "n%u", g->n_nodes);
    node.forward_ns = (uint64_t)(dp_draw_below(draws, 4) ? dp_draw_below(draws, 200) + 1 : dp_draw_below(draws, 2000)) * 1000;
    node.backward_ns = 2 * node.forward_ns;
    times = dp_draw_below(draws, 7) + 1;
    node.output_bytes = times << (10 + dp_draw_below(draws, 6));
    node.param_bytes = node.forward_ns / 10;
    node.bytes = DP_GRAPH_STATE_OF_PARAMETERS * node.param_bytes;
    node.kept_bytes = node.output_bytes;
    return dp_graph_add_node(g, &node, err) < 0 ? -1 : 0;
}

/* A network of n nodes: each takes one or two outputs of its cell, or of the joins of the two cells before. *g is finished and
 * the caller's to release, whatever comes back. returns 0 or -1. */
static inline int dp_cells_make(struct dp_graph *g, uint32_t n, uint64_t seed, struct dp_err *err)
{
    uint64_t draws = dp_draw_stream(seed, n);
    int rc = 0;

    dp_graph_init(g, DP_GRAPH_PROFILE);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        uint32_t cell = i / DP_CELL_NODES, place = i % DP_CELL_NODES, first = i - place;

        rc = dp_cells_add_node(g, &draws, err);
        for (uint32_t k = dp_draw_below(&draws, 2) + 1; rc == 0 && i && k; k--) {
            uint32_t back = dp_draw_below(&draws, 3) + 1, from; /* near, mostly: branches of some length */

            if (place >= back && dp_draw_below(&draws, 8))
                from = i - back;
            else if (cell)
                from = first - 1 - (cell > 1 && dp_draw_below(&draws, 2) ? DP_CELL_NODES : 0);
            else
                from = 0;
            rc = dp_graph_add_edge(g, from, i, 0, err);
        }
        for (uint32_t v = first; rc == 0 && place == DP_CELL_NODES - 1 && v < i; v += 3) /* it joins a third of the cell */
            rc = dp_graph_add_edge(g, v, i, 0, err);
    }
    g->n_colours = g->n_nodes;
    return rc == 0 ? dp_graph_finish(g, NULL, err) : rc;
}

#endif
