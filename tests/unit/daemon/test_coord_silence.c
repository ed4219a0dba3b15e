/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): workers that hang, nodes of which nothing is heard, and jobs
 * that are put back into the queue. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_worker_that_hangs_is_named),
    cmocka_unit_test(a_missing_node_is_named),
    cmocka_unit_test(a_daemon_that_is_away_is_named),
    cmocka_unit_test(a_stalled_run_is_put_back),
    cmocka_unit_test(a_run_that_never_trains_is_put_back_once),
    cmocka_unit_test(a_run_without_workers_has_ended),
};
TEST_MAIN("coord_silence", tests)
