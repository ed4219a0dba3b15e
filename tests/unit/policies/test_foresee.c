/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads at later steps: exact for freezing, pruning as it is learnt, both together; what is
 * expected; when to look, and the mean of what is left. */
#include "policies/decide/foresee.h"

#include <math.h>

#include "policies/decide/pruning.h"
#include "tests/unit/unit.h"

#define LAYERS 6 /* embedding, 4 blocks, head */

static const struct dp_layer_load dense[LAYERS] = {
    {20, 0, 20, 800, 0, 50, 50},        {100, 110, 90, 1600, 640, 100, 100}, {100, 110, 90, 1600, 640, 100, 100},
    {100, 110, 90, 1600, 640, 100, 100}, {100, 110, 90, 1600, 640, 100, 100}, {50, 50, 50, 400, 80, 30, 30}};
static const uint64_t opt[LAYERS] = {5, 10, 10, 10, 10, 3};

static const struct dp_change both[] = {
    {100, 0.5, DP_CHANGE_PRUNE}, {200, 0.8, DP_CHANGE_PRUNE}, {200, 2, DP_CHANGE_FREEZE}, {300, 4, DP_CHANGE_FREEZE}};
static const struct dp_foresight known = {.change = both, .n_changes = 4};

static void nothing_changes_before_the_first_change(void **state)
{
    struct dp_layer_load out[LAYERS];
    uint64_t opt_out[LAYERS];

    (void)state;
    dp_foresee(&known, 99, dense, opt, LAYERS, out, opt_out);
    assert_memory_equal(out, dense, sizeof out);
    assert_memory_equal(opt_out, opt, sizeof opt_out);
}

static void pruning_is_what_it_is_alone(void **state)
{
    struct dp_layer_load out[LAYERS], alone[LAYERS];
    uint64_t opt_out[LAYERS], opt_alone[LAYERS];
    struct dp_foresight sloped = known;

    (void)state;
    sloped.prune_slope = 1.5;
    dp_foresee(&sloped, 199, dense, opt, LAYERS, out, opt_out);
    dp_loads_at_sparsity(dense, opt, 1.5, LAYERS, 0.5, alone, opt_alone);
    assert_memory_equal(out, alone, sizeof out);
    assert_memory_equal(opt_out, opt_alone, sizeof opt_out);
    assert_int_equal(out[1].nnz, 50);
    assert_int_equal(out[0].nnz, 50);
}

static void freezing_is_exact(void **state)
{
    struct dp_change freeze[] = {{10, 3, DP_CHANGE_FREEZE}};
    struct dp_foresight f = {.change = freeze, .n_changes = 1};
    struct dp_layer_load out[LAYERS], again[LAYERS];
    uint64_t opt_out[LAYERS];

    (void)state;
    dp_foresee(&f, 10, dense, opt, LAYERS, out, opt_out);
    for (uint32_t l = 0; l < 3; l++) {
        assert_true(dp_load_is_frozen(&out[l]));
        assert_int_equal(out[l].fwd_ns, dense[l].fwd_ns);
        assert_int_equal(out[l].state_bytes, dense[l].state_bytes / 4);
        assert_int_equal(out[l].nnz, dense[l].nnz);
        assert_int_equal(opt_out[l], 0);
    }
    assert_memory_equal(&out[3], &dense[3], 3 * sizeof out[0]);
    assert_memory_equal(&opt_out[3], &opt[3], 3 * sizeof opt[0]);
    assert_int_equal(dp_frozen_prefix(out, LAYERS), 3);
    assert_int_equal(dp_frozen_prefix(dense, LAYERS), 0);
    /* what is frozen already stays */
    dp_foresee(&f, 1000, out, NULL, LAYERS, again, NULL);
    assert_memory_equal(again, out, sizeof out);
}

/* Pruned first, then frozen: of a quarter of the time that is left, forward alone. */
static void both_come_together(void **state)
{
    struct dp_layer_load out[LAYERS], pruned[LAYERS];
    uint64_t opt_out[LAYERS], opt_pruned[LAYERS];

    (void)state;
    dp_foresee(&known, 250, dense, opt, LAYERS, out, opt_out);
    dp_loads_at_sparsity(dense, opt, 0.0, LAYERS, 0.8, pruned, opt_pruned);
    assert_true(dp_load_is_frozen(&out[0]) && dp_load_is_frozen(&out[1]) && !dp_load_is_frozen(&out[2]));
    assert_int_equal(out[1].fwd_ns, pruned[1].fwd_ns);
    assert_int_equal(out[1].nnz, pruned[1].nnz);
    assert_int_equal(out[1].state_bytes, pruned[1].state_bytes / 4);
    assert_int_equal(opt_out[1], 0);
    assert_memory_equal(&out[2], &pruned[2], 4 * sizeof out[0]);
    dp_foresee(&known, UINT64_MAX, dense, opt, LAYERS, out, opt_out);
    assert_int_equal(dp_frozen_prefix(out, LAYERS), 4);
}

/* More layers than the run has are those that it has. */
static void a_list_of_another_run_harms_nobody(void **state)
{
    struct dp_change freeze[] = {{0, 1e9, DP_CHANGE_FREEZE}};
    struct dp_foresight f = {.change = freeze, .n_changes = 1};
    struct dp_layer_load out[LAYERS];

    (void)state;
    dp_foresee(&f, 0, dense, NULL, LAYERS, out, NULL);
    assert_int_equal(dp_frozen_prefix(out, LAYERS), LAYERS);
}

/* --- what is expected --- */

static const uint8_t first_two[LAYERS] = {1, 1}, second[LAYERS] = {0, 1};
static const struct dp_layer_load at_50[LAYERS] = {{7, 8, 9, 10, 11, 50, 25}, {100, 0, 0, 400, 0, 100, 100}};
static const struct dp_layer_load at_250[LAYERS] = {{0}, {60, 70, 80, 90, 40, 100, 50}};
static const struct dp_expected expected[] = {{50, first_two, at_50}, {250, second, at_250}};
static const struct dp_foresight told = {.change = both, .n_changes = 4, .expected = expected, .n_expected = 2};

static void what_is_said_of_a_layer_counts(void **state)
{
    struct dp_layer_load out[LAYERS], changed[LAYERS];
    uint64_t opt_out[LAYERS], opt_changed[LAYERS];

    (void)state;
    dp_foresee(&told, 49, dense, opt, LAYERS, out, opt_out);
    assert_memory_equal(out, dense, sizeof out);
    dp_foresee(&told, 50, dense, opt, LAYERS, out, opt_out);
    assert_memory_equal(out, at_50, 2 * sizeof out[0]);
    assert_memory_equal(&out[2], &dense[2], 4 * sizeof out[0]);
    assert_true(opt_out[0] == 2 && opt_out[1] == 0 && opt_out[2] == 10); /* half of 5; frozen; as it is */
    /* the changes apply to those of which nothing was said, and not to the others */
    dp_foresee(&told, 300, dense, opt, LAYERS, out, opt_out);
    dp_foresee(&known, 300, dense, opt, LAYERS, changed, opt_changed);
    assert_memory_equal(&out[0], &at_50[0], sizeof out[0]);
    assert_memory_equal(&out[1], &at_250[1], sizeof out[0]);
    assert_memory_equal(&out[2], &changed[2], 4 * sizeof out[0]);
    assert_true(opt_out[0] == 2 && opt_out[1] == 5);
    assert_memory_equal(&opt_out[2], &opt_changed[2], 4 * sizeof opt[0]);
    dp_foresee(&told, 300, dense, NULL, LAYERS, changed, NULL);
    assert_memory_equal(changed, out, sizeof out);
}

static void it_is_said_in_the_time_of_its_device(void **state)
{
    const double speed[LAYERS] = {2.0, 0.5, 1.0, 1.0, 1.0, 1.0};
    struct dp_foresight f = told;
    struct dp_layer_load out[LAYERS];

    (void)state;
    f.speed = speed;
    dp_foresee(&f, 60, dense, NULL, LAYERS, out, NULL);
    assert_true(out[0].fwd_ns == 14 && out[0].bwd_input_ns == 16 && out[0].bwd_weight_ns == 18 && out[0].state_bytes == 10);
    assert_true(out[1].fwd_ns == 50 && out[1].bwd_input_ns == 0 && out[1].nnz == 100);
    assert_int_equal(out[2].fwd_ns, 100);
}

static void looks_are_at_what_is_expected_too(void **state)
{
    struct dp_look look[DP_CHANGES_MAX + DP_EXPECTED_MAX];

    (void)state;
    assert_int_equal(dp_foresee_looks(&told, 0, 1000, 64, look), 5);
    assert_true(look[0].step == 50 && look[1].step == 100 && look[2].step == 200 && look[3].step == 250 && look[4].step == 300);
    assert_int_equal(dp_foresee_looks(&told, 100, 300, 64, look), 2);
    assert_true(look[0].step == 200 && look[1].step == 250 && look[1].is_next);
    assert_int_equal(dp_foresee_looks(&told, 0, 1000, 2, look), 2);
    assert_true(look[0].step == 100 && !look[0].is_next && look[1].step == 300);
    assert_int_equal(dp_foresee_looks(&(struct dp_foresight){.expected = expected, .n_expected = 2}, 50, 1000, 8, look), 1);
}

static void looks_are_at_changes(void **state)
{
    struct dp_look look[DP_CHANGES_MAX];

    (void)state;
    assert_int_equal(dp_foresee_looks(&known, 0, 1000, 8, look), 3); /* two changes at 200 are one look */
    assert_true(look[0].step == 100 && look[1].step == 200 && look[2].step == 300);
    assert_true(look[0].is_next && look[1].is_next && look[2].is_next);
    assert_int_equal(dp_foresee_looks(&known, 100, 1000, 8, look), 2);
    assert_true(look[0].step == 200 && look[0].is_next);
    assert_int_equal(dp_foresee_looks(&known, 0, 1000, 2, look), 2);
    assert_true(look[0].step == 100 && look[0].is_next && look[1].step == 300 && !look[1].is_next);
    assert_int_equal(dp_foresee_looks(&known, 0, 1000, 1, look), 1);
    assert_true(look[0].step == 300 && !look[0].is_next);
    assert_int_equal(dp_foresee_looks(&known, 0, 300, 8, look), 2); /* the run is over then */
    assert_int_equal(dp_foresee_looks(&known, 300, 1000, 8, look), 0);
    assert_int_equal(dp_foresee_looks(&(struct dp_foresight){0}, 0, 1000, 8, look), 0);
}

static void the_mean_goes_by_steps(void **state)
{
    struct dp_look look[] = {{100, true}, {200, true}, {400, false}};
    double value[] = {0.5, 0.4, 0.2};

    (void)state;
    assert_float_equal(dp_foresee_mean(0, 1000, 1.0, NULL, NULL, 0), 1.0, 1e-12);
    assert_float_equal(dp_foresee_mean(0, 1000, 1.0, look, value, 1), 0.55, 1e-12);
    /* 100 x 1, 100 x 0.5, 200 x 0.3 on the way from 0.4 to 0.2, 600 x 0.2 */
    assert_float_equal(dp_foresee_mean(0, 1000, 1.0, look, value, 3), 0.33, 1e-12);
    assert_float_equal(dp_foresee_mean(100, 200, 0.5, look + 1, value + 1, 0), 0.5, 1e-12);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_changes_before_the_first_change),
    cmocka_unit_test(pruning_is_what_it_is_alone),
    cmocka_unit_test(freezing_is_exact),
    cmocka_unit_test(both_come_together),
    cmocka_unit_test(a_list_of_another_run_harms_nobody),
    cmocka_unit_test(what_is_said_of_a_layer_counts),
    cmocka_unit_test(it_is_said_in_the_time_of_its_device),
    cmocka_unit_test(looks_are_at_what_is_expected_too),
    cmocka_unit_test(looks_are_at_changes),
    cmocka_unit_test(the_mean_goes_by_steps),
};
TEST_MAIN("foresee", tests)
