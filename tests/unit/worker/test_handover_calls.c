/* SPDX-License-Identifier: BSD-3-Clause */
/* A hand-over in which a device fails, at every single call that the hand-over makes on it (handover_world.h,
 * failing_device.h): on the source, on the destination and on a worker that gives and gets nothing; at once, as late as the
 * interface allows, and for lack of memory. A layer of it has a sparse matrix, a dense one with a mask, and dense ones.
 *
 * The same workers try again and again, each time with the next call, until the hand-over has no more calls and goes
 * through. What must hold each time:
 *   - all workers are in the old layout, or all in the new one, and each holds its part of it, byte for byte: those whose
 *     devices are well go on with the losses that they would have had;
 *   - with a device that failed before the decision nobody commits, and the reason that the user reads has the call's name;
 *   - a device that fails after it, while the stage of the new layout is made, ends its worker alone, with the call's name:
 *     the others have committed. Whose part stays the same makes none. */
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "tests/unit/worker/failing_device.h"
#include "tests/unit/worker/handover_world.h"

#define MOST 5000 /* calls of a hand-over, far more than it has */

enum outcome { KEPT, MOVED, ENDED }; /* the worker is in the old layout; in the new one; at its end */

/* What all processes of a sweep know. */
static struct {
    volatile uint32_t commits; /* hand-overs that went through on all but a worker that ended */
    volatile bool is_over;
} *known;
static enum fails_how how;

static struct dp_backend *device(void)
{
    struct dp_backend *inner = dp_backend_create("cpu", 0, 1, NULL), *be = inner ? failing_device_create(inner) : NULL;

    if (inner && !be)
        dp_backend_destroy(inner);
    return be;
}

/* Back to the old layout, as it was before the first attempt; a device that has failed is another one from now on. */
static int begin_again(struct worker_state *w, bool is_new_device)
{
    dp_stage_destroy(w->stage);
    w->stage = NULL;
    if (is_new_device) {
        dp_handover_destroy(w->h);
        failing_device_destroy(w->be);
        w->be = device();
        w->h = dp_handover_create(w->control, w->rank, &w->layout, &sc.times, NULL);
    }
    CHECK(w->be && w->h);
    memcpy(w->layout.cut, sc.old_cut, sizeof sc.old_cut);
    w->layout.epoch = EPOCH + known->commits;
    return make_stage(w);
}

/* A commit that may have ended this worker: the copies go when the daemon says so. */
static int finish(struct worker_state *w, enum outcome outcome, uint64_t m)
{
    uint64_t end = dp_now_ns() + 20000 * MS;
    struct dp_err err;

    if (outcome == MOVED) {
        CHECK(poll_until(w, DP_MEMBER_IDLE, &err) == DP_MEMBER_IDLE);
        CHECK(dp_handover_retired_bytes(w->h) == 0);
    }
    while (!dp_control_is_finished(w->control, m) && dp_now_ns() < end)
        dp_control_wait(w->control, 20);
    CHECK(dp_control_is_finished(w->control, m));
    return 0;
}

/* An abort is acknowledged: here, where it came after the worker had given up. */
static int hear_abort(struct worker_state *w, uint64_t m)
{
    uint64_t end = dp_now_ns() + 20000 * MS;
    struct dp_err err;

    while (dp_now_ns() < end && dp_handover_poll(w->h, &err) == DP_MEMBER_IDLE &&
           !dp_control_decision(w->control, m))
        dp_control_wait(w->control, 20);
    CHECK(dp_control_decision(w->control, m));
    CHECK(dp_handover_poll(w->h, &err) == DP_MEMBER_IDLE);
    CHECK(dp_handover_retired_bytes(w->h) == 0);
    return 0;
}

/* Attempt m: the m-th call fails. */
static int attempt(struct worker_state *w, uint64_t m)
{
    bool is_victim = (int)w->rank == sc.fails;
    struct dp_handover_args args = {
        .transport = w->t, .rank = w->rank, .layout = &w->layout, .stage = &w->stage,
        .config = &config, .backend = w->be, .tune = &tune, .step = 40 + m,
    };
    struct dp_handover_outcome out;
    struct dp_err err = {0};
    const char *failed;
    enum outcome outcome;
    bool is_broken;

    if (is_victim)
        failing_device_arm(w->be, how, (uint32_t)m);
    outcome = dp_handover_run(w->h, &args, m, &out, &err) < 0 ? ENDED : out.is_committed ? MOVED : KEPT;
    failed = is_victim ? failing_device_failed(w->be) : NULL;
    is_broken = failed && how != FAILS_MEMORY;
    if (is_victim)
        failing_device_arm(w->be, how, 0); /* what is looked at below does not count */
    if (failed && outcome != MOVED && !strstr(outcome == ENDED ? err.text : out.text, failed))
        fprintf(stderr, "# call %u: %s does not have %s\n", (unsigned)m, outcome == ENDED ? err.text : out.text, failed);
    CHECK(!failed || outcome == MOVED || strstr(outcome == ENDED ? err.text : out.text, failed));
    CHECK(!failed || outcome != MOVED); /* that worker has no such layer, or nowhere to compute it */
    CHECK(outcome != ENDED || failed);
    CHECK(outcome == ENDED || memcmp(w->layout.cut, outcome == MOVED ? sc.new_cut : sc.old_cut, sizeof sc.new_cut) == 0);
    CHECK(is_broken || outcome == ENDED || check_stage(w) == 0);
    CHECK(dp_control_event(w->control, &(struct dp_msg_event){.step = outcome, .text = "attempt"}));
    if (outcome == KEPT)
        CHECK(hear_abort(w, m) == 0);
    else
        CHECK(finish(w, outcome, m) == 0);
    return (outcome != KEPT || is_broken) && !known->is_over ? begin_again(w, is_broken || outcome == ENDED) : 0;
}

static int worker_of_attempts(struct dp_transport *t, uint32_t rank)
{
    struct worker_state *w = &(struct worker_state){.t = t, .rank = rank, .be = device()};
    int rc = set_up(w);

    for (uint64_t m = 1; rc == 0 && m < MOST && !known->is_over; m++)
        rc = attempt(w, m);
    meet(t, rank);
    dp_control_destroy(w->control);
    dp_stage_destroy(w->stage);
    dp_handover_destroy(w->h);
    failing_device_destroy(w->be);
    return rc;
}

/* What worker `rank` says of an attempt that was decided: its acknowledgement, unless it ended, and its outcome. */
static enum outcome outcome_of(uint32_t rank, bool commits)
{
    struct dp_msg_event e = {0};
    bool has_acknowledged = false, has_event = false;
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;

    while (!has_event || (!has_acknowledged && e.step != ENDED)) {
        MUST(fake_next(&peer[rank], 20000, &h, &body) == 1);
        dp_reader_init(&r, body, h.body_len);
        if (h.type == DP_MSG_EVENT) {
            MUST(dp_msg_event_decode(&r, &e, NULL) == 0);
            has_event = true;
        } else {
            struct dp_msg_decision_ack a;

            MUST(h.type == DP_MSG_DECISION_ACK && dp_msg_decision_ack_decode(&r, &a, NULL) == 0);
            if (a.migration == migration) { /* a worker that began again answers what it finds */
                MUST(a.epoch == epoch + commits);
                has_acknowledged = true;
            }
        }
    }
    MUST(e.step == (commits ? MOVED : KEPT) || ((int)rank == sc.fails && e.step == ENDED && commits));
    return (enum outcome)e.step;
}

static void script_attempts(void)
{
    uint32_t n_kept = 0, n_ended = 0;

    accept_all(0);
    for (migration = 1; migration < MOST && !known->is_over; migration++) {
        uint32_t yes = 0, ended = 0;
        bool commits;

        prepare_all();
        for (uint32_t i = 0; i < sc.n_workers; i++)
            yes += vote_of(i).yes;
        commits = yes == sc.n_workers;
        decide_all(1, commits);
        for (uint32_t i = 0; i < sc.n_workers; i++)
            ended += outcome_of(i, commits) == ENDED;
        n_kept += !commits;
        n_ended += ended;
        epoch += commits;
        known->commits += commits;
        known->is_over = commits && !ended;
        if (commits)
            finish_all();
    }
    MUST(known->is_over);
    /* a bystander is asked for no memory, and for nothing once it has voted */
    MUST(sc.fails == 2 ? !n_ended && (n_kept > 0) == (how != FAILS_MEMORY) : n_kept > 0);
    printf("# rank %d: %u calls, of which %u end the worker\n", sc.fails, n_kept + n_ended, n_ended);
    fflush(stdout);
}

static void sweep(enum fails_how fails_how)
{
    static const char *const names[N_FAILS_HOW] = {"at once", "late", "without memory"};

    for (int rank = 0; rank < 3; rank++) { /* source and leader, destination, bystander */
        begin(script_attempts, ABORTED);
        memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 3, 5, 8}, sizeof sc.old_cut);
        memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 2, 5, 8}, sizeof sc.new_cut);
        sc.body = worker_of_attempts;
        sc.fails = rank;
        how = fails_how;
        printf("# %s\n", names[how]);
        fflush(stdout);
        known = mmap(NULL, sizeof *known, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(known != MAP_FAILED);
        run();
        assert_true(known->is_over);
        munmap(known, sizeof *known);
    }
}

static void a_device_that_fails_at_once_at_any_call(void **state)
{
    (void)state;
    sweep(FAILS_AT_ONCE);
}

static void a_device_that_fails_late_at_any_call(void **state)
{
    (void)state;
    sweep(FAILS_LATE);
}

static void a_device_without_memory_at_any_call(void **state)
{
    (void)state;
    sweep(FAILS_MEMORY);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_device_that_fails_at_once_at_any_call),
    cmocka_unit_test(a_device_that_fails_late_at_any_call),
    cmocka_unit_test(a_device_without_memory_at_any_call),
};
TEST_MAIN("handover_calls", tests)
