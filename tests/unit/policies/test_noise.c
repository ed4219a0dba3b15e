/* SPDX-License-Identifier: BSD-3-Clause */
/* How sure loads are: what scatters is told from what wanders, and neither is seen where there is none. And what decisions make of it. */
#include "policies/decide/noise.h"

#include <math.h>

#include "policies/decide/decide.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#define STAGES 4
#define N DP_NOISE_WINDOWS

static double uniform(uint64_t *seed)
{
    return 2.0 * (double)(random_u64(seed) >> 11) / 9007199254740992.0 - 1.0;
}

/* Stages that scatter by +-scatter, and wander by +-walk from one report to the next; 10 steps a report. */
static void make(struct dp_window w[STAGES * N], uint64_t seed, double scatter, double walk)
{
    for (uint32_t s = 0; s < STAGES; s++) {
        double at = 1.0;

        for (uint32_t i = 0; i < N; i++) {
            at += walk * uniform(&seed);
            w[s * N + i] = (struct dp_window){10 * i + 10, (uint64_t)(1e6 * (1 + s) * at * (1.0 + scatter * uniform(&seed)))};
        }
    }
}

static void steady_loads_have_none(void **state)
{
    struct dp_window w[STAGES * N];
    struct dp_noise noise;

    (void)state;
    make(w, 1, 0.0, 0.0);
    dp_noise_of(w, STAGES, N, &noise);
    assert_int_equal(noise.n, N);
    assert_float_equal(noise.scatter, 0.0, 1e-9);
    assert_float_equal(noise.wander, 0.0, 0.0);
    assert_true(isinf(dp_lasting_steps(&noise, 0.01)));
}

/* Of +-10 % the median deviation is 5 %; hardly ever is that taken for wandering, and then it lasts long. */
static void what_scatters_does_not_wander(void **state)
{
    struct dp_window w[STAGES * N];
    uint32_t wandered = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct dp_noise noise;

        make(w, seed * 977, 0.1, 0.0);
        dp_noise_of(w, STAGES, N, &noise);
        assert_true(noise.scatter > 0.01 && noise.scatter < 0.12);
        wandered += noise.wander > 0.0;
    }
    assert_true(wandered <= 5);
}

/* +-2 % a report of ten steps are 0.365 % a step, by the root of the mean square; a single look is off by a factor. */
static void what_wanders_is_seen(void **state)
{
    struct dp_window w[STAGES * N];
    double sum = 0.0;
    uint32_t seen = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct dp_noise noise;

        make(w, seed * 977, 0.002, 0.02);
        dp_noise_of(w, STAGES, N, &noise);
        seen += noise.wander > 0.0;
        sum += noise.wander * noise.wander;
    }
    print_message("# seen %u of 1000, root of the mean square %.6f\n", seen, sqrt(sum / seen));
    assert_true(seen > 700);
    assert_true(sqrt(sum / seen) > 0.5 * 0.00365 && sqrt(sum / seen) < 2.0 * 0.00365);
}

/* All stages alike, whatever they do: no layout has to do with it. */
static void what_all_have_is_no_noise(void **state)
{
    struct dp_window w[STAGES * N];
    struct dp_noise noise;

    (void)state;
    for (uint32_t s = 0; s < STAGES; s++)
        for (uint32_t i = 0; i < N; i++)
            w[s * N + i] = (struct dp_window){i + 1, (1 + s) * 1000 * (1 + (i * 7) % 5)};
    dp_noise_of(w, STAGES, N, &noise);
    assert_float_equal(noise.scatter, 0.0, 1e-9);
    assert_float_equal(noise.wander, 0.0, 0.0);
}

static void few_or_odd_windows_say_nothing(void **state)
{
    struct dp_window w[STAGES * N], none[2 * N] = {{0, 0}};
    uint64_t v[] = {10, 20, 30, 40};
    struct dp_noise noise;

    (void)state;
    make(w, 3, 0.1, 0.0);
    dp_noise_of(w, STAGES, DP_NOISE_LEAST - 1, &noise);
    assert_float_equal(noise.scatter, 0.0, 0.0);
    dp_noise_of(w, 1, N + 1, &noise);
    assert_float_equal(noise.scatter, 0.0, 0.0);
    dp_noise_of(none, 2, N, &noise); /* no time at all, and no step */
    assert_true(noise.scatter == 0.0 && noise.wander == 0.0);
    assert_float_equal(dp_scatter_of(v, 4), 10.0 / 30.0, 1e-9);
    assert_float_equal(dp_scatter_of(v, 2), 0.0, 0.0);
    assert_float_equal(dp_scatter_of((uint64_t[]){0, 0, 0, 0}, 4), 0.0, 0.0);
}

static struct dp_decide_in gains(double percent)
{
    return (struct dp_decide_in){.current_ns = 100000000, .proposed_ns = (uint64_t)(1e6 * (100.0 - percent)), .slots_now = 4,
                                 .slots_after = 4, .moved_layers = 2, .move.fixed_ns = 500000000, .steps_left = 100000,
                                 .hysteresis = 3.0, .n_wins = 1};
}

/* 10 % of 0.1 s are 10 ms a step: 50 steps pay for half a second. */
static void a_move_pays_while_its_gain_lasts(void **state)
{
    struct dp_decide_in in = gains(10.0);
    struct dp_decide_out out;

    (void)state;
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    assert_true(isinf(out.lasting_steps));
    in.noise.wander = 0.1 / sqrt(60.0); /* lasts 60 steps */
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    assert_float_equal(out.lasting_steps, 60.0, 1e-6);
    assert_float_equal(out.gain_s, 0.6, 1e-6);
    in.noise.wander = 0.1 / sqrt(40.0);
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_STAY);
    assert_non_null(strstr(out.reason, "0.40 s gained over 40 steps"));
    assert_non_null(strstr(out.reason, "loads wander"));
    in.slots_after = 3; /* what is given back stays so, whatever the loads do */
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
}

/* A gain within what loads scatter must come three times; one beyond it, and a node given back, at once. */
static void a_gain_within_the_noise_must_come_again(void **state)
{
    struct dp_decide_in in = gains(10.0);
    struct dp_decide_out out;

    (void)state;
    in.noise.scatter = 0.04;
    for (in.n_wins = 1; in.n_wins < DP_DECIDE_WINS; in.n_wins++) {
        dp_decide(&in, &out);
        assert_int_equal(out.verdict, DP_STAY);
        assert_true(out.is_better);
        assert_non_null(strstr(out.reason, "loads scatter by 4.0 %"));
    }
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    in.n_wins = 1;
    in.noise.scatter = 0.03;
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    in.noise.scatter = 0.5;
    in.slots_after = 3;
    dp_decide(&in, &out);
    assert_int_equal(out.verdict, DP_MOVE);
    in = gains(2.0); /* not worth it anyway: that does not count */
    dp_decide(&in, &out);
    assert_false(out.is_better);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steady_loads_have_none),
    cmocka_unit_test(what_scatters_does_not_wander),
    cmocka_unit_test(what_wanders_is_seen),
    cmocka_unit_test(what_all_have_is_no_noise),
    cmocka_unit_test(few_or_odd_windows_say_nothing),
    cmocka_unit_test(a_move_pays_while_its_gain_lasts),
    cmocka_unit_test(a_gain_within_the_noise_must_come_again),
};
TEST_MAIN("noise", tests)
