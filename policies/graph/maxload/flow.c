/* SPDX-License-Identifier: BSD-3-Clause */
/* See flow.h. Augmenting paths, the shortest first (Edmonds and Karp 1972, J. ACM 19). The sink is near everywhere, so that a
 * search seldom goes far; one that saturates no arc of its path but the last goes on where it is. */
#include "policies/graph/maxload/flow.h"

#include <stdlib.h>
#include <string.h>

#define ENDLESS (UINT64_C(1) << 62) /* no cut has it */
#define NO_ARC UINT32_MAX

enum side { NEITHER, BEFORE, BEHIND };
enum arc_kind { FIXED, TO_PRED, TO_SUCC }; /* the last two: no limit where both ends are behind (before) the source, else 0 */

struct dp_flow_arc {
    uint32_t to, back; /* back: the arc the other way */
    uint8_t kind;
    uint64_t cap_ns, left_ns;
};

struct list { /* of arcs, before they are sorted by place */
    struct pair {
        uint32_t a, b;
        uint64_t there_ns, back_ns;
        bool is_order; /* a comes before b */
    } *pair;
    uint32_t n;
};

static void add(struct list *l, uint32_t a, uint32_t b, uint64_t there_ns, uint64_t back_ns)
{
    l->pair[l->n++] = (struct pair){a, b, there_ns, back_ns, false};
}

/* One net of two units is an arc both ways, a larger one is a place where its units' flows come together and one where they part. */
static int list_nets(struct dp_flow *f, struct list *l)
{
    const struct dp_units *u = f->units;
    uint32_t *first = malloc(((size_t)u->n_nets + 1) * sizeof *first); /* a net of two: its first unit; else its place */

    if (!first)
        return -1;
    for (uint32_t net = 0; net < u->n_nets; net++) {
        first[net] = UINT32_MAX;
        if (u->net_size[net] > 2) {
            first[net] = f->n_places;
            add(l, f->n_places, f->n_places + 1, u->net_ns[net], 0);
            f->n_places += 2;
        }
    }
    for (uint32_t v = 0; v < u->n; v++)
        for (uint32_t k = u->net_of_at[v]; k < u->net_of_at[v + 1]; k++) {
            uint32_t net = u->net_of[k];

            if (u->net_size[net] > 2) {
                add(l, v, first[net], ENDLESS, 0);
                add(l, first[net] + 1, v, ENDLESS, 0);
            } else if (first[net] == UINT32_MAX)
                first[net] = v;
            else
                add(l, first[net], v, u->net_ns[net], u->net_ns[net]);
        }
    free(first);
    return 0;
}

/* Rows of arcs by place. */
static int sort_arcs(struct dp_flow *f, const struct list *l)
{
    f->n_arcs = 2 * l->n;
    f->at = calloc((size_t)f->n_places + 2, sizeof *f->at);
    f->arc = calloc((size_t)f->n_arcs + 1, sizeof *f->arc);
    if (!f->at || !f->arc)
        return -1;
    for (uint32_t i = 0; i < l->n; i++) {
        f->at[l->pair[i].a + 2]++;
        f->at[l->pair[i].b + 2]++;
    }
    for (uint32_t i = 0; i < f->n_places; i++)
        f->at[i + 2] += f->at[i + 1];
    for (uint32_t i = 0; i < l->n; i++) {
        const struct pair *p = &l->pair[i];
        uint32_t there = f->at[p->a + 1]++, back = f->at[p->b + 1]++;

        f->arc[there] = (struct dp_flow_arc){
            .to = p->b, .back = back, .kind = p->is_order ? TO_SUCC : FIXED, .cap_ns = p->there_ns, .left_ns = p->there_ns};
        f->arc[back] = (struct dp_flow_arc){
            .to = p->a, .back = there, .kind = p->is_order ? TO_PRED : FIXED, .cap_ns = p->back_ns, .left_ns = p->back_ns};
    }
    return 0;
}

static int build(struct dp_flow *f)
{
    const struct dp_units *u = f->units;
    struct list l = {.pair = malloc(((size_t)u->n_nets + 2 * (size_t)u->net_of_at[u->n] + u->succ_at[u->n] + 1) * sizeof *l.pair)};
    int rc = -1;

    f->n_places = u->n;
    if (!l.pair || list_nets(f, &l) < 0)
        goto out;
    for (uint32_t v = 0; v < u->n; v++)
        for (uint32_t k = u->succ_at[v]; k < u->succ_at[v + 1]; k++)
            l.pair[l.n++] = (struct pair){.a = v, .b = u->succ[k], .is_order = true};
    rc = sort_arcs(f, &l);
out:
    free(l.pair);
    return rc;
}

int dp_flow_create(struct dp_flow *f, const struct dp_units *u, double speed, uint64_t max_steps, struct dp_err *err)
{
    size_t n;

    *f = (struct dp_flow){.units = u, .max_steps = max_steps};
    if (build(f) < 0)
        return dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    n = (size_t)f->n_places + 1;
    f->work_ns = calloc(n, sizeof *f->work_ns);
    f->drain = calloc(n, sizeof *f->drain);
    f->seen = calloc(n, sizeof *f->seen);
    f->from = calloc(n, sizeof *f->from);
    f->queue = calloc(n, sizeof *f->queue);
    f->touched = calloc(n, sizeof *f->touched);
    f->is_touched = calloc(n, sizeof *f->is_touched);
    f->side = calloc(n, sizeof *f->side);
    if (!f->work_ns || !f->drain || !f->seen || !f->from || !f->queue || !f->touched || !f->is_touched || !f->side)
        return dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    for (uint32_t v = 0; v < u->n; v++) { /* down: the sum over a stage is rounded up once */
        long double ns = (long double)u->accel_ns[v] / speed, most = (long double)(ENDLESS / u->n);

        f->drain[v] = f->work_ns[v] = (uint64_t)(ns < most ? ns : most);
    }
    return 0;
}

void dp_flow_release(struct dp_flow *f)
{
    free(f->at);
    free(f->arc);
    free(f->work_ns);
    free(f->drain);
    free(f->seen);
    free(f->from);
    free(f->queue);
    free(f->touched);
    free(f->is_touched);
    free(f->side);
    *f = (struct dp_flow){0};
}

/* Units that can be reached from `source` get this side. The queue is free between searches. */
static void mark_side(struct dp_flow *f, uint32_t source, const uint32_t *at, const uint32_t *to, enum side side)
{
    uint32_t n = 1;

    f->queue[0] = source;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = f->queue[i];

        f->steps += at[v + 1] - at[v] + 1;
        for (uint32_t k = at[v]; k < at[v + 1]; k++)
            if (f->side[to[k]] == NEITHER) {
                f->side[to[k]] = (uint8_t)side;
                f->queue[n++] = to[k];
            }
    }
}

static void set_source(struct dp_flow *f, uint32_t source)
{
    const struct dp_units *u = f->units;

    memset(f->side, NEITHER, u->n);
    mark_side(f, source, u->pred_at, u->pred, BEFORE);
    mark_side(f, source, u->succ_at, u->succ, BEHIND);
}

static uint64_t left_of(const struct dp_flow *f, uint32_t from, const struct dp_flow_arc *a)
{
    enum side side = a->kind == TO_PRED ? BEHIND : BEFORE;

    if (a->kind != FIXED && f->side[from] == side && f->side[a->to] == side)
        return ENDLESS;
    return a->left_ns;
}

static void touch(struct dp_flow *f, uint32_t place)
{
    if (!f->is_touched[place]) {
        f->is_touched[place] = true;
        f->touched[f->n_touched++] = place;
    }
}

/* Along the path to `place` as much as it takes. is_full: = does an arc of the path take no more? returns: how much. */
static uint64_t augment(struct dp_flow *f, uint32_t place, bool *is_full)
{
    uint64_t way = UINT64_MAX, more;

    for (uint32_t v = place; f->from[v] != NO_ARC; v = f->arc[f->arc[f->from[v]].back].to) {
        const struct dp_flow_arc *a = &f->arc[f->from[v]];
        uint64_t left = left_of(f, f->arc[a->back].to, a);

        way = left < way ? left : way;
        f->steps++;
    }
    more = way < f->drain[place] ? way : f->drain[place];
    for (uint32_t v = place; f->from[v] != NO_ARC; v = f->arc[f->arc[f->from[v]].back].to) {
        struct dp_flow_arc *a = &f->arc[f->from[v]];

        touch(f, v);
        a->left_ns -= a->left_ns < more ? a->left_ns : more; /* less: it has no limit */
        f->arc[a->back].left_ns += more;
    }
    touch(f, place);
    f->drain[place] -= more;
    *is_full = way == more;
    return more;
}

/* One search from the source, until an arc that leads back to it is full. returns: what flowed; 0: nothing can. */
static uint64_t search(struct dp_flow *f, uint32_t source)
{
    uint32_t head = 0, tail = 0;
    uint64_t flow = 0;

    f->number++;
    f->seen[source] = f->number;
    f->from[source] = NO_ARC;
    f->queue[tail++] = source;
    while (head < tail && f->steps < f->max_steps) {
        uint32_t v = f->queue[head++];

        if (f->drain[v]) {
            bool is_full;

            flow += augment(f, v, &is_full);
            if (is_full)
                break;
        }
        f->steps += f->at[v + 1] - f->at[v] + 1;
        for (uint32_t k = f->at[v]; k < f->at[v + 1]; k++) {
            const struct dp_flow_arc *a = &f->arc[k];

            if (f->seen[a->to] == f->number || !left_of(f, v, a))
                continue;
            f->seen[a->to] = f->number;
            f->from[a->to] = k;
            f->queue[tail++] = a->to;
        }
    }
    return flow;
}

static void take_back(struct dp_flow *f)
{
    for (uint32_t i = 0; i < f->n_touched; i++) {
        uint32_t v = f->touched[i];

        f->is_touched[v] = false;
        f->drain[v] = v < f->units->n ? f->work_ns[v] : 0;
        for (uint32_t k = f->at[v]; k < f->at[v + 1]; k++) {
            f->arc[k].left_ns = f->arc[k].cap_ns;
            f->arc[f->arc[k].back].left_ns = f->arc[f->arc[k].back].cap_ns;
        }
    }
    f->n_touched = 0;
}

uint64_t dp_flow_least_without_ns(struct dp_flow *f, uint32_t unit, const bool *without)
{
    uint64_t flow = 0, more;

    set_source(f, unit);
    for (uint32_t v = 0; without && v < f->units->n; v++)
        if (without[v])
            f->drain[v] = ENDLESS;
    do {
        if (f->number == UINT32_MAX) { /* once in four billion */
            memset(f->seen, 0, f->n_places * sizeof *f->seen);
            f->number = 0;
        }
        more = search(f, unit);
        flow += more;
    } while (more);
    take_back(f);
    for (uint32_t v = 0; without && v < f->units->n; v++)
        f->drain[v] = f->work_ns[v];
    return flow;
}

uint64_t dp_flow_least_ns(struct dp_flow *f, uint32_t unit)
{
    return dp_flow_least_without_ns(f, unit, NULL);
}
