/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): a hand-over that fails, slots that cannot be proved empty,
 * workers that are lost, a Slurm that forgets. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

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
        w->limits.pack.min_devices = 2;
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

/* As under PMIx. How the others go on elsewhere: test_coord_regroup.c. */
static void ends_with_the_first_loss(struct world *w)
{
    for (uint32_t r = 0; r < W_MAX; r++)
        w->worker[r].is_alone = true;
}

static void a_lost_worker_fails_the_run(void **state)
{
    (void)state;
    struct world *w = begin(15);
    struct dp_msg_worker_lost m = {7, 2, 102, 1};
    json_t *o;

    ends_with_the_first_loss(w);
    world_start(w);
    world_run(w, 4.0, false);
    dp_coord_worker_lost(w->c, w->now_ns, &m);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_string_equal(text_of(o, "state"), "failed");
    assert_string_equal(text_of(o, "state_text"), "failed: worker 2 on n2 was lost (process 102); the run ends: the "
                        "workers met by PMIx, under which Slurm ends the step, or are of an older release");
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

    ends_with_the_first_loss(w);
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_no_aborts_and_the_layout_stays),
    cmocka_unit_test(a_forgotten_release_is_repeated),
    cmocka_unit_test(no_proof_no_release),
    cmocka_unit_test(an_old_daemon_proves_nothing),
    cmocka_unit_test(a_held_slot_is_asked_again_soon),
    cmocka_unit_test(the_only_shrink_waits_for_a_held_slot),
    cmocka_unit_test(a_lost_worker_fails_the_run),
    cmocka_unit_test(a_voter_lost_before_the_decision_aborts),
    cmocka_unit_test(a_requeued_job_ends_everything),
};
TEST_MAIN("coord_release", tests)
