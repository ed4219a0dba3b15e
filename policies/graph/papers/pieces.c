/* SPDX-License-Identifier: BSD-3-Clause */
/* See pieces.h. The sums are made for single units first. A limit for the bytes of a cut says where may be cut; the fewest pieces
 * within it come from taking every piece as long as it may be. The least limit that gives few enough pieces is found by
 * bisection over the bytes that there are. */
#include "policies/graph/papers/pieces.h"

#include <stdlib.h>

static int allocate(struct dp_pieces *c, uint32_t n, struct dp_err *err)
{
    uint64_t **sums[] = {&c->compute_ns, &c->forward_ns, &c->param_bytes, &c->state_bytes, &c->kept_bytes, &c->cross_bytes};

    *c = (struct dp_pieces){.n = n, .n_units = n, .piece_of = calloc((size_t)n + 1, sizeof *c->piece_of)};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        *sums[i] = calloc((size_t)n + 1, sizeof **sums[i]);
        if (!*sums[i])
            return dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", n);
    }
    return c->piece_of ? 0 : dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", n);
}

/* An output crosses the cuts behind its unit, up to the last unit that takes it. */
static void sum_crossing(struct dp_pieces *c, const struct dp_graph *g, const struct dp_units *u)
{
    for (uint32_t e = 0; e < g->n_edges;) {
        uint32_t from = g->edge[e].from, unit = u->unit_of[from], last = 0;

        for (; e < g->n_edges && g->edge[e].from == from; e++) { /* edges are sorted */
            uint32_t to = u->unit_of[g->edge[e].to];

            if (to != DP_NO_UNIT && c->piece_of[to] > last)
                last = c->piece_of[to];
        }
        if (unit == DP_NO_UNIT || last <= c->piece_of[unit])
            continue;
        c->cross_bytes[c->piece_of[unit] + 1] += g->node[from].output_bytes; /* changes, for now */
        c->cross_bytes[last + 1] -= g->node[from].output_bytes;
    }
    for (uint32_t i = 1; i <= c->n; i++)
        c->cross_bytes[i] += c->cross_bytes[i - 1];
}

static void sum_units(struct dp_pieces *c, const struct dp_graph *g, const struct dp_units *u, const uint32_t *order)
{
    for (uint32_t i = 0; i < c->n; i++)
        c->piece_of[order[i]] = i;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct dp_graph_node *node = &g->node[i];
        uint32_t at;

        if (u->unit_of[i] == DP_NO_UNIT)
            continue;
        at = c->piece_of[u->unit_of[i]] + 1;
        c->compute_ns[at] += dp_graph_accel_ns(node);
        c->forward_ns[at] += node->forward_ns;
        c->param_bytes[at] += node->param_bytes;
        c->state_bytes[at] += node->bytes;
        c->kept_bytes[at] += node->kept_bytes;
    }
    for (uint32_t i = 1; i <= c->n; i++) {
        c->compute_ns[i] += c->compute_ns[i - 1];
        c->forward_ns[i] += c->forward_ns[i - 1];
        c->param_bytes[i] += c->param_bytes[i - 1];
        c->state_bytes[i] += c->state_bytes[i - 1];
        c->kept_bytes[i] += c->kept_bytes[i - 1];
    }
    sum_crossing(c, g, u);
}

/* The fewest pieces that end at cuts within the limit, each of at most most_ns or one unit. end: [n] = units before the end of
 * each; last: [n + 1], for the last such cut up to each. returns: how many, UINT32_MAX: there is no such way. */
static uint32_t take_long(const struct dp_pieces *c, uint64_t most_ns, uint64_t limit, uint32_t *end, uint32_t *last)
{
    uint32_t n = 0;

    last[0] = 0;
    for (uint32_t i = 1; i <= c->n; i++)
        last[i] = i == c->n || c->cross_bytes[i] <= limit ? i : last[i - 1];
    for (uint32_t from = 0; from < c->n; n++) {
        uint32_t low = from, high = c->n;

        while (low < high) {
            uint32_t middle = high - (high - low) / 2;

            if (c->compute_ns[middle] - c->compute_ns[from] <= most_ns)
                low = middle;
            else
                high = middle - 1;
        }
        if (last[low] <= from && last[from + 1] <= from) /* nor may be cut behind a single unit */
            return UINT32_MAX;
        from = last[low] > from ? last[low] : from + 1;
        end[n] = from;
    }
    return n;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Pieces of single units become those that end so. */
static void join_units(struct dp_pieces *c, const uint32_t *end, uint32_t n)
{
    uint64_t *sums[] = {c->compute_ns, c->forward_ns, c->param_bytes, c->state_bytes, c->kept_bytes, c->cross_bytes};
    uint32_t *piece = c->piece_of;

    for (uint32_t u = 0; u < c->n_units; u++) {
        uint32_t low = 0, high = n - 1; /* the first piece that ends behind the unit */

        while (low < high) {
            uint32_t middle = low + (high - low) / 2;

            if (end[middle] > piece[u])
                high = middle;
            else
                low = middle + 1;
        }
        piece[u] = low;
    }
    for (size_t s = 0; s < sizeof sums / sizeof *sums; s++)
        for (uint32_t i = 0; i < n; i++) /* end[i] > i: nothing is overwritten that is still to be read */
            sums[s][i + 1] = sums[s][end[i]];
    c->n = n;
}

static void cluster(struct dp_pieces *c, uint32_t most, uint64_t *limits, uint32_t *end, uint32_t *last)
{
    uint64_t most_ns = c->compute_ns[c->n] / most + c->compute_ns[c->n] / most / 2;
    uint32_t low = 0, high = c->n; /* of the limits, ascending */

    for (uint32_t i = 0; i <= c->n; i++)
        limits[i] = c->cross_bytes[i];
    qsort(limits, (size_t)c->n + 1, sizeof *limits, ascending);
    while (take_long(c, most_ns, UINT64_MAX, end, last) > most) /* units of unequal weight may not go together so well */
        most_ns += most_ns / 4 + 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (take_long(c, most_ns, limits[middle], end, last) <= most)
            high = middle;
        else
            low = middle + 1;
    }
    join_units(c, end, take_long(c, most_ns, limits[low], end, last));
}

int dp_pieces_create(struct dp_pieces *c, const struct dp_graph *g, const struct dp_units *u, const uint32_t *order, uint32_t most,
                    struct dp_err *err)
{
    uint64_t *limits = NULL;
    uint32_t *end = NULL, *last = NULL;
    int rc = allocate(c, u->n, err);

    if (rc == 0)
        sum_units(c, g, u, order);
    if (rc == 0 && c->n > most) {
        limits = calloc((size_t)c->n + 1, sizeof *limits);
        end = calloc((size_t)c->n + 1, sizeof *end);
        last = calloc((size_t)c->n + 1, sizeof *last);
        if (limits && end && last)
            cluster(c, most, limits, end, last);
        else
            rc = dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", c->n);
    }
    free(limits);
    free(end);
    free(last);
    return rc;
}

void dp_pieces_release(struct dp_pieces *c)
{
    free(c->piece_of);
    free(c->compute_ns);
    free(c->forward_ns);
    free(c->param_bytes);
    free(c->state_bytes);
    free(c->kept_bytes);
    free(c->cross_bytes);
    *c = (struct dp_pieces){0};
}
