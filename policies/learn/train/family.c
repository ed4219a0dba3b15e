/* SPDX-License-Identifier: BSD-3-Clause */
/* See family.h. */
#include "policies/learn/train/family.h"

#include <stdio.h>

#include "common/crc32c.h"
#include "policies/graph/search/draw.h"

#define NO_NODE UINT32_MAX

struct maker {
    struct dp_graph *g;
    uint32_t n; /* nodes that are wanted */
    uint64_t draws;
    struct dp_err *err;
    int rc;
};

static uint32_t below(struct maker *m, uint32_t n)
{
    return dp_draw_below(&m->draws, n);
}

/* us: of the forward pass; kib: of its output. returns: its number. After a fault nothing is added. */
static uint32_t add(struct maker *m, uint32_t us, uint32_t kib)
{
    char name[16];
    struct dp_graph_node node = {.name = name, .colour = m->g->n_nodes, .forward_ns = (uint64_t)us * 1000};

    if (m->rc < 0)
        return 0;
    snprintf(name, sizeof name, "n%u", m->g->n_nodes);
    node.backward_ns = 2 * node.forward_ns;
    node.output_bytes = node.kept_bytes = (uint64_t)kib << 10;
    node.param_bytes = node.forward_ns / 10;
    node.bytes = DP_GRAPH_STATE_OF_PARAMETERS * node.param_bytes;
    m->rc = dp_graph_add_node(m->g, &node, m->err) < 0 ? -1 : 0;
    return m->g->n_nodes - 1;
}

static void join(struct maker *m, uint32_t from, uint32_t to)
{
    if (m->rc == 0 && from != NO_NODE && from != to)
        m->rc = dp_graph_add_edge(m->g, from, to, 0, m->err);
}

/* Most are cheap, some are ten times as dear. */
static uint32_t any_us(struct maker *m)
{
    return below(m, 4) ? below(m, 200) + 1 : below(m, 2000) + 1;
}

static uint32_t any_node(struct maker *m)
{
    uint32_t us = any_us(m), times = below(m, 7) + 1;

    return add(m, us, times << below(m, 6));
}

static void make_layered(struct maker *m)
{
    uint32_t first = any_node(m), size = 1;

    while (m->rc == 0 && m->g->n_nodes < m->n) {
        uint32_t next = m->g->n_nodes, wide = below(m, 5) + 2;

        for (uint32_t i = 0; i < wide; i++) {
            uint32_t v = any_node(m);

            for (uint32_t k = below(m, 3) + 1; k; k--)
                join(m, first + below(m, size), v);
            if (first && below(m, 6) == 0)
                join(m, below(m, first), v);
        }
        first = next;
        size = wide;
    }
}

static void make_cells(struct maker *m)
{
    uint32_t last = any_node(m), before = last;

    while (m->rc == 0 && m->g->n_nodes < m->n) {
        uint32_t first = m->g->n_nodes, size = below(m, 9) + 5, join_node;

        for (uint32_t i = 0; i < size; i++) {
            uint32_t v = any_node(m);

            for (uint32_t k = below(m, 2) + 1; k; k--)
                join(m, i && below(m, 4) ? first + below(m, i) : below(m, 2) ? last : before, v);
        }
        join_node = any_node(m);
        for (uint32_t i = below(m, 2); i < size; i += below(m, 3) + 1)
            join(m, first + i, join_node);
        before = last;
        last = join_node;
    }
}

static void make_towers(struct maker *m)
{
    uint32_t n_towers = below(m, 5) + 2, top[8], last = any_node(m);

    while (m->rc == 0 && m->g->n_nodes < m->n) {
        uint32_t length = below(m, 12) + 4, join_node;

        for (uint32_t t = 0; t < n_towers; t++)
            top[t] = last;
        for (uint32_t i = 0; i < length; i++)
            for (uint32_t t = 0; t < n_towers; t++) {
                uint32_t v = any_node(m);

                join(m, top[t], v);
                if (below(m, 10) == 0)
                    join(m, top[below(m, n_towers)], v);
                top[t] = v;
            }
        join_node = any_node(m);
        for (uint32_t t = 0; t < n_towers; t++)
            join(m, top[t], join_node);
        last = join_node;
    }
}

static void make_unet(struct maker *m)
{
    uint32_t left[8], last = any_node(m), depth = below(m, 4) + 3;

    while (m->rc == 0 && m->g->n_nodes < m->n) {
        for (uint32_t d = 0; d < depth; d++) { /* outputs halve on the way down */
            for (uint32_t k = below(m, 3) + 1; k; k--) {
                uint32_t us = any_us(m), v = add(m, us, (256u >> d) + 1);

                join(m, last, v);
                last = v;
            }
            left[d] = last;
        }
        for (uint32_t d = depth; d-- > 0;)
            for (uint32_t k = below(m, 2) + 1; k; k--) {
                uint32_t us = any_us(m), v = add(m, us, (256u >> d) + 1);

                join(m, last, v);
                join(m, left[d], v);
                last = v;
            }
    }
}

static void make_small_world(struct maker *m)
{
    for (uint32_t v = 0; m->rc == 0 && v < m->n; v++) {
        any_node(m);
        for (uint32_t back = 1; back <= 3 && back <= v; back++)
            if (back == 1 || below(m, 2))
                join(m, below(m, 5) ? v - back : below(m, v), v);
    }
}

/* A node of that many us and KiB behind one or two others. */
static uint32_t behind(struct maker *m, uint32_t us, uint32_t kib, uint32_t a, uint32_t b)
{
    uint32_t v = add(m, us, kib);

    join(m, a, v);
    join(m, b, v);
    return v;
}

static uint32_t add_attention(struct maker *m, uint32_t x, uint32_t us, uint32_t kib)
{
    uint32_t norm = behind(m, us / 8 + 1, kib, x, NO_NODE);
    uint32_t q = behind(m, us, kib, norm, NO_NODE), k = behind(m, us, kib, norm, NO_NODE), v = behind(m, us, kib, norm, NO_NODE);
    uint32_t scores = behind(m, us / 2 + 1, 4 * kib, q, k), shares = behind(m, us / 4 + 1, 4 * kib, scores, NO_NODE);
    uint32_t mixed = behind(m, us / 2 + 1, kib, shares, v), out = behind(m, us, kib, mixed, NO_NODE);

    return behind(m, us / 8 + 1, kib, x, out);
}

static void make_transformer(struct maker *m)
{
    uint32_t us = below(m, 300) + 50, kib = below(m, 200) + 16, x = add(m, us, kib), memory = NO_NODE;

    while (m->rc == 0 && m->g->n_nodes < m->n) {
        uint32_t norm, wide, act, back;

        x = add_attention(m, x, us, kib);
        norm = behind(m, us / 8 + 1, kib, x, memory);
        wide = behind(m, 4 * us, 4 * kib, norm, NO_NODE);
        act = behind(m, us / 4 + 1, 4 * kib, wide, NO_NODE);
        back = behind(m, 4 * us, kib, act, NO_NODE);
        x = behind(m, us / 8 + 1, kib, x, back);
        if (memory == NO_NODE && m->g->n_nodes > m->n / 2) { /* an encoder ends, whose output all that follow take */
            memory = x;
            x = add(m, us, kib);
        }
    }
}

static void make_experts(struct maker *m)
{
    uint32_t us = below(m, 300) + 50, kib = below(m, 200) + 16, x = add(m, us, kib), n_experts = below(m, 7) + 2;

    while (m->rc == 0 && m->g->n_nodes < m->n) {
        uint32_t router, sum;

        x = add_attention(m, x, us, kib);
        router = behind(m, us / 8 + 1, kib, x, NO_NODE);
        sum = NO_NODE;
        for (uint32_t e = 0; e < n_experts; e++) { /* loads of experts differ */
            uint32_t own = us * (below(m, 8) + 1) / 2 + 1;
            uint32_t wide = behind(m, own, kib, router, NO_NODE), back = behind(m, own, kib / n_experts + 1, wide, NO_NODE);

            sum = sum == NO_NODE ? back : behind(m, us / 16 + 1, kib, sum, back);
        }
        x = behind(m, us / 8 + 1, kib, x, sum);
    }
}

static void (*const make[DP_N_FAMILIES])(struct maker *) = {
    [DP_FAMILY_LAYERED] = make_layered, [DP_FAMILY_CELLS] = make_cells,
    [DP_FAMILY_TOWERS] = make_towers,   [DP_FAMILY_UNET] = make_unet,
    [DP_FAMILY_SMALL_WORLD] = make_small_world, [DP_FAMILY_TRANSFORMER] = make_transformer,
    [DP_FAMILY_EXPERTS] = make_experts};

const char *dp_family_name(enum dp_family f)
{
#define NAME(ID, name, help) name,
    static const char *const names[] = {DP_FAMILIES(NAME)};
#undef NAME
    return names[f];
}

int dp_family_make(struct dp_graph *g, enum dp_family f, uint32_t n, uint64_t seed, struct dp_err *err)
{
    struct maker m = {.g = g, .n = n, .draws = dp_draw_stream(seed, f), .err = err};

    dp_graph_init(g, DP_GRAPH_PROFILE);
    make[f](&m);
    g->n_colours = g->n_nodes;
    return m.rc == 0 ? dp_graph_finish(g, NULL, err) : -1;
}

int dp_family_hash(uint32_t *hash, struct dp_err *err)
{
    uint32_t crc = 0;

    for (int f = 0; f < DP_N_LEARNED_FAMILIES; f++) {
        struct dp_graph g;
        int rc = dp_family_make(&g, (enum dp_family)f, 60, 1, err);

        for (uint32_t i = 0; rc == 0 && i < g.n_nodes; i++) {
            const uint64_t costs[2] = {g.node[i].forward_ns, g.node[i].output_bytes};
            unsigned char bytes[sizeof costs];

            for (size_t k = 0; k < sizeof bytes; k++)
                bytes[k] = (unsigned char)(costs[k / 8] >> 8 * (k % 8));
            crc = dp_crc32c(crc, bytes, sizeof bytes);
        }
        for (uint32_t e = 0; rc == 0 && e < g.n_edges; e++) {
            const uint32_t ends = g.edge[e].from << 16 | g.edge[e].to;
            const unsigned char bytes[4] = {(unsigned char)ends, (unsigned char)(ends >> 8), (unsigned char)(ends >> 16),
                                            (unsigned char)(ends >> 24)};

            crc = dp_crc32c(crc, bytes, sizeof bytes);
        }
        dp_graph_release(&g);
        if (rc < 0)
            return -1;
    }
    *hash = crc;
    return 0;
}
