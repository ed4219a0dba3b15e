/* What a run saved: windows added up against numbers worked out by hand, and what is learned from them. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/saving.h"

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* 10 dense steps of 1 s on 4 devices; 10 of 0.5 s; then 20 of 0.7 s on 2 devices, where the model foresees 0.6 s, for
 * the fixed way 0.4 s and for all balanced 0.35 s. On all devices it foresaw 0.45 s for 0.5 s. */
static struct dp_saving_sums three_windows(void)
{
    struct dp_saving_sums s = {0};
    const struct dp_saving_window dense = {.steps = 10, .step_s = 1, .besides_s = 3, .predicted_s = {0.9, 0.9, 0.9},
                                           .is_whole = true, .dense_s = 1};
    const struct dp_saving_window sparse = {.steps = 10, .step_s = 0.5, .predicted_s = {0.45, 0.45, 0.36},
                                            .is_whole = true, .dense_s = 1};
    const struct dp_saving_window packed = {.steps = 20, .step_s = 0.7, .besides_s = 1, .pause_s = 2,
                                            .predicted_s = {0.6, 0.4, 0.35}, .dense_s = 1};

    dp_saving_add(&s, &dense);
    dp_saving_add(&s, &sparse);
    dp_saving_add(&s, &packed);
    return s;
}

static void windows_add_up(void **state)
{
    (void)state;
    struct dp_saving_sums s = three_windows();
    double miss = 1 / 0.9;

    assert_int_equal(s.steps, 40);
    assert_int_equal(s.unknown_steps, 0);
    assert_true(is_near(s.miss, miss));
    assert_true(is_near(s.time_s[DP_WAY_RUN], 10 + 3 + 5 + 14 + 1 + 2));
    assert_true(is_near(s.time_s[DP_WAY_FIXED], 10 + 3 + 5 + 20 * 0.4 * miss + 1));
    assert_true(is_near(s.time_s[DP_WAY_BALANCED], 10 + 3 + 4 + 20 * 0.35 * miss + 1));
    assert_true(is_near(s.dense_s, 40) && is_near(s.pruned_s, 10 + 5 + 20 * 0.4 * miss));
}

/* Packed after 18 s, with the pause of the move; the fixed way ends before the run does. */
static void the_saving_of_a_run(void **state)
{
    (void)state;
    struct dp_saving_sums sums = three_windows();
    const struct dp_saving_held held[] = {{0, 4}, {18, 2}};
    double fixed_s = 19 + 8 / 0.9;
    struct dp_saving s;

    dp_saving_close(&sums, held, 2, &s);
    assert_int_equal(s.devices, 4);
    assert_true(is_near(s.device_s[DP_WAY_RUN], 4 * 18 + 2 * 17));
    assert_true(is_near(s.device_s[DP_WAY_FIXED], 4 * fixed_s));
    assert_true(is_near(s.lent_device_s, 2 * (fixed_s - 18)));
    assert_true(is_near(s.later, 35 / fixed_s - 1));
    assert_true(is_near(s.packing, 4 * fixed_s / 106 - 1));
    assert_true(is_near(s.pruning, 40 / (15 + 8 / 0.9) - 1));
    dp_saving_close(&sums, held, 1, &s); /* nothing given back */
    assert_true(s.lent_device_s == 0 && is_near(s.device_s[DP_WAY_RUN], 4 * 35));
}

/* What was given back after the fixed way would have ended is of no use to anyone before that; nor does what
 * never was predicted make a difference. */
static void late_and_unknown(void **state)
{
    (void)state;
    struct dp_saving_sums sums = {0};
    const struct dp_saving_window w = {.steps = 5, .step_s = 2, .besides_s = 1};
    const struct dp_saving_held held[] = {{0, 4}, {9, 3}, {30, 1}};
    struct dp_saving s;

    dp_saving_add(&sums, &w);
    assert_int_equal(sums.unknown_steps, 5);
    sums.time_s[DP_WAY_RUN] = 40;
    dp_saving_close(&sums, held, 3, &s);
    assert_true(is_near(s.time_s[DP_WAY_FIXED], 11) && is_near(s.time_s[DP_WAY_BALANCED], 11));
    assert_true(is_near(s.lent_device_s, 1 * 2));
    assert_true(is_near(s.device_s[DP_WAY_RUN], 4 * 9 + 3 * 21 + 1 * 10));
    assert_true(isnan(s.pruning));
}

/* What is missed on all stages follows the newest windows; windows on fewer stages teach nothing, and use it. */
static void what_is_missed(void **state)
{
    (void)state;
    struct dp_saving_sums s = {0};
    struct dp_saving_window w = {.steps = 1, .step_s = 1, .predicted_s = {1, 2, 0}, .is_whole = false};

    assert_true(is_near(dp_saving_step_s(&s, &w, DP_WAY_FIXED), 2)); /* nothing learned: as the run's */
    assert_true(is_near(dp_saving_step_s(&s, &w, DP_WAY_BALANCED), 1));
    w.is_whole = true;
    for (int i = 0; i < 100; i++) {
        w.step_s = i < 50 ? 1 : 3;
        dp_saving_add(&s, &w);
        assert_true(is_near(dp_saving_step_s(&s, &w, DP_WAY_FIXED), 2 * w.step_s)); /* its own window counts here */
    }
    assert_true(fabs(s.miss - 3) < 1e-6);
    w.is_whole = false;
    w.step_s = 10;
    dp_saving_add(&s, &w);
    assert_true(fabs(s.miss - 3) < 1e-6 && is_near(dp_saving_step_s(&s, &w, DP_WAY_FIXED), 2 * s.miss));
    assert_true(is_near(dp_saving_step_s(&s, &w, DP_WAY_RUN), 10));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(windows_add_up),
    cmocka_unit_test(the_saving_of_a_run),
    cmocka_unit_test(late_and_unknown),
    cmocka_unit_test(what_is_missed),
};

TEST_MAIN("saving", tests)
