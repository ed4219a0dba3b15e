/* SPDX-License-Identifier: BSD-3-Clause */
/* Small random graphs for the tests of policies/graph. */
#ifndef DP_TESTS_GRAPH_UTIL_H
#define DP_TESTS_GRAPH_UTIL_H

#include "policies/graph/graph.h"
#include "tests/unit/random.h"

/* Forward nodes 0..n-1 with edges to later ones only, by chance. Costs are small, so that ties are common. */
static inline void graph_make_nodes(struct dp_graph *g, uint64_t *seed, uint32_t n, uint32_t edge_percent)
{
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        struct dp_graph_node node = {.name = name, .colour = i};

        snprintf(name, sizeof name, "n%u", i);
        node.forward_ns = random_below(seed, 4) ? random_below(seed, 12) : 0;
        node.cpu_ns = node.forward_ns * random_below(seed, 4);
        node.send_ns = random_below(seed, 3) ? random_below(seed, 5) : 0;
        assert_true(dp_graph_add_node(g, &node, NULL) == i);
    }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (random_below(seed, 100) < edge_percent)
                assert_int_equal(dp_graph_add_edge(g, a, b, 0, NULL), 0);
    g->n_colours = n;
}

#endif
