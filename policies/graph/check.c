/* SPDX-License-Identifier: BSD-3-Clause */
/* See check.h. */
#include "policies/graph/check.h"

#include <stdlib.h>
#include <string.h>

static int check_colours(const struct dp_graph *g, const uint32_t *stage_of, struct dp_err *err)
{
    uint32_t *first = calloc((size_t)g->n_colours + 1, sizeof *first); /* node + 1 */
    int rc = 0;

    if (!first)
        return dp_err_set(err, DP_ENOMEM, "check of a plan: out of memory");
    for (uint32_t i = 0; rc == 0 && i < g->n_nodes; i++) {
        uint32_t *f = &first[g->node[i].colour];

        if (*f && stage_of[*f - 1] != stage_of[i])
            rc = dp_err_set(err, DP_EINVAL, "'%.80s' on stage %u and '%.80s' on stage %u belong together",
                            g->node[*f - 1].name, stage_of[*f - 1], g->node[i].name, stage_of[i]);
        *f = i + 1;
    }
    free(first);
    return rc;
}

int dp_graph_check(const struct dp_graph *g, const uint32_t *stage_of, uint32_t n_stages, struct dp_err *err)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (stage_of[i] >= n_stages)
            return dp_err_set(err, DP_EINVAL, "node '%.80s' is in no stage", g->node[i].name);
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        uint32_t before, after;

        if (dp_graph_edge_order(g, e, &before, &after) && stage_of[before] > stage_of[after])
            return dp_err_set(err, DP_EINVAL, "'%.80s' on stage %u comes before '%.80s' on stage %u",
                              g->node[before].name, stage_of[before], g->node[after].name, stage_of[after]);
    }
    return check_colours(g, stage_of, err);
}

/* Node `from` and the edges [e, end) that leave it. paid: [n_stages], from + 1 where it paid already. */
static void send(const struct dp_graph *g, const uint32_t *stage_of, uint32_t e, uint32_t end, uint32_t *paid,
                 struct dp_stage_load *out)
{
    uint32_t from = g->edge[e].from, own = stage_of[from], last = own;

    for (; e < end; e++) {
        uint32_t to = stage_of[g->edge[e].to];

        if (to != own && paid[to] != from + 1) {
            paid[to] = from + 1;
            out[to].traffic_ns += g->node[from].send_ns;
        }
        last = to > last ? to : last;
        if (to != own && paid[own] != from + 1) {
            paid[own] = from + 1;
            out[own].traffic_ns += g->node[from].send_ns;
        }
    }
    for (uint32_t s = own; s < last; s++)
        out[s].out_bytes += g->node[from].output_bytes;
}

int dp_graph_loads(const struct dp_graph *g, const uint32_t *stage_of, uint32_t n_stages,
                   struct dp_stage_load *out, struct dp_err *err)
{
    uint32_t *paid = calloc((size_t)n_stages + 1, sizeof *paid);

    if (!paid)
        return dp_err_set(err, DP_ENOMEM, "check of a plan: out of memory");
    memset(out, 0, n_stages * sizeof *out);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *node = &g->node[i];
        struct dp_stage_load *s = &out[stage_of[i]];

        s->accel_ns += dp_graph_accel_ns(node);
        s->forward_ns += node->forward_ns;
        s->cpu_ns += node->cpu_ns;
        s->bytes += node->bytes;
        s->kept_bytes += node->kept_bytes;
        s->param_bytes += node->param_bytes;
        s->only_on_cpu |= node->only_on_cpu;
    }
    for (uint32_t e = 0, end; e < g->n_edges; e = end) {
        for (end = e; end < g->n_edges && g->edge[end].from == g->edge[e].from;)
            end++;
        send(g, stage_of, e, end, paid, out);
    }
    free(paid);
    return 0;
}
