/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan of a graph is worth, found from the graph's nodes and edges alone: the planners work on
 * units and ideals, and are checked by code that knows neither. */
#ifndef DP_POLICIES_GRAPH_CHECK_H
#define DP_POLICIES_GRAPH_CHECK_H

#include "policies/graph/graph.h"

struct dp_stage_load {
    uint64_t accel_ns, cpu_ns; /* compute on either kind of device */
    uint64_t forward_ns;       /* part of accel_ns */
    uint64_t
        traffic_ns; /* each of its nodes that sends elsewhere once, each elsewhere that sends to it once */
    uint64_t bytes, kept_bytes;
    uint64_t param_bytes;
    uint64_t out_bytes; /* outputs of this stage and of those before it that a later stage takes, once each */
    bool only_on_cpu;
};

/* Is stage_of[n_nodes] a pipeline of n_stages: every node in a stage, nodes of a colour together, no
 * edge against the order of the stages (dp_graph_edge_order())? Then data visits every stage once on
 * the way forward and once on the way back: no cycle between stages in either direction.
 * returns 0, or -1 and what is wrong. */
int dp_graph_check(const struct dp_graph *g, const uint32_t *stage_of, uint32_t n_stages, struct dp_err *err);

/* The loads of such a plan. out: [n_stages] =. returns 0 or -1 (DP_ENOMEM). */
int dp_graph_loads(const struct dp_graph *g, const uint32_t *stage_of, uint32_t n_stages,
                   struct dp_stage_load *out, struct dp_err *err);

#endif
