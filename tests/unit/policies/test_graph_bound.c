/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/graph/maxload/flow, bound, count: the least load of a stage with a unit is what its description says, by looking at all sets of
 * units of small graphs, and never above that of a stage that a plan can have. That the bound of a plan is never above the best
 * plan see test_graph_plan. */
#include "config.h"

#include "tests/unit/unit.h"

#include "policies/graph/maxload/bound.h"
#include "policies/graph/maxload/count.h"
#include "policies/graph/maxload/flow.h"
#include "tests/unit/policies/graph_util.h"

#define MAX_UNITS 9u
#define NO_LIMIT UINT64_MAX

struct small {
    struct dp_graph g;
    struct dp_units u;
    uint32_t below[MAX_UNITS], above[MAX_UNITS]; /* sets of units, a bit each */
    uint32_t net[64];                            /* likewise */
};

static void make(struct small *t, uint64_t *seed)
{
    uint32_t edges = 10 + random_below(seed, 40);

    *t = (struct small){.below = {0}};
    dp_graph_init(&t->g, DP_GRAPH_COSTS);
    graph_make_nodes(&t->g, seed, 2 + random_below(seed, MAX_UNITS - 1), edges);
    assert_int_equal(dp_graph_finish(&t->g, NULL, NULL), 0);
    assert_int_equal(dp_units_create(&t->u, &t->g, NULL), 0);
    assert_true(t->u.n <= MAX_UNITS && t->u.n_nets <= 64);
    for (uint32_t v = 0; v < t->u.n; v++) { /* in an order that no edge contradicts */
        for (uint32_t k = t->u.pred_at[v]; k < t->u.pred_at[v + 1]; k++)
            t->below[v] |= 1u << t->u.pred[k] | t->below[t->u.pred[k]];
        for (uint32_t k = t->u.net_of_at[v]; k < t->u.net_of_at[v + 1]; k++)
            t->net[t->u.net_of[k]] |= 1u << v;
    }
    for (uint32_t v = 0; v < t->u.n; v++)
        for (uint32_t w = 0; w < t->u.n; w++)
            t->above[v] |= t->below[w] >> v & 1 ? 1u << w : 0;
}

static void release(struct small *t)
{
    dp_units_release(&t->u);
    dp_graph_release(&t->g);
}

static uint64_t load_of(const struct small *t, uint32_t set)
{
    uint64_t load = 0;

    for (uint32_t v = 0; v < t->u.n; v++)
        load += set >> v & 1 ? t->u.accel_ns[v] : 0;
    for (uint32_t net = 0; net < t->u.n_nets; net++)
        load += (set & t->net[net]) && (~set & t->net[net]) ? t->u.net_ns[net] : 0;
    return load;
}

/* Between two units of the set, are all that lie between them in it? A plan's stages are so. */
static bool is_convex(const struct small *t, uint32_t set)
{
    for (uint32_t v = 0; v < t->u.n; v++)
        if (!(set >> v & 1) && (t->below[v] & set) && (t->above[v] & set))
            return false;
    return true;
}

/* Likewise between `unit` and any. */
static bool is_convex_from(const struct small *t, uint32_t set, uint32_t unit)
{
    for (uint32_t v = 0; v < t->u.n; v++)
        if (!(set >> v & 1) && ((t->below[v] >> unit & 1 && (t->above[v] & set)) || (t->above[v] >> unit & 1 && (t->below[v] & set))))
            return false;
    return true;
}

static void is_the_least_cut(void **state)
{
    (void)state;
    uint32_t asked = 0, is_of_a_plan = 0, ended = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i * 7919 + 3;
        struct dp_flow f, early;
        struct small t;

        make(&t, &seed);
        assert_int_equal(dp_flow_create(&f, &t.u, 1, NO_LIMIT, NULL), 0);
        for (uint32_t v = 0; v < t.u.n; v++) {
            uint64_t least = UINT64_MAX, of_plan = UINT64_MAX, found, some;

            for (uint32_t set = 0; set < 1u << t.u.n; set++) {
                uint64_t load = set >> v & 1 ? load_of(&t, set) : UINT64_MAX;

                least = load < least && is_convex_from(&t, set, v) ? load : least;
                of_plan = load < of_plan && is_convex(&t, set) ? load : of_plan;
            }
            found = dp_flow_least_ns(&f, v);
            if (found != least)
                fail_msg("case %lu, unit %u: %lu, not %lu", (unsigned long)i, v, (unsigned long)found, (unsigned long)least);
            assert_true(found <= of_plan);
            assert_int_equal(dp_flow_create(&early, &t.u, 1, 1 + random_below(&seed, 60), NULL), 0);
            some = dp_flow_least_ns(&early, v);
            assert_true(some <= found);
            ended += some < found;
            dp_flow_release(&early);
            is_of_a_plan += found == of_plan;
            asked++;
        }
        dp_flow_release(&f);
        release(&t);
    }
    print_message("# %u units, %u with a stage of a plan; %u ended before\n", asked, is_of_a_plan, ended);
    assert_true(asked > 10000 && is_of_a_plan > asked / 10 * 9 && ended > 1000);
}

/* Without units that are too far: some unit, and what lies beyond it. */
static void leaves_out_what_is_far(void **state)
{
    (void)state;
    uint32_t raised = 0;

    for (uint64_t i = 0; i < 1500; i++) {
        uint64_t seed = i * 15485863 + 5;
        struct dp_flow f;
        struct small t;

        make(&t, &seed);
        assert_int_equal(dp_flow_create(&f, &t.u, 1, NO_LIMIT, NULL), 0);
        for (uint32_t v = 0; v < t.u.n; v++) {
            uint32_t far = 0, w = random_below(&seed, t.u.n);
            uint64_t least = UINT64_MAX, found;
            bool without[MAX_UNITS];

            far |= t.below[w] >> v & 1 ? 1u << w | t.above[w] : 0;
            far |= t.above[w] >> v & 1 ? 1u << w | t.below[w] : 0;
            for (uint32_t k = 0; k < t.u.n; k++)
                without[k] = far >> k & 1;
            for (uint32_t set = 0; set < 1u << t.u.n; set++) {
                uint64_t load = (set >> v & 1) && !(set & far) ? load_of(&t, set) : UINT64_MAX;

                least = load < least && is_convex_from(&t, set, v) ? load : least;
            }
            found = dp_flow_least_without_ns(&f, v, without);
            if (found != least)
                fail_msg("case %lu, unit %u: %lu, not %lu", (unsigned long)i, v, (unsigned long)found, (unsigned long)least);
            least = dp_flow_least_ns(&f, v); /* nothing is left of it */
            assert_true(least <= found);
            raised += found > least;
        }
        dp_flow_release(&f);
        release(&t);
    }
    print_message("# more without what is far: %u units\n", raised);
    assert_true(raised > 50);
}

/* best: [n_accel + 1][sets] the least load of a set in so many stages, UINT64_MAX where it can be none. */
static uint64_t best_of(const struct small *t, uint32_t n_accel, uint64_t (*best)[1u << MAX_UNITS])
{
    uint32_t all = (1u << t->u.n) - 1;

    memset(best[0], 0xff, sizeof best[0]);
    best[0][0] = 0;
    for (uint32_t k = 1; k <= n_accel; k++)
        for (uint32_t set = 0; set <= all; set++) {
            uint64_t least = best[k - 1][set];

            for (uint32_t last = set; last && least; last = (last - 1) & set) /* sets before it are closed because those are */
                if (best[k - 1][set & ~last] < least) {
                    uint64_t load = load_of(t, last);
                    bool is_closed = true;

                    for (uint32_t v = 0; v < t->u.n; v++)
                        is_closed = is_closed && (!(last >> v & 1) || !(t->below[v] & ~set));
                    load = load > best[k - 1][set & ~last] ? load : best[k - 1][set & ~last];
                    least = is_closed && load < least ? load : least;
                }
            best[k][set] = least;
        }
    return best[n_accel][all];
}

/* Never above the best plan, whatever plan is known and wherever it ends; and often above what else is known. */
static void counts_stages(void **state)
{
    (void)state;
    static uint64_t best[5][1u << MAX_UNITS];
    uint32_t asked = 0, raised = 0, reached = 0;

    for (uint64_t i = 0; i < 300; i++) {
        uint64_t seed = i * 32452843 + 17;
        struct small t;

        make(&t, &seed);
        for (uint32_t n = 2; n <= 4; n++) {
            uint64_t least = best_of(&t, n, best), old = 0, bound, known;
            enum dp_plan_bound by;
            uint32_t unit;

            assert_int_equal(dp_bound_maxload(&t.u, n, NULL, 0, UINT64_MAX, &old, &by, NULL), 0);
            assert_int_equal(dp_bound_stage(&t.u, n, NULL, 0, NO_LIMIT, &old, &unit, NULL), 0);
            assert_true(old <= least);
            for (int kind = 0; kind < 4; kind++) { /* the best plan is known, a worse one, all on one device; and it ends early */
                int rc;

                known = kind == 0 ? least : kind == 1 ? least + random_below(&seed, 10) : load_of(&t, (1u << t.u.n) - 1);
                bound = kind % 2 ? old : 0;
                rc = dp_bound_count(&t.u, n, known, kind == 3 ? 1 + random_below(&seed, 400) : NO_LIMIT, &bound, NULL);
                if (bound > least)
                    fail_msg("case %lu, %u devices, %d: %lu above the best, %lu", (unsigned long)i, n, kind, (unsigned long)bound,
                             (unsigned long)least);
                assert_true(rc == 0 || rc == 1);
                assert_int_equal(rc, bound > (kind % 2 ? old : 0));
                raised += kind == 1 && bound > old;
                reached += kind == 1 && bound > old && bound == least;
            }
            asked++;
        }
        release(&t);
    }
    print_message("# %u questions: above the other bounds in %u, the best in %u of them\n", asked, raised, reached);
    assert_true(raised > 50 && reached > 0);
}

/* The dearest of all units, and which it is; with CPUs and speeds no more than that. */
static void takes_the_dearest_unit(void **state)
{
    (void)state;
    static const double speed[2] = {0.5, 2};
    uint32_t raised = 0;

    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t seed = i * 104729 + 11, want = 0, bound = 0, mixed = 0, fast = 0;
        uint32_t unit = DP_NO_UNIT, other = DP_NO_UNIT;
        struct dp_flow f;
        struct small t;

        make(&t, &seed);
        assert_int_equal(dp_flow_create(&f, &t.u, 1, NO_LIMIT, NULL), 0);
        for (uint32_t v = 0; v < t.u.n; v++) {
            uint64_t least = dp_flow_least_ns(&f, v);

            want = least > want ? least : want;
        }
        assert_int_equal(dp_bound_stage(&t.u, 3, NULL, 0, NO_LIMIT, &bound, &unit, NULL), 0);
        assert_int_equal(bound, want);
        assert_true(unit == DP_NO_UNIT ? bound == 0 : dp_flow_least_ns(&f, unit) == bound);
        assert_int_equal(dp_bound_stage(&t.u, 3, NULL, 1, NO_LIMIT, &mixed, &other, NULL), 0);
        assert_true(mixed <= bound);
        assert_int_equal(dp_bound_stage(&t.u, 2, speed, 0, NO_LIMIT, &fast, &other, NULL), 0);
        assert_true(fast <= bound);
        raised += bound > 0;
        bound++; /* a better one is known: it stays */
        unit = DP_NO_UNIT;
        assert_int_equal(dp_bound_stage(&t.u, 3, NULL, 0, NO_LIMIT, &bound, &unit, NULL), 0);
        assert_true(bound == want + 1 && unit == DP_NO_UNIT);
        dp_flow_release(&f);
        release(&t);
    }
    assert_true(raised > 1500);
}

/* A chain of two units between which much is sent, and between which nothing else lies: one stage holds both. */
static void sees_forced_traffic(void **state)
{
    (void)state;
    static const uint64_t send[] = {2, 50, 2, 0};
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_plan_maxload ask = {.n_accel = 4, .accel_bytes = UINT64_MAX, .algorithm = DP_PLAN_LINE};

    dp_graph_init(&g, DP_GRAPH_COSTS);
    for (uint32_t i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), 0};
        struct dp_graph_node node = {.name = name, .colour = i, .forward_ns = 10, .cpu_ns = 10, .send_ns = send[i]};

        assert_true(dp_graph_add_node(&g, &node, NULL) == i);
        if (i)
            assert_int_equal(dp_graph_add_edge(&g, i - 1, i, 0, NULL), 0);
    }
    g.n_colours = 4;
    assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
    assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, NULL), 0);
    assert_int_equal(p.load_ns, 24); /* a | b c | d */
    assert_int_equal(p.bound_ns, 24);
    assert_int_equal(p.bound_by, DP_PLAN_BOUND_STAGE);
    assert_string_equal(g.node[p.bound_node].name, "b");
    assert_true(p.is_optimal);
    dp_graph_plan_release(&p);
    ask.n_accel = 1;
    assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, NULL), 0);
    assert_int_equal(p.bound_by, DP_PLAN_BOUND_WORK);
    assert_int_equal(p.bound_ns, 40);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_least_cut),
        cmocka_unit_test(takes_the_dearest_unit),
        cmocka_unit_test(leaves_out_what_is_far),
        cmocka_unit_test(counts_stages),
        cmocka_unit_test(sees_forced_traffic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
