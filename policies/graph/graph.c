/* SPDX-License-Identifier: BSD-3-Clause */
/* See graph.h. Arrays that grow by doubling; the search for a cycle is Kahn's, and follows the edges
 * that are left backwards until a node comes again, so that the message can name an edge of the cycle
 * and not one that merely leads to it. */
#include "policies/graph/graph.h"

#include <stdlib.h>
#include <string.h>

void dp_graph_init(struct dp_graph *g, enum dp_graph_kind kind)
{
    *g = (struct dp_graph){.kind = kind, .accel_bytes = UINT64_MAX};
}

void dp_graph_release(struct dp_graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        free(g->node[i].name);
        free(g->node[i].text);
        free(g->node[i].way);
    }
    free(g->node);
    free(g->edge);
    dp_graph_init(g, g->kind);
}

struct dp_graph_way dp_graph_way_now(const struct dp_graph_node *node)
{
    return (struct dp_graph_way){.forward_ns = node->forward_ns, .backward_ns = node->backward_ns, .param_bytes = node->param_bytes,
                                 .bytes = node->bytes, .kept_bytes = node->kept_bytes};
}

void dp_graph_take_ways(struct dp_graph *g, const uint32_t *way_of)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct dp_graph_node *node = &g->node[i];
        const struct dp_graph_way *w = node->n_ways ? &node->way[way_of[i]] : NULL;

        if (!w)
            continue;
        node->forward_ns = w->forward_ns;
        node->backward_ns = w->backward_ns;
        node->param_bytes = w->param_bytes;
        node->bytes = w->bytes;
        node->kept_bytes = w->kept_bytes;
    }
}

uint64_t dp_graph_accel_ns(const struct dp_graph_node *node)
{
    return node->forward_ns + node->backward_ns;
}

/* Room for one more of `n` things of `size` bytes. returns: the array, moved perhaps, or NULL. */
static void *grow(void *array, uint32_t n, uint32_t *room, size_t size)
{
    uint32_t more = *room ? *room * 2 : 64;
    void *moved;

    if (n < *room)
        return array;
    moved = realloc(array, more * size);
    if (moved)
        *room = more;
    return moved;
}

int64_t dp_graph_add_node(struct dp_graph *g, const struct dp_graph_node *node, struct dp_err *err)
{
    struct dp_graph_node *array, copy = *node;

    if (g->n_nodes == DP_GRAPH_MAX_NODES)
        return dp_err_set(err, DP_EINVAL, "more than %u nodes", DP_GRAPH_MAX_NODES);
    array = grow(g->node, g->n_nodes, &g->room_nodes, sizeof *array);
    if (array)
        g->node = array;
    copy.name = array ? strdup(node->name) : NULL;
    copy.text = copy.name && node->text ? strdup(node->text) : NULL;
    copy.way = copy.name && node->n_ways ? malloc(node->n_ways * sizeof *copy.way) : NULL;
    if (!copy.name || (node->text && !copy.text) || (node->n_ways && !copy.way)) {
        free(copy.name);
        free(copy.text);
        free(copy.way);
        return dp_err_set(err, DP_ENOMEM, "graph: out of memory");
    }
    if (copy.way)
        memcpy(copy.way, node->way, node->n_ways * sizeof *copy.way);
    g->node[g->n_nodes] = copy;
    return g->n_nodes++;
}

int dp_graph_add_edge(struct dp_graph *g, uint32_t from, uint32_t to, uint32_t origin, struct dp_err *err)
{
    struct dp_graph_edge *array;

    if (g->n_edges == DP_GRAPH_MAX_EDGES)
        return dp_err_set(err, DP_EINVAL, "more than %u edges", DP_GRAPH_MAX_EDGES);
    array = grow(g->edge, g->n_edges, &g->room_edges, sizeof *array);
    if (!array)
        return dp_err_set(err, DP_ENOMEM, "graph: out of memory");
    g->edge = array;
    g->edge[g->n_edges++] = (struct dp_graph_edge){from, to, origin};
    return 0;
}

static int by_ends(const void *a, const void *b)
{
    const struct dp_graph_edge *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->origin < y->origin ? -1 : x->origin > y->origin;
}

static void sort_edges(struct dp_graph *g)
{
    uint32_t n = 0;

    if (g->n_edges)
        qsort(g->edge, g->n_edges, sizeof *g->edge, by_ends);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        if (n && g->edge[n - 1].from == g->edge[i].from && g->edge[n - 1].to == g->edge[i].to)
            continue;
        g->edge[n++] = g->edge[i];
    }
    g->n_edges = n;
}

/* Remove nodes without predecessors until none is left. missing: [n_nodes] = predecessors that stay.
 * first: [n_nodes + 1] = edges of node i are [first[i], first[i + 1]). returns: nodes that stay. */
static uint32_t peel(const struct dp_graph *g, uint32_t *missing, uint32_t *first, uint32_t *ready)
{
    uint32_t n = 0, done = 0;

    for (uint32_t e = 0; e < g->n_edges; e++) {
        missing[g->edge[e].to]++;
        first[g->edge[e].from + 1]++;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        first[i + 1] += first[i];
        if (!missing[i])
            ready[n++] = i;
    }
    for (; done < n; done++) {
        for (uint32_t e = first[ready[done]]; e < first[ready[done] + 1]; e++) {
            if (--missing[g->edge[e].to] == 0)
                ready[n++] = g->edge[e].to;
        }
    }
    return g->n_nodes - n;
}

/* Every node that stayed has a predecessor that stayed: walking back comes upon a node again, and the
 * edge that does so is on a cycle. */
static uint32_t edge_on_cycle(const struct dp_graph *g, const uint32_t *missing, uint32_t *into)
{
    uint32_t at = 0;

    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (missing[g->edge[e].from] && missing[g->edge[e].to])
            into[g->edge[e].to] = e + 1;
    }
    while (!missing[at])
        at++;
    for (;;) {
        uint32_t e = into[at] - 1;

        if (into[at] == 0)
            return 0; /* cannot be */
        into[at] = 0;
        if (into[g->edge[e].from] == 0)
            return e;
        at = g->edge[e].from;
    }
}

bool dp_graph_edge_order(const struct dp_graph *g, uint32_t edge, uint32_t *before, uint32_t *after)
{
    uint32_t from = g->edge[edge].from, to = g->edge[edge].to;
    bool is_back = g->node[from].is_backward;

    if (is_back != g->node[to].is_backward)
        return false;
    *before = is_back && !g->is_backward_along ? to : from;
    *after = is_back && !g->is_backward_along ? from : to;
    return true;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t colour_key(uint32_t from, uint32_t to)
{
    return (uint64_t)from << 32 | to;
}

static int find_backward_way(struct dp_graph *g)
{
    uint64_t *forward = malloc(((size_t)g->n_edges + 1) * sizeof *forward);
    int64_t along = 0;
    uint32_t n = 0;

    if (!forward)
        return -1;
    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (!g->node[g->edge[e].to].is_backward)
            forward[n++] = colour_key(g->node[g->edge[e].from].colour, g->node[g->edge[e].to].colour);
    }
    qsort(forward, n, sizeof *forward, by_key);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const struct dp_graph_node *from = &g->node[g->edge[e].from], *to = &g->node[g->edge[e].to];
        uint64_t key = colour_key(from->colour, to->colour), mirror = colour_key(to->colour, from->colour);

        if (!from->is_backward || from->colour == to->colour)
            continue;
        along += bsearch(&key, forward, n, sizeof *forward, by_key) != NULL;
        along -= bsearch(&mirror, forward, n, sizeof *forward, by_key) != NULL;
    }
    free(forward);
    g->is_backward_along = along > 0;
    return 0;
}

int dp_graph_finish(struct dp_graph *g, uint32_t *cycle_origin, struct dp_err *err)
{
    uint32_t *missing = calloc((size_t)g->n_nodes + 1, sizeof *missing);
    uint32_t *first = calloc((size_t)g->n_nodes + 1, sizeof *first);
    uint32_t *scratch = calloc((size_t)g->n_nodes + 1, sizeof *scratch);
    int rc = 0;

    if (cycle_origin)
        *cycle_origin = 0;
    if (!missing || !first || !scratch) {
        rc = dp_err_set(err, DP_ENOMEM, "graph: out of memory");
        goto out;
    }
    sort_edges(g);
    if (find_backward_way(g) < 0) {
        rc = dp_err_set(err, DP_ENOMEM, "graph: out of memory");
        goto out;
    }
    if (peel(g, missing, first, scratch) > 0) {
        const struct dp_graph_edge *e;

        memset(scratch, 0, ((size_t)g->n_nodes + 1) * sizeof *scratch);
        e = &g->edge[edge_on_cycle(g, missing, scratch)];
        if (cycle_origin)
            *cycle_origin = e->origin;
        rc = dp_err_set(err, DP_EINVAL, "the edge from '%.80s' to '%.80s' closes a cycle",
                        g->node[e->from].name, g->node[e->to].name);
    }
out:
    free(missing);
    free(first);
    free(scratch);
    return rc;
}

int dp_graph_set_bandwidth(struct dp_graph *g, double bytes_per_s, struct dp_err *err)
{
    if (!(bytes_per_s > 0.0))
        return dp_err_set(err, DP_EINVAL, "a bandwidth of %g bytes/s", bytes_per_s);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        double ns = 2.0 * (double)g->node[i].output_bytes / bytes_per_s * 1e9;

        if (!(ns <= (double)DP_GRAPH_MAX_NS))
            return dp_err_set(err, DP_EINVAL, "node '%.80s': moving its output at %g bytes/s takes %.3g s",
                              g->node[i].name, bytes_per_s, ns / 1e9);
        g->node[i].send_ns = (uint64_t)(ns + 0.5);
    }
    return 0;
}
