/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of a whole profile (costs.h). Nodes with the same text and sizes are of one kind: what one of them takes, the others
 * take, too. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/costs/costs.h"

struct kind {
    const struct dp_graph *g;
    const struct dp_operator *op;
};

struct scale { /* of estimates, from what was measured */
    char type[DP_OPERATOR_TYPE];
    double sum; /* of log(measured / estimated) */
    uint32_t n;
};

struct estimate {
    struct dp_graph *g;
    struct dp_operator *op; /* [n_nodes] */
    double *time_s;         /* [n_nodes] */
    uint32_t *by_kind;      /* [n_nodes], the nodes of a kind side by side */
    uint32_t n_scales;
    struct scale scale[DP_COSTS_MAX_TYPES];
};

static int compare(double a, double b)
{
    return a < b ? -1 : a > b;
}

static int order_kinds(const struct kind *k, uint32_t x, uint32_t y)
{
    const char *a = k->g->node[x].text, *b = k->g->node[y].text;
    int order = strcmp(a ? a : "", b ? b : "");

    order = order ? order : compare(k->op[x].in_bytes, k->op[y].in_bytes);
    order = order ? order : compare(k->op[x].out_bytes, k->op[y].out_bytes);
    return order ? order : compare(k->op[x].param_bytes, k->op[y].param_bytes);
}

static int by_kind(const void *a, const void *b, void *arg)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = order_kinds(arg, x, y);

    return order ? order : x < y ? -1 : 1;
}

/* returns: node indices sorted by kind, to be freed, or NULL. */
static uint32_t *sort_kinds(const struct dp_graph *g, const struct dp_operator *op)
{
    struct kind k = {g, op};
    uint32_t *order = calloc(g->n_nodes + 1, sizeof *order);

    for (uint32_t i = 0; order && i < g->n_nodes; i++)
        order[i] = i;
    if (order)
        qsort_r(order, g->n_nodes, sizeof *order, by_kind, &k);
    return order;
}

/* Where the kind that begins at `begin` ends. */
static uint32_t kind_end(const struct dp_graph *g, const struct dp_operator *op, const uint32_t *order, uint32_t begin)
{
    const struct kind k = {g, op};
    uint32_t end = begin + 1;

    while (end < g->n_nodes && order_kinds(&k, order[begin], order[end]) == 0)
        end++;
    return end;
}

/* ---- what was measured ---- */

static struct scale *find_scale(struct estimate *e, const char *type)
{
    for (uint32_t i = 0; i < e->n_scales; i++)
        if (!strcmp(e->scale[i].type, type))
            return &e->scale[i];
    if (e->n_scales == DP_COSTS_MAX_TYPES)
        return NULL;
    e->scale[e->n_scales] = (struct scale){.n = 0};
    memcpy(e->scale[e->n_scales].type, type, DP_OPERATOR_TYPE);
    return &e->scale[e->n_scales++];
}

/* A kind of which some were measured: the others take their mean. */
static void take_measured(struct estimate *e, uint32_t begin, uint32_t end)
{
    uint64_t forward = 0, backward = 0, n = 0;
    struct scale *s;

    for (uint32_t i = begin; i < end; i++) {
        const struct dp_graph_node *node = &e->g->node[e->by_kind[i]];

        if (node->is_input || !dp_graph_accel_ns(node))
            continue;
        forward += node->forward_ns;
        backward += node->backward_ns;
        n++;
    }
    if (!n)
        return;
    s = find_scale(e, e->op[e->by_kind[begin]].type);
    if (s && e->time_s[e->by_kind[begin]] > 0) {
        s->sum += log((double)(forward + backward) / (double)n * 1e-9 / e->time_s[e->by_kind[begin]]);
        s->n++;
    }
    for (uint32_t i = begin; i < end; i++) {
        struct dp_graph_node *node = &e->g->node[e->by_kind[i]];

        if (!node->is_input && !dp_graph_accel_ns(node)) {
            node->forward_ns = forward / n;
            node->backward_ns = backward / n;
        }
    }
}

/* Estimates of a type are scaled by what its measured kinds took, drawn towards what all took, and that towards 1: as if one more
 * kind had been measured that was estimated well. */
static void apply_scales(struct estimate *e)
{
    double sum = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->n_scales; i++) {
        sum += e->scale[i].sum;
        n += e->scale[i].n;
    }
    sum /= n + 1;
    for (uint32_t i = 0; i < e->g->n_nodes; i++) {
        double log_scale = sum;

        for (uint32_t k = 0; k < e->n_scales; k++)
            if (!strcmp(e->scale[k].type, e->op[i].type))
                log_scale = (e->scale[k].sum + sum) / (e->scale[k].n + 1);
        e->time_s[i] *= exp(log_scale);
    }
}

/* ---- the whole ---- */

static int check(const struct dp_graph *g, struct dp_err *err)
{
    if (g->kind != DP_GRAPH_PROFILE || g->is_piper)
        return dp_err_set(err, DP_EINVAL, "estimate: only PipeDream's graph.txt says what its operators are");
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].text && *g->node[i].text)
            return 0;
    return dp_err_set(err, DP_EINVAL, "estimate: no node of the profile says what it does");
}

static int set_times(struct estimate *e, const struct dp_costs *c, bool keeps_measured, struct dp_err *err)
{
    for (uint32_t i = 0; i < e->g->n_nodes; i++) {
        struct dp_graph_node *n = &e->g->node[i];
        const struct dp_costs_type *t = c ? dp_costs_find(c, e->op[i].type) : NULL;
        double share = t && !t->is_free ? t->forward_share : 1.0 / 3, ns = e->time_s[i] * 1e9;

        if (n->is_input || (keeps_measured && dp_graph_accel_ns(n)))
            continue;
        if (!(ns <= (double)DP_GRAPH_MAX_NS))
            return dp_err_set(err, DP_EINVAL, "estimate: node '%.80s' would take %g s; at most %g", n->name, ns * 1e-9,
                              (double)DP_GRAPH_MAX_NS * 1e-9);
        n->forward_ns = (uint64_t)(ns * share + 0.5);
        n->backward_ns = (uint64_t)(ns * (1 - share) + 0.5);
    }
    return 0;
}

int dp_costs_estimate(const struct dp_costs *c, const struct dp_costs_roof *roof, bool keeps_measured, struct dp_graph *g,
                      struct dp_err *err)
{
    struct estimate *e;
    int rc;

    if (check(g, err) < 0)
        return -1;
    e = calloc(1, sizeof *e);
    if (!e)
        return dp_err_set(err, DP_ENOMEM, "estimate: out of memory");
    e->g = g;
    rc = dp_operators_of(g, &e->op, err);
    e->time_s = rc == 0 ? calloc(g->n_nodes, sizeof *e->time_s) : NULL;
    e->by_kind = e->time_s ? sort_kinds(g, e->op) : NULL;
    if (rc == 0 && !e->by_kind)
        rc = dp_err_set(err, DP_ENOMEM, "estimate: out of memory");
    for (uint32_t i = 0; rc == 0 && i < g->n_nodes; i++)
        e->time_s[i] = *e->op[i].type ? dp_costs_time_s(c, &e->op[i], roof) : 0;
    for (uint32_t i = 0, end; rc == 0 && keeps_measured && i < g->n_nodes; i = end) {
        end = kind_end(g, e->op, e->by_kind, i);
        take_measured(e, i, end);
    }
    if (rc == 0 && keeps_measured)
        apply_scales(e);
    if (rc == 0)
        rc = set_times(e, c, keeps_measured, err);
    free(e->op);
    free(e->time_s);
    free(e->by_kind);
    free(e);
    return rc;
}

/* ---- what to measure ---- */

uint32_t dp_costs_advise(const struct dp_graph *g, uint32_t node[DP_COSTS_MEASURED])
{
    uint64_t most[DP_COSTS_MEASURED];
    struct dp_operator *op;
    uint32_t *order, n = 0;

    if (dp_operators_of(g, &op, NULL) < 0)
        return 0;
    order = sort_kinds(g, op);
    for (uint32_t i = 0, end; order && i < g->n_nodes; i = end) {
        uint64_t sum = 0;
        uint32_t at;

        end = kind_end(g, op, order, i);
        for (uint32_t k = i; k < end; k++)
            sum += dp_graph_accel_ns(&g->node[order[k]]);
        for (at = n; at > 0 && most[at - 1] < sum; at--)
            ;
        if (sum == 0 || at == DP_COSTS_MEASURED)
            continue;
        n += n < DP_COSTS_MEASURED;
        memmove(&most[at + 1], &most[at], (n - 1 - at) * sizeof *most);
        memmove(&node[at + 1], &node[at], (n - 1 - at) * sizeof *node);
        most[at] = sum;
        node[at] = order[i];
    }
    free(order);
    free(op);
    return n;
}
