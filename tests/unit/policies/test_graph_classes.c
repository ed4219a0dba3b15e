/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for classes of devices on small random graphs against all plans: every way to cut the orders that are looked at, every class
 * and number of replicas. What a plan is worth is found from nodes and edges here, by the formula of classes.h. */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "policies/graph/bench/cells.h"
#include "policies/graph/check.h"
#include "policies/graph/line.h"
#include "policies/graph/papers/papers.h"
#include "tests/unit/policies/graph_util.h"

#define MAX_NODES 6

struct instance {
    struct dp_graph g;
    struct dp_units u;
    struct dp_plan_hierarchical net;
    struct dp_classes classes;
    struct dp_paper_ask ask;
    /* the plan that is looked at */
    struct dp_stage_load load[MAX_NODES];
    uint32_t stage_of[MAX_NODES], n_stages, class[MAX_NODES], replicas[MAX_NODES], left[DP_CLASSES_MOST];
    double best_s;
};

static void make_classes(struct dp_classes *c, uint64_t *seed)
{
    c->n = 1 + random_below(seed, 3);
    c->between_bytes_per_s = 1e9 * (1 + random_below(seed, 3));
    for (uint32_t i = 0; i < c->n; i++) {
        c->of[i] = (struct dp_device_class){.devices = 1 + random_below(seed, 3),
                                            .speed = 0.25 * (1 + random_below(seed, 6)),
                                            .bytes_per_s = 1e9 * (1 + random_below(seed, 4)),
                                            .accel_bytes = random_below(seed, 3) ? UINT64_MAX : 20000 + random_below(seed, 1500000)};
        snprintf(c->of[i].name, sizeof c->of[i].name, "c%u", i);
    }
}

static void make(struct instance *t, uint64_t *seed)
{
    uint32_t n = 1 + random_below(seed, MAX_NODES);
    bool is_heavy = random_below(seed, 2); /* of parameters: few replicas pay */

    *t = (struct instance){.best_s = (double)INFINITY};
    dp_graph_init(&t->g, DP_GRAPH_PROFILE);
    graph_make_nodes(&t->g, seed, n, 20 + random_below(seed, 60));
    for (uint32_t i = 0; i < n; i++) {
        struct dp_graph_node *node = &t->g.node[i];

        node->forward_ns = 1000 * (1 + random_below(seed, 20));
        node->backward_ns = 1000 * (1 + random_below(seed, 40));
        node->cpu_ns = node->send_ns = 0;
        node->output_bytes = random_below(seed, 4) ? random_below(seed, is_heavy ? 3000 : 60000) : 0;
        node->param_bytes = random_below(seed, 3) ? random_below(seed, is_heavy ? 200000 : 9000) : 0;
        node->bytes = 4 * node->param_bytes;
        node->kept_bytes = (1 + random_below(seed, 20)) * node->output_bytes;
    }
    assert_int_equal(dp_graph_finish(&t->g, NULL, NULL), 0);
    assert_int_equal(dp_units_create(&t->u, &t->g, NULL), 0);
    make_classes(&t->classes, seed);
    t->net = (struct dp_plan_hierarchical){.microbatches = 1 + random_below(seed, 12), .is_straight = random_below(seed, 3) == 0};
    t->ask = (struct dp_paper_ask){.net = &t->net, .classes = &t->classes};
}

static void drop(struct instance *t)
{
    dp_units_release(&t->u);
    dp_graph_release(&t->g);
}

static double link_of(const struct dp_classes *c, uint32_t a, uint32_t b)
{
    return a == b ? c->of[a].bytes_per_s : fmin(c->of[a].bytes_per_s, c->between_bytes_per_s);
}

/* The time of the plan's slowest stage; INFINITY: it does not fit. */
static double weigh(const struct instance *t)
{
    double worst = 0;
    uint32_t behind = 0;

    for (uint32_t s = t->n_stages; s-- > 0;) {
        const struct dp_device_class *d = &t->classes.of[t->class[s]];
        double r = t->replicas[s], time = (double)t->load[s].accel_ns / 1e9 / d->speed / r;
        uint64_t under_way = (behind + t->replicas[s] - 1) / t->replicas[s] + 1;

        time += 2 * (r - 1) / r * (double)t->load[s].param_bytes / d->bytes_per_s / t->net.microbatches;
        if (s > 0)
            time = fmax(time, (double)t->load[s - 1].out_bytes / link_of(&t->classes, t->class[s], t->class[s - 1]) / r);
        if (s + 1 < t->n_stages)
            time = fmax(time, (double)t->load[s].out_bytes / link_of(&t->classes, t->class[s], t->class[s + 1]) / r);
        if (d->accel_bytes != UINT64_MAX && t->load[s].bytes + t->load[s].kept_bytes * under_way > d->accel_bytes)
            return (double)INFINITY;
        worst = fmax(worst, time);
        behind += t->replicas[s];
    }
    return worst;
}

/* All classes and replicas of the stages from s on. */
static void try_stages(struct instance *t, uint32_t s)
{
    if (s == t->n_stages) {
        t->best_s = fmin(t->best_s, weigh(t));
        return;
    }
    for (uint32_t c = 0; c < t->classes.n; c++)
        for (uint32_t r = 1; r <= t->left[c] && (r == 1 || !t->net.is_straight); r++) {
            t->class[s] = c;
            t->replicas[s] = r;
            t->left[c] -= r;
            try_stages(t, s + 1);
            t->left[c] += r;
        }
}

static void brute_force(struct instance *t)
{
    uint32_t order[MAX_NODES + 1], stage_of_unit[MAX_NODES];

    for (uint32_t c = 0; c < t->classes.n; c++)
        t->left[c] = t->classes.of[c].devices;
    for (int kind = 0; kind < DP_N_LINES; kind++) {
        assert_int_equal(dp_line_make(&t->u, (enum dp_line_kind)kind, order, NULL), 0);
        for (uint32_t cuts = 0; cuts < 1u << (t->u.n - 1); cuts++) {
            uint32_t s = 0;

            for (uint32_t i = 0; i < t->u.n; i++) {
                stage_of_unit[order[i]] = s;
                s += cuts >> i & 1;
            }
            t->n_stages = s + 1;
            for (uint32_t i = 0; i < t->g.n_nodes; i++)
                t->stage_of[i] = stage_of_unit[t->u.unit_of[i]];
            assert_int_equal(dp_graph_loads(&t->g, t->stage_of, t->n_stages, t->load, NULL), 0);
            try_stages(t, 0);
        }
    }
}

static uint32_t n_refused, n_wide, n_deep, n_mixed, n_idle, n_optimal;

static void count(const struct instance *t, const struct dp_graph_plan *p)
{
    uint32_t used[DP_CLASSES_MOST] = {0};

    n_deep += p->n_stages > 1;
    n_idle += p->n_devices < dp_classes_devices(&t->classes);
    n_optimal += p->is_optimal;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        n_wide += p->stage[s].replicas > 1;
        n_mixed += s > 0 && p->stage[s].device_class != p->stage[s - 1].device_class;
        used[p->stage[s].device_class] += p->stage[s].replicas;
        assert_true(p->stage[s].bytes <= t->classes.of[p->stage[s].device_class].accel_bytes);
        assert_true(p->stage[s].replicas == 1 || !t->net.is_straight);
    }
    for (uint32_t c = 0; c < t->classes.n; c++)
        assert_true(used[c] <= t->classes.of[c].devices);
}

static void is_the_best_of_all_plans(void **state)
{
    (void)state;
    n_refused = n_wide = n_deep = n_mixed = n_idle = n_optimal = 0;
    for (uint64_t i = 0; i < 1500; i++) {
        uint64_t seed = i * 7919 + 11;
        struct instance t;
        struct dp_graph_plan p;
        struct dp_err err = {.text = ""};

        make(&t, &seed);
        brute_force(&t);
        if (dp_paper_find(&t.g, DP_PLAN_CLASSES, &t.ask, &p, &err) < 0) {
            if (err.code != DP_ENOMEM || !isinf(t.best_s))
                fail_msg("case %llu: %s, yet there is %.9f", (unsigned long long)i, err.text, t.best_s);
            n_refused++;
        } else {
            if (!(fabs((double)p.load_ns / 1e9 - t.best_s) <= 2e-9))
                fail_msg("case %llu: %.9f instead of %.9f: %s", (unsigned long long)i, (double)p.load_ns / 1e9, t.best_s, p.why);
            assert_int_equal(dp_graph_check(&t.g, p.stage_of, p.n_stages, NULL), 0);
            assert_true(p.bound_ns <= p.load_ns + 1);
            count(&t, &p);
        }
        dp_graph_plan_release(&p);
        drop(&t);
    }
    print_message("# %u refused, %u plans of several stages, %u stages with replicas, %u borders between classes, %u with idle devices, "
                  "%u of chains\n",
                  n_refused, n_deep, n_wide, n_mixed, n_idle, n_optimal);
    assert_true(n_refused > 20 && n_deep > 100 && n_wide > 100 && n_mixed > 100 && n_idle > 50 && n_optimal > 20);
}

/* Devices of one class are what hierarchical plans for; on the same orders it is never better. */
static void one_class_is_hierarchical(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t seed = i * 104729 + 3;
        struct instance t;
        struct dp_graph_plan one, all;

        make(&t, &seed);
        t.classes.n = 1;
        t.classes.of[0].speed = 1;
        t.net.n_levels = 1;
        t.net.devices[0] = t.classes.of[0].devices;
        t.net.bytes_per_s[0] = t.classes.of[0].bytes_per_s;
        t.net.accel_bytes = t.classes.of[0].accel_bytes;
        if (dp_paper_find(&t.g, DP_PLAN_CLASSES, &t.ask, &one, NULL) == 0) {
            assert_int_equal(dp_plan_hierarchical_find(&t.g, &t.net, &all, NULL), 0);
            assert_true(one.load_ns + 1 >= all.load_ns);
            if (one.is_optimal)
                assert_true(one.load_ns <= all.load_ns + 1);
            dp_graph_plan_release(&all);
        }
        dp_graph_plan_release(&one);
        drop(&t);
    }
}

/* A graph with too many units for a chain, and devices that make pieces fewer: it ends soon. */
static void large_graphs_are_planned(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_plan_hierarchical net = {.microbatches = 64};
    struct dp_classes c = {.n = 2,
                           .between_bytes_per_s = 1.25e9,
                           .of = {{.devices = 8, .speed = 1, .bytes_per_s = 12e9, .accel_bytes = UINT64_MAX},
                                  {.devices = 8, .speed = 0.4, .bytes_per_s = 6e9, .accel_bytes = UINT64_MAX}}};
    struct dp_paper_ask ask = {.net = &net, .classes = &c};
    struct dp_graph_plan p;
    struct dp_err err;

    assert_int_equal(dp_cells_make(&g, 1250, 7, NULL), 0);
    assert_int_equal(dp_paper_find(&g, DP_PLAN_CLASSES, &ask, &p, NULL), 0);
    assert_true(p.load_ns >= p.bound_ns && p.load_ns < p.single_ns / 6);
    dp_graph_plan_release(&p);
    c.of[0].devices = c.of[1].devices = 1000;
    assert_int_equal(dp_paper_find(&g, DP_PLAN_CLASSES, &ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    ask.classes = NULL;
    assert_int_equal(dp_paper_find(&g, DP_PLAN_CLASSES, &ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    dp_graph_release(&g);
}

/* ---- what is asked ---- */

static void classes_are_read(void **state)
{
    (void)state;
    static const char *const bad[] = {"8", "8x", "x", "0xa", "8xa,", "8xa,8xa", "8xa;8xb", "-1xa", "8x1a", "65536xa", "60000xa,60000xb",
                                      "1xa,1xb,1xc,1xd,1xe,1xf,1xg,1xh,1xi", "8xa b", ""};
    struct dp_classes c;
    struct dp_err err;

    assert_int_equal(dp_classes_parse_text("8xa100,4xh100:bf16", &c, NULL), 0);
    assert_true(c.n == 2 && c.of[0].devices == 8 && c.of[1].devices == 4 && dp_classes_devices(&c) == 12);
    assert_string_equal(c.of[0].name, "a100");
    assert_string_equal(c.of[1].name, "h100:bf16");
    assert_true(dp_classes_speed(&c) == 12 && c.of[0].accel_bytes == UINT64_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(dp_classes_parse_text(bad[i], &c, &err), -1);
        assert_int_equal(err.code, DP_EINVAL);
    }
    assert_true(dp_classes_is_text("8xa100") && dp_classes_is_text("./mine.json"));
    assert_true(!dp_classes_is_text("8") && !dp_classes_is_text("4x2"));
}

#define HEAD "{\"format\":\"dynpipe classes\",\"version\":1,\"between_bytes_per_s\":1.25e9,\"classes\":["
#define CLASS(name, more) "{\"name\":\"" name "\",\"devices\":4,\"speed\":0.5,\"bytes_per_s\":6e9" more "}"

static void files_of_classes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{}", "format"},
        {HEAD "]}", "classes"},
        {HEAD CLASS("a", ",\"memory\":1") "]}", "'memory' is not known here"},
        {HEAD CLASS("a", ",\"memory_bytes\":0") "]}", "classes[0].memory_bytes"},
        {HEAD CLASS("a", "") "," CLASS("a", "") "]}", "classes[1].name: another class has it"},
        {HEAD CLASS("4", "") "]}", "classes[0].name: expected a letter"},
        {HEAD "{\"name\":\"a\",\"devices\":1.5,\"speed\":1,\"bytes_per_s\":1}]}", "classes[0].devices: expected a whole number"},
        {HEAD "{\"name\":\"a\",\"devices\":1,\"speed\":0,\"bytes_per_s\":1}]}", "classes[0].speed"},
        {HEAD "{\"name\":\"a\",\"devices\":65536,\"speed\":1,\"bytes_per_s\":1}]}", "classes[0].devices"},
        {HEAD "7]}", "classes[0]: expected an object"},
        {"{\"format\":\"dynpipe classes\",\"version\":1,\"classes\":[" CLASS("a", "") "]}", "between_bytes_per_s"},
    };
    static const char good[] = HEAD CLASS("a", ",\"memory_bytes\":16e9") "," CLASS("b", "") "]}";
    struct dp_classes c;
    struct dp_err err;

    assert_int_equal(dp_classes_parse("f", good, sizeof good - 1, &c, NULL), 0);
    assert_true(c.n == 2 && c.between_bytes_per_s == 1.25e9 && c.of[0].accel_bytes == UINT64_C(16000000000));
    assert_true(c.of[1].accel_bytes == UINT64_MAX && c.of[1].speed == 0.5 && c.of[1].bytes_per_s == 6e9 && c.of[1].devices == 4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(dp_classes_parse("f", bad[i].text, strlen(bad[i].text), &c, &err), -1);
        if (!strstr(err.text, bad[i].says))
            fail_msg("'%s' instead of '%s'", err.text, bad[i].says);
    }
    assert_int_equal(dp_classes_read("/nonexistent", &c, &err), -1);
    assert_int_equal(err.code, DP_EIO);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(is_the_best_of_all_plans), cmocka_unit_test(one_class_is_hierarchical),
    cmocka_unit_test(large_graphs_are_planned), cmocka_unit_test(classes_are_read),
    cmocka_unit_test(files_of_classes_are_read),
};
TEST_MAIN("graph_classes", tests)
