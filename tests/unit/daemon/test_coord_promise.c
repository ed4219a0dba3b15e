/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): what a hand-over promised is measured, and taken back when it
 * did not come true. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

static json_t *promise_of(const struct world *w, json_t **document)
{
    *document = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    return json_object_get(*document, "promise");
}

static bool is_stopped(const struct world *w)
{
    json_t *o, *p = promise_of(w, &o);
    bool is = json_is_true(json_object_get(p, "packing_stopped"));

    json_decref(o);
    return is;
}

static double ms_of(json_t *o, const char *key)
{
    return json_real_value(json_object_get(o, key));
}

static uint32_t events_with(struct world *w, const char *what)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS), *e;
    uint32_t n = 0;
    size_t i;

    json_array_foreach(json_object_get(o, "events"), i, e)
        n += strstr(text_of(e, "text"), what) != NULL;
    json_decref(o);
    return n;
}

/* Before a slot is given up the step is measured without it, and what came stands beside what was promised. */
static void a_promise_is_measured_before_anybody_leaves(void **state)
{
    (void)state;
    struct world *w = begin(40);
    uint32_t leavers = 0;
    json_t *o, *p, *h;
    size_t i;

    world_start(w);
    world_run(w, 90.0, false);
    p = promise_of(w, &o);
    assert_string_equal(text_of(p, "verdict"), "kept");
    assert_true(ms_of(p, "measured_ms") > 1.0 && ms_of(p, "measured_ms") < 1.2 * ms_of(p, "allowed_ms"));
    json_array_foreach(json_object_get(o, "handovers"), i, h) {
        assert_true(!int_of(h, "leavers") || !int_of(h, "moved_layers")); /* one or the other */
        leavers += (uint32_t)int_of(h, "leavers");
        assert_string_equal(text_of(h, "promise"), "kept");
        assert_true(ms_of(h, "measured_ms") < 1.2 * ms_of(h, "expected_ms"));
    }
    assert_int_equal(leavers, 3);
    json_decref(o);
    end(w);
}

/* On few nodes a step takes three times as long as predicted: layers come back, no node goes, packing stops and
 * is tried again later and later; until it is as predicted. */
static void a_missed_promise_is_taken_back(void **state)
{
    (void)state;
    struct world *w = begin(41);
    json_t *o, *p;
    uint32_t trials;

    w->crowded = 3;
    w->crowd_factor = 3.0;
    w->job.shrinks_allowed = 100;
    world_start(w);
    for (int i = 0; i < 300 && !events_with(w, "promise missed"); i++)
        world_run(w, 0.2, false);
    assert_true(is_stopped(w));
    p = promise_of(w, &o);
    assert_string_equal(text_of(p, "verdict"), "missed");
    assert_non_null(strstr(text_of(p, "why"), ", a trial: a step takes "));
    assert_non_null(strstr(text_of(o, "state_text"), "back to the layout before the trial"));
    json_decref(o);
    world_run(w, 5.0, false);
    assert_int_equal(events_with(w, "back to the layout before the trial"), 1);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    assert_int_equal(int_of(json_object_get(o, "layout"), "stages"), 4);
    p = json_object_get(o, "last_decision");
    assert_non_null(strstr(text_of(p, "pack_reason"), "packing is stopped: hand-over "));
    json_decref(o);
    world_run(w, 300.0, false);
    trials = events_with(w, ", a trial: a step takes");
    assert_in_range(trials, 2, 7); /* after 10, 20, 40 ... s, when all is understood */
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    w->crowd_factor = 1.0;
    world_run(w, 900.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    assert_false(is_stopped(w));
    end(w);
}

static void packing_is_stopped_until_somebody_lifts_it(void **state)
{
    (void)state;
    struct world *w = begin(42);
    struct dp_err err;

    w->crowded = 3;
    w->crowd_factor = 3.0;
    world_start(w);
    for (int i = 0; i < 300 && !events_with(w, "promise missed"); i++)
        world_run(w, 0.2, false);
    world_run(w, 3.0, false);
    assert_true(is_stopped(w));
    world_release(w); /* a restart knows it */
    world_start(w);
    world_run(w, 2.0, false);
    assert_true(is_stopped(w));
    w->crowd_factor = 1.0;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_RESUME, "", &err), 0);
    assert_false(is_stopped(w));
    assert_int_equal(events_with(w, "packing may go on: requested on the command line"), 1);
    world_release(w);
    world_start(w);
    assert_false(is_stopped(w));
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    end(w);
}

/* When nodes are gone others come: it is said, the predictions learn it, and then packing may go on, as measured. */
static void what_comes_later_is_seen_and_learned(void **state)
{
    (void)state;
    for (int is_network = 0; is_network < 2; is_network++) {
        struct world *w = begin(43 + (uint64_t)is_network);
        json_t *o, *p;

        w->limits.pack.min_devices = 2;
        w->is_network = is_network;
        w->mem_limit_bytes = 600000; /* not all on one worker, without any link */
        world_start(w);
        world_run(w, 60.0, false);
        assert_int_equal(world_count(w, DP_REC_RELEASED), 2);
        assert_false(is_stopped(w));
        w->crowded = 4;
        w->crowd_factor = 5.0;
        world_run(w, 8.0, false);
        assert_true(is_stopped(w));
        assert_int_equal(events_with(w, "promise missed, packing stops: nodes were given back: a step takes "), 1);
        world_run(w, 40.0, false);
        assert_false(is_stopped(w));
        assert_int_equal(events_with(w, "packing may go on: the corrected predictions explain what is measured"), 1);
        p = promise_of(w, &o);
        assert_string_equal(text_of(p, "verdict"), "missed"); /* as it is */
        p = json_object_get(p, "correction");
        if (is_network)
            assert_true(ms_of(p, "link_ms") > 0.1 && !json_array_size(json_object_get(p, "shared")));
        else
            assert_true(json_array_size(json_object_get(p, "shared")) == 2 && json_is_null(json_object_get(p, "link_ms")));
        assert_true(json_is_true(json_object_get(json_object_get(o, "last_decision"), "corrected")));
        json_decref(o);
        w->crowd_factor = 1.0;
        world_run(w, 20.0, false);
        p = promise_of(w, &o);
        assert_string_equal(text_of(p, "verdict"), "kept");
        assert_true(json_is_null(json_object_get(p, "correction")));
        json_decref(o);
        end(w);
    }
}

/* Others came while the run was still wide: the measured times say that fewer nodes would not do. */
static void packing_asks_the_measured_times_first(void **state)
{
    (void)state;
    struct world *w = begin(45);
    bool has_asked = false;
    json_t *o, *d;
    size_t i;

    world_start(w);
    world_run(w, 6.0, false);
    w->crowded = 4;
    w->crowd_factor = 6.0;
    world_run(w, 60.0, false);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN);
    json_array_foreach(json_object_get(o, "decisions"), i, d)
        has_asked |= strstr(text_of(d, "pack_reason"), " nodes by device time, but a step would take ") != NULL;
    assert_true(has_asked);
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    assert_int_equal(events_with(w, "promise missed"), 0);
    json_decref(o);
    w->crowd_factor = 1.0;
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    end(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_promise_is_measured_before_anybody_leaves),
    cmocka_unit_test(a_missed_promise_is_taken_back),
    cmocka_unit_test(packing_is_stopped_until_somebody_lifts_it),
    cmocka_unit_test(what_comes_later_is_seen_and_learned),
    cmocka_unit_test(packing_asks_the_measured_times_first),
};
TEST_MAIN("coord_promise", tests)
