/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/graph/search: the search for orders is never worse than the few orders that it begins with, finds the best of small graphs,
 * keeps to its seed, and moves units without losing count of loads. */
#include "config.h"

#include "tests/unit/unit.h"

#include "policies/graph/bench/cells.h"
#include "policies/graph/check.h"
#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/maxload/refine.h"
#include "policies/graph/search/rule.h"
#include "tests/unit/policies/graph_util.h"

#define STEPS 200000u /* of a search here */

static const enum dp_plan_algorithm algorithms[] = {DP_PLAN_LINE, DP_PLAN_RANDOM, DP_PLAN_ANNEAL, DP_PLAN_GENETIC};

static void make_cells(struct dp_graph *g, uint32_t n, uint64_t seed, double bandwidth)
{
    assert_int_equal(dp_cells_make(g, n, seed, NULL), 0);
    assert_int_equal(dp_graph_set_bandwidth(g, bandwidth, NULL), 0);
}

static void make_small(struct dp_graph *g, uint64_t *seed)
{
    dp_graph_init(g, DP_GRAPH_COSTS);
    graph_make_nodes(g, seed, 2 + random_below(seed, 8), 10 + random_below(seed, 30));
    assert_int_equal(dp_graph_finish(g, NULL, NULL), 0);
}

static struct dp_graph_plan plan(const struct dp_graph *g, enum dp_plan_algorithm algorithm, uint32_t n, uint64_t seed, uint64_t steps)
{
    const struct dp_plan_maxload ask = {
        .algorithm = algorithm, .n_accel = n, .accel_bytes = UINT64_MAX, .seed = seed, .search_steps = steps};
    struct dp_graph_plan p;
    struct dp_err err = {.text = ""};

    if (dp_plan_maxload_find(g, &ask, &p, &err) < 0)
        fail_msg("%s", err.text);
    return p;
}

/* Every algorithm, on networks of cells: at most the load of the few orders, and the plan keeps it. */
static void never_worse(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct dp_graph g;

        make_cells(&g, 60 + 40 * i, i, i % 2 ? 1e8 : 1e9);
        for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
            struct dp_graph_plan p = plan(&g, algorithms[a], 4 + i, i, STEPS);

            assert_int_equal(p.algorithm, algorithms[a]);
            assert_true(p.line_ns > 0);
            assert_true(p.load_ns <= p.line_ns);
            assert_true(p.bound_ns <= p.load_ns);
            assert_int_equal(dp_graph_check(&g, p.stage_of, p.n_stages, NULL), 0);
            dp_graph_plan_release(&p);
        }
        dp_graph_release(&g);
    }
}

/* What is drawn first is the code's to say, and no compiler's: so loads of networks that are drawn, too, and orders that are bred,
 * are the same in every build. */
static void same_in_every_build(void **state)
{
    (void)state;
    static const uint64_t load_ns[] = {12908968, 17299304, 13536792};

    for (uint32_t i = 0; i < 3; i++) {
        struct dp_graph_plan p;
        struct dp_graph g;

        make_cells(&g, 120, i, 1e9);
        p = plan(&g, DP_PLAN_GENETIC, 8, i, 10 * STEPS);
        assert_int_equal(p.load_ns, load_ns[i]);
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
}

/* ---- a source of orders ---- */

static struct { /* one with the order of the units for every number, and how often it was asked */
    uint32_t n_units, n_asked, n_begun, n_ended;
} odd;

static int odd_begin(const void *arg, const struct dp_units *units, uint32_t n_devices, void **walk, struct dp_err *err)
{
    (void)arg;
    (void)n_devices;
    (void)err;
    odd.n_units = units->n;
    odd.n_begun++;
    *walk = &odd;
    return 0;
}

static int odd_order(void *walk, uint64_t seed, uint64_t number, uint64_t max_steps, uint32_t *order, uint64_t *steps, struct dp_err *err)
{
    (void)seed;
    (void)max_steps;
    (void)err;
    assert_ptr_equal(walk, &odd);
    assert_int_equal(number, odd.n_asked++);
    for (uint32_t v = 0; v < odd.n_units; v++)
        order[v] = v;
    *steps += odd.n_units;
    return 1;
}

static void odd_end(void *walk)
{
    assert_ptr_equal(walk, &odd);
    odd.n_ended++;
}

static struct dp_graph_plan plan_with(const struct dp_graph *g, enum dp_plan_algorithm algorithm, const struct dp_order_source *source)
{
    const struct dp_plan_maxload ask = {
        .algorithm = algorithm, .n_accel = 8, .accel_bytes = UINT64_MAX, .search_steps = 3 * STEPS, .source = source};
    struct dp_graph_plan p;

    assert_int_equal(dp_plan_maxload_find(g, &ask, &p, NULL), 0);
    return p;
}

/* `learned` cuts orders of the source, as many as there is time for, and no others; `line` as many as the source calls its best, then
 * its rules. Neither is worse than the few orders. */
static void asks_its_source(void **state)
{
    (void)state;
    struct dp_graph g;
    const struct dp_order_source source = {.n = 2, .begin = odd_begin, .order = odd_order, .end = odd_end};
    struct dp_graph_plan p;

    make_cells(&g, 100, 2, 1e9);
    p = plan_with(&g, DP_PLAN_LEARNED, &source);
    assert_int_equal(p.algorithm, DP_PLAN_LEARNED);
    assert_true(p.n_learned > 2);
    assert_int_equal(p.n_learned, odd.n_asked);
    assert_true(p.load_ns <= p.line_ns);
    assert_true(p.learned_ns == 0 || p.learned_ns >= p.load_ns);
    dp_graph_plan_release(&p);
    odd.n_asked = 0;
    p = plan_with(&g, DP_PLAN_LINE, &source);
    assert_int_equal(p.n_learned, 2);
    assert_int_equal(odd.n_asked, 2);
    assert_true(p.load_ns <= p.line_ns);
    assert_int_equal(odd.n_begun, 2);
    assert_int_equal(odd.n_ended, 2);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

/* A plan of `learned` without anybody to ask is refused. */
static void learned_needs_a_source(void **state)
{
    (void)state;
    const struct dp_plan_maxload ask = {.algorithm = DP_PLAN_LEARNED, .n_accel = 4, .accel_bytes = UINT64_MAX};
    struct dp_err err = {.text = ""};
    struct dp_graph_plan p;
    struct dp_graph g;

    make_cells(&g, 60, 2, 1e9);
    assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

/* The search is of use: there is a network of cells for which it is better. */
static void better_somewhere(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_graph_plan p;

    make_cells(&g, 325, 0, 1.25e9);
    p = plan(&g, DP_PLAN_LINE, 16, 0, 0);
    assert_true(p.load_ns < p.line_ns);
    assert_true(p.n_orders > 4);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

/* What `auto` says of a graph whose ideals are few is the best there is: no order can be better, and the search comes near. */
static void small_graphs(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint32_t n_best = 0;

    for (uint32_t i = 0; i < 300; i++) {
        struct dp_graph g;
        struct dp_graph_plan exact, p;
        uint32_t n = 2 + random_below(&seed, 3);

        make_small(&g, &seed);
        exact = plan(&g, DP_PLAN_EXACT, n, 0, 0);
        p = plan(&g, DP_PLAN_LINE, n, i, 20000);
        assert_true(exact.is_optimal);
        assert_true(p.load_ns >= exact.load_ns);
        assert_true(p.load_ns <= p.line_ns);
        n_best += p.load_ns == exact.load_ns;
        dp_graph_plan_release(&exact);
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
    assert_true(n_best >= 297);
}

static void same_seed(void **state)
{
    (void)state;
    struct dp_graph g;

    make_cells(&g, 200, 3, 1e9);
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        struct dp_graph_plan p = plan(&g, algorithms[a], 8, 5, STEPS), q = plan(&g, algorithms[a], 8, 5, STEPS);

        assert_int_equal(p.load_ns, q.load_ns);
        assert_int_equal(p.n_stages, q.n_stages);
        assert_int_equal(p.n_orders, q.n_orders);
        assert_memory_equal(p.stage_of, q.stage_of, g.n_nodes * sizeof *p.stage_of);
        dp_graph_plan_release(&p);
        dp_graph_plan_release(&q);
    }
    dp_graph_release(&g);
}

/* With replicas and machines: no worse than without a search, whose steps are the least there are. */
static void hierarchical(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct dp_plan_hierarchical ask = {.n_levels = 1 + i % 2,
                                           .devices = {4, 2},
                                           .bytes_per_s = {2e8, 1e8},
                                           .accel_bytes = UINT64_MAX,
                                           .microbatches = 16,
                                           .max_ideals = 100,
                                           .is_straight = i >= 4,
                                           .search_steps = 1};
        struct dp_graph_plan few, p;
        struct dp_err err = {.text = ""};
        struct dp_graph g;

        make_cells(&g, 60 + 10 * i, i, 2e8);
        if (dp_plan_hierarchical_find(&g, &ask, &few, &err) < 0)
            fail_msg("%s", err.text);
        ask.search_steps = 2000000;
        if (dp_plan_hierarchical_find(&g, &ask, &p, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(p.load_ns <= few.load_ns);
        assert_true(p.n_orders >= few.n_orders);
        assert_true(p.bound_ns <= p.load_ns);
        dp_graph_plan_release(&few);
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
}

static bool stop_later(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    assert_true(searched >= 0 && searched <= 1.5);
    assert_true(best_ns == 0 || best_ns >= bound_ns);
    return ++*(uint32_t *)arg < 2000;
}

/* A search without an end ends when it is told to, with a plan. */
static void ended(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        uint32_t asked = 0;
        const struct dp_plan_watch watch = {stop_later, &asked};
        struct dp_plan_maxload ask = {
            .algorithm = algorithms[a], .n_accel = 8, .accel_bytes = UINT64_MAX, .search_steps = UINT64_MAX, .watch = &watch};
        struct dp_graph_plan p;
        struct dp_graph g;

        make_cells(&g, 120, 1, 1e8);
        assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, NULL), 0);
        assert_true(p.was_ended && p.n_stages > 0 && p.load_ns <= p.line_ns);
        assert_true(asked >= 2000);
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
}

static uint64_t load_of(const struct dp_graph *g, const struct dp_units *u, const uint32_t *stage, uint32_t n_stages)
{
    uint32_t *stage_of = calloc(g->n_nodes, sizeof *stage_of);
    struct dp_stage_load *load = calloc(n_stages, sizeof *load);
    uint64_t most = 0;

    assert_non_null(stage_of);
    assert_non_null(load);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        stage_of[i] = stage[u->unit_of[i]];
    assert_int_equal(dp_graph_check(g, stage_of, n_stages, NULL), 0);
    assert_int_equal(dp_graph_loads(g, stage_of, n_stages, load, NULL), 0);
    for (uint32_t s = 0; s < n_stages; s++)
        most = load[s].accel_ns + load[s].traffic_ns > most ? load[s].accel_ns + load[s].traffic_ns : most;
    free(stage_of);
    free(load);
    return most;
}

/* Moves, at any heat: a valid plan, never slower by the check's own count, and faster where it begins badly. */
static void moves(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct dp_units u;
        struct dp_graph g;
        struct dp_refine q = {.units = &u, .accel_bytes = UINT64_MAX, .seed = i, .max_steps = STEPS, .heat = i % 3 * 2000};
        uint32_t *stage, n_stages = 2 + i % 5;
        uint64_t steps = 0, before, after;

        make_cells(&g, 80, i, 1e9);
        assert_int_equal(dp_units_create(&u, &g, NULL), 0);
        stage = calloc(u.n, sizeof *stage);
        assert_non_null(stage);
        for (uint32_t v = 0; v < u.n; v++) /* nearly everything in the last one */
            stage[v] = v < n_stages - 1 ? v : n_stages - 1;
        before = load_of(&g, &u, stage, n_stages);
        assert_int_equal(dp_refine_run(&q, stage, &steps, NULL), 0);
        after = load_of(&g, &u, stage, n_stages);
        assert_true(after < before);
        assert_true(steps > 0);
        free(stage);
        dp_units_release(&u);
        dp_graph_release(&g);
    }
}

/* A plan that leaves stages unused: passes part what there is, and no edge leads backwards. */
static void parts(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct dp_units u;
        struct dp_graph g;
        struct dp_refine q = {.units = &u, .accel_bytes = UINT64_MAX, .n_stages = 6, .seed = i, .max_steps = STEPS, .heat = i % 3 * 2000};
        uint32_t *stage, n_used = 0, n_before = 1 + i % 3;
        bool is_used[6] = {false};
        uint64_t steps = 0, before;

        make_cells(&g, 80, i, 1e9);
        assert_int_equal(dp_units_create(&u, &g, NULL), 0);
        stage = calloc(u.n, sizeof *stage);
        assert_non_null(stage);
        for (uint32_t v = 0; v < u.n; v++)
            stage[v] = v * n_before / u.n;
        before = load_of(&g, &u, stage, 6);
        assert_int_equal(dp_refine_run(&q, stage, &steps, NULL), 0);
        assert_true(load_of(&g, &u, stage, 6) < before);
        for (uint32_t v = 0; v < u.n; v++) {
            assert_true(stage[v] < 6);
            n_used += !is_used[stage[v]];
            is_used[stage[v]] = true;
            for (uint32_t k = u.succ_at[v]; k < u.succ_at[v + 1]; k++)
                assert_true(stage[v] <= stage[u.succ[k]]);
        }
        assert_true(n_used > n_before);
        free(stage);
        dp_units_release(&u);
        dp_graph_release(&g);
    }
}

/* Every rule makes an order: all units, none before one of its predecessors. */
static void rules(void **state)
{
    (void)state;
    struct dp_rule_facts f;
    struct dp_units u;
    struct dp_graph g;
    uint32_t *order, *place;

    make_cells(&g, 150, 9, 1e9);
    assert_int_equal(dp_units_create(&u, &g, NULL), 0);
    assert_int_equal(dp_rule_facts_create(&f, &u, 4, NULL), 0);
    order = calloc(u.n, sizeof *order);
    place = calloc(u.n, sizeof *place);
    assert_non_null(order);
    assert_non_null(place);
    for (uint64_t number = 0; number < 64; number++) {
        struct dp_rule rule;
        uint64_t steps = 0;

        dp_rule_draw(&rule, 1, number);
        assert_int_equal(dp_rule_order(&f, &rule, UINT64_MAX, order, &steps, NULL), 1);
        memset(place, 0xff, u.n * sizeof *place);
        for (uint32_t i = 0; i < u.n; i++)
            place[order[i]] = i;
        for (uint32_t v = 0; v < u.n; v++) {
            assert_true(place[v] < u.n);
            for (uint32_t i = u.pred_at[v]; i < u.pred_at[v + 1]; i++)
                assert_true(place[u.pred[i]] < place[v]);
        }
        assert_int_equal(dp_rule_order(&f, &rule, 3, order, &steps, NULL), 0);
    }
    free(order);
    free(place);
    dp_rule_facts_release(&f);
    dp_units_release(&u);
    dp_graph_release(&g);
}

/* A rule within the stages of a plan: those of lower stages come first, none before one of its predecessors, and not all in the order
 * of their numbers. */
static void rules_within_stages(void **state)
{
    (void)state;
    struct dp_rule_facts f;
    struct dp_units u;
    struct dp_graph g;
    uint32_t *order, *place, *stage, n_turned = 0;

    make_cells(&g, 150, 9, 1e9);
    assert_int_equal(dp_units_create(&u, &g, NULL), 0);
    assert_int_equal(dp_rule_facts_create(&f, &u, 4, NULL), 0);
    order = calloc(u.n, sizeof *order);
    place = calloc(u.n, sizeof *place);
    stage = calloc(u.n, sizeof *stage);
    assert_true(order && place && stage);
    for (uint32_t v = 0; v < u.n; v++)
        stage[v] = v * 4 / u.n;
    for (uint64_t number = 0; number < 64; number++) {
        struct dp_rule rule;
        uint64_t steps = 0;

        dp_rule_draw(&rule, 1, number);
        rule.stage = stage;
        assert_int_equal(dp_rule_order(&f, &rule, UINT64_MAX, order, &steps, NULL), 1);
        memset(place, 0xff, u.n * sizeof *place);
        for (uint32_t i = 0; i < u.n; i++) {
            place[order[i]] = i;
            assert_true(i == 0 || stage[order[i - 1]] <= stage[order[i]]);
            n_turned += i > 0 && order[i - 1] > order[i];
        }
        for (uint32_t v = 0; v < u.n; v++)
            for (uint32_t i = u.pred_at[v]; i < u.pred_at[v + 1]; i++)
                assert_true(place[u.pred[i]] < place[v] && place[v] < u.n);
    }
    assert_true(n_turned > 64);
    free(order);
    free(place);
    free(stage);
    dp_rule_facts_release(&f);
    dp_units_release(&u);
    dp_graph_release(&g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(never_worse), cmocka_unit_test(better_somewhere), cmocka_unit_test(small_graphs),
    cmocka_unit_test(same_seed),   cmocka_unit_test(same_in_every_build), cmocka_unit_test(hierarchical),     cmocka_unit_test(ended),
    cmocka_unit_test(moves),       cmocka_unit_test(parts),            cmocka_unit_test(rules),
    cmocka_unit_test(rules_within_stages), cmocka_unit_test(asks_its_source), cmocka_unit_test(learned_needs_a_source),
};
TEST_MAIN("graph_search", tests)
