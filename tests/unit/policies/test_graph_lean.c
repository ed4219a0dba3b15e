/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans without a table against those with one: the same load, on random graphs, chains, devices and limits of memory. The
 * planner checks and weighs both from the graph. And on chains that are too long for a table: within the bounds. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/plan.h"
#include "tests/unit/policies/graph_util.h"

#define MAX_DEVICES 12

/* Nodes along a line; some edges jump over the next ones. */
static void make_line(struct dp_graph *g, uint64_t *seed, enum dp_graph_kind kind, uint32_t n, uint32_t jump_percent)
{
    uint32_t spread = random_below(seed, 2) ? 12 : 1000, sends = random_below(seed, 3) ? spread : 4 * spread;
    bool has_memory = random_below(seed, 2), keeps = random_below(seed, 2);

    dp_graph_init(g, kind);
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        struct dp_graph_node node = {.name = name, .colour = i};

        snprintf(name, sizeof name, "n%u", i);
        node.forward_ns = random_below(seed, 5) ? random_below(seed, spread) : random_below(seed, 6 * spread);
        if (kind == DP_GRAPH_COSTS)
            node.cpu_ns = node.forward_ns * random_below(seed, 4);
        node.send_ns = random_below(seed, 3) ? random_below(seed, sends) : 0;
        node.output_bytes = node.send_ns;
        node.bytes = has_memory && node.forward_ns ? random_below(seed, 10) : 0;
        node.kept_bytes = keeps && node.forward_ns ? random_below(seed, 4) : 0;
        assert_true(dp_graph_add_node(g, &node, NULL) == i);
    }
    for (uint32_t i = 0; i + 1 < n; i++)
        assert_int_equal(dp_graph_add_edge(g, i, i + 1, 0, NULL), 0);
    for (uint32_t i = 0; i + 2 < n; i++)
        if (random_below(seed, 100) < jump_percent)
            assert_int_equal(dp_graph_add_edge(g, i, i + 2 + random_below(seed, n - i - 2), 0, NULL), 0);
    g->n_colours = n;
}

static uint64_t memory_of(const struct dp_graph *g, uint64_t *seed, uint32_t devices)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        total += g->node[i].bytes + g->node[i].kept_bytes * (1 + devices / 2);
    return total ? total / devices + random_below(seed, (uint32_t)(total / devices) + 8) : UINT64_MAX;
}

/* What came out, with a table and without. */
struct count {
    uint32_t same, refused, stages;
};

static void compare_loads(const struct dp_graph_plan *a, int rc_a, const struct dp_graph_plan *b, int rc_b, struct count *n)
{
    assert_int_equal(rc_a, rc_b);
    n->refused += rc_a < 0;
    if (rc_a < 0)
        return;
    assert_int_equal(a->load_ns, b->load_ns);
    assert_int_equal(a->is_optimal, b->is_optimal);
    assert_int_equal(a->line_ns, b->line_ns);
    n->same++;
    n->stages += a->n_stages;
}

static void max_load_is_the_same(void **state)
{
    (void)state;
    struct count n = {0};
    uint32_t uneven = 0, tight = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t seed = i * 104729 + 3;
        struct dp_plan_maxload ask = {.accel_bytes = UINT64_MAX};
        double speed[MAX_DEVICES];
        struct dp_graph_plan a, b;
        struct dp_graph g;
        struct dp_err err;
        int rc_a, rc_b;

        if (random_below(&seed, 4)) {
            make_line(&g, &seed, DP_GRAPH_COSTS, 1 + random_below(&seed, 30), random_below(&seed, 2) ? 0 : random_below(&seed, 40));
        } else {
            dp_graph_init(&g, DP_GRAPH_COSTS);
            graph_make_nodes(&g, &seed, 1 + random_below(&seed, 9), 10 + random_below(&seed, 60));
        }
        ask.n_accel = 1 + random_below(&seed, MAX_DEVICES);
        ask.n_cpus = random_below(&seed, 4) ? 0 : 1 + random_below(&seed, 2);
        for (uint32_t v = 0; ask.n_cpus && v < g.n_nodes; v++) /* files with times of CPUs know no outputs that are kept */
            g.node[v].kept_bytes = 0;
        if (ask.n_cpus && random_below(&seed, 3) == 0)
            g.node[random_below(&seed, g.n_nodes)].only_on_cpu = true;
        if (random_below(&seed, 3) == 0)
            ask.accel_bytes = memory_of(&g, &seed, ask.n_accel);
        for (uint32_t k = 0; k < ask.n_accel; k++)
            speed[k] = 0.25 * (1 + random_below(&seed, 8));
        if (random_below(&seed, 3) == 0)
            ask.speed = speed;
        assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
        rc_a = dp_plan_maxload_find(&g, &ask, &a, &err);
        ask.is_lean = true;
        rc_b = dp_plan_maxload_find(&g, &ask, &b, &err);
        if (rc_a != rc_b || (rc_a == 0 && a.load_ns != b.load_ns))
            print_message("# case %lu: %lu ns with a table, %lu without, %s\n", (unsigned long)i, (unsigned long)a.load_ns,
                          (unsigned long)b.load_ns, rc_a < 0 || rc_b < 0 ? err.text : "");
        compare_loads(&a, rc_a, &b, rc_b, &n);
        if (rc_a == 0 && !ask.speed && ask.accel_bytes == UINT64_MAX && !ask.n_cpus) /* both use as few as there need be */
            assert_int_equal(a.n_devices, b.n_devices);
        uneven += rc_a == 0 && ask.speed;
        tight += ask.accel_bytes != UINT64_MAX;
        dp_graph_plan_release(&a);
        dp_graph_plan_release(&b);
        dp_graph_release(&g);
    }
    print_message("# %u the same, of them %u on unequal devices; %u refused; %u with limits of memory; %u stages\n", n.same, uneven,
                  n.refused, tight, n.stages);
    assert_true(n.same > 15000 && n.refused > 100 && uneven > 3000 && tight > 3000 && n.stages > 2 * n.same);
}

static void straight_is_the_same(void **state)
{
    (void)state;
    struct count n = {0};

    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t seed = i * 15485863 + 7;
        struct dp_plan_hierarchical ask = {.n_levels = 1, .bytes_per_s = {1e9}, .accel_bytes = UINT64_MAX, .is_straight = true};
        struct dp_graph_plan a, b;
        struct dp_graph g;
        int rc_a, rc_b;

        make_line(&g, &seed, DP_GRAPH_PROFILE, 1 + random_below(&seed, 24), random_below(&seed, 2) ? 0 : random_below(&seed, 30));
        ask.devices[0] = 1 + random_below(&seed, MAX_DEVICES);
        ask.microbatches = random_below(&seed, 4) ? 8 : 0;
        if (random_below(&seed, 3) == 0)
            ask.accel_bytes = memory_of(&g, &seed, ask.devices[0]);
        assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
        rc_a = dp_plan_hierarchical_find(&g, &ask, &a, NULL);
        ask.is_lean = true;
        rc_b = dp_plan_hierarchical_find(&g, &ask, &b, NULL);
        compare_loads(&a, rc_a, &b, rc_b, &n);
        dp_graph_plan_release(&a);
        dp_graph_plan_release(&b);
        dp_graph_release(&g);
    }
    print_message("# %u the same, %u refused, %u stages\n", n.same, n.refused, n.stages);
    assert_true(n.same > 15000 && n.refused > 100 && n.stages > 2 * n.same);
}

/* No device works longer than the bound says that one must, and one unit and its traffic more. */
static void long_chains(void **state)
{
    (void)state;
    static const uint32_t size[][2] = {{20000, 4}, {60000, 3000}, {100000, 10000}};

    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        uint64_t seed = 11 + i, most = 0, most_send = 0, begin = dp_thread_cpu_ns();
        struct dp_plan_maxload ask = {.algorithm = DP_PLAN_EXACT, .n_accel = size[i][1], .accel_bytes = UINT64_MAX};
        struct dp_graph_plan p;
        struct dp_graph g;
        struct dp_err err;

        make_line(&g, &seed, DP_GRAPH_COSTS, size[i][0], 0);
        assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
        for (uint32_t v = 0; v < g.n_nodes; v++) {
            most = g.node[v].forward_ns > most ? g.node[v].forward_ns : most;
            most_send = g.node[v].send_ns > most_send ? g.node[v].send_ns : most_send;
        }
        if (dp_plan_maxload_find(&g, &ask, &p, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(p.is_optimal);
        assert_true(p.load_ns >= p.bound_ns && p.load_ns <= p.bound_ns + most + 2 * most_send);
        print_message("# %u units on %u devices: %.3f s\n", size[i][0], size[i][1], (double)(dp_thread_cpu_ns() - begin) * 1e-9);
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(max_load_is_the_same),
    cmocka_unit_test(straight_is_the_same),
    cmocka_unit_test(long_chains),
};
TEST_MAIN("graph_lean", tests)
