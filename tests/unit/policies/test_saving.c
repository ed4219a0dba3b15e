/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run saved: windows added up against numbers worked out by hand, and what is learned from them. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/saving/saving.h"
#include "policies/saving/trade.h"

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
    for (int i = 0; i < 300; i++) {
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

/* Loads are known later than steps. While a run is pruned, each step is shorter than the one that was predicted with
 * older loads, and that is nothing that was missed. */
static void loads_that_lag_behind(void **state)
{
    (void)state;
    struct dp_saving_sums s = {0};
    struct dp_saving_window w = {.steps = 1, .is_whole = true};

    for (int i = 0; i < 40; i++) {
        double before_s = 1.1 * (1 - 0.02 * (i > 2 ? i - 2 : 0));

        w.step_s = 1.1 * (1 - 0.02 * i);
        w.measured_s = before_s;
        w.predicted_s[DP_WAY_RUN] = w.predicted_s[DP_WAY_FIXED] = before_s / 1.1;
        dp_saving_add(&s, &w);
    }
    assert_true(is_near(s.miss, 1.1));
    w = (struct dp_saving_window){.steps = 1, .step_s = 0.4, .predicted_s = {0.4, 0.2, 0.2}};
    assert_true(is_near(dp_saving_step_s(&s, &w, DP_WAY_FIXED), 0.22));
}

/* The steps of a trial are predicted when it is over, with the loads of then: pruned further. */
static void steps_before_their_prediction(void **state)
{
    (void)state;
    struct dp_saving_sums s = {0};
    const struct dp_saving_window whole = {.steps = 10, .step_s = 1.1, .predicted_s = {1, 1, 1}, .is_whole = true};
    const struct dp_saving_window trial = {.steps = 10, .step_s = 1.5, .measured_s = 1.2, .predicted_s = {1, 0.5, 0.4}};

    dp_saving_add(&s, &whole);
    assert_true(is_near(dp_saving_step_s(&s, &trial, DP_WAY_FIXED), 0.5 * 1.1 * 1.25));
    assert_true(is_near(dp_saving_step_s(&s, &trial, DP_WAY_BALANCED), 0.4 * 1.1 * 1.25));
}

static void numbers_of_devices(void **state)
{
    (void)state;
    uint32_t n[DP_TRADE_ROWS];

    assert_int_equal(dp_trade_numbers(3, n), 3);
    assert_true(n[0] == 1 && n[1] == 2 && n[2] == 3);
    assert_int_equal(dp_trade_numbers(512, n), DP_TRADE_ROWS);
    assert_true(n[0] == 32 && n[DP_TRADE_ROWS - 1] == 512);
}

/* Fixed: 10 s on 4 devices. Within 5 % the fewest device-seconds are those of 3 devices; 1 has fewer, and no layout for 2. */
static void a_trade_has_its_marks(void **state)
{
    (void)state;
    struct dp_trade t = {.fixed_s = 10, .fixed_device_s = 40, .n = 4,
                         .row = {{.devices = 1, .step_s = 1, .time_s = 30, .device_s = 30},
                                 {.devices = 2, .why = "no memory"},
                                 {.devices = 3, .step_s = 1, .time_s = 10.5, .device_s = 31.5},
                                 {.devices = 4, .step_s = 1, .time_s = 9, .device_s = 36}}};

    dp_trade_mark(&t);
    assert_string_equal(t.row[0].why, "fewest device-s");
    assert_string_equal(t.row[1].why, "no memory");
    assert_string_equal(t.row[2].why, "fewest at most 5 % later");
    assert_string_equal(t.row[3].why, "fastest");
    assert_true(t.row[2].is_chosen && !t.row[0].is_chosen && !t.row[1].is_chosen && !t.row[3].is_chosen);
    assert_ptr_equal(dp_trade_within(&t, 200), &t.row[0]);
    assert_ptr_equal(dp_trade_within(&t, 0), &t.row[3]);
    t.row[3].time_s = 10.1;
    assert_null(dp_trade_within(&t, 0));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(windows_add_up),
    cmocka_unit_test(the_saving_of_a_run),
    cmocka_unit_test(late_and_unknown),
    cmocka_unit_test(what_is_missed),
    cmocka_unit_test(loads_that_lag_behind),
        cmocka_unit_test(steps_before_their_prediction),
    cmocka_unit_test(numbers_of_devices),
    cmocka_unit_test(a_trade_has_its_marks),
};

TEST_MAIN("saving", tests)
