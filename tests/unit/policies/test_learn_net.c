/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/learn: exp, tanh and log are near the real ones; orders are orders; gradients are what differences say; the
 * families make what they say. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/train/family.h"
#include "policies/learn/net/floats.h"
#include "policies/learn/net/net.h"

#define DEVICES 4

struct world {
    struct dp_graph g;
    struct dp_units u;
    struct dp_net_graph net_graph;
    uint32_t *order;
    float *log_share;
};

static void build(struct world *w, enum dp_family f, uint32_t n, uint64_t seed)
{
    assert_int_equal(dp_family_make(&w->g, f, n, seed, NULL), 0);
    assert_int_equal(dp_graph_set_bandwidth(&w->g, 1.25e9, NULL), 0);
    assert_int_equal(dp_units_create(&w->u, &w->g, NULL), 0);
    assert_int_equal(dp_net_graph_create(&w->net_graph, &w->u, DEVICES, NULL), 0);
    w->order = calloc(w->u.n, sizeof *w->order);
    w->log_share = calloc(w->u.n, sizeof *w->log_share);
    assert_non_null(w->order);
    assert_non_null(w->log_share);
}

static void tear_down(struct world *w)
{
    free(w->order);
    free(w->log_share);
    dp_net_graph_release(&w->net_graph);
    dp_units_release(&w->u);
    dp_graph_release(&w->g);
}

static void walk(const struct dp_net *net, const struct world *w, const struct dp_net_walk *ask)
{
    struct dp_net_code code;
    uint64_t steps = 0;

    assert_int_equal(dp_net_encode(&code, net, &w->net_graph, NULL), 0);
    assert_int_equal(dp_net_order(net, &w->net_graph, &code, ask, w->order, &steps, NULL), 1);
    assert_true(steps >= w->u.n);
    dp_net_code_release(&code);
}

static void near_the_real_ones(void **state)
{
    (void)state;
    for (int i = -80000; i <= 80000; i++) {
        float x = (float)i / 1000;

        assert_true(fabs((double)dp_f_exp(x) / exp((double)x) - 1) < 1e-6);
        assert_true(fabs((double)dp_f_tanh(x) - tanh((double)x)) < 1e-6);
    }
    for (int i = 1; i < 100000; i++) {
        float x = (float)i / 25000;

        assert_true(fabs((double)dp_f_log(x) - log((double)x)) < 1e-6 * (1 + fabs(log((double)x))));
    }
    assert_true(dp_f_exp(1e30f) < INFINITY);
    assert_true(dp_f_exp(-1e30f) > 0);
}

/* Whatever chooses: every unit once, none before one that it needs. */
static void check_order(const struct world *w)
{
    uint32_t *place = calloc(w->u.n, sizeof *place);

    assert_non_null(place);
    for (uint32_t i = 0; i < w->u.n; i++) {
        assert_true(w->order[i] < w->u.n);
        assert_int_equal(place[w->order[i]], 0);
        place[w->order[i]] = i + 1;
    }
    for (uint32_t v = 0; v < w->u.n; v++)
        for (uint32_t i = w->u.pred_at[v]; i < w->u.pred_at[v + 1]; i++)
            assert_true(place[w->u.pred[i]] < place[v]);
    free(place);
}

static void orders(void **state)
{
    (void)state;
    for (int f = 0; f < DP_N_FAMILIES; f++) {
        struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1};
        struct dp_net net;
        struct world w;
        uint32_t first[2];

        build(&w, (enum dp_family)f, 80, 3);
        dp_net_init(&net, (uint64_t)f);
        walk(&net, &w, &ask);
        check_order(&w);
        ask.is_drawn = true;
        for (ask.draw_seed = 1; ask.draw_seed < 20; ask.draw_seed++) {
            walk(&net, &w, &ask);
            check_order(&w);
        }
        first[0] = w.order[10];
        ask.draw_seed--;
        walk(&net, &w, &ask); /* the same seed */
        first[1] = w.order[10];
        assert_int_equal(first[0], first[1]);
        tear_down(&w);
    }
}

/* A network that is a rule makes the rule's order, where no feature is cut off: here by keys alone. */
static void rule_is_a_network(void **state)
{
    (void)state;
    struct dp_rule rule = {.seed = 77};
    struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1, .key_seed = 77};
    struct dp_net net;
    struct world w;
    uint32_t *wanted;
    uint64_t steps = 0;

    rule.weight[0][DP_RULE_KEY] = rule.weight[1][DP_RULE_KEY] = 512;
    rule.weight[0][DP_RULE_DEPTH] = -100;
    rule.weight[1][DP_RULE_HEIGHT] = 100;
    build(&w, DP_FAMILY_LAYERED, 200, 1);
    wanted = calloc(w.u.n, sizeof *wanted);
    assert_non_null(wanted);
    assert_int_equal(dp_rule_order(&w.net_graph.facts, &rule, UINT64_MAX - 1, wanted, &steps, NULL), 1);
    dp_net_of_rule(&net, &rule);
    walk(&net, &w, &ask);
    assert_memory_equal(w.order, wanted, w.u.n * sizeof *wanted);
    free(wanted);
    tear_down(&w);
}

/* An order that is none of the graph's is refused, and so is one that takes too long. */
static void refused(void **state)
{
    (void)state;
    struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1};
    struct dp_net_code code;
    struct dp_net net;
    struct world w;
    uint32_t swap;
    uint64_t steps = 0;

    build(&w, DP_FAMILY_TRANSFORMER, 60, 1);
    dp_net_init(&net, 1);
    walk(&net, &w, &ask);
    assert_int_equal(dp_net_encode(&code, &net, &w.net_graph, NULL), 0);
    ask.max_steps = w.u.n / 2;
    assert_int_equal(dp_net_order(&net, &w.net_graph, &code, &ask, w.order, &steps, NULL), 0);
    ask.max_steps = UINT64_MAX - 1;
    assert_int_equal(dp_net_order(&net, &w.net_graph, &code, &ask, w.order, &steps, NULL), 1);
    swap = w.order[0];
    w.order[0] = w.order[w.u.n - 1];
    w.order[w.u.n - 1] = swap;
    ask.follow = w.order;
    assert_int_equal(dp_net_order(&net, &w.net_graph, &code, &ask, w.order, &steps, NULL), -1);
    dp_net_code_release(&code);
    tear_down(&w);
}

static double entropy_of(const struct dp_net_tape *t)
{
    double sum = 0;

    for (uint32_t i = 0; i < t->n_choices; i++)
        for (uint32_t k = 0; k < t->choice[i].n; k++) {
            double share = (double)t->candidate[t->choice[i].first + k].share;

            sum -= share > 0 ? share * log(share) : 0;
        }
    return sum;
}

/* Slopes of the choices in turn, and what entropy is worth. */
struct weighing {
    float slope[3], entropy_worth;
};

/* What dp_net_learn() says that it differentiates. tape: = the walk, with slopes and worths set. */
static double loss(const struct dp_net *net, const struct world *w, const uint32_t *follow, const struct weighing *by,
                   struct dp_net_tape *tape)
{
    struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1, .follow = follow, .tape = tape, .log_share = w->log_share};
    double sum = 0;

    walk(net, w, &ask);
    for (uint32_t i = 0; i < w->u.n; i++) {
        tape->choice[i].slope = by->slope[i % 3];
        tape->choice[i].entropy_worth = by->entropy_worth;
        sum += (double)tape->choice[i].slope * (double)w->log_share[i];
    }
    return sum - (double)by->entropy_worth * entropy_of(tape);
}

/* Central differences of float32 lose digits: errors beyond a hundredth of the largest gradient of a part are faults.
 * ask: makes the order whose choices count. */
static void check_gradient(const struct weighing *by, struct dp_net_walk ask)
{
    static struct dp_net net, grad, moved;
    const float *g = dp_net_numbers(&grad);
    float *weight = dp_net_numbers(&moved);
    struct dp_net_tape tape = {0};
    struct dp_net_code code;
    struct world w;
    uint32_t *follow, *stage;
    uint64_t draws = 5;
    uint32_t n_large = 0;

    build(&w, DP_FAMILY_CELLS, 24, 2);
    grad = (struct dp_net){0};
    dp_net_init(&net, 9);
    for (int k = 0; k < DP_NET_WIDTH; k++) { /* no part of the gradient is too small to be seen, no memory forgotten */
        net.out[k] *= 10;
        net.update.bias[k] = 0.3f;
        net.bias[k] = 0.1f;
    }
    follow = calloc(w.u.n, sizeof *follow);
    stage = calloc(w.u.n, sizeof *stage);
    assert_non_null(follow);
    assert_non_null(stage);
    for (uint32_t v = 0; v < w.u.n; v++)
        stage[v] = v < w.u.n / 2 ? 0 : 1; /* units lie in an order that no edge contradicts */
    if (!ask.is_drawn)
        ask.stage = stage;
    walk(&net, &w, &ask);
    memcpy(follow, w.order, w.u.n * sizeof *follow);
    loss(&net, &w, follow, by, &tape);
    assert_int_equal(dp_net_encode(&code, &net, &w.net_graph, NULL), 0);
    assert_int_equal(dp_net_learn(&net, &w.net_graph, &code, &tape, &grad, NULL), 0);
    dp_net_code_release(&code);
    for (int i = 0; i < 1500; i++) { /* of DP_NET_SIZE, all parts among them */
        uint32_t k = dp_draw_below(&draws, DP_NET_SIZE);
        double up, down, difference;

        moved = net;
        weight[k] += 0.01f;
        up = loss(&moved, &w, follow, by, &tape);
        weight[k] -= 0.02f;
        down = loss(&moved, &w, follow, by, &tape);
        difference = (up - down) / 0.02;
        n_large += fabs(difference) > 0.1;
        if (!(fabs(difference - (double)g[k]) < 0.01 + 0.02 * fabs(difference)))
            fail_msg("weight %u: gradient %g, by differences %g", k, (double)g[k], difference);
    }
    if (n_large < 200)
        fail_msg("%u gradients only are large enough to be seen", n_large);
    dp_net_tape_release(&tape);
    free(follow);
    free(stage);
    tear_down(&w);
}

/* As PPO has it, with slopes of both signs and entropy; and the cross-entropy of an order that keeps to stages. */
static void gradients(void **state)
{
    (void)state;
    check_gradient(&(struct weighing){{-0.7f, 0.3f, 1.3f}, 0.5f},
                   (struct dp_net_walk){.max_steps = UINT64_MAX - 1, .is_drawn = true, .draw_seed = 4});
    check_gradient(&(struct weighing){{-1, -1, -1}, 0}, (struct dp_net_walk){.max_steps = UINT64_MAX - 1});
}

static void families(void **state)
{
    (void)state;
    uint32_t hash[2];

    for (int f = 0; f < DP_N_FAMILIES; f++)
        for (uint32_t n = 16; n < 400; n += 61) {
            struct dp_graph a, b;

            assert_int_equal(dp_family_make(&a, (enum dp_family)f, n, n, NULL), 0);
            assert_int_equal(dp_family_make(&b, (enum dp_family)f, n, n, NULL), 0);
            assert_in_range(a.n_nodes, n / 3, n + 90);
            assert_int_equal(a.n_nodes, b.n_nodes);
            assert_int_equal(a.n_edges, b.n_edges);
            for (uint32_t i = 0; i < a.n_nodes; i++)
                assert_int_equal(a.node[i].forward_ns, b.node[i].forward_ns);
            assert_true(strlen(dp_family_name((enum dp_family)f)) > 0);
            dp_graph_release(&a);
            dp_graph_release(&b);
        }
    assert_int_equal(dp_family_hash(&hash[0], NULL), 0);
    assert_int_equal(dp_family_hash(&hash[1], NULL), 0);
    assert_int_equal(hash[0], hash[1]);
    assert_int_equal(hash[0], 0x2a165164); /* in every build: else weights that were trained elsewhere are of other families */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_real_ones), cmocka_unit_test(orders), cmocka_unit_test(rule_is_a_network), cmocka_unit_test(refused),
        cmocka_unit_test(gradients), cmocka_unit_test(families),
    };

    return cmocka_run_group_tests_name("learn_net", tests, NULL, NULL);
}
