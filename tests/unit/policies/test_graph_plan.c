/* SPDX-License-Identifier: BSD-3-Clause */
/* Max-load plans of tiny random graphs against all assignments of their nodes, found and weighed by code that
 * shares nothing with the planner; and what a plan must be whatever the graph. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/graph/check.h"
#include "policies/graph/maxload/bound.h"
#include "policies/graph/plan.h"
#include "tests/unit/policies/graph_util.h"

#define MAX_NODES 12
#define MAX_DEVICES 4

struct instance {
    struct dp_graph g;
    struct dp_plan_maxload ask;
    double speed[MAX_DEVICES];
};

/* Backward nodes for some of the forward ones, colours that join several, memory, CPUs. */
static void make(struct instance *t, uint64_t *seed)
{
    uint32_t n = 1 + random_below(seed, 6), forward, along = random_below(seed, 4) == 0;

    dp_graph_init(&t->g, DP_GRAPH_COSTS);
    graph_make_nodes(&t->g, seed, n, 20 + random_below(seed, 50));
    forward = t->g.n_edges;
    if (random_below(seed, 2)) {
        for (uint32_t i = 0; i < n; i++) {
            struct dp_graph_node back = {.name = (char *)"back", .colour = i, .is_backward = true};

            back.backward_ns = random_below(seed, 9);
            back.cpu_ns = 2 * back.backward_ns;
            back.send_ns = random_below(seed, 5);
            assert_true(dp_graph_add_node(&t->g, &back, NULL) >= 0);
            if (random_below(seed, 2))
                assert_int_equal(dp_graph_add_edge(&t->g, i, n + i, 0, NULL), 0);
        }
        for (uint32_t e = 0; e < forward; e++) {
            uint32_t a = n + t->g.edge[e].from, b = n + t->g.edge[e].to;

            if (random_below(seed, 5))
                assert_int_equal(dp_graph_add_edge(&t->g, along ? a : b, along ? b : a, 0, NULL), 0);
        }
    }
    if (n > 2 && random_below(seed, 3) == 0) /* two layers that share something */
        t->g.node[random_below(seed, n)].colour = t->g.node[random_below(seed, n)].colour;
    t->ask = (struct dp_plan_maxload){.accel_bytes = UINT64_MAX};
    t->ask.n_accel = random_below(seed, MAX_DEVICES);
    t->ask.n_cpus = random_below(seed, 3) ? 0 : 1;
    if (t->ask.n_accel + t->ask.n_cpus == 0)
        t->ask.n_accel = 1;
    if (random_below(seed, 3) == 0) { /* a piece without work weighs nothing, or where it is would matter */
        uint64_t total = 0;

        for (uint32_t i = 0; i < t->g.n_nodes; i++) {
            struct dp_graph_node *node = &t->g.node[i];

            node->bytes = dp_graph_accel_ns(node) || node->cpu_ns ? random_below(seed, 10) : 0;
            total += node->bytes;
        }
        t->ask.accel_bytes = total / (t->ask.n_accel + 1) + random_below(seed, 8);
    }
    if (t->ask.n_accel && random_below(seed, 3) == 0) {
        for (uint32_t k = 0; k < t->ask.n_accel; k++)
            t->speed[k] = 0.25 * (1 + random_below(seed, 8));
        t->ask.speed = t->speed;
    }
    if (t->ask.n_cpus && random_below(seed, 2))
        t->g.node[random_below(seed, t->g.n_nodes)].only_on_cpu = true;
    assert_int_equal(dp_graph_finish(&t->g, NULL, NULL), 0);
}

/* Is there an order of the devices that no edge contradicts? Devices without a predecessor among those
 * that are left are taken away until none is left. */
static bool is_acyclic(const struct instance *t, const uint32_t *dev, uint32_t n_dev)
{
    bool before[MAX_DEVICES + 1][MAX_DEVICES + 1] = {{false}}, gone[MAX_DEVICES + 1] = {false};

    for (uint32_t e = 0; e < t->g.n_edges; e++) {
        uint32_t a = t->g.edge[e].from, b = t->g.edge[e].to;
        bool back = t->g.node[a].is_backward;

        if (back != t->g.node[b].is_backward || dev[a] == dev[b])
            continue;
        if (back && !t->g.is_backward_along)
            before[dev[b]][dev[a]] = true;
        else
            before[dev[a]][dev[b]] = true;
    }
    for (uint32_t d = 0; t->ask.speed && d + 1 < t->ask.n_accel; d++) /* unequal ones stand in their order */
        for (uint32_t e = d + 1; e < t->ask.n_accel; e++)
            before[d][e] = true;
    for (uint32_t round = 0; round < n_dev; round++) {
        bool moved = false;

        for (uint32_t d = 0; d < n_dev && !moved; d++) {
            bool is_first = !gone[d];

            for (uint32_t x = 0; x < n_dev; x++)
                is_first = is_first && (gone[x] || !before[x][d]);
            gone[d] |= is_first;
            moved = is_first;
        }
        if (!moved)
            return false;
    }
    return true;
}

/* Load of the busiest device by the definition; UINT64_MAX where something is where it cannot be. */
static uint64_t weigh(const struct instance *t, const uint32_t *dev, uint32_t n_dev)
{
    uint64_t worst = 0;

    for (uint32_t d = 0; d < n_dev; d++) {
        bool is_cpu = d >= t->ask.n_accel;
        uint64_t compute = 0, load = 0, bytes = 0;

        for (uint32_t i = 0; i < t->g.n_nodes; i++) {
            const struct dp_graph_node *node = &t->g.node[i];
            bool here = dev[i] == d, sends = false, takes = false;

            if (here && node->only_on_cpu && !is_cpu)
                return UINT64_MAX;
            if (here) {
                compute += is_cpu ? node->cpu_ns : node->forward_ns + node->backward_ns;
                bytes += node->bytes;
            }
            for (uint32_t e = 0; e < t->g.n_edges; e++) {
                if (t->g.edge[e].from != i)
                    continue;
                sends |= here && dev[t->g.edge[e].to] != d;
                takes |= !here && dev[t->g.edge[e].to] == d;
            }
            if (!is_cpu)
                load += (sends + takes) * node->send_ns;
        }
        if (!is_cpu && bytes > t->ask.accel_bytes)
            return UINT64_MAX;
        load += (uint64_t)ceil((double)compute / (!is_cpu && t->ask.speed ? t->speed[d] : 1));
        worst = load > worst ? load : worst;
    }
    return worst;
}

static uint64_t brute_force(const struct instance *t)
{
    uint32_t dev[MAX_NODES], n_dev = t->ask.n_accel + t->ask.n_cpus, n = t->g.n_nodes;
    uint32_t choice[MAX_NODES] = {0}; /* of each colour */
    uint64_t best = UINT64_MAX;

    for (;;) {
        uint32_t c = 0;
        uint64_t load;

        for (uint32_t i = 0; i < n; i++)
            dev[i] = choice[t->g.node[i].colour];
        load = weigh(t, dev, n_dev);
        if (load < best && is_acyclic(t, dev, n_dev))
            best = load;
        while (c < t->g.n_colours && ++choice[c] == n_dev)
            choice[c++] = 0;
        if (c == t->g.n_colours)
            return best;
    }
}

/* A plan's stages and loads are what it says. */
static void check_plan(const struct instance *t, const struct dp_graph_plan *p)
{
    struct dp_stage_load load[MAX_DEVICES + 1];
    uint32_t n_cpus = 0, next = 0;
    uint64_t worst = 0;

    assert_true(p->n_stages <= t->ask.n_accel + t->ask.n_cpus);
    assert_int_equal(dp_graph_check(&t->g, p->stage_of, p->n_stages, NULL), 0);
    assert_int_equal(dp_graph_loads(&t->g, p->stage_of, p->n_stages, load, NULL), 0);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        double speed = t->ask.speed && !p->stage[s].is_cpu ? t->speed[p->stage[s].accelerator] : 1;
        uint64_t is = p->stage[s].is_cpu ? load[s].cpu_ns : (uint64_t)ceil((double)load[s].accel_ns / speed) + load[s].traffic_ns;

        if (t->ask.speed && !p->stage[s].is_cpu) {
            assert_true(p->stage[s].accelerator >= next);
            next = p->stage[s].accelerator + 1;
            assert_true(next <= t->ask.n_accel);
        }

        assert_int_equal(p->stage[s].load_ns, is);
        worst = is > worst ? is : worst;
        n_cpus += p->stage[s].is_cpu;
        assert_true(p->stage[s].is_cpu || load[s].bytes <= t->ask.accel_bytes);
    }
    assert_int_equal(p->load_ns, worst);
    assert_true(n_cpus <= t->ask.n_cpus);
    assert_true(p->bound_ns <= p->load_ns);
}

static void equals_brute_force(void **state)
{
    (void)state;
    uint32_t refused = 0, solved = 0, line_is_worse = 0, uneven = 0;

    for (uint64_t i = 0; i < 6000; i++) {
        uint64_t seed = i * 7919 + 1, want;
        struct instance t;
        struct dp_graph_plan p, line;
        struct dp_err err;
        int rc;

        make(&t, &seed);
        want = brute_force(&t);
        rc = dp_plan_maxload_find(&t.g, &t.ask, &p, &err);
        if (want == UINT64_MAX) {
            assert_int_equal(rc, -1);
            assert_int_equal(err.code, DP_ENOMEM);
            refused++;
        } else {
            if (rc < 0 || p.load_ns != want)
                print_message("# case %lu: %lu, wanted %lu %s\n", (unsigned long)i, (unsigned long)p.load_ns,
                              (unsigned long)want, rc < 0 ? err.text : "");
            assert_int_equal(rc, 0);
            assert_int_equal(p.load_ns, want);
            assert_true(p.is_optimal);
            check_plan(&t, &p);
            t.ask.algorithm = DP_PLAN_LINE;
            t.ask.search_steps = 2000;
            if (dp_plan_maxload_find(&t.g, &t.ask, &line, &err) == 0) {
                check_plan(&t, &line);
                assert_true(line.load_ns >= want);
                assert_int_equal(line.line_ns, p.line_ns);
                assert_true(line.load_ns <= line.line_ns || !line.line_ns); /* the few orders may have none that fits */
                line_is_worse += line.line_ns > want;
            } else {
                assert_int_equal(p.line_ns, 0);
            }
            dp_graph_plan_release(&line);
            uneven += t.ask.speed != NULL && p.n_stages > 1;
            solved++;
        }
        dp_graph_plan_release(&p);
        dp_graph_release(&t.g);
    }
    print_message("# %u solved, %u refused; one order was worse in %u\n", solved, refused, line_is_worse);
    assert_true(refused > 50 && solved > 3000 && line_is_worse > 10 && uneven > 300);
}

static void gives_up_where_it_should(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_err err;
    struct dp_plan_maxload ask = {.n_accel = 3, .accel_bytes = UINT64_MAX, .max_ideals = 1000};

    dp_graph_init(&g, DP_GRAPH_COSTS);
    graph_make_nodes(&g, &seed, 40, 8); /* 40 nodes with few edges: far more ideals */
    assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
    assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, &err), 0);
    assert_int_equal(p.algorithm, DP_PLAN_LINE);
    assert_int_equal(p.n_ideals, 0);
    assert_false(p.is_optimal);
    assert_non_null(strstr(p.why, "more than 1000 ideals"));
    assert_true(p.bound_ns <= p.load_ns);
    dp_graph_plan_release(&p);
    ask.algorithm = DP_PLAN_EXACT;
    assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, &err), -1);
    assert_non_null(strstr(err.text, "no exact answer"));
    dp_graph_plan_release(&p);
    ask = (struct dp_plan_maxload){.accel_bytes = UINT64_MAX};
    assert_int_equal(dp_plan_maxload_find(&g, &ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

/* The check is the last to look at an answer: it must see what is wrong with one. */
static void the_check_sees(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_graph_node node = {.name = (char *)"x", .forward_ns = 1};
    uint32_t good[4] = {0, 0, 1, 1}, back[4] = {1, 0, 1, 1}, none[4] = {0, 0, 2, 1}, apart[4] = {0, 1, 1, 0};

    dp_graph_init(&g, DP_GRAPH_COSTS);
    for (uint32_t i = 0; i < 4; i++) {
        node.colour = i == 3 ? 2 : i;
        node.is_backward = i == 3;
        assert_true(dp_graph_add_node(&g, &node, NULL) >= 0);
    }
    g.n_colours = 3;
    assert_int_equal(dp_graph_add_edge(&g, 0, 1, 0, NULL), 0);
    assert_int_equal(dp_graph_add_edge(&g, 1, 2, 0, NULL), 0);
    assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
    assert_int_equal(dp_graph_check(&g, good, 2, NULL), 0);
    assert_int_equal(dp_graph_check(&g, back, 2, NULL), -1);
    assert_int_equal(dp_graph_check(&g, none, 2, NULL), -1);
    assert_int_equal(dp_graph_check(&g, apart, 2, NULL), -1);
    dp_graph_release(&g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(equals_brute_force),
    cmocka_unit_test(gives_up_where_it_should),
    cmocka_unit_test(the_check_sees),
};
TEST_MAIN("graph_plan", tests)
