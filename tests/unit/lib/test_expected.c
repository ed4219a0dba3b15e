/* SPDX-License-Identifier: BSD-3-Clause */
/* What layers will cost: a daemon that takes in what is due knows what was said last, whenever its connections break. */
#include "lib/expected.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#define LAYERS 6
#define STEPS 8

static struct dp_msg_expect m; /* too large for a stack */

/* What a daemon knows: the forward time of each layer from each step on, 0: nothing. */
static uint64_t heard[STEPS][LAYERS], said[STEPS][LAYERS];

static void hear_one(struct dp_expected *e)
{
    assert_true(m.step < STEPS && m.first_layer + m.n_layers <= LAYERS);
    if (!m.n_layers)
        memset(heard[m.step], 0, sizeof heard[m.step]);
    for (uint32_t i = 0; i < m.n_layers; i++)
        heard[m.step][m.first_layer + i] = m.layer[i].fwd_ns;
    dp_expected_sent(e, &m);
}

static struct dp_layer_load cost(uint64_t ns)
{
    return (struct dp_layer_load){.fwd_ns = ns, .params = 10, .nnz = 10};
}

static void runs_of_layers_are_due_once(void **state)
{
    struct dp_layer_load load[3] = {cost(5), cost(6), cost(7)};
    struct dp_expected *e = dp_expected_create(LAYERS, NULL);

    (void)state;
    assert_non_null(e);
    assert_false(dp_expected_due(e, &m));
    assert_int_equal(dp_expected_set(e, 3, 0, load, 2, NULL), 0);
    assert_int_equal(dp_expected_set(e, 3, 5, load + 2, 1, NULL), 0);
    assert_true(dp_expected_due(e, &m));
    assert_true(m.step == 3 && m.first_layer == 0 && m.n_layers == 2 && m.layer[1].fwd_ns == 6 && m.layer[1].nnz == 10);
    dp_expected_sent(e, &m);
    assert_true(dp_expected_due(e, &m));
    assert_true(m.first_layer == 5 && m.n_layers == 1 && m.layer[0].fwd_ns == 7);
    dp_expected_sent(e, &m);
    assert_false(dp_expected_due(e, &m));
    dp_expected_restart(e);
    assert_true(dp_expected_due(e, &m));
    dp_expected_pass(e, 3);
    assert_true(dp_expected_due(e, &m));
    dp_expected_pass(e, 4);
    assert_false(dp_expected_due(e, &m));
    dp_expected_destroy(e);
}

static void what_the_model_has_not_is_refused(void **state)
{
    struct dp_layer_load load[LAYERS + 1] = {{0}};
    struct dp_expected *e = dp_expected_create(LAYERS, NULL);
    struct dp_err err = {0};

    (void)state;
    assert_int_equal(dp_expected_set(e, 1, 0, load, LAYERS + 1, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_int_equal(dp_expected_set(e, 1, LAYERS, load, 1, &err), -1);
    assert_int_equal(dp_expected_set(e, 1, UINT32_MAX, load, 2, &err), -1);
    assert_int_equal(dp_expected_set(e, 1, 2, load, UINT32_MAX, &err), -1);
    assert_false(dp_expected_due(e, &m));
    dp_expected_destroy(e);
}

static void a_step_that_was_taken_back_makes_room(void **state)
{
    struct dp_layer_load load = cost(1);
    struct dp_expected *e = dp_expected_create(LAYERS, NULL);
    struct dp_err err = {0};

    (void)state;
    for (uint64_t s = 0; s < DP_EXPECTED_STEPS; s++)
        assert_int_equal(dp_expected_set(e, s, 0, &load, 1, &err), 0);
    assert_int_equal(dp_expected_set(e, 100, 0, &load, 1, &err), -1);
    assert_int_equal(dp_expected_set(e, 7, 0, NULL, 0, &err), 0);
    assert_int_equal(dp_expected_set(e, 100, 0, &load, 1, &err), -1); /* nobody has heard that yet */
    while (dp_expected_due(e, &m))
        dp_expected_sent(e, &m);
    assert_int_equal(dp_expected_set(e, 100, 0, &load, 1, &err), 0);
    assert_true(dp_expected_due(e, &m));
    assert_int_equal(m.step, 100);
    dp_expected_destroy(e);
}

static void a_daemon_knows_what_was_said_last(void **state)
{
    uint64_t seed = 14;

    (void)state;
    for (int round = 0; round < DP_INSTANCES(600); round++) {
        struct dp_expected *e = dp_expected_create(LAYERS, NULL);

        memset(heard, 0, sizeof heard);
        memset(said, 0, sizeof said);
        for (int turn = 0; turn < 40; turn++) {
            uint32_t step = random_below(&seed, STEPS), first = random_below(&seed, LAYERS);
            uint32_t n = random_below(&seed, LAYERS - first + 1);
            struct dp_layer_load load[LAYERS];

            for (uint32_t i = 0; i < n; i++) {
                load[i] = cost(1 + random_below(&seed, 1000));
                said[step][first + i] = load[i].fwd_ns;
            }
            if (!n)
                memset(said[step], 0, sizeof said[step]);
            assert_int_equal(dp_expected_set(e, step, first, load, n, NULL), 0);
            for (uint32_t k = random_below(&seed, 3); k > 0 && dp_expected_due(e, &m); k--)
                hear_one(e);
            if (!random_below(&seed, 8))
                dp_expected_restart(e); /* the same daemon, which knows what it has heard */
            if (!random_below(&seed, 16)) {
                memset(heard, 0, sizeof heard); /* another one */
                dp_expected_restart(e);
            }
        }
        while (dp_expected_due(e, &m))
            hear_one(e);
        assert_memory_equal(heard, said, sizeof said);
        dp_expected_destroy(e);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(runs_of_layers_are_due_once),
    cmocka_unit_test(what_the_model_has_not_is_refused),
    cmocka_unit_test(a_step_that_was_taken_back_makes_room),
    cmocka_unit_test(a_daemon_knows_what_was_said_last),
};

TEST_MAIN("expected", tests)
