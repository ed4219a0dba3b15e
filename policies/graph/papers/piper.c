/* SPDX-License-Identifier: BSD-3-Clause */
/* Piper's program; papers.h has its objective. From the end of the pipeline to its front: least[cut][k] is the least time of the
 * slowest of the stages behind a cut, on k devices in all. That many microbatches are under way in the first of them, so the way
 * in which each of its layers runs is chosen with it. Cuts are all downsets of the graph, or those of one order of it.
 *
 * The fastest ways count first, by sums up to each cut. Only where these do not fit are the layers of a stage looked at one by
 * one: of time and memory only the pairs that no other one beats go on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/ideals.h"
#include "policies/graph/papers/paper.h"

#define MOST_WORK 1e8    /* pairs of cuts times pairs of numbers of devices, or edges: about a second */
#define MOST_CUTS 512.0  /* of a graph, whatever the work: what is summed up to each of them is kept */
#define MOST_PAIRS 1024u /* of time and memory, of the layers of a stage up to one; beyond it the slowest are left out */

/* Time and memory of the layers of a stage up to one of them. */
struct pair {
    double s;
    uint64_t bytes;
    uint32_t before, way; /* of the layer before it; how this one runs */
};

/* All up to a cut, each layer by its fastest way on so many replicas. */
struct sums {
    double s;
    uint64_t kept_bytes, bytes;
};

struct program {
    const struct dp_graph *g;
    const struct dp_units *u;
    const struct dp_paper_ask *ask;
    uint32_t n, words, devices;
    uint64_t *cut;      /* [n][words] units before each; a subset has a smaller number */
    struct sums *sums;  /* [devices + 1][n] */
    double *least;      /* [n][devices + 1] */
    uint32_t *to, *replicas; /* likewise: the first stage behind the cut */
    /* of the layers of a stage */
    struct pair *pair;  /* [MOST_PAIRS][g->n_nodes], then room for what comes of one more layer */
    uint32_t *layer;    /* [n_nodes] */
    double *rest_s;     /* [n_nodes + 1] the fastest ways of the layers from each on, and the least memory of them */
    uint64_t *rest_bytes;
};

/* ---- layers ---- */

static struct dp_graph_way way_of(const struct dp_graph_node *node, uint32_t way)
{
    return node->n_ways ? node->way[way] : dp_graph_way_now(node);
}

static uint32_t n_ways(const struct dp_graph_node *node)
{
    return node->n_ways ? node->n_ways : 1;
}

/* A layer's part of its stage's time. */
static double way_s(const struct program *p, const struct dp_graph_way *w, uint32_t replicas)
{
    const struct dp_plan_hierarchical *net = p->ask->net;
    double sync_s = 4.0 * (replicas - 1) / replicas * (double)w->param_bytes / net->bytes_per_s[0] / net->microbatches;

    return (double)(w->forward_ns + w->backward_ns) / 1e9 / replicas + sync_s;
}

static uint64_t way_bytes(const struct dp_graph_way *w, uint64_t under_way)
{
    uint64_t kept;

    return __builtin_mul_overflow(w->kept_bytes, under_way, &kept) || kept > UINT64_MAX / 4 ? UINT64_MAX / 4 : w->bytes + kept;
}

static bool has(const struct program *p, uint32_t cut, uint32_t unit)
{
    return p->cut[(size_t)cut * p->words + unit / 64] >> unit % 64 & 1;
}

static bool is_within(const struct program *p, uint32_t a, uint32_t b)
{
    for (uint32_t w = 0; w < p->words; w++)
        if (p->cut[(size_t)a * p->words + w] & ~p->cut[(size_t)b * p->words + w])
            return false;
    return true;
}

static bool is_between(const struct program *p, uint32_t node, uint32_t from, uint32_t to)
{
    uint32_t unit = p->u->unit_of[node];

    return unit != DP_NO_UNIT && has(p, to, unit) && !has(p, from, unit);
}

static void sum_ways(const struct program *p)
{
    for (uint32_t r = 1; r <= p->devices; r++)
        for (uint32_t i = 0; i < p->g->n_nodes; i++) {
            struct dp_graph_way best = way_of(&p->g->node[i], 0);

            for (uint32_t k = 1; k < n_ways(&p->g->node[i]); k++) {
                struct dp_graph_way w = way_of(&p->g->node[i], k);

                best = way_s(p, &w, r) < way_s(p, &best, r) ? w : best;
            }
            for (uint32_t c = 0; p->u->unit_of[i] != DP_NO_UNIT && c < p->n; c++)
                if (has(p, c, p->u->unit_of[i])) {
                    struct sums *sums = &p->sums[(size_t)r * p->n + c];

                    sums->s += way_s(p, &best, r);
                    sums->bytes += best.bytes;
                    sums->kept_bytes += best.kept_bytes;
                }
        }
}

/* ---- a stage ---- */

/* Bytes that come to the nodes between two cuts from before, and go from them to behind: each output once. */
static double moved_bytes(const struct program *p, uint32_t from, uint32_t to)
{
    double bytes = 0;

    for (uint32_t e = 0; e < p->g->n_edges;) {
        uint32_t node = p->g->edge[e].from, unit = p->u->unit_of[node];
        bool is_before = unit != DP_NO_UNIT && has(p, from, unit), is_inside = is_between(p, node, from, to), moves = false;

        for (; e < p->g->n_edges && p->g->edge[e].from == node; e++) { /* edges are sorted */
            uint32_t taker = p->g->edge[e].to;

            moves |= is_before ? is_between(p, taker, from, to)
                               : is_inside && p->u->unit_of[taker] != DP_NO_UNIT && !has(p, to, p->u->unit_of[taker]);
        }
        bytes += moves ? (double)p->g->node[node].output_bytes : 0;
    }
    return bytes;
}

/* The layers between two cuts, and what those from each on take at least. returns: how many. */
static uint32_t list_layers(const struct program *p, uint32_t from, uint32_t to, uint32_t replicas, uint64_t under_way)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->g->n_nodes; i++)
        if (is_between(p, i, from, to))
            p->layer[n++] = i;
    p->rest_s[n] = 0;
    p->rest_bytes[n] = 0;
    for (uint32_t i = n; i-- > 0;) {
        const struct dp_graph_node *node = &p->g->node[p->layer[i]];
        double s = INFINITY;
        uint64_t bytes = UINT64_MAX / 4;

        for (uint32_t k = 0; k < n_ways(node); k++) {
            struct dp_graph_way w = way_of(node, k);
            uint64_t b = way_bytes(&w, under_way);

            s = fmin(s, way_s(p, &w, replicas));
            bytes = b < bytes ? b : bytes;
        }
        p->rest_s[i] = p->rest_s[i + 1] + s;
        p->rest_bytes[i] = p->rest_bytes[i + 1] > UINT64_MAX / 4 ? UINT64_MAX / 4 : p->rest_bytes[i + 1] + bytes;
    }
    return n;
}

static int by_time(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->s != y->s)
        return x->s < y->s ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The least time below which the layers between two cuts fit, and how each runs then (way_of_node: [n_nodes] =, NULL: do not say).
 * returns: INFINITY: there is none below. */
static double choose_ways(const struct program *p, uint32_t from, uint32_t to, uint32_t replicas, uint64_t under_way, double below_s,
                          uint32_t *way_of_node)
{
    uint64_t limit = p->ask->net->accel_bytes;
    uint32_t n = list_layers(p, from, to, replicas, under_way), n_pairs = 1;
    struct pair *more = p->pair + (size_t)MOST_PAIRS * p->g->n_nodes, *list = NULL;

    for (uint32_t i = 0; i < n; i++) {
        const struct dp_graph_node *node = &p->g->node[p->layer[i]];
        const struct pair first = {.s = 0}, *before = i ? list : &first;
        uint32_t n_more = 0;

        for (uint32_t k = 0; k < n_ways(node); k++) {
            struct dp_graph_way w = way_of(node, k);
            double s = way_s(p, &w, replicas);
            uint64_t bytes = way_bytes(&w, under_way);

            for (uint32_t j = 0; j < n_pairs; j++)
                if (before[j].s + s + p->rest_s[i + 1] < below_s && bytes <= limit && before[j].bytes <= limit - bytes &&
                    p->rest_bytes[i + 1] <= limit - bytes - before[j].bytes)
                    more[n_more++] = (struct pair){before[j].s + s, before[j].bytes + bytes, j, k};
        }
        qsort(more, n_more, sizeof *more, by_time);
        list = p->pair + (size_t)MOST_PAIRS * i;
        n_pairs = 0;
        for (uint32_t j = 0; j < n_more && n_pairs < MOST_PAIRS; j++)
            if (!n_pairs || more[j].bytes < list[n_pairs - 1].bytes)
                list[n_pairs++] = more[j];
        if (!n_pairs)
            return INFINITY;
    }
    for (uint32_t i = n, at = 0; way_of_node && i-- > 0; at = p->pair[(size_t)MOST_PAIRS * i + at].before)
        way_of_node[p->layer[i]] = p->pair[(size_t)MOST_PAIRS * i + at].way;
    return n ? list[0].s : 0;
}

/* The time of a stage, where it is below. */
static double stage_s(const struct program *p, uint32_t from, uint32_t to, uint32_t replicas, uint64_t under_way, double moved,
                      double below_s)
{
    const struct sums *a = &p->sums[(size_t)replicas * p->n + from], *b = &p->sums[(size_t)replicas * p->n + to];
    double moved_s = 2.0 * moved / p->ask->net->bytes_per_s[0] / replicas, s = b->s - a->s + moved_s;

    if (s >= below_s || dp_paper_fits(b->bytes - a->bytes, b->kept_bytes - a->kept_bytes, under_way, p->ask->net->accel_bytes))
        return s;
    return choose_ways(p, from, to, replicas, under_way, below_s - moved_s, NULL) + moved_s;
}

/* ---- all of them ---- */

/* Stages between two cuts on so many replicas, in front of whatever lies behind. */
static void try_stage(const struct program *p, uint32_t from, uint32_t to, uint32_t replicas, double moved, double below_s)
{
    const double *rest = &p->least[(size_t)to * (p->devices + 1)];
    double *least = &p->least[(size_t)from * (p->devices + 1)], s = 0;
    uint64_t under_way = 0;

    for (uint32_t k = replicas; k <= p->devices && s < below_s; k++) {
        if (rest[k - replicas] >= fmin(least[k], below_s))
            continue;
        if (under_way != (k - 1) / replicas + 1) {
            under_way = (k - 1) / replicas + 1;
            s = stage_s(p, from, to, replicas, under_way, moved, below_s); /* rises with what is under way */
        }
        if (s < below_s && fmax(s, rest[k - replicas]) < least[k]) {
            least[k] = fmax(s, rest[k - replicas]);
            p->to[(size_t)from * (p->devices + 1) + k] = to;
            p->replicas[(size_t)from * (p->devices + 1) + k] = replicas;
        }
    }
}

static bool fill(const struct program *p, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    for (size_t i = 0; i < (size_t)p->n * (p->devices + 1); i++)
        p->least[i] = INFINITY;
    p->least[(size_t)(p->n - 1) * (p->devices + 1)] = 0;
    for (uint32_t from = p->n - 1; from-- > 0;) {
        if (!dp_paper_go_on(ask, best))
            return false;
        for (uint32_t to = from + 1; to < p->n; to++) {
            double moved = is_within(p, from, to) ? moved_bytes(p, from, to) : 0;

            for (uint32_t r = 1; r <= p->devices && is_within(p, from, to); r++)
                try_stage(p, from, to, r, moved, best->objective_s);
        }
    }
    return true;
}

static void keep(const struct program *p, uint32_t k, struct dp_paper_best *best)
{
    uint32_t width = p->devices + 1, slower = 0, n_layers = 0;

    best->objective_s = p->least[k];
    best->n_stages = 0;
    for (uint32_t from = 0, to; from < p->n - 1; from = to) {
        uint32_t r = p->replicas[(size_t)from * width + k], s = best->n_stages++;
        double moved_s;

        to = p->to[(size_t)from * width + k];
        moved_s = 2.0 * moved_bytes(p, from, to) / p->ask->net->bytes_per_s[0] / r;
        best->stage[s] = (struct dp_graph_stage){.machines = 1, .replicas = r};
        for (uint32_t u = 0; u < p->u->n; u++)
            if (has(p, to, u) && !has(p, from, u))
                best->stage_of_unit[u] = s;
        (void)choose_ways(p, from, to, r, (k - 1) / r + 1, fmax(best->objective_s - moved_s, 0) * (1 + 1e-9) + 1e-12, best->way_of);
        k -= r;
    }
    for (uint32_t i = 0; i < p->g->n_nodes; i++) {
        const struct dp_graph_node *node = &p->g->node[i];
        uint64_t fastest_ns = UINT64_MAX;

        for (uint32_t w = 0; w < node->n_ways; w++)
            if (node->way[w].forward_ns + node->way[w].backward_ns < fastest_ns)
                fastest_ns = node->way[w].forward_ns + node->way[w].backward_ns;
        n_layers += node->n_ways > 1;
        slower += node->n_ways && node->way[best->way_of[i]].forward_ns + node->way[best->way_of[i]].backward_ns > fastest_ns;
    }
    best->knows_ways = true;
    best->microbatch = 1;
    snprintf(best->how, sizeof best->how, "Piper: %.4g ms a microbatch; %u of %u layers with a choice run slower, in less memory",
             best->objective_s * 1e3, slower, n_layers);
}

/* p: g, u, ask, n, words and cut are set. */
static int search(struct program *p, struct dp_paper_best *best, struct dp_err *err)
{
    size_t n_nodes = (size_t)p->g->n_nodes + 1, cells;
    uint32_t most_ways = 1, k = 0;
    int rc = -1;

    for (uint32_t i = 0; i < p->g->n_nodes; i++)
        most_ways = n_ways(&p->g->node[i]) > most_ways ? n_ways(&p->g->node[i]) : most_ways;
    p->devices = p->ask->net->devices[0];
    cells = (size_t)p->n * (p->devices + 1);
    p->sums = calloc(cells, sizeof *p->sums);
    p->least = calloc(cells, sizeof *p->least);
    p->to = calloc(cells, sizeof *p->to);
    p->replicas = calloc(cells, sizeof *p->replicas);
    p->pair = malloc(MOST_PAIRS * (n_nodes + most_ways) * sizeof *p->pair);
    p->layer = calloc(n_nodes, sizeof *p->layer);
    p->rest_s = calloc(n_nodes, sizeof *p->rest_s);
    p->rest_bytes = calloc(n_nodes, sizeof *p->rest_bytes);
    if (!p->sums || !p->least || !p->to || !p->replicas || !p->pair || !p->layer || !p->rest_s || !p->rest_bytes) {
        dp_err_set(err, DP_ENOMEM, "%u cuts for %u devices: out of memory", p->n, p->devices);
        goto out;
    }
    sum_ways(p);
    if (fill(p, p->ask, best))
        for (uint32_t i = 1; i <= p->devices; i++) /* the others are idle */
            k = p->least[i] < best->objective_s && (!k || p->least[i] < p->least[k]) ? i : k;
    if (k)
        keep(p, k, best);
    rc = 0;
out:
    free(p->sums);
    free(p->least);
    free(p->to);
    free(p->replicas);
    free(p->pair);
    free(p->layer);
    free(p->rest_s);
    free(p->rest_bytes);
    return rc;
}

uint32_t dp_paper_cuts_of_piper(uint32_t devices, uint32_t n_edges)
{
    return (uint32_t)fmin(MOST_CUTS, fmin(2 * sqrt(MOST_WORK) / (devices + 1.0), sqrt(2 * MOST_WORK / (n_edges + 1.0))));
}

int dp_paper_all_of_piper(const struct dp_paper_ask *ask, struct dp_paper_best *best, bool *is_too_many, struct dp_err *err)
{
    struct program p = {.g = best->g, .u = best->u, .ask = ask};
    struct dp_ideals ideals = {0};
    int rc = dp_ideals_create(&ideals, best->u, dp_paper_cuts_of_piper(ask->net->devices[0], best->g->n_edges), is_too_many, err);

    if (rc == 0) {
        p.n = ideals.n;
        p.words = ideals.words;
        p.cut = ideals.bits;
        rc = search(&p, best, err);
    }
    dp_ideals_release(&ideals);
    return rc;
}

int dp_paper_cut_piper(const struct dp_pieces *c, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    struct program p = {.g = best->g, .u = best->u, .ask = ask, .n = c->n + 1, .words = c->n_units / 64 + 1};
    int rc = -1;

    p.cut = calloc((size_t)p.n * p.words, sizeof *p.cut);
    for (uint32_t i = 0; p.cut && i < p.n; i++)
        for (uint32_t u = 0; u < c->n_units; u++)
            if (c->piece_of[u] < i)
                p.cut[(size_t)i * p.words + u / 64] |= UINT64_C(1) << u % 64;
    if (p.cut)
        rc = search(&p, best, NULL);
    free(p.cut);
    return rc;
}
