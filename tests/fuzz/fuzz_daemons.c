/* SPDX-License-Identifier: BSD-3-Clause */
/* Two real daemons, four fake workers (tests/unit/daemon/daemon_world.h), and an input that says what goes wrong: daemons that
 * are killed, also in the middle of a record or of a journal that is written anew, jobs that are requeued, links that
 * break, disks that fail, children that die, workers that vote no, vanish or are stopped, processes that cannot be
 * killed, a Slurm that forgets. With a bit set the workers lie; with another the daemon of the second node is somebody
 * else's and sends the first one what he likes.
 *
 * What must hold, whatever happens: no two workers may step a layer, somebody holds each layer, no commit is told that
 * is not on the disk, nobody commits while another aborts, no node is given away on which something of the run lives
 * or where it is not fenced, nobody is let in where the run is fenced, every journal can be read again, nothing is
 * left open. At the end of each input both daemons come back from their journals.
 *
 * How far the inputs got is told at the end: the seeds must reach a committed hand-over and a release.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/wire.h"
#include "daemon/net/peer_link.h"
#include "tests/unit/daemon/daemon_world.h"

const char fuzz_name[] = "fuzz_daemons";

enum { HEAD = 6, SECONDS = 60 };
enum { F_WORKERS_LIE = 1, F_NODE_LIES = 2, F_MANY_SHRINKS = 4, F_QUESTIONS = 8, F_REQUEUE = 16 };
#define AFTER_RELEASE_S 3

static struct {
    uint64_t inputs, with_commit, with_release, commits, aborts, releases, fences, restarts, crashes, cut, lies, refused;
    uint64_t requeues, renewed, half;
    double seconds;
} reached;

static void tell(void)
{
    dw_close();
    fprintf(stderr,
            "# fuzz_daemons: %llu inputs reached %llu committed hand-overs (in %llu inputs), %llu aborted ones, %llu "
            "releases (in %llu), %llu proofs of an empty node, %llu starts of a daemon, %llu deaths within a record, "
            "%llu broken links, %llu lies, %llu refused workers, %llu requeues, %llu journals written anew, %llu deaths in "
            "that; %.0f inputs per second of CPU\n",
            (unsigned long long)reached.inputs, (unsigned long long)reached.commits,
            (unsigned long long)reached.with_commit, (unsigned long long)reached.aborts,
            (unsigned long long)reached.releases, (unsigned long long)reached.with_release,
            (unsigned long long)reached.fences, (unsigned long long)reached.restarts,
            (unsigned long long)reached.crashes, (unsigned long long)reached.cut, (unsigned long long)reached.lies,
            (unsigned long long)reached.refused, (unsigned long long)reached.requeues,
            (unsigned long long)reached.renewed, (unsigned long long)reached.half, (double)reached.inputs / reached.seconds);
}

/* ---- somebody else's daemon ---- */

static uint64_t number(void)
{
    static const uint64_t odd[] = {0, 1, UINT32_MAX, INT64_MAX, UINT64_MAX};

    return dw_draw(4) ? dw_draw(16) : odd[dw_draw(5)];
}

/* Of somebody who wants to meet others: most often it makes sense. */
static struct dp_msg_card draw_card(uint32_t rank)
{
    static uint8_t bytes[DP_CARD_MAX];
    struct dp_msg_card m = {.job_id = DW_JOB, .step_id = dw_draw(12), .rank = rank, .n_workers = 1 + dw_draw(5),
                            .kind = (uint8_t)dw_draw(4), .patience_ms = dw_draw(4000), .card_len = (uint16_t)dw_draw(64),
                            .card = bytes, .key = bytes};

    if (m.rank >= m.n_workers && dw_draw(8))
        m.rank = 0;
    m.key_len = m.kind == DP_CARD_READY ? DP_KEY_BYTES : 0;
    if (!dw_draw(8))
        m.key_len = DP_SEALED_KEY_BYTES;
    return m;
}

static void lie_relay(struct dp_conn *c)
{
    static const uint16_t inner[] = {DP_MSG_REPORT, DP_MSG_VOTE, DP_MSG_DECISION_ACK, DP_MSG_GOODBYE, DP_MSG_HELLO,
                                     DP_MSG_PREPARE, DP_MSG_DECISION, DP_MSG_WELCOME, DP_MSG_CARD, DP_MSG_WIREUP};
    static uint8_t body[1024];
    struct dp_msg_relay m = {.job_id = DW_JOB, .rank = (uint32_t)number(), .pid = 1000 + dw_draw(8), .restarts = dw_draw(8) ? 0 : 1,
                             .inner_type = inner[dw_draw(10)], .inner_len = dw_draw(256), .inner = body};
    struct dp_msg_vote v = {.incarnation = dw_draw(4), .migration = dw_draw(8), .rank = m.rank, .yes = (uint8_t)dw_draw(2)};
    struct dp_writer w;

    for (uint32_t i = 0; i < m.inner_len; i++)
        body[i] = (uint8_t)dw_draw(256);
    if (m.inner_type == DP_MSG_VOTE) {
        dp_writer_init(&w, body, sizeof body);
        dp_msg_vote_encode(&w, &v);
        m.inner_len = (uint32_t)dp_writer_used(&w);
    } else if (m.inner_type == DP_MSG_CARD && dw_draw(8)) {
        struct dp_msg_card card = draw_card(m.rank);

        m.rank = card.rank;
        dp_writer_init(&w, body, sizeof body);
        dp_msg_card_encode(&w, &card);
        m.inner_len = (uint32_t)dp_writer_used(&w);
    }
    DP_CONN_SEND(c, relay, DP_MSG_RELAY, &m);
}

static void lie(void)
{
    struct dw_node *node = &dw.node[1];
    struct dp_conn *c = node->is_up && !node->is_dead ? dp_peer_find(&node->d, dw.node[0].name) : NULL;
    struct dp_msg_worker_lost lost = {DW_JOB, (uint32_t)number(), 1000 + dw_draw(8), (uint8_t)dw_draw(2)};
    struct dp_msg_stop_slot stop = {.job_id = DW_JOB, .uid = dw_draw(2) ? DW_OWNER : (uint32_t)number(),
                                    .restarts = dw_draw(8) ? 0 : 1, .incarnation = dw_draw(6)};
    struct dp_msg_slot_gone gone = {DW_JOB, dw_draw(6), (uint8_t)dw_draw(2), number(), "it says so"};
    struct dp_msg_join join = {dw_draw(2) ? DW_JOB : (uint32_t)number()};
    static struct dp_msg_tasks tasks;
    struct dp_msg_roster roster = {DW_JOB, dw_draw(12), 0, 1 + dw_draw(5), 0, 0, 0, NULL};
    struct dp_msg_wireup wireup = {.job_id = DW_JOB, .step_id = dw_draw(12), .state = (uint8_t)dw_draw(6), .speaker = dw_draw(5)};

    if (!c)
        return;
    dw.n_lies++;
    dw.current = node;
    tasks = (struct dp_msg_tasks){.job_id = DW_JOB, .step_id = dw_draw(12), .n_tasks = 1 + dw_draw(6), .count = 1};
    tasks.rank[0] = (uint32_t)number();
    switch (dw_draw(8)) {
    case 5:
        DP_CONN_SEND(c, tasks, DP_MSG_TASKS, &tasks);
        break;
    case 6:
        DP_CONN_SEND(c, roster, DP_MSG_ROSTER, &roster);
        break;
    case 7:
        DP_CONN_SEND(c, wireup, DP_MSG_WIREUP, &wireup);
        break;
    case 0:
        DP_CONN_SEND(c, worker_lost, DP_MSG_WORKER_LOST, &lost);
        break;
    case 1:
        DP_CONN_SEND(c, stop_slot, DP_MSG_STOP_SLOT, &stop);
        break;
    case 2:
        DP_CONN_SEND(c, slot_gone, DP_MSG_SLOT_GONE, &gone);
        break;
    case 3:
        DP_CONN_SEND(c, join, DP_MSG_JOIN, &join);
        break;
    default:
        lie_relay(c);
    }
    dw.current = NULL;
}

/* ---- users ---- */

static void ask(void)
{
    struct dp_msg_query q = {(uint8_t)dw_draw(6), dw_draw(4) ? DW_JOB : 0};
    struct dp_msg_command m = {.verb = (uint8_t)dw_draw(4), .job_id = DW_JOB};
    uint32_t uid = dw_draw(3) ? DW_OWNER : DW_STRANGER;
    static uint8_t body[2048];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    if (!dw_draw(4)) {
        struct dp_msg_check check = {.job_id = dw_draw(2) ? DW_JOB : (uint32_t)number()};

        if (dw_draw(2))
            snprintf(check.target, sizeof check.target, "n%u", dw_draw(4));
        dp_msg_check_encode(&w, &check);
        (void)dw_say(dw_draw(DW_NODES), uid, DP_MSG_CHECK, body, dp_writer_used(&w));
        return;
    }
    if (!dw_draw(3)) {
        struct dp_msg_card card = draw_card(dw_draw(5));

        dp_msg_card_encode(&w, &card);
        (void)dw_say(dw_draw(DW_NODES), uid, DP_MSG_CARD, body, dp_writer_used(&w));
        return;
    }
    if (dw_draw(2)) {
        dp_msg_query_encode(&w, &q);
        (void)dw_say(dw_draw(DW_NODES), uid, DP_MSG_QUERY, body, dp_writer_used(&w));
        return;
    }
    if (m.verb == DP_VERB_LAYOUT)
        snprintf(m.argument, sizeof m.argument, "0-%u/%u-7", dw_draw(4), 1 + dw_draw(5));
    dp_msg_command_encode(&w, &m);
    (void)dw_say(0, uid, DP_MSG_COMMAND, body, dp_writer_used(&w));
}

/* ---- one input ---- */

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void count(void)
{
    reached.with_commit += dw.n_commits > 0;
    reached.with_release += dw.n_released > 0;
    reached.commits += dw.n_commits;
    reached.aborts += dw.n_aborts;
    reached.releases += dw.n_released;
    reached.fences += dw.n_fenced;
    reached.restarts += dw.n_restarts;
    reached.crashes += dw.n_crashes;
    reached.cut += dw.n_cut;
    reached.lies += dw.n_lies;
    reached.refused += dw.n_refused;
    reached.requeues += dw.n_requeues;
    reached.renewed += dw.n_renewed;
    reached.half += dw.n_half;
}

static void live(uint8_t flags)
{
    uint64_t end = dw.now_ns + (uint64_t)SECONDS * 1000000000u, released = 0;

    while (dw.now_ns < end && !dw.broken[0] && (!released || dw.now_ns < released)) {
        dw_run(0.25, true);
        if (dw.node[1].is_hostile && dw_chance(25))
            lie();
        if ((flags & F_QUESTIONS) && dw_chance(10))
            ask();
        if (dw.n_released && !released)
            released = dw.now_ns + AFTER_RELEASE_S * 1000000000ull;
        if (dw.node[0].is_fenced)
            dw_broken_for_all("the batch host is fenced", 0, 0);
    }
}

static void check_reach(const uint8_t *data, size_t bytes)
{
    bool is_plain = bytes == HEAD && !(data[0] & ~F_MANY_SHRINKS) && !data[1] && !data[2] && !data[3] && !data[4];

    if (is_plain && !(dw.n_commits && dw.n_released))
        fuzz_die("a run without a fault reaches no hand-over, or no release");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    double from = cpu_seconds();
    int n_fds;

    if (bytes < HEAD)
        return 0;
    if (!reached.inputs++) {
        if (dw_open() < 0)
            fuzz_die("no folder, or no configuration");
        atexit(tell);
    }
    n_fds = dw_n_fds();
    dw_start(data[5], data + HEAD, bytes - HEAD);
    dw.is_hostile = data[0] & F_WORKERS_LIE;
    dw.may_requeue = data[0] & F_REQUEUE;
    dw.node[1].is_hostile = data[0] & F_NODE_LIES;
    dw.slurm.shrinks_allowed = data[0] & F_MANY_SHRINKS ? 50 : 1;
    dw.fault_percent = data[1] % 4;
    dw.crash_percent = data[2] % 16;
    dw.no_percent = data[3] % 12;
    dw.child_percent = data[4] % 8;
    live(data[0]);
    if (!dw.broken[0])
        dw_restart_all();
    count();
    dw_stop();
    if (dw.broken[0])
        fuzz_die(dw.broken);
    check_reach(data, bytes);
    if (dw_n_fds() != n_fds)
    fuzz_die("something is left open");
    reached.seconds += cpu_seconds() - from;
    return 0;
}

void fuzz_make_seeds(void)
{
    static const uint8_t heads[][HEAD] = {
        {0, 0, 0, 0, 0, 1}, {4, 0, 0, 0, 0, 2}, {0, 1, 0, 0, 0, 3}, {4, 2, 5, 0, 0, 4}, {0, 0, 8, 5, 0, 5},
        {4, 1, 0, 0, 4, 6}, {1, 0, 0, 0, 0, 7}, {2, 0, 0, 0, 0, 8}, {15, 1, 2, 2, 2, 9}, {8, 0, 0, 0, 0, 10},
        {16, 3, 0, 0, 0, 11}, {24, 2, 6, 3, 3, 12}, {20, 3, 15, 0, 0, 13}, {31, 3, 4, 2, 2, 14},
    };

    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        uint8_t seed[HEAD + 64];

        memcpy(seed, heads[i], HEAD);
        for (size_t k = HEAD; k < sizeof seed; k++)
            seed[k] = (uint8_t)(k * 37 + i * 101);
        fuzz_seed(seed, HEAD);
        if (i >= 2)
            fuzz_seed(seed, sizeof seed);
    }
}
