/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): the plain course of a run, a crash before and
 * after every single journal record, thousands of seeded campaigns with faults of every kind, and the
 * rules that need no world. DP_CAMPAIGNS sets how many campaigns run, DP_SEED runs one and shows it. */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/unit/coord_world.h"

/* Sanitizers make each campaign ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAMPAIGNS 200
#else
#define CAMPAIGNS 2000
#endif

static struct world *begin(uint64_t seed)
{
    struct world *w = malloc(sizeof *w);

    world_init(w, seed);
    return w;
}

static void end(struct world *w)
{
    if (w->broken[0])
        fail_msg("%s", w->broken);
    world_release(w);
    free(w);
}

static const char *text_of(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static json_int_t int_of(json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* --- the plain course --- */

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

        w->limits.min_devices = 2; /* both leave by one hand-over, as where there is one shrink */
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

    w->limits.min_devices = 3;
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

    w->thinker_dies = true;
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
    w->thinker_dies = false;
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

    w->think_ms = 20000;
    world_start(w);
    for (int i = 0; i < 200 && !w->is_thinking; i++)
        world_run(w, 0.2, false);
    assert_true(w->is_thinking);
    w->thought_at_ns = w->now_ns + 15000000000u;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-4|5|6|7", &err), 0);
    world_run(w, 14.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    assert_true(w->is_thinking); /* nothing else was asked */
    assert_int_equal(world_count(w, DP_REC_INTENT), 1);
    for (uint64_t due = w->thought_at_ns; w->now_ns < due;)
        world_run(w, 0.2, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 1); /* that of the command */
    w->think_ms = 1;
    w->thought_at_ns = w->now_ns;
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

/* --- faults, one at a time --- */

static void a_no_aborts_and_the_layout_stays(void **state)
{
    (void)state;
    struct world *w = begin(11);

    w->no_percent = 100;
    world_start(w);
    world_run(w, 60.0, false);
    assert_true(world_count(w, DP_REC_ABORT) > 1);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 0);
    assert_int_equal(w->worker[0].layout.epoch, 1);
    w->no_percent = 0;
    world_run(w, 60.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    end(w);
}

static void a_crash_at_every_record(void **state)
{
    (void)state;
    uint32_t n = 0, k;

    for (k = 0; k < 60; k++)
        for (int before = 0; before < 2; before++) {
            struct world *w = begin(12);

            w->crash_at = k;
            w->crash_before = before;
            world_start(w);
            world_run(w, 120.0, false);
            if (!w->c || w->has_crashed)
                world_run(w, 20.0, false); /* the record of the last moment */
            n += w->n_crashes;
            if (!world_is_settled(w) && !w->broken[0])
                snprintf(w->broken, sizeof w->broken, "not settled after a crash %s record %u",
                         before ? "before" : "after", k);
            if (!w->broken[0] && world_count(w, DP_REC_RELEASED) < 3)
                snprintf(w->broken, sizeof w->broken, "%u released after a crash at record %u",
                         world_count(w, DP_REC_RELEASED), k);
            end(w);
        }
    print_message("# %u crashes\n", n);
    assert_true(n >= 30);
}

static void a_forgotten_release_is_repeated(void **state)
{
    (void)state;
    struct world *w = begin(13);

    world_start(w);
    while (w->held[3] && w->now_ns < 200000000000u && !w->broken[0])
        world_run(w, 0.2, false);
    assert_false(w->held[3]);
    memcpy(w->held, w->held_durable, sizeof w->held); /* killed before it saved */
    w->boot_s++;
    assert_true(w->held[3]);
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_true(!w->held[1] && !w->held[2] && !w->held[3]);
    assert_true(w->n_shrinks >= 2);
    end(w);
}

static void no_proof_no_release(void **state)
{
    (void)state;
    struct world *w = begin(14);

    w->is_stuck[2] = true;
    world_start(w);
    world_run(w, 120.0, false);
    assert_true(world_is_settled(w));
    assert_true(w->held[2] && !w->held[1] && !w->held[3]);
    assert_true(world_slot_has(w, 2, DP_REC_HELD));
    assert_false(world_slot_has(w, 2, DP_REC_RELINTENT));
    end(w);
}

/* In a rolling upgrade: nothing is packed while a daemon is old, and what had been drained before waits for it. */
static void an_old_daemon_proves_nothing(void **state)
{
    (void)state;
    struct world *w = begin(14);
    json_t *o;

    w->job.shrinks_allowed = 50;
    w->is_old[2] = true;
    world_start(w);
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state_text"), "training; packing waits: n2 is old");
    json_decref(o);
    w->is_old[2] = false;
    while (world_count(w, DP_REC_DRAIN) < 3 && w->now_ns < 400000000000u)
        world_run(w, 0.1, false);
    w->is_old[2] = true;
    world_run(w, 60.0, false);
    assert_true(world_slot_has(w, 2, DP_REC_HELD));
    assert_true(w->held[2]);
    w->is_old[2] = false;
    world_run(w, 60.0, false);
    assert_true(world_is_settled(w));
    assert_true(!w->held[1] && !w->held[2] && !w->held[3]);
    end(w);
}

/* A process that could not be killed dies at last: its node is not held for long. */
static void a_held_slot_is_asked_again_soon(void **state)
{
    (void)state;
    for (uint64_t seed = 14; seed < 24; seed++) {
        struct world *w = begin(seed);

        w->job.shrinks_allowed = 50;
        w->is_stuck[2] = true;
        world_start(w);
        world_run(w, 100.0 + (double)seed, false); /* at any time between two questions */
        assert_true(world_slot_has(w, 2, DP_REC_HELD));
        w->is_stuck[2] = false;
        world_run(w, 7.0, false); /* a node's daemon of this world takes 1 s */
        assert_true(world_slot_has(w, 2, DP_REC_GONE));
        end(w);
    }
}

/* A job that can shrink once gives all that it can: a slot that is held for a moment comes along, one that stays
 * held keeps the others for seconds only. */
static void the_only_shrink_waits_for_a_held_slot(void **state)
{
    (void)state;
    for (int comes = 0; comes < 2; comes++) {
        struct world *w = begin(14);

        w->job.shrinks_allowed = 1;
        w->limits.min_devices = 2;
        w->is_stuck[2] = w->is_stuck[3] = true;
        world_start(w);
        while (!(world_slot_has(w, 2, DP_REC_HELD) && world_slot_has(w, 3, DP_REC_HELD)) && w->now_ns < 400000000000u)
            world_run(w, 1.0, false);
        assert_true(world_slot_has(w, 2, DP_REC_HELD) && world_slot_has(w, 3, DP_REC_HELD));
        w->is_stuck[3] = false;
        while (!world_slot_has(w, 3, DP_REC_GONE) && w->now_ns < 500000000000u)
            world_run(w, 0.1, false);
        world_run(w, 5.0, false);
        assert_int_equal(world_count(w, DP_REC_RELINTENT), 0);
        w->is_stuck[2] = !comes;
        world_run(w, 40.0, false);
        assert_int_equal(world_count(w, DP_REC_RELINTENT), 1);
        assert_int_equal(w->n_shrinks, 1);
        assert_true(!w->held[3] && w->held[2] == !comes);
        end(w);
    }
}

static void a_lost_worker_fails_the_run(void **state)
{
    (void)state;
    struct world *w = begin(15);
    struct dp_msg_worker_lost m = {7, 2, 102, 1};
    json_t *o;

    world_start(w);
    world_run(w, 4.0, false);
    dp_coord_worker_lost(w->c, w->now_ns, &m);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state"), "failed");
    assert_string_equal(text_of(o, "state_text"), "failed: worker 2 on n2 was lost (process 102)");
    json_decref(o);
    world_run(w, 60.0, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    end(w);
}

static void a_voter_lost_before_the_decision_aborts(void **state)
{
    (void)state;
    struct world *w = begin(24);
    struct dp_msg_worker_lost m = {7, 1, 101, 1};

    world_start(w);
    while (!world_count(w, DP_REC_INTENT) && w->now_ns < 200000000000u)
        world_run(w, 0.2, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 0);
    w->worker[1].is_alive = w->worker[1].is_connected = false;
    dp_coord_worker_lost(w->c, w->now_ns, &m);
    assert_int_equal(world_count(w, DP_REC_ABORT), 1);
    world_run(w, 60.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 0);
    assert_int_equal(world_count(w, DP_REC_INTENT), 1);
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    for (int r = 0; r < W_MAX; r++)
        assert_true(w->worker[r].doubt == 0 && w->worker[r].layout.epoch == 1);
    end(w);
}

static void a_requeued_job_ends_everything(void **state)
{
    (void)state;
    struct world *w = begin(16);

    world_start(w);
    while (!world_count(w, DP_REC_RELINTENT) && w->now_ns < 200000000000u)
        world_run(w, 0.2, false);
    w->job.restart_count = 1;
    w->n_shrinks = 0;
    world_run(w, 20.0, false);
    assert_int_equal(w->n_shrinks, 0);
    assert_true(dp_coord_is_over(w->c));
    assert_int_equal(world_count(w, DP_REC_END), 1);
    end(w);
}

/* G13: garbage moves nothing and each piece is counted. */
static void garbage_is_dropped_and_counted(void **state)
{
    (void)state;
    struct world *w = begin(17);
    struct dp_msg_report *m = calloc(1, sizeof *m), *bad = calloc(1, sizeof *bad);
    json_t *o;
    uint32_t n = 0;

    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 4.0, false);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    n = (uint32_t)int_of(json_object_get(o, "counters"), "reports_dropped"); /* from before all were there */
    json_decref(o);
    *m = (struct dp_msg_report){.rank = 1, .epoch = 1, .step = w->worker[1].step + 8, .loss = 2.0, .grad_norm = 1.0,
                                .step_ns = 50000000, .busy_ns = 1000, .first_layer = 2, .n_layers = 2};
    for (int i = 0; i < 2; i++)
        m->layer[i] = (struct dp_layer_load){1000, 1000, 1000, 10, 10, 10000, 10000};
    for (int how = 0; how < 14; how++) {
        *bad = *m;
        switch (how) {
        case 0: bad->rank = 77; break;
        case 1: bad->epoch = 0; break;
        case 2: bad->epoch = 2; break;
        case 3: bad->step = 1; break;
        case 4: bad->step = UINT64_MAX; break;
        case 5: bad->loss = INFINITY; break;
        case 6: bad->loss = -1.0; break;
        case 7: bad->grad_norm = -INFINITY; break;
        case 8: bad->step_ns = 0; break;
        case 9: bad->layer[1].fwd_ns = UINT64_MAX; break;
        case 10: bad->layer[0].nnz = 10001; break;
        case 11: bad->layer[0].params = 1ull << 60; break;
        case 12: bad->n_layers = 1; break;
        case 13: bad->step = 90000; break; /* from the future */
        }
        dp_coord_report(w->c, w->now_ns, bad);
        n++;
    }
    dp_coord_report(w->c, w->now_ns, m);
    dp_coord_report(w->c, w->now_ns, m); /* the same once more */
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_int_equal(int_of(json_object_get(o, "counters"), "reports_dropped"), n + 1);
    json_decref(o);
    free(m);
    free(bad);
    end(w);
}

static void hello_that_contradicts_is_denied(void **state)
{
    (void)state;
    struct world *w = begin(18);
    struct dp_msg_hello m = {.job_id = 7, .rank = 1, .n_workers = 4, .n_layers = 8, .epoch = 1,
                             .steps_total = W_STEPS, .microbatches = 8, .tokens_per_microbatch = 64,
                             .cut = {0, 2, 4, 6, 8}};
    struct dp_msg_welcome v;

    world_start(w);
    world_run(w, 4.0, false);
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v); /* the same process again */
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    dp_coord_hello(w->c, w->now_ns, "n1", 999, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    dp_coord_hello(w->c, w->now_ns, "elsewhere", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    m.step_id = 5; /* a second srun while the first trains */
    dp_coord_hello(w->c, w->now_ns, "n1", 999, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    m.step_id = 0;
    m.n_layers = 9;
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    m.n_layers = 8;
    m.rank = 4;
    dp_coord_hello(w->c, w->now_ns, "n1", 101, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    end(w);
}

/* A failed step can be resumed by the next one of the same job; what was given back stays so. */
static void a_new_step_goes_on_without_the_dead_slots(void **state)
{
    (void)state;
    struct world *w = begin(19);
    struct dp_msg_hello m = {.job_id = 7, .step_id = 1, .n_workers = 1, .n_layers = 8, .epoch = 1,
                             .steps_total = 100, .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 8}};
    struct dp_msg_worker_lost lost = {7, 0, 100, 1};
    struct dp_msg_welcome v;
    json_t *o;

    world_start(w);
    world_run(w, 90.0, false);
    dp_coord_worker_lost(w->c, w->now_ns, &lost);
    dp_coord_hello(w->c, w->now_ns, "n2", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_FENCED);
    dp_coord_hello(w->c, w->now_ns, "n0", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state"), "training");
    assert_string_equal(text_of(json_object_get(o, "layout"), "text"), "0-7");
    json_decref(o);
    end(w);
}

/* The next step of a job finds in the journal what the last one did to the job, and only that. */
static void a_step_after_the_end_knows_the_job(void **state)
{
    (void)state;
    struct world *w = begin(23);
    struct dp_msg_hello m = {.job_id = 7, .step_id = 1, .n_workers = 1, .n_layers = 8, .epoch = 1,
                             .steps_total = 100, .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 8}};
    struct dp_msg_welcome v;
    struct dp_err err;
    json_t *o;

    world_start(w);
    world_run(w, 90.0, false);
    dp_coord_end(w->c, w->now_ns, "the step ended");
    assert_int_equal(world_count(w, DP_REC_END), 1);
    dp_coord_destroy(w->c);
    w->job.n_nodes = 1; /* as Slurm shows it now */
    w->c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < w->n_records; i++)
        assert_int_equal(dp_coord_replay(w->c, w->record[i].type, w->record[i].payload, w->record[i].bytes, &err), 0);
    assert_true(dp_coord_is_over(w->c));
    assert_int_equal(dp_coord_begin(w->c, w->now_ns, &err), 0);
    dp_coord_hello(w->c, w->now_ns, "n2", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_FENCED);
    dp_coord_hello(w->c, w->now_ns, "n0", 500, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state"), "training");
    assert_int_equal(int_of(json_object_get(o, "job"), "shrinks_used"), 1);
    assert_string_equal(text_of(json_array_get(json_object_get(o, "slots"), 3), "state"), "released");
    json_decref(o);
    end(w);
}

/* --- time --- */

static json_t *report_of(struct world *w)
{
    return dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
}

/* Steps of 3 s with a vote timeout of 5 s: the votes of a boundary may take five steps. */
static void votes_may_take_some_steps(void **state)
{
    (void)state;
    struct world *w = begin(31);
    struct dp_err err;
    json_t *o;

    w->limits.mode = DP_MODE_BALANCE;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->vote_ms = 9000;
    world_start(w);
    world_run(w, 4.0, false);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 12.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 0);
    o = report_of(w);
    assert_non_null(strstr(text_of(json_array_get(json_object_get(o, "handovers"), 0), "reason"), "within 5 s"));
    json_decref(o);
    w->step_ns = 3000000000ull;
    world_run(w, 6.0, false);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 12.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    end(w);
}

/* Before: the median of warm steps of the start layout. After: that of the last steps of the last. */
static void throughput_is_that_of_steady_steps(void **state)
{
    (void)state;
    struct world *w = begin(32);
    json_t *o;

    w->limits.mode = DP_MODE_OBSERVE;
    w->step_ns = 900000000; /* cold */
    world_start(w);
    world_run(w, 2.0, false);
    w->step_ns = 100000000;
    world_run(w, 5.0, false);
    w->step_ns = 40000000;
    world_run(w, 30.0, false);
    o = report_of(w);
    assert_int_equal(json_number_value(json_object_get(json_object_get(o, "throughput_start"), "step_ms")), 100);
    assert_int_equal(json_number_value(json_object_get(json_object_get(o, "throughput_now"), "step_ms")), 40);
    json_decref(o);
    end(w);
}

/* Worker 0 hears how long the job may run: at first, when that changes, and when it comes back. */
static void worker_0_knows_the_time_left(void **state)
{
    (void)state;
    struct world *w = begin(41);
    json_t *o;

    world_start(w);
    dp_coord_time_left(w->c, w->now_ns, 1234, 600000);
    world_run(w, 5.0, false);
    assert_int_equal(w->worker[0].n_limits, 1);
    assert_in_range(w->worker[0].left_ms, 594000, 600000);
    dp_coord_time_left(w->c, w->now_ns, 1234, 595500); /* the same end, in whole seconds */
    world_run(w, 2.0, false);
    assert_int_equal(w->worker[0].n_limits, 1);
    dp_coord_time_left(w->c, w->now_ns, 1234, 60000); /* scontrol update TimeLimit */
    o = report_of(w);
    assert_int_equal(int_of(json_object_get(o, "job"), "end_s"), 1234);
    json_decref(o);
    world_run(w, 2.0, false);
    assert_int_equal(w->worker[0].n_limits, 2);
    assert_in_range(w->worker[0].left_ms, 58000, 60000);
    w->worker[0].is_connected = false;
    w->worker[0].connect_at_ns = w->now_ns + 1000000000ull;
    world_run(w, 3.0, false);
    assert_int_equal(w->worker[0].n_limits, 3);
    assert_in_range(w->worker[0].left_ms, 53000, 57000);
    dp_coord_time_left(w->c, w->now_ns, 1234, DP_NO_TIME_LIMIT);
    world_run(w, 2.0, false);
    assert_int_equal(w->worker[0].n_limits, 4);
    assert_true(w->worker[0].left_ms == DP_NO_TIME_LIMIT);
    dp_coord_time_left(w->c, w->now_ns, 1234, 0); /* it is over, and the job still runs */
    world_run(w, 60.0, false);
    assert_int_equal(w->worker[0].n_limits, 5);
    assert_int_equal(w->worker[0].left_ms, 0);
    for (uint32_t r = 1; r < W_MAX; r++)
        assert_int_equal(w->worker[r].n_limits, 0);
    end(w);
}

static double saving_of(json_t *o, const char *way, const char *key)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(o, "saving"), way), key));
}

/* A run of 1500 steps that packs and gives back, told step by step what it takes: what the coordinator says of the
 * layout that it started with is what that layout takes with the loads of each step. */
static void a_saving_is_that_of_a_real_fixed_run(void **state)
{
    (void)state;
    static const struct dp_layout start = {.n_workers = W_MAX, .n_layers = W_LAYERS, .cut = {0, 2, 4, 6, 8}};
    const uint32_t steps = 1500;

    for (uint32_t k = 0; k < 12; k++) {
        struct world *w = begin(200 + k);
        double fixed_s = 0.0, foreseen_s = 0.0, run_s, lent;
        json_t *o;

        for (uint32_t i = 0; i < steps; i++)
            fixed_s += (double)world_step_ns(&start, i) / 1e9;
        w->is_timed = true;
        w->steps_total = steps;
        w->limits.max_slowdown = k % 2 ? 5.0 : 40.0;
        if (k >= 6)
            w->crash_at = 8 + k; /* a journal that is read again goes on from the sums in it */
        world_start(w);
        for (int i = 0; i < 600 && w->worker[0].step < steps; i++) {
            world_run(w, 1.0, false);
            if (!foreseen_s && w->c && w->worker[0].step > steps / 8) {
                o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
                foreseen_s = saving_of(o, "fixed", "time_s");
                json_decref(o);
            }
        }
        world_run(w, 2.0, false);
        assert_non_null(w->c);
        print_message("# foreseen after an eighth: %.1f s\n", foreseen_s);
        assert_true(fabs(foreseen_s - fixed_s) < 0.05 * fixed_s); /* with the loads of then it is 371 s */
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
        run_s = saving_of(o, "run", "time_s");
        print_message("# %u crashes: run %.1f s, fixed %.1f s (really %.1f s), balanced %.1f s\n", w->n_crashes, run_s,
                      saving_of(o, "fixed", "time_s"), fixed_s, saving_of(o, "balanced", "time_s"));
        assert_true(fabs(run_s - json_number_value(json_object_get(o, "now_s"))) < 1e-6);
        /* a journal that is read again has no prediction for the steps before it */
        assert_true(fabs(saving_of(o, "fixed", "time_s") - 2.0 - fixed_s) < (k < 6 ? 0.013 : 0.05) * fixed_s);
        assert_true(saving_of(o, "balanced", "time_s") <= saving_of(o, "fixed", "time_s") + 1e-6);
        assert_true(fabs(saving_of(o, "fixed", "device_s") - 4 * saving_of(o, "fixed", "time_s")) < 1e-6);
        assert_true(fabs(saving_of(o, "run", "device_s") - json_number_value(json_object_get(o, "device_seconds_held"))) < 0.01);
        lent = json_number_value(json_object_get(json_object_get(o, "saving"), "lent_device_s"));
        assert_true(lent > 0.0 && lent < 3 * fixed_s);
        assert_true(world_count(w, DP_REC_RELEASED) > 0);
        json_decref(o);
        end(w);
    }
}

/* Held to the time of the fixed layout a run ends at most so much later, whatever it gives back, and takes no more
 * GPU-seconds; what every number of slots would take stands in `explain`. */
static void no_later_than_promised(void **state)
{
    (void)state;
    static const double percent[] = {5.0, 40.0, 70.0};

    for (uint32_t k = 0; k < 3; k++) {
        struct world *w = begin(300 + k);
        const double overhead_s = 3.0; /* hand-overs stop this world for up to a second each */
        double fixed_s;
        uint32_t released;
        json_t *o, *trade, *last;

        w->is_timed = true;
        w->steps_total = 1500;
        w->job.shrinks_allowed = 100;
        w->limits.reference = DP_REF_FIXED;
        w->limits.objective = 1;
        w->limits.max_slowdown = percent[k];
        world_start(w);
        for (int i = 0; i < 600 && w->worker[0].step < w->steps_total; i++)
            world_run(w, 1.0, false);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
        fixed_s = saving_of(o, "fixed", "time_s");
        released = world_count(w, DP_REC_RELEASED);
        print_message("# at most %g %% later: %.1f s for %.1f s, %.0f GPU-s for %.0f, %u slots given back\n", percent[k],
                      saving_of(o, "run", "time_s"), fixed_s, saving_of(o, "run", "device_s"), saving_of(o, "fixed", "device_s"),
                      released);
        assert_true(saving_of(o, "run", "time_s") <= fixed_s * (1.0 + percent[k] / 100.0) + overhead_s);
        assert_true(saving_of(o, "run", "device_s") <= saving_of(o, "fixed", "device_s") + 4 * overhead_s);
        assert_int_equal(released, k); /* of four, eight equal blocks: 36 % for the first, 64 % for the second */
        trade = json_object_get(o, "trade");
        assert_int_equal(json_array_size(trade), W_MAX - released);
        last = json_array_get(trade, json_array_size(trade) - 1);
        assert_int_equal(int_of(last, "slots"), W_MAX - released);
        assert_true(json_is_true(json_object_get(last, "chosen")) && strstr(text_of(last, "why"), "held now"));
        json_decref(o);
        end(w);
    }
}

/* A stopped worker is named, no hand-over is started, nothing is ended; when it runs, so does the run. */
static void a_worker_that_hangs_is_named(void **state)
{
    (void)state;
    struct world *w = begin(36);
    struct dp_err err;
    json_t *o;

    w->limits.stall_s = 30.0;
    w->limits.mode = DP_MODE_BALANCE;
    world_start(w);
    world_run(w, 5.0, false);
    w->worker[2].hangs = true;
    world_run(w, 25.0, false);
    o = report_of(w);
    assert_string_equal(text_of(o, "state"), "training");
    json_decref(o);
    world_run(w, 15.0, false);
    o = report_of(w);
    assert_string_equal(text_of(o, "state"), "stalled");
    assert_string_equal(text_of(o, "state_text"), "stalled: worker 2 on n2 does not answer");
    json_decref(o);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), -1);
    assert_non_null(strstr(err.text, "worker 2 on n2"));
    w->worker[2].hangs = false;
    world_run(w, 3.0, false);
    o = report_of(w);
    assert_string_equal(text_of(o, "state"), "training");
    json_decref(o);
    w->step_ns = 20000000000ull; /* steps of 20 s may be silent for 100 */
    world_run(w, 20.0, false);
    w->worker[1].hangs = true;
    world_run(w, 80.0, false);
    o = report_of(w);
    assert_string_equal(text_of(o, "state"), "training");
    json_decref(o);
    world_run(w, 30.0, false);
    o = report_of(w);
    assert_string_equal(text_of(o, "state_text"), "stalled: worker 1 on n1 does not answer");
    json_decref(o);
    end(w);
}

static void expect_state(struct world *w, const char *state, const char *says, const char *missing)
{
    json_t *o = report_of(w), *list = json_object_get(o, "missing");

    assert_string_equal(text_of(o, "state"), state);
    if (!strstr(text_of(o, "state_text"), says))
        fail_msg("\"%s\" does not say \"%s\"", text_of(o, "state_text"), says);
    assert_int_equal(json_array_size(list), missing ? 1 : 0);
    if (missing)
        assert_string_equal(text_of(json_array_get(list, 0), "node"), missing);
    json_decref(o);
}

/* A worker that never came: its node is named, nobody else's; the steps of the others count. */
static void a_missing_node_is_named(void **state)
{
    (void)state;
    struct dp_msg_report r = {.epoch = 1, .step_ns = 5000000, .loss = 2.5};
    struct world *w = begin(37);
    json_t *o;

    w->worker[2].connect_at_ns = UINT64_MAX;
    world_start(w);
    w->worker[2].connect_at_ns = UINT64_MAX;
    world_run(w, 4.0, false);
    for (r.step = 10; r.step <= 30; r.step += 10)
        dp_coord_report(w->c, w->now_ns, &r);
    r.step = w->steps_total + 1ull; /* nonsense */
    dp_coord_report(w->c, w->now_ns, &r);
    dp_coord_node_trouble(w->c, "n2", "Connection refused");
    expect_state(w, "waiting", "waiting for workers (3 of 4 are there): nothing from n2 for ", "n2");
    expect_state(w, "waiting", " s: Connection refused", "n2");
    o = report_of(w);
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(o, "workers"), 2), "node")));
    assert_string_equal(text_of(json_array_get(json_object_get(o, "workers"), 3), "node"), "n3");
    assert_true(int_of(o, "step") >= 30 && int_of(o, "step") <= w->steps_total);
    json_decref(o);
    w->worker[2].connect_at_ns = w->now_ns;
    world_run(w, 2.0, false);
    expect_state(w, "training", "training", NULL);
    end(w);
}

static void a_daemon_that_is_away_is_named(void **state)
{
    (void)state;
    struct world *w = begin(38);
    struct dp_msg_worker_lost lost = {.rank = 1};

    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 5.0, false);
    lost.pid = w->worker[1].pid;
    w->worker[1].is_connected = false;
    w->worker[1].connect_at_ns = UINT64_MAX;
    dp_coord_worker_lost(w->c, w->now_ns, &lost);
    world_run(w, 4.0, false);
    expect_state(w, "training", "training with the layout in force; nothing from n1 for ", "n1");
    assert_true(dp_coord_is_node_missing(w->c, "n1"));
    assert_false(dp_coord_is_node_missing(w->c, "n0"));
    w->worker[1].connect_at_ns = w->now_ns;
    world_run(w, 2.0, false);
    expect_state(w, "training", "training", NULL);
    end(w);
}

/* A run that stays stalled is given up after stall_end_s, and asked for again where Slurm does not do it. */
static void a_stalled_run_is_put_back(void **state)
{
    (void)state;
    struct world *w = begin(42);

    w->limits.stall_s = 30.0;
    w->limits.stall_end_s = 60.0;
    w->limits.mode = DP_MODE_BALANCE;
    world_start(w);
    world_run(w, 5.0, false);
    w->worker[2].hangs = true;
    world_run(w, 60.0, false); /* stalled for less than 30 s */
    assert_int_equal(w->n_requeues, 0);
    w->worker[2].hangs = false;
    world_run(w, 5.0, false);
    w->worker[2].hangs = true;
    world_run(w, 85.0, false); /* that counts from anew */
    assert_int_equal(w->n_requeues, 0);
    world_run(w, 15.0, false);
    assert_int_equal(w->n_requeues, 1);
    dp_coord_requeue_answer(w->c, w->now_ns, -1, "slurm: no");
    world_run(w, 60.0, false);
    assert_int_equal(w->n_requeues, 3);
    assert_int_equal(w->n_cancels, 0);
    dp_coord_requeue_answer(w->c, w->now_ns, 0, "put back into the queue");
    end(w);
}

/* Workers that hang before their first step: put back once; then it would be the same for ever. */
static void a_run_that_never_trains_is_put_back_once(void **state)
{
    (void)state;
    for (uint32_t restarts = 0; restarts < 2; restarts++) {
        struct world *w = begin(43);

        w->limits.stall_s = 5.0;
        w->limits.stall_end_s = 20.0;
        w->job.restart_count = restarts;
        for (uint32_t r = 0; r < W_MAX; r++)
            w->worker[r].hangs = true; /* after their HELLO */
        world_start(w);
        world_run(w, 100.0, false);
        assert_true(w->n_requeues > 0);
        assert_int_equal(w->n_cancels, restarts ? w->n_requeues : 0);
        end(w);
    }
}

/* Whoever saved and left early leaves no run that "trains" behind. */
static void a_run_without_workers_has_ended(void **state)
{
    (void)state;
    struct world *w = begin(33);
    json_t *o;

    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 5.0, false);
    assert_false(dp_coord_all_left(w->c));
    for (uint32_t r = 0; r < W_MAX; r++) {
        struct dp_msg_goodbye bye = {.rank = r, .how = DP_BYE_SAVED, .step = 20};

        dp_coord_goodbye(w->c, w->now_ns, &bye);
    }
    assert_true(dp_coord_all_left(w->c));
    o = report_of(w);
    assert_string_equal(text_of(o, "state"), "ended");
    json_decref(o);
    end(w);
}

/* What a run says of its size is not believed, and no decision may cost what it likes. Such a run trains on without a
 * coordinator: it is not ended. */
static void a_run_too_big_is_left_alone(void **state)
{
    (void)state;
    struct world *w = begin(34);
    struct dp_msg_hello m = {.job_id = 7, .step_id = 0, .n_workers = 4, .n_layers = 8, .epoch = 1, .steps_total = 100,
                             .microbatches = 8, .tokens_per_microbatch = 64, .cut = {0, 2, 4, 6, 8}};
    struct dp_msg_welcome v;
    struct dp_err err = {0};

    w->job.n_tasks = 3;
    w->c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    assert_non_null(w->c);
    assert_int_equal(dp_coord_begin(w->c, w->now_ns, &err), 0);
    dp_coord_hello(w->c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_UNKNOWN);
    assert_non_null(strstr(v.text, "4 workers, but Slurm gave the job 3 tasks"));
    m.n_workers = 3;
    m.cut[3] = m.n_layers = DP_MAX_LAYERS;
    m.microbatches = DP_RUN_SIZE_MAX / 3 / DP_MAX_LAYERS + 1;
    dp_coord_hello(w->c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_UNKNOWN);
    assert_non_null(strstr(v.text, "x 1024 layers are more than"));
    m.microbatches--;
    dp_coord_hello(w->c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_OK);
    end(w);
}

/* Slurm takes tasks away with the nodes: the run that is known already stays known. */
static void a_known_run_outgrows_its_job(void **state)
{
    (void)state;
    struct world *w = begin(40);
    json_t *o;

    world_start(w);
    world_run(w, 4.0, false);
    w->job.n_tasks = 1;
    w->crash_at = w->n_appends;
    world_run(w, 60.0, false);
    assert_true(w->n_crashes >= 1);
    o = report_of(w);
    assert_true(int_of(json_object_get(o, "counters"), "reports") > 0);
    json_decref(o);
    end(w);
}

/* A proof counts once, however often it is said. */
static void a_repeated_proof_changes_nothing(void **state)
{
    (void)state;
    struct world *w = begin(21);
    struct dp_msg_slot_gone m = {.job_id = 7, .gone = 1};
    uint32_t n;

    world_start(w);
    world_run(w, 90.0, false);
    assert_true(world_is_settled(w));
    n = w->n_records;
    m.incarnation = dp_coord_incarnation(w->c);
    for (int i = 0; i < W_MAX; i++)
        dp_coord_slot_gone(w->c, w->now_ns, w->job.node[i], &m);
    m.gone = 0;
    for (int i = 0; i < W_MAX; i++)
        dp_coord_slot_gone(w->c, w->now_ns, w->job.node[i], &m);
    assert_int_equal(w->n_records, n);
    assert_true(world_is_settled(w));
    end(w);
}

/* A journal that lost a commit: its workers are ahead of it. Nothing is guessed. */
static void workers_newer_than_the_journal_are_refused(void **state)
{
    (void)state;
    struct world *w = begin(22);
    struct dp_msg_hello m = {.job_id = 7, .n_workers = 4, .n_layers = 8, .steps_total = W_STEPS,
                             .microbatches = 8, .tokens_per_microbatch = 64};
    struct dp_msg_welcome v;
    struct dp_coord *c;
    struct dp_err err;

    world_start(w);
    world_run(w, 90.0, false);
    c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < w->n_records && w->record[i].type != DP_REC_COMMIT; i++)
        assert_int_equal(dp_coord_replay(c, w->record[i].type, w->record[i].payload, w->record[i].bytes, &err), 0);
    assert_int_equal(dp_coord_begin(c, w->now_ns, &err), 0);
    m.epoch = w->worker[0].layout.epoch;
    memcpy(m.cut, w->worker[0].layout.cut, sizeof m.cut);
    dp_coord_hello(c, w->now_ns, "n0", 100, &m, &v);
    assert_int_equal(v.verdict, DP_VERDICT_DENIED);
    assert_non_null(strstr(v.text, ", the run is at 1"));
    dp_coord_destroy(c);
    end(w);
}

static void bad_records_are_refused(void **state)
{
    (void)state;
    struct world *w = begin(20);
    struct dp_job_info job;
    struct dp_coord *c;
    struct dp_err err;

    world_start(w);
    world_run(w, 90.0, false);
    job = w->job;
    for (uint32_t i = 0; i < w->n_records; i++)
        for (uint32_t cutoff = 0; cutoff < w->record[i].bytes; cutoff += 3) {
            int rc = 0;

            c = dp_coord_create(&job, &w->limits, &w->ops, w, &err);
            for (uint32_t k = 0; k < i && rc == 0; k++)
                rc = dp_coord_replay(c, w->record[k].type, w->record[k].payload, w->record[k].bytes, &err);
            assert_int_equal(rc, 0);
            assert_int_equal(dp_coord_replay(c, w->record[i].type, w->record[i].payload, cutoff, &err), -1);
            dp_coord_destroy(c);
        }
    job.job_id = 8;
    c = dp_coord_create(&job, &w->limits, &w->ops, w, &err);
    for (uint32_t i = 0; i < w->n_records; i++)
        if (w->record[i].type == DP_REC_START) {
            assert_int_equal(dp_coord_replay(c, DP_REC_START, w->record[i].payload, w->record[i].bytes, &err), -1);
            assert_non_null(strstr(err.text, "this is job 8"));
            break;
        }
    dp_coord_destroy(c);
    end(w);
}

/* --- a journal that cannot be written --- */

/* To a hand-over of which all votes but that of worker 3 have come. */
static struct world *begin_undecided(uint64_t seed)
{
    struct world *w = begin(seed);
    struct dp_err err;

    w->limits.mode = DP_MODE_BALANCE;
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    w->vote_ms = 100;
    world_start(w);
    world_run(w, 4.0, false);
    w->worker[3].is_slow = true;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 2.0, false);
    assert_true(w->worker[0].doubt && w->worker[1].doubt && w->worker[2].doubt && !w->worker[3].doubt);
    w->worker[3].is_slow = false;
    return w;
}

static uint32_t n_in_doubt(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < W_MAX; r++)
        n += w->worker[r].doubt != 0;
    return n;
}

/* COMMIT is certainly not there: nobody stands still for the record of an ABORT. */
static void a_full_disk_aborts_at_once(void **state)
{
    (void)state;
    struct world *w = begin_undecided(41);
    struct dp_err err;
    json_t *o;

    w->is_disk_full = true;
    world_run(w, 1.0, false);
    assert_int_equal(n_in_doubt(w), 0);
    assert_int_equal(world_count(w, DP_REC_COMMIT) + world_count(w, DP_REC_ABORT), 0);
    for (uint32_t r = 0; r < W_MAX; r++)
        assert_int_equal(w->worker[r].layout.epoch, 1);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "journal_error"), "the journal is gone");
    json_decref(o);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), -1);
    assert_string_equal(err.text, "journal: no room"); /* refused before anybody is told */
    w->is_disk_full = false;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_LAYOUT, "0-2|3|4-5|6-7", &err), 0);
    world_run(w, 2.0, false);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_true(json_is_null(json_object_get(o, "journal_error")));
    json_decref(o);
    end(w);
}

/* COMMIT may be on the disk: nobody hears anything, until the journal has been written anew without it, or
 * until a restart has found out. */
static void a_doubtful_commit_is_not_told(void **state)
{
    (void)state;
    for (uint64_t seed = 42; seed < 62; seed++) {
        struct world *w = begin_undecided(seed);
        bool is_restart = seed % 2;
        json_t *o;

        w->is_disk_dead = true;
        world_run(w, 60.0, false);
        assert_int_equal(n_in_doubt(w), W_MAX);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
        assert_non_null(strstr(text_of(o, "state_text"), "wait for a decision that the journal does not take"));
        json_decref(o);
        w->is_disk_dead = false;
        if (is_restart)
            world_crash(w);
        world_run(w, is_restart ? 10.0 : 1.0, false);
        assert_int_equal(n_in_doubt(w), 0);
        if (!is_restart)
            assert_int_equal(w->worker[0].layout.epoch, 1);
        for (uint32_t r = 1; r < W_MAX; r++)
            assert_int_equal(w->worker[r].layout.epoch, w->worker[0].layout.epoch);
        end(w);
    }
}

static struct dp_coord *replay_all(struct world *w, const struct world_record *record, uint32_t n)
{
    struct dp_err err = {0};
    struct dp_coord *c = dp_coord_create(&w->job, &w->limits, &w->ops, w, &err);

    assert_non_null(c);
    for (uint32_t i = 0; i < n; i++)
        if (dp_coord_replay(c, record[i].type, record[i].payload, record[i].bytes, &err) < 0)
            fail_msg("record %u of %u: %s", i, n, err.text);
    return c;
}

static void assert_same_report(struct world *w, const struct dp_coord *a, const struct dp_coord *b, uint64_t seed)
{
    for (enum dp_query q = DP_QUERY_STATUS; q <= DP_QUERY_REPORT; q++) {
        json_t *x = dp_coord_json(a, w->now_ns, q), *y = dp_coord_json(b, w->now_ns, q);
        char *s = json_dumps(x, JSON_SORT_KEYS), *t = json_dumps(y, JSON_SORT_KEYS);

        if (strcmp(s, t) != 0)
            fail_msg("seed %llu: written anew\n%s\nbefore\n%s", (unsigned long long)seed, t, s);
        free(s), free(t);
        json_decref(x), json_decref(y);
    }
}

/* Whatever a restart makes of a journal, it makes of the one written anew. */
static void a_journal_written_anew_says_the_same(void **state)
{
    (void)state;
    uint32_t n_states[8] = {0};

    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world *w = begin(seed);

        w->loss_percent = seed % 3 ? 10 : 0;
        w->fault_percent = seed % 4;
        w->no_percent = seed % 5 ? 0 : 10;
        w->job.shrinks_allowed = seed % 2 ? 1 : 50;
        world_start(w);
        for (int i = 0; i < 60 && !w->broken[0]; i++) {
            struct dp_coord *a, *b;
            uint32_t n = 0;
            struct world_record *anew;

            world_run(w, 1.0, true);
            a = replay_all(w, w->record, w->n_records);
            anew = world_snapshot(a, &n);
            assert_non_null(anew);
            b = replay_all(w, anew, n);
            assert_same_report(w, a, b, seed);
            for (uint32_t k = 0; k < n; k++)
                n_states[anew[k].type == DP_REC_COMMIT ? 0 : anew[k].type == DP_REC_ABORT ? 1 :
                         anew[k].type == DP_REC_INTENT ? 2 : anew[k].type == DP_REC_HELD ? 3 :
                         anew[k].type == DP_REC_RELEASED ? 4 : anew[k].type == DP_REC_GONE ? 5 : 6]++;
            free(anew);
            dp_coord_destroy(a);
            dp_coord_destroy(b);
        }
        end(w);
    }
    for (int k = 0; k < 7; k++)
        assert_true(n_states[k] > 0);
}

/* --- everything at once --- */

static void campaign(uint64_t seed, uint64_t total[9])
{
    struct world *w = begin(seed);
    uint32_t tries = 0;

    w->loss_percent = seed % 3 ? 20 : 5;
    w->fault_percent = 1 + seed % 5;
    w->crash_percent = seed % 4 ? 8 : 0;
    w->full_percent = seed % 5 ? 0 : 15;
    w->renew_percent = seed % 3 == 1 ? 10 : 0;
    w->no_percent = seed % 2 ? 5 : 0;
    w->job.shrinks_allowed = seed % 2 ? 1 : 50;
    w->limits.min_devices = 1 + seed % 3;
    w->noise = seed % 7 == 3 ? 3.0 : 0.0;
    world_start(w);
    world_run(w, 70.0, true);
    w->loss_percent = w->fault_percent = w->crash_percent = w->full_percent = w->no_percent = 0; /* faults stop */
    memset(w->is_stuck, 0, sizeof w->is_stuck);
    do
        world_run(w, 20.0, false);
    while (!world_is_settled(w) && ++tries < 20 && !w->broken[0]);
    if (tries == 20 && !w->broken[0])
        snprintf(w->broken, sizeof w->broken, "not settled after the faults stopped");
    total[0] += w->n_crashes;
    total[1] += world_count(w, DP_REC_COMMIT);
    total[2] += world_count(w, DP_REC_ABORT);
    total[3] += world_count(w, DP_REC_RELEASED);
    total[4] += w->n_lost_updates;
    total[5] += w->n_refused_starts;
    total[6] += w->n_doubts;
    total[7] += w->n_renewals;
    total[8] += w->n_told_without;
    if (w->broken[0]) {
        json_t *o = w->c ? dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS) : NULL;

        if (o && getenv("DP_SEED"))
            json_dumpf(o, stderr, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
        json_decref(o);
        fail_msg("seed %llu: %s", (unsigned long long)seed, w->broken);
    }
    end(w);
}

static void campaigns(void **state)
{
    (void)state;
    const char *n = getenv("DP_CAMPAIGNS"), *one = getenv("DP_SEED");
    uint64_t total[9] = {0}, last = n ? strtoull(n, NULL, 10) : CAMPAIGNS, first = 0;

    if (one) {
        first = strtoull(one, NULL, 10);
        last = first + 1;
    }
    for (uint64_t seed = first; seed < last; seed++)
        campaign(seed, total);
    print_message("# %llu campaigns: %llu coordinator crashes, %llu commits, %llu aborts, %llu slots released, "
                  "%llu updates lost by slurmctld, %llu starts refused, %llu records in doubt, %llu journals written "
                  "anew, %llu aborts told without a record\n",
                  (unsigned long long)(last - first), (unsigned long long)total[0], (unsigned long long)total[1],
                  (unsigned long long)total[2], (unsigned long long)total[3], (unsigned long long)total[4],
                  (unsigned long long)total[5], (unsigned long long)total[6], (unsigned long long)total[7],
                  (unsigned long long)total[8]);
    for (uint32_t k = 0; k < 9 && last - first >= 100; k++)
        assert_true(total[k] > 0);
}

/* --- promises --- */

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
    assert_int_equal(events_with(w, "packing may go on: asked for on the command line"), 1);
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

        w->limits.min_devices = 2;
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
        has_asked |= strstr(text_of(d, "pack_reason"), " slots by device time, but a step would take ") != NULL;
    assert_true(has_asked);
    assert_int_equal(world_count(w, DP_REC_DRAIN), 0);
    assert_int_equal(events_with(w, "promise missed"), 0);
    json_decref(o);
    w->crowd_factor = 1.0;
    world_run(w, 90.0, false);
    assert_int_equal(world_count(w, DP_REC_RELEASED), 3);
    end(w);
}

/* Workers report at moments of their own, and the last steps end between two reports. */
static void the_loss_is_that_of_the_last_step(void **state)
{
    (void)state;
    struct world *w = begin(38);
    uint64_t last;
    json_t *o;

    world_start(w);
    for (int i = 0; i < 30; i++) {
        world_run(w, 0.4, false);
        o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
        if (json_is_integer(json_object_get(o, "loss_step"))) {
            assert_int_equal(int_of(o, "loss_step"), int_of(o, "step"));
            assert_true(json_real_value(json_object_get(o, "loss")) == world_loss((uint64_t)int_of(o, "step")));
        }
        json_decref(o);
    }
    last = w->worker[0].step + 1000;
    for (uint32_t r = 0; r < W_MAX; r++) {
        struct dp_msg_goodbye bye = {.rank = r, .how = DP_BYE_COMPLETED, .step = last - r % 2, .loss = world_loss(last - r % 2)};

        dp_coord_goodbye(w->c, w->now_ns, &bye);
    }
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
    assert_int_equal(int_of(o, "step"), (json_int_t)last);
    assert_int_equal(int_of(o, "loss_step"), (json_int_t)last);
    assert_true(json_real_value(json_object_get(o, "loss")) == world_loss(last));
    json_decref(o);
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
    cmocka_unit_test(a_no_aborts_and_the_layout_stays),
    cmocka_unit_test(a_crash_at_every_record),
    cmocka_unit_test(a_forgotten_release_is_repeated),
    cmocka_unit_test(no_proof_no_release),
    cmocka_unit_test(an_old_daemon_proves_nothing),
    cmocka_unit_test(a_held_slot_is_asked_again_soon),
    cmocka_unit_test(the_only_shrink_waits_for_a_held_slot),
    cmocka_unit_test(a_lost_worker_fails_the_run),
    cmocka_unit_test(a_voter_lost_before_the_decision_aborts),
    cmocka_unit_test(a_requeued_job_ends_everything),
    cmocka_unit_test(garbage_is_dropped_and_counted),
    cmocka_unit_test(hello_that_contradicts_is_denied),
    cmocka_unit_test(a_new_step_goes_on_without_the_dead_slots),
    cmocka_unit_test(a_step_after_the_end_knows_the_job),
    cmocka_unit_test(votes_may_take_some_steps),
    cmocka_unit_test(throughput_is_that_of_steady_steps),
    cmocka_unit_test(a_saving_is_that_of_a_real_fixed_run),
    cmocka_unit_test(no_later_than_promised),
    cmocka_unit_test(a_worker_that_hangs_is_named),
    cmocka_unit_test(a_missing_node_is_named),
    cmocka_unit_test(a_daemon_that_is_away_is_named),
    cmocka_unit_test(a_stalled_run_is_put_back),
    cmocka_unit_test(a_run_that_never_trains_is_put_back_once),
    cmocka_unit_test(worker_0_knows_the_time_left),
    cmocka_unit_test(a_run_without_workers_has_ended),
    cmocka_unit_test(a_run_too_big_is_left_alone),
    cmocka_unit_test(a_known_run_outgrows_its_job),
    cmocka_unit_test(a_repeated_proof_changes_nothing),
    cmocka_unit_test(workers_newer_than_the_journal_are_refused),
    cmocka_unit_test(a_full_disk_aborts_at_once),
    cmocka_unit_test(a_doubtful_commit_is_not_told),
    cmocka_unit_test(a_journal_written_anew_says_the_same),
    cmocka_unit_test(bad_records_are_refused),
    cmocka_unit_test(a_promise_is_measured_before_anybody_leaves),
    cmocka_unit_test(a_missed_promise_is_taken_back),
    cmocka_unit_test(packing_is_stopped_until_somebody_lifts_it),
    cmocka_unit_test(what_comes_later_is_seen_and_learned),
    cmocka_unit_test(packing_asks_the_measured_times_first),
    cmocka_unit_test(the_loss_is_that_of_the_last_step),
    cmocka_unit_test(campaigns),
};
TEST_MAIN("coordinator", tests)
