/* SPDX-License-Identifier: BSD-3-Clause */
/* When a run asks for more slots: how many, why, and when it does not. */
#include "policies/decide/grow.h"

#include <math.h>

#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#define MS 1000000ull

/* One slot is held, of work that shares out evenly; a step of `iteration` takes a tenth longer by the clock. */
static struct dp_grow_in even(uint64_t iteration_ns, uint32_t slots_now, uint32_t most)
{
    uint32_t slots[DP_GROW_OPTIONS];
    struct dp_grow_in in = {.slots_now = slots_now, .current_ns = iteration_ns, .best_ns = iteration_ns, .hysteresis = 3.0,
                            .steps_left = 1000.0, .time_left_s = INFINITY, .left_mean = 1.0, .begin_s = 5.0, .cost_s = 0.5,
                            .now = {iteration_ns * 11 / 10, 0.0, DP_PROMISE_WINDOW}, .step_ns = iteration_ns * 11 / 10};

    in.n = dp_grow_numbers(slots_now, most, slots);
    for (uint32_t i = 0; i < in.n; i++)
        in.option[i] = (struct dp_grow_option){slots[i], iteration_ns * slots_now / slots[i]};
    return in;
}

static struct dp_grow_out decide(const struct dp_grow_in *in)
{
    struct dp_grow_out out;

    dp_grow_decide(in, &out);
    assert_true(out.reason[0] && (out.why == DP_GROW_STAY) == (out.slots == in->slots_now));
    return out;
}

static void stays(const struct dp_grow_in *in, const char *why)
{
    struct dp_grow_out out = decide(in);

    assert_int_equal(out.why, DP_GROW_STAY);
    if (!strstr(out.reason, why))
        fail_msg("'%s' does not say '%s'", out.reason, why);
}

static void numbers_that_are_looked_at(void **state)
{
    static const uint32_t want[] = {3, 4, 5, 6, 10, 18, 34, 66};
    uint32_t slots[DP_GROW_OPTIONS];

    (void)state;
    assert_int_equal(dp_grow_numbers(2, 2, slots), 0);
    assert_int_equal(dp_grow_numbers(2, 1, slots), 0);
    assert_int_equal(dp_grow_numbers(2, 512, slots), DP_GROW_OPTIONS);
    assert_memory_equal(slots, want, sizeof want);
    assert_int_equal(dp_grow_numbers(2, 8, slots), 5);
    assert_int_equal(slots[4], 8);
    for (uint32_t most = 0; most < 600; most++) {
        uint32_t n = dp_grow_numbers(1, most, slots);

        assert_true(n <= DP_GROW_OPTIONS && (n > 0) == (most > 1));
        for (uint32_t i = 0; i < n; i++)
            assert_true(slots[i] > (i ? slots[i - 1] : 1) && slots[i] <= most);
    }
}

static void the_fewest_that_meet_the_reference(void **state)
{
    struct dp_grow_in in = even(100 * MS, 1, 4);

    (void)state;
    in.limit_ns = 52 * MS;
    assert_int_equal(decide(&in).slots, 2);
    assert_int_equal(decide(&in).why, DP_GROW_REFERENCE);
    in.limit_ns = 30 * MS;
    assert_int_equal(decide(&in).slots, 4);
    in.limit_ns = 10 * MS; /* none does: the fastest */
    assert_int_equal(decide(&in).slots, 4);
    in.limit_ns = 98 * MS; /* by less than the hysteresis */
    stays(&in, "the reference is met");
    in.limit_ns = 52 * MS; /* moving layers is enough */
    in.best_ns = 50 * MS;
    stays(&in, "the reference is met");
    in.limit_ns = 0;
    stays(&in, "the reference is met");
}

/* What predictions alone say they said when slots were given back. */
static void what_was_given_back(void **state)
{
    struct dp_grow_in in = even(100 * MS, 1, 4);

    (void)state;
    in.limit_ns = 52 * MS;
    in.has_given = true;
    stays(&in, "loads have not grown since slots were given back");
    in.loads_grew = true;
    assert_int_equal(decide(&in).slots, 2);
    assert_int_equal(decide(&in).why, DP_GROW_LOADS);
    in.loads_grew = false;
    in.allowed_ns = 60 * MS; /* a step takes 110 ms */
    assert_int_equal(decide(&in).slots, 2);
    assert_int_equal(decide(&in).why, DP_GROW_REFERENCE);
    in.limit_ns = 0; /* packing is stopped: nobody predicts any more */
    in.allowed_ns = 40 * MS;
    assert_int_equal(decide(&in).slots, 3);
    in.now.n = DP_PROMISE_WINDOW - 1;
    stays(&in, "the reference is met");
    in.now.n = DP_PROMISE_WINDOW;
    in.allowed_ns = 105 * MS; /* within what measurements may be off */
    stays(&in, "the reference is met");
    in.allowed_ns = 60 * MS;
    in.best_ns = 55 * MS; /* layers that move are enough */
    stays(&in, "the reference is met");
}

static void as_fast_as_it_pays(void **state)
{
    struct dp_grow_in in = even(100 * MS, 2, 4);

    (void)state;
    in.wants_speed = true;
    assert_int_equal(decide(&in).slots, 4);
    assert_int_equal(decide(&in).why, DP_GROW_SPEED);
    in.option[1].iteration_ns = in.option[0].iteration_ns - MS; /* a fourth one is no 3 % faster than a third */
    assert_int_equal(decide(&in).slots, 3);
    in.option[0].iteration_ns = 0; /* three have no layout, four little of it */
    in.option[1].iteration_ns = 95 * MS;
    stays(&in, "is faster by the hysteresis");
    in.option[1].iteration_ns = 94 * MS;
    assert_int_equal(decide(&in).slots, 4);
    in.n = 0;
    stays(&in, "there is no seat");
}

/* In what is left of the run, or of the job's time, and less the time until it begins. */
static void it_has_to_pay(void **state)
{
    struct dp_grow_in in = even(100 * MS, 1, 2);

    (void)state;
    in.limit_ns = 52 * MS;
    assert_true(fabs(decide(&in).gain_s - (110.0 - 5.0) / 2.0) < 0.1);
    in.steps_left = 49.0; /* 5.4 s */
    stays(&in, "would gain 0.2 s");
    in.steps_left = 1000.0;
    in.time_left_s = 5.4;
    stays(&in, "would gain 0.2 s");
    in.time_left_s = 1.0;
    stays(&in, "would gain 0.0 s");
    in.time_left_s = INFINITY;
    in.cost_s = 60.0;
    stays(&in, "the hand-over costs 60.0 s");
    in.cost_s = 0.5;
    in.left_mean = 0.5; /* pruning goes on */
    stays(&in, "not by the steps that are left");
    in.limit_falls = true;
    assert_int_equal(decide(&in).slots, 2);
    in.step_ns = 0;
    stays(&in, "not known yet");
}

/* Whatever the numbers: never more than was looked at, never fewer than are held, and no more again on what it led to. */
static void any_numbers(void **state)
{
    uint64_t rng = 7;
    uint32_t n_asked = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        struct dp_grow_in in = even((1 + random_below(&rng, 200)) * MS, 1 + random_below(&rng, 6), random_below(&rng, 20));
        struct dp_grow_out out;

        in.wants_speed = random_below(&rng, 2);
        in.limit_ns = random_below(&rng, 200) * MS;
        in.allowed_ns = random_below(&rng, 200) * MS;
        in.has_given = random_below(&rng, 2);
        in.loads_grew = random_below(&rng, 2);
        in.steps_left = (double)(random_below(&rng, 3000));
        in.left_mean = (double)(random_below(&rng, 11)) / 10.0;
        out = decide(&in);
        if (out.why == DP_GROW_STAY)
            continue;
        n_asked++;
        assert_true(out.slots > in.slots_now && out.slots <= in.option[in.n - 1].slots && out.gain_s > in.cost_s);
        in.best_ns = in.current_ns = in.current_ns * in.slots_now / out.slots;
        in.now.ns = in.step_ns = in.current_ns * 11 / 10;
        in.slots_now = out.slots;
        in.n = 0;
        assert_int_equal(decide(&in).why, DP_GROW_STAY);
    }
    assert_true(n_asked > 1000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_that_are_looked_at), cmocka_unit_test(the_fewest_that_meet_the_reference),
    cmocka_unit_test(what_was_given_back),        cmocka_unit_test(as_fast_as_it_pays),
    cmocka_unit_test(it_has_to_pay),              cmocka_unit_test(any_numbers),
};
TEST_MAIN("grow", tests)
