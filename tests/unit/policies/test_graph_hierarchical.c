/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical plans of small random graphs against all plans: every assignment of nodes to stages, every
 * number of replicas, every way to put stages on machines. */
#include "tests/unit/unit.h"

#include <math.h>
#include <time.h>

#include "policies/graph/check.h"
#include "policies/graph/hierarchical/hierarchical.h"
#include "tests/unit/policies/graph_util.h"

#define MAX_NODES 5
#define MAX_STAGES 4

struct instance {
    struct dp_graph g;
    struct dp_plan_hierarchical ask;
    /* the plan that is looked at */
    uint32_t stage_of[MAX_NODES];
    struct dp_graph_stage stage[MAX_STAGES];
    double best_s;
    uint64_t n_plans;
};

static void make(struct instance *t, uint64_t *seed, uint32_t n_levels)
{
    uint32_t n = 1 + random_below(seed, MAX_NODES);

    *t = (struct instance){.best_s = (double)INFINITY};
    dp_graph_init(&t->g, DP_GRAPH_PROFILE);
    graph_make_nodes(&t->g, seed, n, 20 + random_below(seed, 60));
    for (uint32_t i = 0; i < n; i++) {
        struct dp_graph_node *node = &t->g.node[i];

        node->forward_ns = random_below(seed, 5) ? 1000 * (1 + random_below(seed, 20)) : 0;
        node->cpu_ns = node->send_ns = 0;
        node->output_bytes = random_below(seed, 4) ? random_below(seed, 6000) : 0;
        node->param_bytes = random_below(seed, 3) ? random_below(seed, 9000) : 0;
        if (node->forward_ns == 0) /* goes with its neighbour: without weight it does not matter */
            node->param_bytes = node->output_bytes = 0;
        node->bytes = 4 * node->param_bytes;
        node->kept_bytes = node->output_bytes;
    }
    assert_int_equal(dp_graph_finish(&t->g, NULL, NULL), 0);
    t->ask = (struct dp_plan_hierarchical){.n_levels = n_levels, .accel_bytes = UINT64_MAX};
    t->ask.is_straight = random_below(seed, 6) == 0;
    t->ask.microbatches = random_below(seed, 3) ? 1 + random_below(seed, 40) : 0;
    for (uint32_t l = 0; l < n_levels; l++) {
        t->ask.devices[l] = 1 + random_below(seed, n_levels == 1 ? 4 : 2);
        t->ask.bytes_per_s[l] = 1e9 * (1 + random_below(seed, 4)) / (l + 1);
    }
    if (n_levels == 1 && random_below(seed, 3) == 0)
        t->ask.accel_bytes = 3000 + random_below(seed, 90000);
}

static bool fits(const struct instance *t, const struct dp_graph_plan *p)
{
    for (uint32_t s = 0; s < p->n_stages; s++) {
        if (p->stage[s].bytes > t->ask.accel_bytes)
            return false;
    }
    return true;
}

/* One level, by the formulas of hierarchical.h over nodes and edges alone. */
static double weigh_one_level(const struct instance *t, uint32_t n_stages)
{
    double worst = 0.0;
    uint64_t leaves[MAX_STAGES + 1] = {0}; /* behind stage s */

    for (uint32_t i = 0; i < t->g.n_nodes; i++) {
        for (uint32_t s = 0; s < n_stages; s++) {
            bool crosses = false;

            for (uint32_t e = 0; e < t->g.n_edges; e++)
                crosses |= t->g.edge[e].from == i && t->stage_of[i] <= s && t->stage_of[t->g.edge[e].to] > s;
            leaves[s] += crosses ? t->g.node[i].output_bytes : 0;
        }
    }
    for (uint32_t s = 0; s < n_stages; s++) {
        double m = t->stage[s].replicas, b = t->ask.bytes_per_s[0], compute = 0.0, params = 0.0;

        for (uint32_t i = 0; i < t->g.n_nodes; i++) {
            compute += t->stage_of[i] == s ? (double)t->g.node[i].forward_ns / 1e9 : 0.0;
            params += t->stage_of[i] == s ? (double)t->g.node[i].param_bytes : 0.0;
        }
        if (t->ask.microbatches) { /* as the simulator has it */
            worst = fmax(worst, compute / m + 2 * (m - 1) * params / (b * m) / t->ask.microbatches);
            if (s > 0)
                worst = fmax(worst, (double)leaves[s - 1] / (b * m));
            if (s + 1 < n_stages)
                worst = fmax(worst, (double)leaves[s] / (b * m));
            continue;
        }
        worst = fmax(worst, (compute + 4 * (m - 1) * params / (b * m)) / m);
        if (s > 0)
            worst = fmax(worst, 2 * (double)leaves[s - 1] / (b * m));
        if (s > 0 && s + 1 < n_stages)
            worst = fmax(worst, 2 * (double)leaves[s] / (b * m));
    }
    return worst;
}

static void weigh(struct instance *t, uint32_t n_stages)
{
    struct dp_graph_plan p = {.n_stages = n_stages, .stage = t->stage, .stage_of = t->stage_of};

    assert_int_equal(dp_plan_hierarchical_evaluate(&t->g, &t->ask, &p, NULL), 0);
    if (t->ask.n_levels == 1) {
        double again = weigh_one_level(t, n_stages);

        assert_true(fabs(again - (double)p.load_ns / 1e9) <= 1e-9);
    }
    t->n_plans++;
    if (fits(t, &p))
        t->best_s = fmin(t->best_s, (double)p.load_ns / 1e9);
}

/* Replicas and groups for stages s.. of n; free devices on the machines of the group, free machines. */
static void try_stages(struct instance *t, uint32_t s, uint32_t n, uint32_t free_devices,
                       uint32_t free_machines)
{
    uint32_t most = t->ask.is_straight ? 1 : t->ask.devices[0];

    if (s == n) {
        weigh(t, n);
        return;
    }
    if (s > 0) { /* in the group of the stage before */
        for (uint32_t r = 1; r <= most && r <= free_devices; r++) {
            uint32_t machines = t->stage[s - 1].machines;

            t->stage[s] = (struct dp_graph_stage){
                .group = t->stage[s - 1].group, .machines = machines, .replicas = r * machines};
            try_stages(t, s + 1, n, free_devices - r, free_machines);
        }
    }
    if (s > 0 && t->ask.n_levels == 1)
        return;
    for (uint32_t m = 1; m <= free_machines && (m == 1 || !t->ask.is_straight); m++) {
        for (uint32_t r = 1; r <= most; r++) {
            t->stage[s] = (struct dp_graph_stage){.group = s, .machines = m, .replicas = r * m};
            try_stages(t, s + 1, n, t->ask.devices[0] - r, free_machines - m);
        }
    }
}

static void brute_force(struct instance *t)
{
    uint32_t n_machines = t->ask.n_levels > 1 ? t->ask.devices[1] : 1,
             n_devices = t->ask.devices[0] * n_machines;

    for (uint32_t n = 1; n <= n_devices && n <= t->g.n_nodes && n <= MAX_STAGES; n++) {
        memset(t->stage_of, 0, sizeof t->stage_of);
        for (;;) {
            uint32_t i = 0, used = 0;

            for (uint32_t k = 0; k < t->g.n_nodes; k++)
                used |= 1u << t->stage_of[k];
            if (used == (1u << n) - 1 && dp_graph_check(&t->g, t->stage_of, n, NULL) == 0)
                try_stages(t, 0, n, 0, n_machines);
            while (i < t->g.n_nodes && ++t->stage_of[i] == n)
                t->stage_of[i++] = 0;
            if (i == t->g.n_nodes)
                break;
        }
    }
}

static void compare(uint32_t n_levels, uint32_t n_cases, uint32_t least_refused)
{
    uint32_t refused = 0, replicas = 0, by_unit = 0;

    for (uint64_t i = 0; i < n_cases; i++) {
        uint64_t seed = i * 104729 + n_levels;
        struct instance t;
        struct dp_graph_plan p, line;
        struct dp_err err = {.text = ""};
        int rc;

        make(&t, &seed, n_levels);
        brute_force(&t);
        rc = dp_plan_hierarchical_find(&t.g, &t.ask, &p, &err);
        if (isinf(t.best_s)) {
            assert_int_equal(rc, -1);
            assert_int_equal(err.code, DP_ENOMEM);
            refused++;
        } else {
            if (rc < 0 || fabs((double)p.load_ns / 1e9 - t.best_s) > 2e-9)
                print_message("# case %lu: %lu ns, wanted %.0f of %lu plans %s\n", (unsigned long)i,
                              (unsigned long)p.load_ns, t.best_s * 1e9, (unsigned long)t.n_plans, err.text);
            assert_int_equal(rc, 0);
            assert_true(fabs((double)p.load_ns / 1e9 - t.best_s) <= 2e-9);
            assert_int_equal(dp_graph_check(&t.g, p.stage_of, p.n_stages, NULL), 0);
            assert_true(fits(&t, &p));
            assert_true(p.bound_ns <= p.load_ns + 1);
            by_unit += p.bound_by == DP_PLAN_BOUND_UNIT;
            assert_true(t.ask.accel_bytes != UINT64_MAX || t.ask.is_straight ||
                        p.load_ns <= p.data_parallel_ns + 1);
            for (uint32_t s = 0; s < p.n_stages; s++)
                replicas += p.stage[s].replicas > 1;
            t.ask.max_ideals = 1; /* orders only */
            if (dp_plan_hierarchical_find(&t.g, &t.ask, &line, &err) == 0) {
                assert_true(line.load_ns + 2 >= p.load_ns);
                assert_true(!line.is_optimal || line.load_ns == p.load_ns); /* of a chain all are of one order */
            }
            dp_graph_plan_release(&line);
        }
        dp_graph_plan_release(&p);
        dp_graph_release(&t.g);
    }
    print_message("# %u levels: %u refused, %u stages with replicas; a unit is the bound of %u\n", n_levels, refused, replicas, by_unit);
    assert_true(refused >= least_refused && replicas > 100 && by_unit > 10);
}

static void one_level_equals_brute_force(void **state)
{
    (void)state;
    compare(1, 2000, 20);
}

static void two_levels_equal_brute_force(void **state)
{
    (void)state;
    compare(2, 1000, 0);
}

/* --- a deep translation network, of the size of PipeDream's larger one: 17,000 ideals --- */

static uint32_t add(struct dp_graph *g, double ms, uint64_t output, uint64_t params)
{
    char name[16];
    struct dp_graph_node node = {.name = name, .colour = g->n_nodes, .forward_ns = (uint64_t)(ms * 1e6), .output_bytes = output,
                                 .param_bytes = params, .bytes = 4 * params, .kept_bytes = output};

    snprintf(name, sizeof name, "n%u", g->n_nodes);
    assert_true(dp_graph_add_node(g, &node, NULL) >= 0);
    g->n_colours = g->n_nodes;
    return g->n_nodes - 1;
}

static void join(struct dp_graph *g, uint32_t from, uint32_t to)
{
    assert_int_equal(dp_graph_add_edge(g, from, to, 0, NULL), 0);
}

/* Dropout and LSTM, whose state goes nowhere, and from the second one on a way around them. beside: joins before the
 * LSTM, UINT32_MAX: nothing; hidden: so does a part of it, and these parts can be anywhere: hence the many ideals. */
static uint32_t add_layer(struct dp_graph *g, uint32_t before, bool is_first, double ms, uint32_t beside, uint32_t hidden)
{
    uint32_t dropout = add(g, 0.3, 13107200, 0), lstm, out, sum, into = dropout;

    join(g, before, dropout);
    if (beside != UINT32_MAX) {
        into = add(g, 0, 13107200, 0);
        join(g, dropout, into);
        join(g, beside, into);
    }
    lstm = add(g, ms, 14155776, 33587200);
    join(g, into, lstm);
    if (beside != UINT32_MAX) {
        uint32_t part = add(g, 0, 0, 0);

        join(g, hidden, part);
        join(g, part, lstm);
    }
    out = add(g, 0, 13107200, 0);
    join(g, lstm, out);
    join(g, lstm, add(g, 0, 524288, 0));
    if (is_first)
        return out;
    sum = add(g, 0, 13107200, 0);
    join(g, out, sum);
    join(g, before, sum);
    return sum;
}

static void make_translation(struct dp_graph *g)
{
    uint32_t encoder, words, attention, decoder, context, hidden;

    dp_graph_init(g, DP_GRAPH_PROFILE);
    words = add(g, 25.7, 13107200, 132382720);
    encoder = add(g, 14.1, 26214400, 67174400);
    join(g, words, encoder);
    for (uint32_t i = 0; i < 7; i++)
        encoder = add_layer(g, encoder, i == 0, 20.4 + 0.02 * i, UINT32_MAX, 0);
    words = add(g, 0.6, 13107200, 132382720);
    attention = add(g, 38.3, 27582912, 41979904);
    join(g, encoder, attention);
    join(g, words, attention);
    hidden = add(g, 0, 0, 0);
    decoder = add(g, 0, 13107200, 0);
    context = add(g, 0, 524288, 0);
    join(g, attention, decoder);
    join(g, attention, context);
    for (uint32_t i = 0; i < 8; i++)
        decoder = add_layer(g, decoder, i == 0, 29.4 + 0.02 * i, context, hidden);
    join(g, decoder, add(g, 30.2, 413696000, 132512000));
    assert_int_equal(dp_graph_finish(g, NULL, NULL), 0);
}

struct watcher {
    uint32_t may, asked;
    uint64_t best_ns, bound_ns;
    double searched;
};

static bool watch(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    struct watcher *w = arg;

    assert_true(searched >= 0.0 && searched <= 1.0);
    w->asked++;
    w->searched = searched;
    w->best_ns = best_ns;
    w->bound_ns = bound_ns;
    return w->asked < w->may;
}

static void deep_networks_are_searched_in_seconds(void **state)
{
    (void)state;
    struct watcher all = {.may = UINT32_MAX}, some = {.may = 50}, none = {.may = 1};
    struct dp_plan_watch w = {watch, &all};
    struct dp_plan_hierarchical ask = {.n_levels = 1, .devices = {16}, .bytes_per_s = {1.25e9}, .accel_bytes = UINT64_MAX,
                                       .microbatches = 64, .watch = &w};
    struct dp_graph g;
    struct dp_graph_plan p, early;
    struct dp_err err;
    clock_t t = clock();

    make_translation(&g);
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), 0);
    t = clock() - t;
    print_message("# %u nodes, %u ideals, 16 devices: %.1f s, %.3f ms a microbatch, %u looks\n", g.n_nodes, p.n_ideals,
                  (double)t / CLOCKS_PER_SEC, (double)p.load_ns / 1e6, all.asked);
    assert_true(p.is_optimal && !p.was_ended && p.n_ideals > 10000 && all.asked > 100);
    assert_true((double)t / CLOCKS_PER_SEC < 10.0);
    w.arg = &some;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &early, &err), 0);
    assert_true(early.was_ended && !early.is_optimal && early.load_ns >= p.load_ns && early.bound_ns <= p.load_ns);
    assert_int_equal(some.asked, 50);
    assert_true(some.best_ns >= early.load_ns - 1 && some.best_ns <= early.load_ns + 1 && some.bound_ns == early.bound_ns);
    assert_non_null(strstr(early.why, "the time limit ended the search"));
    dp_graph_plan_release(&early);
    w.arg = &none; /* before the first order was cut */
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &early, &err), 0);
    assert_true(early.was_ended && !early.is_optimal && early.n_stages == 1 && early.stage[0].replicas == 16);
    assert_true(early.load_ns == early.data_parallel_ns && early.bound_ns <= early.load_ns);
    ask.accel_bytes = early.stage[0].bytes - 1;
    dp_graph_plan_release(&early);
    none.asked = 0;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &early, &err), -1); /* it does not fit */
    assert_int_equal(err.code, DP_ETIMEOUT);
    dp_graph_plan_release(&early);
    ask.accel_bytes = UINT64_MAX;
    w.arg = &all;
    ask.max_steps = 1000; /* the same on every machine */
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &early, &err), 0);
    assert_true(!early.was_ended && !early.is_optimal && strstr(early.why, "is too long"));
    dp_graph_plan_release(&early);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

/* Ten thousand devices, and chains of ten and a hundred thousand nodes: answers that keep what they promise (write_plan() weighs
 * them), no worse than everything everywhere, and in seconds. */
static void thousands_of_devices(void **state)
{
    (void)state;
    static const uint32_t devices[][2] = {{8, 1250}, {100, 1}, {10000, 1}};

    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        bool is_chain = i > 0;
        struct dp_plan_hierarchical ask = {.n_levels = is_chain ? 1 : 2, .devices = {devices[i][0], devices[i][1]},
                                           .bytes_per_s = {12e9, 1.25e9}, .accel_bytes = UINT64_MAX};
        clock_t begin = clock();
        struct dp_graph g;
        struct dp_graph_plan p;
        struct dp_err err;

        ask.microbatches = 4 * devices[i][0] * devices[i][1];
        if (is_chain) {
            dp_graph_init(&g, DP_GRAPH_PROFILE);
            for (uint32_t v = 0; v < (i < 2 ? 10000 : 100000); v++)
                if (add(&g, 1 + v * 7 % 9, 100000 + v % 7 * 1000, 1000000))
                    join(&g, v - 1, v);
            assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
        } else {
            make_translation(&g);
        }
        if (dp_plan_hierarchical_find(&g, &ask, &p, &err) < 0)
            fail_msg("%s", err.text);
        print_message("# %u nodes on %ux%u devices: %.3f ms a microbatch, at least %.3f; %u devices used, %.1f s\n", g.n_nodes,
                      devices[i][0], devices[i][1], (double)p.load_ns / 1e6, (double)p.bound_ns / 1e6, p.n_devices,
                      (double)(clock() - begin) / CLOCKS_PER_SEC);
        assert_true(p.n_devices <= devices[i][0] * devices[i][1] && p.load_ns <= p.data_parallel_ns + 1 && p.bound_ns <= p.load_ns + 1);
        assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 30.0);
        dp_graph_plan_release(&p);
        dp_graph_release(&g);
    }
}

static void refuses_wrong_questions(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct dp_graph g;
    struct dp_graph_plan p;
    struct dp_err err;
    struct dp_plan_hierarchical ask = {
        .n_levels = 1, .devices = {2, 2}, .bytes_per_s = {1e9, 1e9}, .accel_bytes = UINT64_MAX};

    dp_graph_init(&g, DP_GRAPH_COSTS);
    graph_make_nodes(&g, &seed, 3, 50);
    assert_int_equal(dp_graph_finish(&g, NULL, NULL), 0);
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    g.kind = DP_GRAPH_PROFILE;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), 0);
    dp_graph_plan_release(&p);
    ask.n_levels = 3;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), -1);
    ask.n_levels = 2;
    ask.accel_bytes = 5;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), -1);
    ask.accel_bytes = UINT64_MAX;
    ask.bytes_per_s[1] = (double)NAN;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), -1);
    ask.bytes_per_s[1] = 1e9;
    ask.devices[1] = 0;
    assert_int_equal(dp_plan_hierarchical_find(&g, &ask, &p, &err), -1);
    dp_graph_release(&g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_level_equals_brute_force),
    cmocka_unit_test(two_levels_equal_brute_force),
    cmocka_unit_test(deep_networks_are_searched_in_seconds),
    cmocka_unit_test(thousands_of_devices),
    cmocka_unit_test(refuses_wrong_questions),
};
TEST_MAIN("graph_hierarchical", tests)
