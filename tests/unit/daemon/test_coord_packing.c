/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): the plain course of a run, what it reports, and what is packed
 * when: as often as Slurm lets a job shrink, with the policy and within the limits that the user chose. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

static void a_run_packs_and_gives_back(void **state)
{
    (void)state;
    struct world *w = begin(1);
    json_t *o, *list;

    world_start(w);
    world_run(w, 90.0, false);
    assert_true(world_is_settled(w));
    assert_true(!w->held[1] && !w->held[2] && !w->held[3] && w->held[0]);
    assert_int_equal(w->n_shrinks, 1);
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 1); /* one shrink allowed: all at once */
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    assert_string_equal(text_of(o, "state"), "training");
    assert_string_equal(text_of(json_object_get(o, "layout"), "text"), "0-7|x|x|x");
    list = json_object_get(o, "handovers");
    assert_true(json_array_size(list) >= 1);
    assert_true(json_real_value(json_object_get(json_array_get(list, json_array_size(list) - 1),
                                                "pause_max_ms")) > 4.9);
    assert_int_equal(json_array_size(json_object_get(o, "releases")), 3);
    assert_int_equal(json_array_size(json_object_get(o, "slots_held_over_time")), 2);
    assert_true(json_real_value(json_object_get(o, "slot_seconds_held")) <
                0.6 * 4 * json_real_value(json_object_get(o, "now_s")));
    if (getenv("DP_SHOW_JSON"))
        json_dumpf(o, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    json_decref(o);
    end(w);
}

static void keys_are_documented(json_t *o, const char *text, uint32_t *n)
{
    const char *key;
    json_t *value;
    size_t i;

    json_array_foreach (o, i, value)
        keys_are_documented(value, text, n);
    json_object_foreach (o, key, value) {
        char plain[80], list[80];

        snprintf(plain, sizeof plain, "`%s`", key);
        snprintf(list, sizeof list, "`%s[]`", key);
        if (!strstr(text, plain) && !strstr(text, list))
            fail_msg("doc/json.md does not name \"%s\"", key);
        (*n)++;
        keys_are_documented(value, text, n);
    }
}

static void the_document_names_every_key(void **state)
{
    (void)state;
    const char *dir = getenv("DP_SRCDIR");
    char path[512], *text = calloc(1, 65536);
    struct world *w = begin(23);
    uint32_t n = 0;
    json_t *o;
    FILE *f;

    snprintf(path, sizeof path, "%s/doc/json.md", dir ? dir : ".");
    f = fopen(path, "r");
    if (!f) {
        world_release(w);
        free(w);
        free(text);
        skip(); /* run by hand, elsewhere */
    }
    assert_true(fread(text, 1, 65535, f) > 1000);
    fclose(f);
    world_start(w);
    world_run(w, 90.0, false);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    json_object_del(o, "counters"); /* told in words */
    keys_are_documented(o, text, &n);
    assert_true(n > 150);
    json_decref(o);
    free(text);
    end(w);
}

static void many_shrinks_release_step_by_step(void **state)
{
    (void)state;
    struct world *w = begin(2);

    w->job.shrinks_allowed = 1000;
    world_start(w);
    world_run(w, 120.0, false);
    assert_true(world_is_settled(w));
    assert_true(world_count(w, DP_REC_RELINTENT) >= 2);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    end(w);
}

/* Where each slot can go by itself, one whose daemon is away keeps nobody. */
static void many_shrinks_wait_for_nobody(void **state)
{
    (void)state;
    for (uint32_t allowed = 1; allowed <= 50; allowed += 49) {
        struct world *w = begin(14);

        w->limits.pack.min_devices = 2; /* both leave by one hand-over, as where there is one shrink */
        world_start(w);
        while (!world_slot_has(w, 2, DP_REC_GONE) && w->now_ns < 400000000000u) {
            world_run(w, 0.1, false);
            w->stop_at_ns[3] = 0;
        }
        w->job.shrinks_allowed = allowed;
        dp_coord_may_shrink(w->c, w->now_ns, allowed, false);
        for (int i = 0; i < 30; i++) {
            world_run(w, 0.1, false);
            w->stop_at_ns[3] = 0;
        }
        assert_true(world_slot_has(w, 2, DP_REC_GONE) && world_slot_has(w, 3, DP_REC_DRAIN));
        assert_false(world_slot_has(w, 3, DP_REC_HELD) || world_slot_has(w, 3, DP_REC_GONE));
        assert_int_equal(world_count(w, DP_REC_RELINTENT), allowed > 1);
        world_run(w, 90.0, false);
        assert_true(!w->held[2] && !w->held[3]);
        end(w);
    }
}

static bool waits_for_more(const struct world *w)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN), *list = json_object_get(o, "decisions");
    json_t *d = json_array_get(list, json_array_size(list) - 1);
    bool waits = d && !strncmp(text_of(d, "release_reason"), "wait: ", 6) &&
                 strstr(text_of(d, "release_reason"), " by freeing 1 now, ");

    json_decref(o);
    return waits;
}

/* slurmctld is upgraded under a run that waits for the best single shrink. */
static void a_newer_slurm_ends_the_waiting(void **state)
{
    (void)state;
    struct world *w = begin(17);

    w->is_recorded = true;
    w->steps_total = 600;
    world_start(w);
    while (!waits_for_more(w) && w->now_ns < 400000000000u)
        world_run(w, 0.1, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    w->job.shrinks_allowed = 50;
    dp_coord_may_shrink(w->c, w->now_ns, 50, false);
    world_run(w, 2.0, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 1);
    assert_false(waits_for_more(w));
    end(w);
}

static void nothing_is_given_back_with_a_stepmgr(void **state)
{
    (void)state;
    struct world *w = begin(2);
    uint32_t n_told = 0;
    const char *text;

    w->job.shrinks_allowed = 0;
    w->job.has_stepmgr = true;
    world_start(w);
    for (int i = 0; i < 2; i++)
        dp_coord_may_shrink(w->c, w->now_ns, 0, true); /* each time the job is read */
    while ((text = dp_coord_next_event(w->c)))
        n_told += strstr(text, "no node will be given back: the job has a stepmgr") != NULL;
    assert_int_equal(n_told, 1);
    world_run(w, 120.0, false);
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 0);
    assert_int_equal(w->n_shrinks, 0);
    end(w);
}

static void modes_and_pause(void **state)
{
    (void)state;
    for (uint8_t mode = DP_MODE_OFF; mode <= DP_MODE_RELEASE; mode++) {
        struct world *w = begin(3 + mode);
        struct dp_err err;
        json_t *o;

        w->limits.mode = mode;
        world_start(w);
        world_run(w, 3.0, false);
        if (mode == DP_MODE_RELEASE)
            assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_PAUSE, "", &err), 0);
        world_run(w, 60.0, false);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN);
        assert_int_equal(json_array_size(json_object_get(o, "decisions")) > 0, mode != DP_MODE_OFF);
        json_decref(o);
        assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
        if (mode != DP_MODE_BALANCE)
            assert_int_equal(world_count(w, DP_REC_INTENT), 0);
        if (mode == DP_MODE_RELEASE) {
            assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_RESUME, "", &err), 0);
            world_run(w, 40.0, false);
            assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
        }
        end(w);
    }
}

static void min_devices_is_kept(void **state)
{
    (void)state;
    struct world *w = begin(9);

    w->limits.pack.min_devices = 3;
    world_start(w);
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 1);
    assert_true(w->held[0] && w->held[1] && w->held[2] && !w->held[3]);
    end(w);
}

/* Decisions that nobody answers: the layout stays, people are told once and why, the waits get longer, and
 * everything goes on when answers come again. */
static void a_failing_policy_leaves_the_layout(void **state)
{
    (void)state;
    struct world *w = begin(36);
    json_t *o, *d, *list;
    uint32_t notes = 0;
    const char *text;

    w->planner_dies = true;
    world_start(w);
    world_run(w, 60.0, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_EXPLAIN);
    list = json_object_get(o, "decisions");
    assert_int_equal(json_array_size(list), 1); /* one line */
    d = json_array_get(list, 0);
    assert_string_equal(text_of(d, "reason"), "stay: policy time: the helper process died");
    assert_in_range(int_of(d, "count"), 4, 8); /* after 1, 2, 4, 8, 16 and 32 s */
    json_decref(o);
    while ((text = dp_coord_next_event(w->c)))
        notes += strstr(text, "no decision: policy time: the helper process died") != NULL;
    assert_int_equal(notes, 1);
    w->planner_dies = false;
    world_run(w, 150.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    while ((text = dp_coord_next_event(w->c)))
        notes += strstr(text, "policy time answers again") != NULL;
    assert_int_equal(notes, 2);
    end(w);
}

/* A layout asked for by hand while a decision is under way: its answer is about what is no more. */
static void a_late_answer_is_dropped(void **state)
{
    (void)state;
    struct world *w = begin(37);
    struct dp_err err;

    w->plan_ms = 20000;
    world_start(w);
    for (int i = 0; i < 200 && !w->is_planning; i++)
        world_run(w, 0.2, false);
    assert_true(w->is_planning);
    w->planned_at_ns = w->now_ns + 15000000000u;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-4|5|6|7", &err), 0);
    world_run(w, 14.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    assert_true(w->is_planning); /* nothing else was asked */
    assert_int_equal(world_count(w, DP_REC_INTENT), 1);
    for (uint64_t due = w->planned_at_ns; w->now_ns < due;)
        world_run(w, 0.2, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 1); /* that of the command */
    w->plan_ms = 1;
    w->planned_at_ns = w->now_ns;
    world_run(w, 120.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    end(w);
}

/* One shrink, loads of a real run: one slot is free early, two soon after, and two it is. */
static void the_only_shrink_takes_the_better_set(void **state)
{
    (void)state;
    struct world *w = begin(35);
    bool has_waited = false;
    json_t *o, *list, *d;
    size_t i;

    w->is_recorded = true;
    w->steps_total = 600;
    world_start(w);
    world_run(w, 28.0, false);
    assert_true(w->held[0] && w->held[1] && !w->held[2] && !w->held[3]);
    assert_int_equal(world_count(w, DP_REC_RELINTENT), 1);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    list = json_object_get(o, "decisions");
    json_array_foreach(list, i, d) {
        const char *why = text_of(d, "release_reason");

        has_waited |= !strncmp(why, "wait: ", 6) && strstr(why, " by freeing 1 now, ") && strstr(why, " by freeing 2 at step ");
        if (!strcmp(text_of(d, "verdict"), "move") && int_of(d, "slots_after") == 2)
            assert_in_range(int_of(d, "step"), 280, 400);
    }
    assert_true(has_waited);
    json_decref(o);
    end(w);
}

/* Three of eight layers fit on a worker: however cheap they get, three workers stay. */
static void memory_is_kept(void **state)
{
    (void)state;
    struct world *w = begin(34);
    json_t *o;

    w->mem_limit_bytes = 350000;
    world_start(w);
    world_run(w, 90.0, false);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_int_equal(int_of(json_object_get(o, "layout"), "stages"), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(int_of(json_array_get(json_object_get(o, "workers"), i), "layers") <= 3);
    json_decref(o);
    assert_true(w->held[0] && w->held[1] && w->held[2] && !w->held[3]);
    end(w);
}

static void layout_by_hand(void **state)
{
    (void)state;
    struct world *w = begin(10);
    struct dp_err err;

    w->limits.mode = DP_MODE_BALANCE;
    w->limits.hysteresis = 1000.0;
    world_start(w);
    world_run(w, 5.0, false);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-1|2-9|-|-", &err), -1);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-1|2-3|4-5|6-7", &err), -1);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-4|5|6|7", &err), 0);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-3|4|5-6|7", &err), -1);
    assert_non_null(strstr(err.text, "under way"));
    world_run(w, 5.0, false);
    for (int r = 0; r < W_MAX; r++)
        assert_int_equal(w->worker[r].layout.cut[1], 5);
    end(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_packs_and_gives_back),
    cmocka_unit_test(the_document_names_every_key),
    cmocka_unit_test(many_shrinks_release_step_by_step),
    cmocka_unit_test(many_shrinks_wait_for_nobody),
    cmocka_unit_test(a_newer_slurm_ends_the_waiting),
    cmocka_unit_test(nothing_is_given_back_with_a_stepmgr),
    cmocka_unit_test(modes_and_pause),
    cmocka_unit_test(min_devices_is_kept),
    cmocka_unit_test(a_failing_policy_leaves_the_layout),
    cmocka_unit_test(a_late_answer_is_dropped),
    cmocka_unit_test(the_only_shrink_takes_the_better_set),
    cmocka_unit_test(memory_is_kept),
    cmocka_unit_test(layout_by_hand),
};
TEST_MAIN("coord_packing", tests)
