/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan and its simulation mean the same: what a microbatch takes on the busiest device, and the memory of each. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/sim/replan.h"
#include "tests/unit/policies/graph_util.h"
#include "tests/unit/policies/simulated.h"

static void simulate(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net, uint32_t microbatches,
                     uint64_t latency_ns, struct seen *seen)
{
    struct dp_sim_case c = {.schedule = DP_SCHED_1F1B, .devices = p->algorithm == DP_PLAN_HIERARCHICAL ? net->devices[0] : p->n_stages,
                            .chunks = 1, .replicas = 1, .buckets = 1, .iterations = 1, .microbatches = microbatches};

    c.inside.latency_ns = latency_ns;
    simulate_plan(g, p, net, &c, seen);
}

static void make_profile(struct dp_graph *g, uint64_t *seed)
{
    uint32_t n = 2 + random_below(seed, 8);

    dp_graph_init(g, DP_GRAPH_PROFILE);
    graph_make_nodes(g, seed, n, 20 + random_below(seed, 60));
    for (uint32_t i = 0; i < n; i++) {
        struct dp_graph_node *node = &g->node[i];

        node->forward_ns = 1000 * (1 + random_below(seed, 40));
        node->backward_ns = 1000 * (1 + random_below(seed, 40));
        node->cpu_ns = node->send_ns = 0;
        node->output_bytes = random_below(seed, 4) ? random_below(seed, 90000) : 0;
        node->param_bytes = random_below(seed, 3) ? random_below(seed, 90000) : 0;
        node->bytes = DP_GRAPH_STATE_OF_PARAMETERS * node->param_bytes;
        node->kept_bytes = node->output_bytes;
    }
    assert_int_equal(dp_graph_finish(g, NULL, NULL), 0);
}

/* No device, and no link, is done sooner in the simulation than the plan says, and they need what it says. */
static void compare(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net, uint32_t microbatches)
{
    struct seen seen;
    uint64_t state = 0;

    simulate(g, p, net, microbatches, 0, &seen);
    if (seen.iteration_ns + 2 * microbatches + 100 < p->load_ns * microbatches)
        fail_msg("%u microbatches of %llu ns are simulated in %llu ns", microbatches, (unsigned long long)p->load_ns,
                 (unsigned long long)seen.iteration_ns);
    for (uint32_t i = 0; i < seen.n_used; i++) {
        assert_int_equal(seen.mem[i], p->stage[seen.stage_of[i]].bytes);
        state += seen.mem[i];
    }
    assert_true(state > 0 || p->n_devices > 0);
}

static void plans_are_what_is_simulated(void **state)
{
    (void)state;
    uint32_t replicated = 0, paced_by_links = 0, refused = 0;

    for (uint64_t i = 0; i < 1500; i++) {
        uint64_t seed = i;
        struct dp_graph g;
        struct dp_graph_plan p;
        struct dp_err err;
        struct dp_plan_hierarchical ask = {.n_levels = 1, .devices = {1 + random_below(&seed, 6)}, .accel_bytes = UINT64_MAX,
                                           .microbatches = 420};

        make_profile(&g, &seed);
        ask.bytes_per_s[0] = 1e9 * (random_below(&seed, 2) ? 0.5 : 1 + random_below(&seed, 20));
        ask.is_straight = random_below(&seed, 4) == 0;
        if (random_below(&seed, 2))
            ask.accel_bytes = 200000 + random_below(&seed, 3000000);
        if (dp_plan_hierarchical_find(&g, &ask, &p, &err) < 0) {
            assert_int_equal(err.code, DP_ENOMEM);
            refused++;
        } else {
            compare(&g, &p, &ask, ask.microbatches);
            for (uint32_t s = 0; s < p.n_stages; s++) {
                assert_true(p.stage[s].bytes <= ask.accel_bytes);
                replicated += p.stage[s].replicas > 1;
                paced_by_links += p.stage[s].load_ns == p.load_ns && p.stage[s].traffic_ns == p.load_ns;
            }
        }
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
    print_message("# %u stages with replicas, %u plans at the pace of a link, %u that do not fit\n", replicated, paced_by_links, refused);
    assert_true(replicated > 200 && paced_by_links > 50 && refused > 20);
}

/* What leaves the first stage on few links sets the pace, however many links take it in. */
static void first_stage_pays_for_what_leaves_it(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_graph_stage stage[2] = {{.machines = 1, .replicas = 1}, {.machines = 1, .replicas = 3}};
    uint32_t stage_of[2] = {0, 1};
    struct dp_plan_hierarchical ask = {.n_levels = 1, .devices = {4}, .bytes_per_s = {1e9}, .accel_bytes = UINT64_MAX, .microbatches = 300};
    struct dp_graph_node node = {.name = (char[]){"a"}, .forward_ns = 100000, .backward_ns = 100000, .output_bytes = 20000000};
    struct seen seen;
    double each;

    dp_graph_init(&g, DP_GRAPH_PROFILE);
    assert_int_equal(dp_graph_add_node(&g, &node, NULL), 0);
    node = (struct dp_graph_node){.name = (char[]){"b"}, .colour = 1, .forward_ns = 9000000, .backward_ns = 9000000};
    assert_int_equal(dp_graph_add_node(&g, &node, NULL), 1);
    g.n_colours = 2;
    assert_int_equal(dp_graph_add_edge(&g, 0, 1, 0, NULL), 0);
    assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
    p = (struct dp_graph_plan){.algorithm = DP_PLAN_HIERARCHICAL, .n_stages = 2, .n_devices = 4, .stage = stage, .stage_of = stage_of};
    assert_int_equal(dp_plan_hierarchical_evaluate(&g, &ask, &p, NULL), 0);
    assert_int_equal(p.load_ns, 20000000);
    simulate(&g, &p, &ask, ask.microbatches, 0, &seen);
    each = (double)seen.iteration_ns / ask.microbatches;
    print_message("# 20 ms planned, %.2f ms simulated\n", each / 1e6);
    assert_true(each >= 20e6 && each < 20.5e6);
    dp_graph_release(&g);
}

/* Where transfers cost nothing the two algorithms mean the same, memory included: one device a stage. */
static void algorithms_agree_where_transfers_are_free(void **state)
{
    (void)state;
    uint32_t limited = 0, refused = 0;

    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t seed = i + 4711;
        struct dp_graph g;
        struct dp_graph_plan a, b;
        struct dp_err err;
        struct dp_plan_hierarchical ask = {.n_levels = 1, .devices = {1 + random_below(&seed, 4)}, .bytes_per_s = {1e18},
                                           .microbatches = 64, .is_straight = true};
        struct dp_plan_maxload other = {.n_accel = ask.devices[0]};
        int one, two;

        make_profile(&g, &seed);
        ask.accel_bytes = other.accel_bytes = random_below(&seed, 3) ? 200000 + random_below(&seed, 1200000) : UINT64_MAX;
        assert_int_equal(dp_graph_set_bandwidth(&g, 1e18, &err), 0);
        one = dp_plan_hierarchical_find(&g, &ask, &a, &err);
        two = dp_plan_maxload_find(&g, &other, &b, &err);
        assert_int_equal(one, two);
        refused += one < 0;
        if (one == 0) {
            assert_true(a.is_optimal && b.is_optimal);
            assert_int_equal(a.load_ns, b.load_ns);
            compare(&g, &b, &ask, 64);
            for (uint32_t s = 0; s < b.n_stages; s++)
                assert_true(b.stage[s].bytes <= other.accel_bytes);
            limited += ask.accel_bytes != UINT64_MAX;
        }
        dp_graph_plan_release(&a);
        dp_graph_plan_release(&b);
        dp_graph_release(&g);
    }
    print_message("# %u plans within limits of memory, %u that do not fit\n", limited, refused);
    assert_true(limited > 200 && refused > 50);
}

/* The least simulated iteration of all ways to cut a chain from `from` on. p: stages before it are set. */
static uint64_t least_iteration(const struct dp_graph *g, struct dp_graph_plan *p, const struct dp_plan_hierarchical *net,
                                uint64_t latency_ns, uint32_t from)
{
    uint64_t least = UINT64_MAX;
    uint32_t s = p->n_stages++;

    for (uint32_t end = from + 1; end <= g->n_nodes; end++) {
        uint64_t ns;

        p->stage[s] = (struct dp_graph_stage){.machines = 1, .replicas = 1};
        for (uint32_t i = from; i < end; i++)
            p->stage_of[i] = s;
        if (end == g->n_nodes) {
            struct seen seen;

            p->n_devices = p->n_stages;
            simulate(g, p, net, net->microbatches, latency_ns, &seen);
            ns = seen.iteration_ns;
        } else {
            ns = p->n_stages < net->devices[0] ? least_iteration(g, p, net, latency_ns, end) : UINT64_MAX;
        }
        least = ns < least ? ns : least;
    }
    p->n_stages--;
    return least;
}

/* Cut anew, no chain has a shorter iteration, whatever its messages take; and they move cuts. */
static void latency_moves_cuts(void **state)
{
    (void)state;
    uint32_t moved = 0, fewer = 0;

    for (uint64_t i = 0; i < 600; i++) {
        uint64_t seed = i, latency_ns[2] = {0, 500 * (1 + random_below(&seed, 120))};
        uint32_t n = 2 + random_below(&seed, 6), first[8] = {0}, stages = 0;
        struct dp_plan_hierarchical net = {.n_levels = 1, .devices = {1 + random_below(&seed, 5)}, .accel_bytes = UINT64_MAX,
                                           .bytes_per_s = {1e9}, .microbatches = 1 + random_below(&seed, 12), .is_straight = true};
        struct dp_graph g;

        dp_graph_init(&g, DP_GRAPH_PROFILE);
        graph_make_nodes(&g, &seed, n, 0);
        for (uint32_t v = 0; v < n; v++) {
            g.node[v].forward_ns = 1000 * (1 + random_below(&seed, 40));
            g.node[v].backward_ns = 2 * g.node[v].forward_ns;
            g.node[v].output_bytes = random_below(&seed, 20000);
            if (v)
                assert_int_equal(dp_graph_add_edge(&g, v - 1, v, 0, NULL), 0);
        }
        assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
        for (int k = 0; k < 2; k++) {
            const struct dp_sim_replan ask = {.devices = net.devices[0], .microbatches = net.microbatches, .latency_ns = latency_ns[k],
                                              .accel_bytes = UINT64_MAX};
            struct dp_graph_stage stage[8];
            uint32_t stage_of[8];
            struct dp_graph_plan p, trial = {.algorithm = DP_PLAN_HIERARCHICAL, .stage = stage, .stage_of = stage_of};
            struct seen seen;
            struct dp_err err;

            if (dp_plan_hierarchical_find(&g, &net, &p, &err) < 0 || dp_sim_replan_run(&g, &net, &ask, &p, &err) < 0)
                fail_msg("%s", err.text);
            simulate(&g, &p, &net, net.microbatches, latency_ns[k], &seen);
            assert_int_equal(seen.iteration_ns, least_iteration(&g, &trial, &net, latency_ns[k], 0));
            assert_true(p.is_optimal);
            moved += k && memcmp(first, p.stage_of, n * sizeof *first) != 0;
            fewer += k && p.n_stages < stages;
            memcpy(first, p.stage_of, n * sizeof *first);
            stages = p.n_stages;
            dp_graph_plan_release(&p);
        }
        dp_graph_release(&g);
    }
    print_message("# latency moved cuts of %u of 600 chains, %u to fewer stages\n", moved, fewer);
    assert_true(moved > 60 && fewer > 40);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(plans_are_what_is_simulated),
    cmocka_unit_test(first_stage_pays_for_what_leaves_it),
    cmocka_unit_test(algorithms_agree_where_transfers_are_free),
    cmocka_unit_test(latency_moves_cuts),
};
TEST_MAIN("plan_simulated", tests)
