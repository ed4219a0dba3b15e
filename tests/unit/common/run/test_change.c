/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes that are known to come: what is refused, what is in force when, and the list of a pruning schedule of any length. */
#include "common/run/change.h"

#include <math.h>

#include "tests/unit/unit.h"

static const struct dp_change both[] = {
    {100, 0.5, DP_CHANGE_PRUNE}, {200, 0.9, DP_CHANGE_PRUNE}, {200, 4, DP_CHANGE_FREEZE}, {300, 6, DP_CHANGE_FREEZE}};

static void takes_lists_of_both_kinds(void **state)
{
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_changes_check(NULL, 0, 8, &err), 0);
    assert_int_equal(dp_changes_check(both, 4, 8, &err), 0);
    assert_int_equal(dp_changes_check(both, 4, 6, &err), 0);
}

static void refuses(struct dp_change second, const char *why)
{
    struct dp_change c[2] = {both[0], second};
    struct dp_err err;

    assert_int_equal(dp_changes_check(c, 2, 8, &err), -1);
    assert_non_null(strstr(err.text, why));
    assert_non_null(strstr(err.text, "change 1"));
}

static void refuses_what_no_schedule_is(void **state)
{
    struct dp_change many[DP_CHANGES_MAX + 1];
    struct dp_err err;

    (void)state;
    refuses((struct dp_change){99, 0.6, DP_CHANGE_PRUNE}, "does not follow step 100");
    refuses((struct dp_change){100, 0.6, DP_CHANGE_PRUNE}, "does not follow step 100");
    refuses((struct dp_change){101, 0.4, DP_CHANGE_PRUNE}, "less than the one before");
    refuses((struct dp_change){101, 1.0, DP_CHANGE_PRUNE}, "sparsity 1");
    refuses((struct dp_change){101, -0.1, DP_CHANGE_PRUNE}, "sparsity -0.1");
    refuses((struct dp_change){101, NAN, DP_CHANGE_PRUNE}, "sparsity");
    refuses((struct dp_change){101, 9, DP_CHANGE_FREEZE}, "9 frozen layers, the run has 8");
    refuses((struct dp_change){101, 1.5, DP_CHANGE_FREEZE}, "1.5 frozen layers");
    refuses((struct dp_change){101, -1, DP_CHANGE_FREEZE}, "-1 frozen layers");
    refuses((struct dp_change){101, NAN, DP_CHANGE_FREEZE}, "frozen layers");
    refuses((struct dp_change){101, INFINITY, DP_CHANGE_FREEZE}, "frozen layers");
    refuses((struct dp_change){101, 0.5, 0}, "unknown kind 0");
    refuses((struct dp_change){101, 0.5, 3}, "unknown kind 3");
    for (uint32_t i = 0; i <= DP_CHANGES_MAX; i++)
        many[i] = (struct dp_change){i, 0.5, DP_CHANGE_PRUNE};
    assert_int_equal(dp_changes_check(many, DP_CHANGES_MAX, 8, &err), 0);
    assert_int_equal(dp_changes_check(many, DP_CHANGES_MAX + 1, 8, &err), -1);
}

static void says_what_is_in_force(void **state)
{
    (void)state;
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_PRUNE, 99), 0.0, 0);
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_PRUNE, 100), 0.5, 0);
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_PRUNE, 199), 0.5, 0);
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_PRUNE, UINT64_MAX), 0.9, 0);
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_FREEZE, 199), 0.0, 0);
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_FREEZE, 200), 4.0, 0);
    assert_float_equal(dp_changes_value(both, 4, DP_CHANGE_FREEZE, 300), 6.0, 0);
    assert_int_equal(dp_changes_next(both, 4, 0), 0);
    assert_int_equal(dp_changes_next(both, 4, 100), 1);
    assert_int_equal(dp_changes_next(both, 4, 200), 3);
    assert_int_equal(dp_changes_next(both, 4, 300), 4);
    assert_int_equal(dp_changes_next(NULL, 0, 0), 0);
}

static void lists_every_pruning_of_a_short_schedule(void **state)
{
    struct dp_change c[DP_CHANGES_MAX];

    (void)state;
    assert_int_equal(dp_changes_of_pruning(0, 20, 0, 0.0, 0.9, c), 0);
    assert_int_equal(dp_changes_of_pruning(50, 20, 50, 0.3, 0.9, c), 1); /* at once */
    assert_true(c[0].step == 50 && c[0].value == 0.9);
    assert_int_equal(dp_changes_of_pruning(10, 20, 55, 0.1, 0.9, c), 4); /* the last one comes early */
    assert_true(c[0].step == 10 && c[1].step == 30 && c[2].step == 50 && c[3].step == 55);
    assert_float_equal(c[0].value, 0.1, 1e-12);
    assert_float_equal(c[1].value, 0.9 - 0.8 * 8 / 27, 1e-12);
    assert_float_equal(c[2].value, 0.9 - 0.8 / 27, 1e-12);
    assert_float_equal(c[3].value, 0.9, 0);
}

static void is_sample(uint64_t begin, uint64_t every, uint64_t end)
{
    struct dp_change c[DP_CHANGES_MAX];
    struct dp_err err;

    assert_int_equal(dp_changes_of_pruning(begin, every, end, 0.0, 0.9, c), DP_CHANGES_MAX);
    assert_int_equal(dp_changes_check(c, DP_CHANGES_MAX, 1, &err), 0);
    assert_true(c[0].step == begin && c[DP_CHANGES_MAX - 1].step == end);
    assert_true(c[0].value == 0.0 && c[DP_CHANGES_MAX - 1].value == 0.9);
    for (uint32_t i = 0; i + 1 < DP_CHANGES_MAX; i++)
        assert_int_equal((c[i].step - begin) % every, 0);
}

/* In a moment, also where somebody's numbers are as large as can be: this test would not end otherwise. */
static void chooses_evenly_of_a_long_one(void **state)
{
    (void)state;
    is_sample(0, 1, 63);
    is_sample(0, 1, 64);
    is_sample(7, 3, 1000);
    is_sample(0, 1, 1000000000);
    is_sample(1, 1, UINT64_MAX);
    is_sample(0, 3, UINT64_MAX);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(takes_lists_of_both_kinds),
    cmocka_unit_test(refuses_what_no_schedule_is),
    cmocka_unit_test(says_what_is_in_force),
    cmocka_unit_test(lists_every_pruning_of_a_short_schedule),
    cmocka_unit_test(chooses_evenly_of_a_long_one),
};
TEST_MAIN("change", tests)
