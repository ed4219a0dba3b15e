/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-overs that fail (handover_world.h): damaged layers, workers and daemons that die or hang at the worst moment,
 * doubt about the decision, and messages that contradict each other. */
#define _GNU_SOURCE /* struct ucred */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/handover_world.h"

static volatile time_t *skipped_s; /* by which the clock of all processes of a test is ahead; NULL: it is as it is */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (skipped_s && id == CLOCK_MONOTONIC)
        t->tv_sec += *skipped_s;
    return rc;
}

static void script_abort(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void abort_restores(void **state)
{
    (void)state;
    begin(script_abort, ABORTED);
    sc.why = "test";
    run();
}

static void script_all_no(void)
{
    accept_all(0);
    prepare_all();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

/* Worker `rank` sends what does not arrive as it was. */
static void tamper(int rank, enum tampering tampering, const char *why)
{
    begin(script_all_no, ABORTED);
    sc.waits_for_decision = true;
    sc.tampers = rank;
    sc.tampering = tampering;
    sc.channels = 128; /* with chunks that go from where they lie, and more of them than are in flight */
    sc.why = why;
}

static void a_damaged_chunk_is_refused(void **state)
{
    (void)state;
    tamper(0, FLIP, "CRC-32C");
    sc.channels = 32; /* all of a layer in two chunks */
    run();
    for (uint32_t i = 0; i < 8; i++) {
        tamper(i % 2, FLIP, "CRC-32C");
        sc.at_chunk = i;
        sc.at_bit = i == 0 ? 0 : i == 1 ? UINT32_MAX : (uint32_t)mix(i);
        run();
    }
}

/* Two that change places are whole: only the layer's digest tells. */
static void chunks_in_each_others_place_are_refused(void **state)
{
    (void)state;
    tamper(0, SWAP, "differ about layer 2");
    run();
    tamper(1, SWAP, "differ about layer 5");
    run();
    tamper(0, TWICE, "CRC-32C");
    run();
}

static void a_lost_chunk_ends_it(void **state)
{
    (void)state;
    tamper(0, LOSE, "no byte moved");
    sc.times.stall_ns = 300 * MS;
    run();
}

static void a_manifest_that_lies_is_refused(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        tamper(rank, LIE_BYTES, "its head is of");
        run();
        tamper(rank, LIE_STATE, "that were announced");
        run();
        tamper(rank, LIE_WEIGHTS, "shape of ln1.weight does not fit");
        run();
    }
}

static void a_destination_without_memory_refuses(void **state)
{
    (void)state;
    begin(script_all_no, ABORTED);
    sc.waits_for_decision = true;
    sc.mem_limit_bytes = 100000;
    sc.why = "layer";
    run();
}

/* What is told to a device is done, or not, later: nobody votes for it before. */
static void a_device_that_fails_late_votes_no(void **state)
{
    static const uint32_t at[] = {1, 2, 7};

    (void)state;
    for (int rank = 0; rank < 3; rank++) /* a source that leads, source and destination, a destination */
        for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
            begin(script_all_no, ABORTED);
            on_late_devices();
            sc.waits_for_decision = true;
            sc.fails = rank;
            sc.fails_at = at[i];
            sc.why = "told to fail";
            run();
        }
}

static void script_worker_dies(void)
{
    accept_all(0);
    prepare_all();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        if ((int)i != sc.dies)
            votes_no(i);
    fake_close(&peer[sc.dies]);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_worker_that_dies_aborts(void **state)
{
    (void)state;
    begin(script_worker_dies, ABORTED);
    sc.waits_for_decision = true;
    sc.dies = 1;
    sc.want[1] = 256 + SIGKILL;
    run();
}

static pid_t pid_of(uint32_t rank)
{
    struct ucred u;
    socklen_t n = sizeof u;

    MUST(getsockopt(peer[rank].fd, SOL_SOCKET, SO_PEERCRED, &u, &n) == 0);
    return u.pid;
}

static void wait_until_stopped(pid_t pid)
{
    char path[64], text[256] = "";
    uint64_t end = dp_now_ns() + 20000 * MS;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    do {
        FILE *f = fopen(path, "r");

        MUST(f != NULL);
        MUST(fgets(text, sizeof text, f) != NULL);
        fclose(f);
        poll(NULL, 0, 1);
    } while (!strstr(text, ") T ") && dp_now_ns() < end);
    MUST(strstr(text, ") T ") != NULL);
}

/* A source hangs in the middle: the others abort without it, and it follows when it runs again. They must not give up
 * before: their patience is longer than a busy machine takes, and over at once when the source has stopped. */
static void script_source_hangs(void)
{
    accept_all(0);
    prepare_all();
    wait_until_stopped(pid_of(1));
    *skipped_s += (time_t)(sc.times.stall_ns / (1000 * MS)) + 1;
    votes_no(0);
    votes_no(2);
    MUST(kill(pid_of(1), SIGCONT) == 0);
    MUST(vote_of(1).yes == 0);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_source_that_hangs_aborts(void **state)
{
    (void)state;
    begin(script_source_hangs, ABORTED);
    sc.waits_for_decision = true;
    sc.stops = 1;
    sc.why = "no byte moved";
    skipped_s = mmap(NULL, sizeof *skipped_s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(skipped_s != MAP_FAILED);
    run();
    munmap((void *)(uintptr_t)skipped_s, sizeof *skipped_s);
    skipped_s = NULL;
}

/* A destination hangs: the source gives up, and its chunks stay where the destination may read them. */
static void script_destination_hangs(void)
{
    char byte;

    accept_all(0);
    prepare_all();
    MUST(read(sc.pipe[0], &byte, 1) == 1);
    MUST(kill(pid_of(2), SIGSTOP) == 0);
    wait_until_stopped(pid_of(2));
    MUST(write(sc.back[1], "", 1) == 1);
    votes_no(0);
    votes_no(1);
    MUST(kill(pid_of(2), SIGCONT) == 0);
    MUST(vote_of(2).yes == 0);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_destination_that_hangs_aborts(void **state)
{
    (void)state;
    begin(script_destination_hangs, ABORTED);
    sc.waits_for_decision = true;
    sc.times.stall_ns = 300 * MS;
    sc.waits = 1;
    sc.channels = 256;
    sc.why = "no byte moved";
    run();
}

static void script_leader_dies(void)
{
    accept_all(0);
    prepare_all();
    votes_no(1);
    votes_no(2);
}

static void without_the_leader_the_run_ends(void **state)
{
    (void)state;
    begin(script_leader_dies, FATAL);
    sc.fatal_code = DP_EGONE;
    sc.dies = 0;
    sc.want[0] = 256 + SIGKILL;
    run();
}

/* The line breaks before any vote: all abort alone, at once, and say so when the daemons are back. */
static void script_dies_before_votes(void)
{
    char byte;

    accept_all(0);
    prepare_all();
    MUST(read(sc.pipe[0], &byte, 1) == 1);
    all_die();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        MUST(read(sc.pipe[0], &byte, 1) == 1);
    fake_daemon_relisten(&d);
    accept_all(0);
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(2, false);
    all_acknowledge(EPOCH);
}

static void daemons_that_die_before_the_votes_abort(void **state)
{
    (void)state;
    begin(script_dies_before_votes, ABORTED);
    sc.waits_for_decision = true;
    sc.stalls = 0;
    sc.why = "connection";
    run();
}

static void die_after_votes(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    all_die();
    fake_daemon_relisten(&d);
    accept_all(MIGRATION); /* all say that they are in doubt, and vote again */
    all_vote_yes();
}

static void script_back_with_commit(void)
{
    die_after_votes();
    decide_all(2, true);
    all_acknowledge(EPOCH + 1);
    all_checked();
    finish_all();
}

static void script_back_with_abort(void)
{
    die_after_votes();
    decide_all(2, false);
    all_acknowledge(EPOCH);
}

static void workers_in_doubt_follow_the_decision(void **state)
{
    (void)state;
    begin(script_back_with_commit, COMMITTED);
    run();
    begin(script_back_with_abort, ABORTED);
    run();
}

static void script_votes_only(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
}

static void doubt_ends_the_run_at_last(void **state)
{
    (void)state;
    begin(script_votes_only, FATAL);
    sc.fatal_code = DP_ETIMEOUT;
    sc.times.member.doubt_ns = 300 * MS;
    run();
}

static void script_one_without_prepare(void)
{
    struct dp_msg_prepare m = prepare();

    accept_all(0);
    FAKE_SEND(&peer[0], prepare, DP_MSG_PREPARE, &m);
    FAKE_SEND(&peer[1], prepare, DP_MSG_PREPARE, &m);
    MUST(vote_of(0).yes == 0);
    MUST(vote_of(1).yes == 0);
    FAKE_SEND(&peer[2], prepare, DP_MSG_PREPARE, &m);
    MUST(vote_of(2).yes == 0); /* too late */
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void everybody_needs_prepare(void **state)
{
    (void)state;
    begin(script_one_without_prepare, ABORTED);
    sc.waits_for_decision = true;
    sc.times.prepare_ns = 300 * MS;
    sc.why = "no PREPARE";
    run();
}

static void script_different_prepares(void)
{
    struct dp_msg_prepare m = prepare();

    accept_all(0);
    FAKE_SEND(&peer[0], prepare, DP_MSG_PREPARE, &m);
    FAKE_SEND(&peer[1], prepare, DP_MSG_PREPARE, &m);
    m.cut[1]++;
    FAKE_SEND(&peer[2], prepare, DP_MSG_PREPARE, &m);
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void everybody_needs_the_same_prepare(void **state)
{
    (void)state;
    begin(script_different_prepares, ABORTED);
    sc.waits_for_decision = true;
    sc.why = "another PREPARE";
    run();
}

static void script_stale_epoch(void)
{
    struct dp_msg_prepare m = prepare();

    accept_all(0);
    m.epoch = EPOCH - 1;
    for (uint32_t i = 0; i < sc.n_workers; i++)
        FAKE_SEND(&peer[i], prepare, DP_MSG_PREPARE, &m);
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void a_stale_epoch_is_refused(void **state)
{
    (void)state;
    begin(script_stale_epoch, ABORTED);
    sc.waits_for_decision = true;
    sc.why = "epoch";
    run();
}

/* The coordinator aborts before anybody voted: nobody votes any more. */
static void script_aborts_first(void)
{
    accept_all(0);
    decide_all(1, false);
    all_acknowledge(EPOCH);
}

static void an_early_abort_needs_no_vote(void **state)
{
    (void)state;
    begin(script_aborts_first, ABORTED);
    sc.waits_for_decision = true;
    sc.why = "coordinator aborted";
    run();
}

/* A commit that contradicts the votes must stop the run, never be followed or ignored. */
static void script_commits_after_no(void)
{
    accept_all(0);
    prepare_all();
    for (uint32_t i = 0; i < sc.n_workers; i++)
        votes_no(i);
    decide_all(1, true);
}

static void a_commit_without_votes_stops_the_run(void **state)
{
    (void)state;
    begin(script_commits_after_no, ABORTED);
    sc.waits_for_decision = true;
    sc.commits_later = true;
    sc.tampers = 0;
    run();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(abort_restores),
    cmocka_unit_test(a_damaged_chunk_is_refused),
    cmocka_unit_test(chunks_in_each_others_place_are_refused),
    cmocka_unit_test(a_lost_chunk_ends_it),
    cmocka_unit_test(a_manifest_that_lies_is_refused),
    cmocka_unit_test(a_destination_without_memory_refuses),
    cmocka_unit_test(a_device_that_fails_late_votes_no),
    cmocka_unit_test(a_worker_that_dies_aborts),
    cmocka_unit_test(a_source_that_hangs_aborts),
    cmocka_unit_test(a_destination_that_hangs_aborts),
    cmocka_unit_test(without_the_leader_the_run_ends),
    cmocka_unit_test(daemons_that_die_before_the_votes_abort),
    cmocka_unit_test(workers_in_doubt_follow_the_decision),
    cmocka_unit_test(doubt_ends_the_run_at_last),
    cmocka_unit_test(everybody_needs_prepare),
    cmocka_unit_test(everybody_needs_the_same_prepare),
    cmocka_unit_test(a_stale_epoch_is_refused),
    cmocka_unit_test(an_early_abort_needs_no_vote),
    cmocka_unit_test(a_commit_without_votes_stops_the_run),
};
TEST_MAIN("handover_faults", tests)
