/* SPDX-License-Identifier: BSD-3-Clause */
/* A network as a graph: nodes with costs, edges along which activations (or gradients) flow.
 *
 * Such graphs are of two kinds (read.h):
 *   DP_GRAPH_PROFILE  PipeDream's graph.txt: one node a layer with its forward and backward time, the
 *                     bytes of its output and of its parameters. What a transfer costs follows from
 *                     the bandwidth (dp_graph_set_bandwidth). Piper's JSON is read as such a graph,
 *                     though it has sizes of memory of its own, and a bandwidth.
 *   DP_GRAPH_COSTS    dnn-partitioning's JSON: forward and backward nodes apart, times on an
 *                     accelerator and on a CPU, the time of a transfer out of each node, and colours:
 *                     nodes of one colour (a layer's forward and backward) stay together.
 *
 * Times are ns, sizes bytes. Every number was checked on the way in (DP_GRAPH_MAX_*), so that the sum
 * over a whole graph, doubled, fits into 64 bits. A finished graph has no cycle, no edge twice, and no
 * edge from a backward to a forward node.
 */
#ifndef DP_POLICIES_GRAPH_GRAPH_H
#define DP_POLICIES_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_GRAPH_MAX_NODES (1u << 17) /* measured: 550 MB to plan for so many with four edges each */
#define DP_GRAPH_MAX_EDGES (1u << 20) /* eight a node */
#define DP_GRAPH_MAX_NS UINT64_C(10000000000000) /* 10 000 s in one node or transfer */
#define DP_GRAPH_MAX_BYTES (UINT64_C(1) << 45)   /* 32 TiB in one node */
#define DP_GRAPH_STATE_OF_PARAMETERS 4           /* weights, gradients and two moments of an optimizer */

enum dp_graph_kind { DP_GRAPH_PROFILE, DP_GRAPH_COSTS };

/* A way to run a node on an accelerator. */
struct dp_graph_way {
    uint64_t forward_ns, backward_ns;
    uint64_t param_bytes, bytes, kept_bytes; /* as in the node */
};

struct dp_graph_node {
    char *name;      /* owned by the graph; any bytes but NUL */
    char *text;      /* owned by the graph: what the file says that it does; NULL: it does not say */
    uint32_t colour; /* 0..n_colours-1 */
    bool is_backward;
    bool is_input;       /* a source that stands for the data: costs nothing, belongs to the first stage */
    bool only_on_cpu;    /* cannot run on an accelerator */
    uint64_t forward_ns; /* on an accelerator; 0 for a backward node */
    uint64_t backward_ns;
    uint64_t cpu_ns;  /* both, on a CPU; DP_GRAPH_COSTS only */
    uint64_t send_ns; /* moving its output, which its own device and every device that takes it pay once */
    uint64_t output_bytes, param_bytes; /* DP_GRAPH_PROFILE only */
    uint64_t bytes;      /* memory on the device that holds it: of graph.txt the state of its parameters */
    uint64_t kept_bytes; /* besides, of each microbatch under way: of graph.txt its output */
    struct dp_graph_way *way; /* [n_ways] owned by the graph: all ways, of which the numbers above are one; NULL: they are the only one */
    uint32_t n_ways;
};

struct dp_graph_edge {
    uint32_t from, to;
    uint32_t origin; /* where the file has it: a line from 1, or an index into edges[] */
};

struct dp_graph {
    enum dp_graph_kind kind;
    uint32_t n_nodes, n_edges, n_colours;
    struct dp_graph_node *node; /* [n_nodes], in the file's order */
    struct dp_graph_edge *edge; /* [n_edges], by (from, to) once finished */
    uint32_t room_nodes, room_edges;
    /* Do edges between backward nodes point the way that the forward ones point? Gradients flow against
     * it, but the published layer graphs copy the forward edges. Found by dp_graph_finish(): of the
     * backward edges between two colours that a forward edge joins, are there more along it than against? */
    bool is_backward_along;
    bool is_piper; /* DP_GRAPH_PROFILE out of Piper's JSON */
    /* What the file asks for; graph.txt asks for nothing. */
    uint32_t n_accel, n_cpus;
    uint64_t accel_bytes;  /* memory of an accelerator, UINT64_MAX: no limit */
    double bytes_per_s;    /* 0: the file does not say; Piper's only */
    uint32_t microbatches; /* of an iteration; 0: the file does not say */
};

/* Empty, without a limit of memory; owns nothing yet. */
void dp_graph_init(struct dp_graph *g, enum dp_graph_kind kind);
/* Free nodes, their names, their texts and edges; the graph is empty again, of the same kind. */
void dp_graph_release(struct dp_graph *g);

/* Append a copy of *node (its name, text and ways too). returns: its index, or -1 (DP_ENOMEM, DP_EINVAL: too many). */
int64_t dp_graph_add_node(struct dp_graph *g, const struct dp_graph_node *node, struct dp_err *err);
/* from and to are indices of nodes. returns 0 or -1. */
int dp_graph_add_edge(struct dp_graph *g, uint32_t from, uint32_t to, uint32_t origin, struct dp_err *err);

/* Which of the edge's nodes must not be on a later stage than the other? returns: false where the edge
 * does not say, since it leads from a forward to a backward node. */
bool dp_graph_edge_order(const struct dp_graph *g, uint32_t edge, uint32_t *before, uint32_t *after);

/* Sort the edges, keep one of those that are there twice, look for a cycle.
 * cycle_origin: = origin of an edge on a cycle when there is one (then DP_EINVAL), else 0; may be NULL.
 * returns 0, or -1; the text says which node. */
int dp_graph_finish(struct dp_graph *g, uint32_t *cycle_origin, struct dp_err *err);

/* DP_GRAPH_PROFILE: send_ns = 2 * output_bytes / bandwidth, the activation forward and its gradient
 * back, as in PipeDream. returns 0, or -1 when a transfer would take longer than DP_GRAPH_MAX_NS. */
int dp_graph_set_bandwidth(struct dp_graph *g, double bytes_per_s, struct dp_err *err);

/* The way in which a node runs now. */
struct dp_graph_way dp_graph_way_now(const struct dp_graph_node *node);
/* Node i runs in way_of[i] from now on; what has no ways stays as it is. */
void dp_graph_take_ways(struct dp_graph *g, const uint32_t *way_of);

/* On an accelerator: forward and backward. */
uint64_t dp_graph_accel_ns(const struct dp_graph_node *node);

#endif
