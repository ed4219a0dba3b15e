/* SPDX-License-Identifier: BSD-3-Clause */
/* Promises: what counts as measured, when one is missed, and what a missed one teaches the predictions. */
#include "policies/decide/promise.h"

#include <math.h>

#include "policies/decide/correction.h"
#include "policies/predict/predict.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#define MS 1000000ull

static struct dp_measured measured(uint64_t ns, uint64_t spread, uint32_t n)
{
    struct dp_measured m;
    uint64_t v[64];

    for (uint32_t i = 0; i < n; i++)
        v[i] = i % 4 == 1 ? ns + spread : i % 4 == 3 ? ns - spread : ns;
    dp_measured_of(v, n, &m);
    return m;
}

static void a_median_and_its_noise(void **state)
{
    const uint64_t outlier[] = {20, 21, 19, 20, 900, 20, 20, 21};
    struct dp_measured m;

    (void)state;
    dp_measured_of(NULL, 0, &m);
    assert_true(!m.n && !m.ns && m.noise == 0.0);
    dp_measured_of(outlier, 8, &m);
    assert_int_equal(m.ns, 20);
    assert_true(m.noise < 0.2);
    assert_true(measured(20 * MS, MS, 8).noise > measured(20 * MS, MS, 64).noise);
    assert_true(measured(20 * MS, 15 * MS, 8).noise == DP_PROMISE_NOISE_MAX);
}

static struct dp_promise_out judge(struct dp_measured now, uint64_t expected_ns, uint64_t allowed_ns)
{
    struct dp_promise_in in = {now, expected_ns, allowed_ns};
    struct dp_promise_out out;

    dp_promise_judge(&in, &out);
    return out;
}

static void a_verdict_needs_measurements(void **state)
{
    (void)state;
    assert_int_equal(judge(measured(90 * MS, 0, DP_PROMISE_WINDOW - 1), 20 * MS, 20 * MS).verdict, DP_PROMISE_OPEN);
    assert_int_equal(judge(measured(90 * MS, 0, DP_PROMISE_WINDOW), 20 * MS, 20 * MS).verdict, DP_PROMISE_MISSED);
    assert_int_equal(judge(measured(90 * MS, 0, DP_PROMISE_WINDOW), 0, 0).verdict, DP_PROMISE_KEPT);
}

static void both_sides_are_told_apart(void **state)
{
    struct dp_promise_out o;

    (void)state;
    o = judge(measured(25 * MS, 0, 8), 20 * MS, 30 * MS);
    assert_true(o.verdict == DP_PROMISE_MISSED && o.is_unexpected && !o.is_too_slow);
    assert_string_equal(o.text, "a step takes 25.0 ms of wall time, 20.0 ms were expected, 30.0 ms are allowed");
    o = judge(measured(25 * MS, 0, 8), 20 * MS, UINT64_MAX);
    assert_true(o.verdict == DP_PROMISE_MISSED && o.is_unexpected && !o.is_too_slow);
    assert_string_equal(o.text, "a step takes 25.0 ms of wall time, 20.0 ms were expected, any time is allowed");
    o = judge(measured(25 * MS, 0, 8), 25 * MS, 20 * MS);
    assert_true(o.verdict == DP_PROMISE_MISSED && !o.is_unexpected && o.is_too_slow);
    o = judge(measured(21 * MS, 0, 8), 20 * MS, 20 * MS); /* within the tolerance */
    assert_int_equal(o.verdict, DP_PROMISE_KEPT);
    o = judge(measured(24 * MS, 2 * MS, 8), 20 * MS, 20 * MS); /* within noise */
    assert_int_equal(o.verdict, DP_PROMISE_KEPT);
    o = judge(measured(49 * MS, 20 * MS, 8), 20 * MS, 20 * MS); /* twice as long is no noise */
    assert_int_equal(o.verdict, DP_PROMISE_MISSED);
}

static void what_others_take_is_contention(void **state)
{
    (void)state;
    assert_true(dp_contention(100, 20, 0) == 1.0);
    assert_true(dp_contention(100, 20, 40) == 2.0);
    assert_true(dp_contention(100, 100, 40) == 1.0); /* nothing of its own */
    assert_true(dp_contention(100, 120, 40) == 1.0);
    assert_true(dp_contention(100, 20, 80) == DP_CONTENTION_MAX);
    assert_true(dp_contention(100, 20, UINT64_MAX) == DP_CONTENTION_MAX);
    assert_true(dp_contention(1000000, 0, 999999) == DP_CONTENTION_MAX);
}

/* --- corrections --- */

#define LAYERS 8
#define DEVICES 4

struct run {
    struct dp_layer_load layer[LAYERS];
    uint64_t opt[LAYERS];
    struct dp_layout layout;
    struct dp_device device[DEVICES], corrected[DEVICES];
    struct dp_policy_in in;
    struct dp_err err;
};

/* Two devices a slot. */
static void init(struct run *r)
{
    memset(r, 0, sizeof *r);
    r->layout = (struct dp_layout){.epoch = 1, .n_workers = DEVICES, .n_layers = LAYERS, .cut = {0, 2, 4, 6, 8}};
    for (int l = 0; l < LAYERS; l++) {
        r->layer[l] = (struct dp_layer_load){MS, MS, MS, 1000, 100, 10, 10};
        r->opt[l] = MS / 2;
    }
    for (uint32_t d = 0; d < DEVICES; d++)
        r->device[d] = (struct dp_device){1.0, 0, d / 2, true};
    r->in = (struct dp_policy_in){.n_layers = LAYERS, .n_devices = DEVICES, .n_slots = 2, .layer = r->layer,
                                  .layer_opt_ns = r->opt, .current = &r->layout, .device = r->device,
                                  .microbatches = 6, .stage_message_bytes = 1000, .link_latency_s = 1e-5, .steps_total = 10};
}

static uint64_t simulate(struct run *r, const struct dp_correction *c)
{
    struct dp_policy_in in;
    uint64_t ns;

    dp_correction_apply(c, &r->in, r->corrected, &in);
    if (dp_predict_layout(&in, &r->layout, NULL, &ns, &r->err) < 0)
        fail_msg("%s", r->err.text);
    return ns;
}

static uint64_t wall(struct run *r, const struct dp_correction *c)
{
    uint64_t ns;

    if (dp_correction_predict(c, &r->in, &r->layout, &ns, &r->err) < 0)
        fail_msg("%s", r->err.text);
    return ns;
}

static void nothing_learned_changes_nothing(void **state)
{
    struct dp_correction c = {.rest_ns = 0};
    struct run r;
    uint64_t ns;

    (void)state;
    init(&r);
    assert_int_equal(dp_predict_layout(&r.in, &r.layout, NULL, &ns, &r.err), 0);
    assert_int_equal(simulate(&r, &c), ns);
    assert_int_equal(wall(&r, &c), ns);
    assert_true(dp_correction_is_neutral(&c, 2));
    assert_int_equal(dp_correction_settle(&c, &r.in, &r.layout, ns + 5 * MS, &r.err), 0);
    assert_int_equal(c.rest_ns, 5 * MS);
    assert_int_equal(wall(&r, &c), ns + 5 * MS);
    assert_int_equal(dp_correction_settle(&c, &r.in, &r.layout, ns / 2, &r.err), 0);
    assert_in_range(wall(&r, &c), ns / 2 - 2, ns / 2 + 2);
    assert_in_range(dp_correction_wall_ns(&c, dp_correction_iteration_ns(&c, 40 * MS)), 40 * MS - 2, 40 * MS + 2);
    assert_true(dp_correction_is_neutral(&c, 2)); /* of slots and links it says nothing */
}

static void a_slot_that_shares_its_cores_is_slower(void **state)
{
    struct dp_correction c = {.slot = {1.0, 3.0}};
    uint64_t plain, all_on_0, all_on_1;
    struct run r;

    (void)state;
    init(&r);
    plain = wall(&r, &(struct dp_correction){.link_ns = 0});
    assert_true(wall(&r, &c) > 2 * plain);
    assert_false(dp_correction_is_neutral(&c, 2));
    memcpy(r.layout.cut, ((uint32_t[]){0, 4, 8, 8, 8}), 5 * sizeof(uint32_t));
    all_on_0 = wall(&r, &c);
    memcpy(r.layout.cut, ((uint32_t[]){0, 0, 0, 4, 8}), 5 * sizeof(uint32_t));
    all_on_1 = wall(&r, &c);
    assert_true(all_on_1 > 2 * all_on_0 && all_on_1 <= 3 * all_on_0);
}

/* A network that is slower than configured shows as a latency, and the usual rest does not. */
static void a_slow_link_is_found(void **state)
{
    struct run r;

    (void)state;
    init(&r);
    for (uint64_t link = 2 * MS; link <= 20 * MS; link += 2 * MS) {
        struct dp_correction truth = {.link_ns = link, .rest_ns = 2 * MS}, c = {.link_ns = 7};

        assert_int_equal(dp_correction_learn(&c, &r.in, &r.layout, wall(&r, &truth), 2 * MS, &r.err), 0);
        assert_in_range(c.link_ns, link * 9 / 10, link * 11 / 10);
        assert_in_range(wall(&r, &c), wall(&r, &truth) - 1, wall(&r, &truth) + 1);
    }
    for (int one = 0; one < 2; one++) { /* less than the tolerance, or no link: it is rest */
        struct dp_correction c = {.link_ns = 7};
        uint64_t target;

        if (one)
            memcpy(r.layout.cut, ((uint32_t[]){0, 8, 8, 8, 8}), 5 * sizeof(uint32_t));
        target = wall(&r, &(struct dp_correction){.link_ns = 0}) * (one ? 30 : 10) / 10 + 2 * MS;
        assert_int_equal(dp_correction_learn(&c, &r.in, &r.layout, target, MS, &r.err), 0);
        assert_int_equal(c.link_ns, 0);
        assert_true(c.rest_ns >= 2 * MS - 1);
        assert_in_range(wall(&r, &c), target - 1, target + 1);
    }
}

static uint64_t wall_of(struct run *r, const struct dp_correction *c, const uint32_t cut[DEVICES + 1])
{
    memcpy(r->layout.cut, cut, (DEVICES + 1) * sizeof *cut);
    return wall(r, c);
}

/* Layouts that use a slow link take longer, others do not; a slot with a fast link is not what is slow. */
static void layouts_round_a_slow_link_are_faster(void **state)
{
    static const uint32_t all[] = {0, 2, 4, 6, 8}, without_2[] = {0, 3, 6, 6, 8}, without_0[] = {0, 0, 3, 6, 8};
    const struct dp_correction plain = {.link_ns = 0};
    struct dp_correction c = {.link_ns = 0};
    struct run r;

    (void)state;
    init(&r);
    for (uint32_t d = 0; d < DEVICES; d++)
        r.device[d].slot = d;
    r.in.n_slots = DEVICES;
    dp_links_set(&c.links, 2, 3, 0);
    dp_links_set(&c.links, 1, 0, 0);
    dp_links_set(&c.links, 1, 2, 10 * (uint32_t)MS);
    assert_true(wall_of(&r, &c, all) > wall_of(&r, &plain, all) + 20 * MS);
    assert_true(wall_of(&r, &c, without_0) > wall_of(&r, &plain, without_0) + 20 * MS);
    assert_int_equal(wall_of(&r, &c, without_2), wall_of(&r, &plain, without_2));
    assert_false(dp_correction_is_neutral(&c, DEVICES));
    assert_int_equal(dp_links_ns(&c.links, 3, 2), 0);
    assert_int_equal(dp_links_ns(&c.links, 2, 1), 10 * MS);
    assert_int_equal(dp_links_ns(&c.links, 1, 3), 0);
    assert_int_equal(dp_links_ns(&c.links, 1, 1), 0);
    dp_links_set(&c.links, 0, 1, 10 * (uint32_t)MS); /* slot 1 is what is slow, or slot 0 as well: nobody knows */
    assert_int_equal(dp_links_ns(&c.links, 1, 3), 10 * MS);
    assert_int_equal(dp_links_ns(&c.links, 0, 2), 10 * MS);
    assert_int_equal(dp_links_ns(&c.links, 2, 7), 0);
    assert_int_equal(c.links.n, 3);
    for (uint32_t i = 0; i < 2 * DP_LINKS_MAX; i++) /* more than there is room for */
        dp_links_set(&c.links, i % 64, i % 61 + 3, i);
    assert_in_range(c.links.n, 3, DP_LINKS_MAX);
    for (uint32_t i = 1; i < c.links.n; i++)
        assert_true(c.links.link[i - 1].a < c.links.link[i].a ||
                    (c.links.link[i - 1].a == c.links.link[i].a && c.links.link[i - 1].b < c.links.link[i].b));
}

/* Whatever was measured: what was learned from it explains it, and a much longer one it does not. */
static void what_is_learned_explains(void **state)
{
    uint64_t seed = 5;
    struct run r;

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct dp_correction c = {.link_ns = 0};
        uint64_t target = MS + random_below(&seed, 1000) * MS;

        init(&r);
        c.slot[0] = 1.0 + random_below(&seed, 8);
        c.slot[1] = 1.0 + random_below(&seed, 8);
        r.layout.cut[1] = random_below(&seed, 5);
        assert_int_equal(dp_correction_learn(&c, &r.in, &r.layout, target, random_below(&seed, 50) * MS, &r.err), 0);
        assert_true(dp_promise_explains(&(struct dp_measured){target, 0.0, 8}, wall(&r, &c)));
        assert_false(dp_promise_explains(&(struct dp_measured){target, 0.0, 7}, wall(&r, &c)));
        assert_false(dp_promise_explains(&(struct dp_measured){2 * target, 0.1, 8}, wall(&r, &c)));
        assert_false(dp_promise_explains(&(struct dp_measured){target / 2, 0.1, 8}, wall(&r, &c)));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_median_and_its_noise),
    cmocka_unit_test(a_verdict_needs_measurements),
    cmocka_unit_test(both_sides_are_told_apart),
    cmocka_unit_test(what_others_take_is_contention),
    cmocka_unit_test(nothing_learned_changes_nothing),
    cmocka_unit_test(a_slot_that_shares_its_cores_is_slower),
    cmocka_unit_test(a_slow_link_is_found),
    cmocka_unit_test(layouts_round_a_slow_link_are_faster),
    cmocka_unit_test(what_is_learned_explains),
};
TEST_MAIN("promise", tests)
