/* SPDX-License-Identifier: BSD-3-Clause */
/* See units.h. Nodes are merged in a union-find; every step looks at the graph of what is merged so
 * far: colours, then cycles (Tarjan, without recursion), then pieces without work, which can close no
 * cycle because they touch one unit only. What is left is numbered in a topological order and written down
 * with its nets. */
#include "policies/graph/units.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_PASSES 64 /* a longer tail of pieces without work stays in pieces: slower, not wrong */

struct pair {
    uint32_t a, b;
};

struct build {
    const struct dp_graph *g;
    uint32_t n;         /* nodes of the graph */
    uint32_t *parent;   /* [n] union-find */
    struct pair *order; /* [n_order] a's unit comes no later than b's; node indices */
    uint32_t n_order;
    struct pair *link; /* scratch, [n_order or n_edges] */
    uint32_t *scratch; /* [4 * (n + 1)] */
};

static uint32_t find(struct build *b, uint32_t i)
{
    while (b->parent[i] != i) {
        b->parent[i] = b->parent[b->parent[i]];
        i = b->parent[i];
    }
    return i;
}

/* The smaller index leads, so that the result does not depend on the order of the merges. */
static void merge(struct build *b, uint32_t x, uint32_t y)
{
    x = find(b, x);
    y = find(b, y);
    b->parent[x < y ? y : x] = x < y ? x : y;
}

static int by_pair(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static uint32_t unique_pairs(struct pair *p, uint32_t n)
{
    uint32_t kept = 0;

    if (n)
        qsort(p, n, sizeof *p, by_pair);
    for (uint32_t i = 0; i < n; i++) {
        if (!kept || by_pair(&p[kept - 1], &p[i]))
            p[kept++] = p[i];
    }
    return kept;
}

/* The order between what is merged so far, each pair once and sorted, into link. */
static uint32_t quotient(struct build *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_order; i++) {
        struct pair p = {find(b, b->order[i].a), find(b, b->order[i].b)};

        if (p.a != p.b)
            b->link[n++] = p;
    }
    return unique_pairs(b->link, n);
}

static void merge_colours(struct build *b)
{
    uint32_t *first = b->scratch; /* [n_colours] node + 1 */

    memset(first, 0, b->g->n_colours * sizeof *first);
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t *f = &first[b->g->node[i].colour];

        if (*f)
            merge(b, *f - 1, i);
        else
            *f = i + 1;
    }
}

/* Where the links of each unit begin. at: [n + 1] = */
static void index_links(const struct pair *link, uint32_t n_links, uint32_t n, uint32_t *at)
{
    memset(at, 0, ((size_t)n + 1) * sizeof *at);
    for (uint32_t i = 0; i < n_links; i++)
        at[link[i].a + 1]++;
    for (uint32_t i = 0; i < n; i++)
        at[i + 1] += at[i];
}

struct tarjan {
    uint32_t *at, *number, *low, *next; /* [n + 1] each */
    uint32_t *stack, *path;             /* [n] each */
    uint32_t n_stack, n_path, n_numbers;
};

static void tarjan_enter(struct tarjan *t, uint32_t v)
{
    t->number[v] = t->low[v] = ++t->n_numbers;
    t->next[v] = t->at[v];
    t->stack[t->n_stack++] = v;
    t->path[t->n_path++] = v;
}

/* number[v] = UINT32_MAX once v's component is complete. */
static void tarjan_leave(struct build *b, struct tarjan *t, uint32_t v)
{
    t->n_path--;
    if (t->n_path && t->low[v] < t->low[t->path[t->n_path - 1]])
        t->low[t->path[t->n_path - 1]] = t->low[v];
    if (t->low[v] != t->number[v])
        return;
    for (uint32_t w = UINT32_MAX; w != v;) {
        w = t->stack[--t->n_stack];
        t->number[w] = UINT32_MAX;
        merge(b, w, v);
    }
}

static void tarjan_from(struct build *b, struct tarjan *t, uint32_t root)
{
    tarjan_enter(t, root);
    while (t->n_path) {
        uint32_t v = t->path[t->n_path - 1], w;

        if (t->next[v] == t->at[v + 1]) {
            tarjan_leave(b, t, v);
            continue;
        }
        w = b->link[t->next[v]++].b;
        if (t->number[w] == 0)
            tarjan_enter(t, w);
        else if (t->number[w] < t->low[v]) /* UINT32_MAX: of another component */
            t->low[v] = t->number[w];
    }
}

static int merge_cycles(struct build *b)
{
    struct tarjan t = {0};
    size_t n = (size_t)b->n + 1;
    uint32_t *memory = calloc(6 * n, sizeof *memory), n_links = quotient(b);

    if (!memory)
        return -1;
    t.at = memory;
    t.number = memory + n;
    t.low = memory + 2 * n;
    t.next = memory + 3 * n;
    t.stack = memory + 4 * n;
    t.path = memory + 5 * n;
    index_links(b->link, n_links, b->n, t.at);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->parent[i] == i && t.number[i] == 0)
            tarjan_from(b, &t, i);
    }
    free(memory);
    return 0;
}

/* Merge each piece without work into the only unit that it touches. Where a chain of such pieces
 * hangs on a unit the next pass takes the rest. returns: whether something was merged. */
static bool merge_idle(struct build *b)
{
    uint32_t n_links = 0, *other = b->scratch; /* [n] unit + 1, UINT32_MAX: several */
    bool *works = (bool *)(b->scratch + b->n + 1), *on_cpu = works + b->n, is_merged = false;

    memset(b->scratch, 0, 4 * ((size_t)b->n + 1) * sizeof *b->scratch);
    for (uint32_t i = 0; i < b->n; i++) {
        const struct dp_graph_node *node = &b->g->node[i];

        works[find(b, i)] |= dp_graph_accel_ns(node) || node->cpu_ns || node->is_input;
        on_cpu[find(b, i)] |= node->only_on_cpu;
    }
    for (uint32_t e = 0; e < b->g->n_edges; e++)
        b->link[n_links++] = (struct pair){find(b, b->g->edge[e].from), find(b, b->g->edge[e].to)};
    for (uint32_t i = 0; i < 2 * n_links; i++) {
        uint32_t x = i < n_links ? b->link[i].a : b->link[i - n_links].b;
        uint32_t y = i < n_links ? b->link[i].b : b->link[i - n_links].a;

        if (x != y && !b->g->node[x].is_input && !b->g->node[y].is_input)
            other[x] = other[x] == 0 || other[x] == y + 1 ? y + 1 : UINT32_MAX;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t y = other[i] - 1;

        if (b->parent[i] != i || works[i] || other[i] == 0 || other[i] == UINT32_MAX ||
            (on_cpu[i] && !on_cpu[find(b, y)]))
            continue;
        if (find(b, y) != find(b, i)) {
            merge(b, i, y);
            is_merged = true;
        }
    }
    return is_merged;
}

/* ---- writing down ---- */

/* Number the units so that no link leads backwards, first ready first.
 * number: [n] of the leading node of each unit. */
static void number_units(struct build *b, struct dp_units *u, uint32_t *number)
{
    uint32_t *missing = b->scratch, *at = b->scratch + b->n + 1, *ready = at + b->n + 1,
             n_links = quotient(b);
    uint32_t n = 0, done = 0;

    memset(missing, 0, ((size_t)b->n + 1) * sizeof *missing);
    index_links(b->link, n_links, b->n, at);
    for (uint32_t i = 0; i < n_links; i++)
        missing[b->link[i].b]++;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->parent[i] == i && !missing[i] && !b->g->node[i].is_input)
            ready[n++] = i;
    }
    for (; done < n; done++) {
        number[ready[done]] = done;
        for (uint32_t l = at[ready[done]]; l < at[ready[done] + 1]; l++) {
            if (--missing[b->link[l].b] == 0)
                ready[n++] = b->link[l].b;
        }
    }
    u->n = n;
    for (uint32_t i = 0; i < b->n; i++)
        u->unit_of[i] = b->g->node[i].is_input ? DP_NO_UNIT : number[find(b, i)];
}

static int sum_units(struct build *b, struct dp_units *u)
{
    u->accel_ns = calloc((size_t)u->n + 1, sizeof *u->accel_ns);
    u->cpu_ns = calloc((size_t)u->n + 1, sizeof *u->cpu_ns);
    u->bytes = calloc((size_t)u->n + 1, sizeof *u->bytes);
    u->kept_bytes = calloc((size_t)u->n + 1, sizeof *u->kept_bytes);
    u->only_on_cpu = calloc((size_t)u->n + 1, sizeof *u->only_on_cpu);
    if (!u->accel_ns || !u->cpu_ns || !u->bytes || !u->kept_bytes || !u->only_on_cpu)
        return -1;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct dp_graph_node *node = &b->g->node[i];
        uint32_t unit = u->unit_of[i];

        if (unit == DP_NO_UNIT)
            continue;
        u->accel_ns[unit] += dp_graph_accel_ns(node);
        u->cpu_ns[unit] += node->cpu_ns;
        u->bytes[unit] += node->bytes;
        u->kept_bytes[unit] += node->kept_bytes;
        u->only_on_cpu[unit] |= node->only_on_cpu;
    }
    return 0;
}

/* Pairs (a, b) into rows: at [n + 1] and list. is_by_b: row b holds the a's. */
static int make_rows(const struct pair *p, uint32_t n_pairs, uint32_t n, bool is_by_b, uint32_t **at,
                     uint32_t **list)
{
    uint32_t *a = calloc((size_t)n + 2, sizeof *a), *l = malloc(((size_t)n_pairs + 1) * sizeof *l);

    *at = a;
    *list = l;
    if (!a || !l)
        return -1;
    for (uint32_t i = 0; i < n_pairs; i++)
        a[(is_by_b ? p[i].b : p[i].a) + 2]++;
    for (uint32_t i = 0; i < n; i++)
        a[i + 2] += a[i + 1];
    for (uint32_t i = 0; i < n_pairs; i++)
        l[a[(is_by_b ? p[i].b : p[i].a) + 1]++] = is_by_b ? p[i].a : p[i].b;
    return 0;
}

static int write_order(struct build *b, struct dp_units *u)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_order; i++) {
        struct pair p = {u->unit_of[b->order[i].a], u->unit_of[b->order[i].b]};

        if (p.a != p.b && p.a != DP_NO_UNIT && p.b != DP_NO_UNIT)
            b->link[n++] = p;
    }
    n = unique_pairs(b->link, n);
    return make_rows(b->link, n, u->n, true, &u->pred_at, &u->pred) < 0 ||
                   make_rows(b->link, n, u->n, false, &u->succ_at, &u->succ) < 0
               ? -1
               : 0;
}

/* One net for each node that sends to another unit; the graph's edges are sorted by sender. */
static int write_nets(struct build *b, struct dp_units *u)
{
    const struct dp_graph *g = b->g;
    uint32_t n_pins = 0, *seen = b->scratch; /* [n units] net + 1 */
    struct pair *pin = malloc(((size_t)g->n_edges * 2 + 1) * sizeof *pin);
    int rc = -1;

    u->net_ns = calloc((size_t)g->n_nodes + 1, sizeof *u->net_ns);
    u->net_size = calloc((size_t)g->n_nodes + 1, sizeof *u->net_size);
    if (!pin || !u->net_ns || !u->net_size)
        goto out;
    memset(seen, 0, ((size_t)b->n + 1) * sizeof *seen);
    for (uint32_t e = 0; e < g->n_edges;) {
        uint32_t from = g->edge[e].from, own = u->unit_of[from], size = 0, net = u->n_nets,
                 first_pin = n_pins;

        for (; e < g->n_edges && g->edge[e].from == from; e++) {
            uint32_t to = u->unit_of[g->edge[e].to];

            if (own == DP_NO_UNIT || to == DP_NO_UNIT || to == own || seen[to] == net + 1)
                continue;
            seen[to] = net + 1;
            pin[n_pins++] = (struct pair){to, net};
            size++;
        }
        if (size == 0 || g->node[from].send_ns == 0) {
            while (n_pins > first_pin)
                seen[pin[--n_pins].a] = 0;
            continue;
        }
        pin[n_pins++] = (struct pair){own, net};
        u->net_ns[net] = g->node[from].send_ns;
        u->net_size[net] = size + 1;
        u->n_nets++;
    }
    rc = make_rows(pin, n_pins, u->n, false, &u->net_of_at, &u->net_of);
out:
    free(pin);
    return rc;
}

static void take_order(struct build *b)
{
    for (uint32_t e = 0; e < b->g->n_edges; e++) {
        struct pair *p = &b->order[b->n_order];

        if (dp_graph_edge_order(b->g, e, &p->a, &p->b) && !b->g->node[p->a].is_input)
            b->n_order++;
    }
}

int dp_units_create(struct dp_units *u, const struct dp_graph *g, struct dp_err *err)
{
    struct build b = {.g = g, .n = g->n_nodes};
    uint32_t *number = calloc((size_t)g->n_nodes + 1, sizeof *number);
    int rc = -1;

    *u = (struct dp_units){.unit_of = calloc((size_t)g->n_nodes + 1, sizeof *u->unit_of)};
    b.parent = calloc((size_t)g->n_nodes + 1, sizeof *b.parent);
    b.order = calloc((size_t)g->n_edges + 1, sizeof *b.order);
    b.link = calloc((size_t)g->n_edges + 1, sizeof *b.link);
    b.scratch = calloc(4 * ((size_t)g->n_nodes + 1), sizeof *b.scratch);
    if (!number || !u->unit_of || !b.parent || !b.order || !b.link || !b.scratch)
        goto out;
    for (uint32_t i = 0; i < b.n; i++)
        b.parent[i] = i;
    take_order(&b);
    merge_colours(&b);
    if (merge_cycles(&b) < 0)
        goto out;
    for (int pass = 0; pass < IDLE_PASSES && merge_idle(&b); pass++)
        ;
    number_units(&b, u, number);
    if (sum_units(&b, u) == 0 && write_order(&b, u) == 0 && write_nets(&b, u) == 0)
        rc = 0;
out:
    free(number);
    free(b.parent);
    free(b.order);
    free(b.link);
    free(b.scratch);
    if (rc < 0) {
        dp_units_release(u);
        dp_err_set(err, DP_ENOMEM, "graph of %u nodes: out of memory", g->n_nodes);
    }
    return rc;
}

void dp_units_release(struct dp_units *u)
{
    free(u->accel_ns);
    free(u->cpu_ns);
    free(u->bytes);
    free(u->kept_bytes);
    free(u->only_on_cpu);
    free(u->pred_at);
    free(u->pred);
    free(u->succ_at);
    free(u->succ);
    free(u->net_ns);
    free(u->net_size);
    free(u->net_of_at);
    free(u->net_of);
    free(u->unit_of);
    *u = (struct dp_units){0};
}
