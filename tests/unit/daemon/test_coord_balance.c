/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator where predictions meet others (coord_world.h). Others come and go on its workers' cores: hand-overs
 * are few, however often predictions change, and what follows pruning is not held up; the bound is that of
 * daemon/coord/decide/balance.c. A link between two nodes is slow: packing goes round it. */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/unit/daemon/coord_check.h"

#define FIRST_PAUSE_S 10.0

static double bound(double seconds)
{
    return 1.0 + log2(1.0 + seconds / FIRST_PAUSE_S) + seconds / (8.0 * FIRST_PAUSE_S);
}

/* Without pruning, unless a test says so; three nodes of four are allowed twice the time, and need less. */
static struct world *begin_even(uint64_t seed)
{
    struct world *w = begin(seed);

    w->limits.pack.min_devices = 3;
    w->limits.hysteresis = 1.0;
    w->limits.pack.max_slowdown = 50.0;
    for (uint32_t l = 0; l < W_LAYERS; l++)
        w->density[l] = 1.0;
    return w;
}

static json_t *document(const struct world *w, enum dp_query what)
{
    return dp_coord_json(w->c, w->now_ns, what);
}

/* Seconds of this world; negative: balancing does not pause. */
static double pauses_until_s(const struct world *w)
{
    json_t *o = document(w, DP_QUERY_REPORT), *t = json_object_get(json_object_get(o, "promise"), "balancing_pauses_until_s");
    double s = json_is_real(t) ? json_real_value(t) : -1.0;

    json_decref(o);
    return s;
}

static double now_s(const struct world *w)
{
    json_t *o = document(w, DP_QUERY_REPORT);
    double s = json_real_value(json_object_get(o, "now_s"));

    json_decref(o);
    return s;
}

static uint32_t texts_with(const struct world *w, const char *list, const char *key, const char *what)
{
    json_t *o = document(w, DP_QUERY_REPORT), *e;
    uint32_t n = 0;
    size_t i;

    json_array_foreach(json_object_get(o, list), i, e)
    {
        const char *text = json_string_value(json_object_get(e, key));

        n += text && strstr(text, what);
    }
    json_decref(o);
    return n;
}

/* --- others come and go --- */

/* The coordinator's daemon is restarted every so many seconds. */
static uint32_t handovers_in_600_s(uint64_t seed, double restart_s)
{
    struct world *w = begin_even(seed);
    uint32_t before;

    world_start(w);
    world_run(w, 60.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 1);
    before = w->n_commits;
    w->noise = 3.0;
    for (double s = 0.0; s < 600.0; s += restart_s) {
        world_run(w, restart_s, false);
        if (restart_s < 600.0)
            world_crash(w);
    }
    before = w->n_commits - before;
    end(w);
    return before;
}

static void predictions_that_come_and_go_move_little(void **state)
{
    (void)state;
    uint32_t most = 0;

    for (uint64_t seed = 60; seed < 80; seed++) {
        uint32_t n = handovers_in_600_s(seed, 600.0);

        assert_in_range(n, 0, (uintmax_t)bound(600.0));
        most = n > most ? n : most;
    }
    print_message("# at most %u hand-overs in 600 s, %u are allowed\n", most, (unsigned)bound(600.0));
}

/* What was learned outlives the daemon. */
static void nor_with_restarts(void **state)
{
    (void)state;
    uint32_t with = 0, without = 0;

    for (uint64_t seed = 60; seed < 70; seed++) {
        without += handovers_in_600_s(seed, 600.0);
        with += handovers_in_600_s(seed, 30.0);
    }
    print_message("# hand-overs in ten times 600 s: %u, with a restart every 30 s %u\n", without, with);
    assert_in_range(with, 0, without + without / 4);
}

/* The same, and nodes could be given up; trials have a pause of their own, and each is two hand-overs. */
static void nor_do_trials(void **state)
{
    (void)state;
    for (uint64_t seed = 80; seed < 90; seed++) {
        struct world *w = begin_even(seed);

        w->noise = 3.0;
        w->job.shrinks_allowed = 100;
        world_start(w);
        world_run(w, 600.0, false);
        assert_in_range(w->n_commits, 0, (uintmax_t)(3.0 * bound(600.0)));
        end(w);
    }
}

/* --- pauses --- */

/* Whoever gets the most layers gets the others, too: each prediction is refuted by the move that it makes. */
static void a_pause_doubles(void **state)
{
    (void)state;
    struct world *w = begin_even(90);
    double last_s = 0.0, gap_s = 0.0;
    uint32_t n = 0, before;
    struct dp_err err;

    world_start(w);
    world_run(w, 60.0, false);
    w->noise = 3.0;
    w->is_followed = true;
    for (int i = 0; i < 3000; i++) {
        before = w->n_commits;
        world_run(w, 0.2, false);
        if (w->n_commits == before)
            continue;
        assert_true(!n || now_s(w) - last_s >= FIRST_PAUSE_S);
        assert_true(now_s(w) - last_s >= 2.0 * gap_s);
        gap_s = n++ ? now_s(w) - last_s : 0.0;
        last_s = now_s(w);
    }
    assert_in_range(n, 3, 7);
    assert_true(texts_with(w, "decisions", "reason", "stay: balancing pauses for another ") > 0);
    assert_true(texts_with(w, "events", "text", "balancing pauses for ") > 0);
    last_s = pauses_until_s(w);
    assert_true(last_s >= 0.0);
    world_crash(w);
    world_run(w, 5.0, false);
    assert_true(pauses_until_s(w) == last_s);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_RESUME, "", &err), 0);
    assert_true(pauses_until_s(w) < 0.0);
    end(w);
}

/* --- pruning --- */

static void pruning_is_followed_all_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 91; seed < 101; seed++) {
        struct world *w = begin_even(seed);
        uint32_t before;

        world_start(w);
        world_run(w, 60.0, false);
        w->noise = 3.0;
        w->is_followed = seed % 2;
        for (int i = 0; i < 1000 && pauses_until_s(w) < now_s(w) + 60.0; i++)
            world_run(w, 1.0, false);
        assert_true(pauses_until_s(w) > now_s(w) + 60.0); /* by then all of it happens in a pause */
        before = w->n_commits;
        for (int k = 0; k < 4; k++) { /* first these, then those */
            uint32_t n = w->n_commits;

            for (uint32_t l = 0; l < W_LAYERS; l++)
                w->density[l] = (l < W_LAYERS / 2) == (k % 2 == 0) ? 0.02 : 0.5;
            world_run(w, 5.0, false);
            assert_true(w->n_commits > n);
            assert_true(w->n_told_coming > 0);
            world_run(w, 5.0, false);
        }
        assert_in_range(w->n_commits - before, 4, 8);
        end(w);
    }
}

/* --- trials --- */

/* It was kept, the run was paused before the workers left, and then others came. */
static void a_trial_that_waits_is_judged_again(void **state)
{
    (void)state;
    struct world *w = begin_even(102);
    struct dp_err err;
    json_t *o;
    bool is_trial = false;

    world_start(w);
    for (int i = 0; i < 300 && !is_trial; i++) {
        world_run(w, 0.2, false);
        o = document(w, DP_QUERY_STATUS);
        is_trial = json_is_true(json_object_get(json_object_get(o, "promise"), "trial"));
        json_decref(o);
    }
    assert_true(is_trial);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_PAUSE, "", &err), 0);
    world_run(w, 10.0, false);
    assert_int_equal(texts_with(w, "handovers", "promise", "kept"), 1);
    w->crowded = 3;
    w->crowd_factor = 5.0;
    world_run(w, 10.0, false);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_RESUME, "", &err), 0);
    world_run(w, 5.0, false);
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    assert_int_equal(texts_with(w, "handovers", "reason", "back to the layout before the trial"), 1);
    assert_int_equal(texts_with(w, "handovers", "promise", "missed"), 1);
    end(w);
}

/* --- links --- */

/* Messages between the nodes 1 and 2 become slow. Of the layouts on three nodes those with 1 beside 2 are too slow,
 * and a latency for all links alike would say so of all. */
static void packing_goes_round_a_slow_link(void **state)
{
    (void)state;
    struct world *w = begin_even(101);
    json_t *o, *p, *list, *d;
    uint32_t n_slow = 0, before;
    struct dp_err err;
    size_t i;

    w->has_links = true;
    w->job.shrinks_allowed = 100;
    w->limits.hysteresis = 5.0;
    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 7.5, false);
    w->link_ns[1][2] = 12000000;
    world_run(w, 10.0, false);
    o = document(w, DP_QUERY_REPORT);
    p = json_object_get(o, "promise");
    list = json_object_get(p, "links");
    assert_int_equal(json_array_size(list), 3);
    json_array_foreach(list, i, d)
    {
        bool is_slow = !strcmp(json_string_value(json_object_get(d, "from")), "n1");

        assert_true(fabs(json_real_value(json_object_get(d, "ms")) - (is_slow ? 12.0 : 0.0)) < 0.1);
        n_slow += is_slow;
    }
    assert_int_equal(n_slow, 1);
    d = json_object_get(o, "last_decision");
    assert_non_null(strstr(json_string_value(json_object_get(d, "pack_reason")), " nodes by device time, but a step would take "));
    assert_int_equal(json_integer_value(json_object_get(d, "slots_after")), 3);
    assert_true(json_real_value(json_object_get(d, "expected_ms")) < 0.6 * json_real_value(json_object_get(d, "measured_ms")));
    json_decref(o);
    world_release(w); /* the same, and it may */
    w->limits.mode = DP_MODE_RELEASE;
    world_start(w);
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 1);
    assert_true(w->worker[0].layout.gone[1] != w->worker[0].layout.gone[2]);
    o = document(w, DP_QUERY_REPORT);
    p = json_object_get(o, "promise");
    assert_string_equal(json_string_value(json_object_get(p, "verdict")), "kept");
    assert_true(json_real_value(json_object_get(p, "measured_ms")) < json_real_value(json_object_get(p, "allowed_ms")));
    json_decref(o);
    before = w->n_commits;
    world_crash(w); /* the layout avoids that link: nobody can measure it again */
    world_run(w, 60.0, false);
    assert_int_equal(w->n_commits, before);
    o = document(w, DP_QUERY_REPORT);
    json_array_foreach(json_object_get(json_object_get(o, "promise"), "links"), i, d)
        n_slow += fabs(json_real_value(json_object_get(d, "ms")) - 12.0) < 0.1;
    assert_int_equal(n_slow, 2);
    json_decref(o);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_RESUME, "", &err), 0);
    world_crash(w);
    world_run(w, 10.0, false);
    o = document(w, DP_QUERY_REPORT);
    json_array_foreach(json_object_get(json_object_get(o, "promise"), "links"), i, d)
        assert_true(json_real_value(json_object_get(d, "ms")) < 0.1);
    json_decref(o);
    end(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(predictions_that_come_and_go_move_little),
    cmocka_unit_test(nor_with_restarts),
    cmocka_unit_test(nor_do_trials),
    cmocka_unit_test(a_pause_doubles),
    cmocka_unit_test(pruning_is_followed_all_the_same),
    cmocka_unit_test(a_trial_that_waits_is_judged_again),
    cmocka_unit_test(packing_goes_round_a_slow_link),
};
TEST_MAIN("coord_balance", tests)
