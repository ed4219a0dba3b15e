/* SPDX-License-Identifier: BSD-3-Clause */
/* policies/learn/evaluate: what is compared does not depend on anything but seeds, counts are right, and shuffled weights are the
 * same numbers elsewhere. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

#include "policies/learn/evaluate.h"
#include "policies/learn/train/family.h"

#define STEPS 100000u

static struct dp_net nets[2];

static int by_size(const void *a, const void *b)
{
    const float *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void shuffled(void **state)
{
    (void)state;
    struct dp_weights w = {.n = 2, .crc = 7, .net = nets}, out, again;

    dp_net_init(&nets[0], 1);
    dp_net_init(&nets[1], 2);
    assert_int_equal(dp_weights_shuffle(&w, 3, &out, NULL), 0);
    assert_int_equal(dp_weights_shuffle(&w, 3, &again, NULL), 0);
    assert_int_equal(out.n, 2);
    assert_memory_equal(out.net, again.net, sizeof nets);
    assert_true(memcmp(out.net, nets, sizeof nets) != 0);
    /* within each array: its sum of squares stays, and so do all numbers together */
    assert_true(memcmp(out.net[0].direct, nets[0].direct, sizeof nets[0].direct) != 0);
    for (int i = 0; i < 2; i++) {
        float *was = dp_net_numbers(&nets[i]), *is = dp_net_numbers(&out.net[i]);
        size_t direct = sizeof nets[i].direct / sizeof(float), round = sizeof nets[i].round[0].own / sizeof(float);

        qsort(nets[i].direct, direct, sizeof(float), by_size);
        qsort(out.net[i].direct, direct, sizeof(float), by_size);
        assert_memory_equal(nets[i].direct, out.net[i].direct, sizeof nets[i].direct);
        qsort(nets[i].round[3].behind, round, sizeof(float), by_size);
        qsort(out.net[i].round[3].behind, round, sizeof(float), by_size);
        assert_memory_equal(nets[i].round[3].behind, out.net[i].round[3].behind, sizeof nets[i].round[3].behind);
        qsort(was, DP_NET_SIZE, sizeof(float), by_size);
        qsort(is, DP_NET_SIZE, sizeof(float), by_size);
        assert_memory_equal(was, is, sizeof nets[i]);
    }
    dp_weights_release(&out);
    dp_weights_release(&again);
}

/* Tables of the binomial distribution. */
static void sign_test(void **state)
{
    (void)state;
    assert_true(fabs(dp_sign_test(0, 0) - 1) < 1e-12);
    assert_true(fabs(dp_sign_test(5, 0) - 0.0625) < 1e-9);
    assert_true(fabs(dp_sign_test(0, 6) - 0.03125) < 1e-9);
    assert_true(fabs(dp_sign_test(9, 1) - 22.0 / 1024) < 1e-9);
    assert_true(fabs(dp_sign_test(8, 8) - 1) < 1e-9);
    assert_true(dp_sign_test(600, 400) < 1e-9);
    assert_true(dp_sign_test(510, 490) > 0.5);
}

static void sums(void **state)
{
    (void)state;
    struct dp_evaluation_sums s = {.n = 0};
    struct dp_evaluation e = {.best_ns = 100};

    for (int r = 0; r < DP_N_RIVALS; r++)
        e.load_ns[r] = r == DP_RIVAL_NETWORKS ? 110 : r == DP_RIVAL_ANNEAL ? 100 : r == DP_RIVAL_MOVES ? 110 : 130;
    for (int i = 0; i < 10; i++)
        dp_evaluation_add(&s, &e);
    assert_int_equal(s.n, 10);
    assert_true(fabs(s.gap[DP_RIVAL_NETWORKS] - 100) < 1e-9);
    assert_true(fabs(s.worst[DP_RIVAL_RULES] - 30) < 1e-9);
    assert_int_equal(s.wins[DP_RIVAL_RULES], 10);
    assert_int_equal(s.losses[DP_RIVAL_ANNEAL], 10);
    assert_int_equal(s.wins[DP_RIVAL_MOVES] + s.losses[DP_RIVAL_MOVES], 0);
    assert_true(dp_evaluation_wins(&s, DP_RIVAL_RULES));
    assert_false(dp_evaluation_wins(&s, DP_RIVAL_ANNEAL));
    assert_false(dp_evaluation_wins(&s, DP_RIVAL_MOVES));
    assert_false(dp_evaluation_wins_all(&s));
    s = (struct dp_evaluation_sums){.n = 0};
    for (int r = 1; r < DP_N_RIVALS; r++)
        e.load_ns[r] = 120;
    for (int i = 0; i < 10; i++)
        dp_evaluation_add(&s, &e);
    assert_true(dp_evaluation_wins_all(&s));
}

static void the_same_again(void **state)
{
    (void)state;
    struct dp_weights w = {.n = 2, .net = nets}, other;
    struct dp_evaluation a, b;
    struct dp_graph g;

    dp_net_init(&nets[0], 1);
    dp_net_init(&nets[1], 2);
    assert_int_equal(dp_weights_shuffle(&w, 1, &other, NULL), 0);
    assert_int_equal(dp_family_make(&g, DP_FAMILY_SMALL_WORLD, 90, 4, NULL), 0);
    assert_int_equal(dp_graph_set_bandwidth(&g, 5e9, NULL), 0);
    assert_int_equal(dp_evaluate(&g, 8, &w, &other, 1, STEPS, true, &a, NULL), 0);
    assert_int_equal(dp_evaluate(&g, 8, &w, &other, 1, STEPS, true, &b, NULL), 0);
    assert_memory_equal(a.load_ns, b.load_ns, sizeof a.load_ns);
    assert_int_equal(a.best_ns, b.best_ns);
    assert_true(a.best_ns > 0);
    for (int r = 0; r < DP_N_RIVALS; r++) {
        assert_true(a.best_ns <= a.load_ns[r]);
        assert_true(dp_evaluation_gap(&a, (enum dp_rival)r) >= 0);
    }
    dp_weights_release(&other);
    dp_graph_release(&g);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(shuffled), cmocka_unit_test(sign_test), cmocka_unit_test(sums),
                                          cmocka_unit_test(the_same_again)};
TEST_MAIN("learn_evaluate", tests)
