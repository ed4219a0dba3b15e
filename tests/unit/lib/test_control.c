/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's control connection against a real unix socket: partial frames, wrong types, a daemon that
 * dies and comes back, what is repeated and what is dropped. Nothing here sleeps for luck: both ends
 * are driven until the condition holds or 10 s have passed. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/worker/fakedaemon.h"
#include "tests/unit/unit.h"
#include "lib/control.h"

static struct fake_daemon d;
static struct fake_peer peer;

static time_t skipped_s; /* by which the clock of this process is ahead */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (id == CLOCK_MONOTONIC)
        t->tv_sec += skipped_s;
    return rc;
}

/* Poll the control connection until cond holds. */
#define UNTIL(c, cond)                                                                             \
    do {                                                                                           \
        uint64_t until_end = dp_now_ns() + 10000000000u;                                           \
        bool until_ok;                                                                             \
        while (!(until_ok = (cond)) && dp_now_ns() < until_end)                                    \
            dp_control_wait((c), 5);                                                               \
        assert_true(until_ok);                                                                     \
    } while (0)

static struct dp_msg_hello hello_of(uint32_t rank)
{
    struct dp_msg_hello h = {.job_id = 7, .rank = rank, .n_workers = 2, .n_layers = 5, .epoch = 1};

    h.cut[1] = 3;
    h.cut[2] = 5;
    snprintf(h.device, sizeof h.device, "cpu");
    return h;
}

static void next_is(uint16_t type, const uint8_t **body, struct dp_header *h)
{
    int rc = fake_next(&peer, 10000, h, body);

    assert_int_equal(rc, 1);
    assert_string_equal(dp_msg_name(h->type), dp_msg_name(type));
}

/* Accept the worker, check its HELLO. */
static void take_hello(struct dp_msg_hello *out)
{
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;
    struct dp_err err;

    next_is(DP_MSG_HELLO, &body, &h);
    dp_reader_init(&r, body, h.body_len);
    assert_int_equal(dp_msg_hello_decode(&r, out, &err), 0);
}

/* Wait for the worker to connect (it polls meanwhile) and greet it. */
static void greet(struct dp_control *c, struct dp_msg_hello *hello)
{
    UNTIL(c, fake_accept(&d, &peer, 0) == 0);
    dp_control_poll(c);
    take_hello(hello);
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    UNTIL(c, dp_control_is_connected(c));
}

static struct dp_control *connected(void)
{
    struct dp_msg_hello h = hello_of(1), got;
    struct dp_err err = {0};
    struct dp_control *c;

    fake_daemon_start(&d);
    c = dp_control_create(d.path, &h, 0, &err);
    assert_non_null(c);
    greet(c, &got);
    assert_int_equal(got.rank, 1);
    assert_int_equal(got.cut[1], 3);
    return c;
}

static void finish(struct dp_control *c)
{
    dp_control_destroy(c);
    fake_close(&peer);
    fake_daemon_stop(&d);
}

static void without_a_daemon_everything_says_nothing(void **state)
{
    struct dp_msg_hello h = hello_of(0);
    struct dp_msg_vote v = {.migration = 1};
    struct dp_err err;
    struct dp_control *c = dp_control_create(NULL, &h, 1000, &err);

    (void)state;
    assert_non_null(c);
    dp_control_poll(c);
    dp_control_wait(c, 1);
    assert_int_equal(dp_control_fd(c), -1);
    assert_false(dp_control_is_connected(c));
    assert_null(dp_control_prepare(c));
    assert_null(dp_control_decision(c, 1));
    assert_null(dp_control_welcome(c));
    assert_false(dp_control_vote(c, &v));
    assert_false(dp_control_take_save(c));
    dp_control_destroy(c);
    c = dp_control_create("/nonexistent/dynpipe.sock", &h, 120, &err);
    assert_non_null(c);
    assert_false(dp_control_is_connected(c));
    dp_control_destroy(c);
}

static struct dp_msg_prepare prepare_of(uint32_t incarnation, uint64_t migration)
{
    struct dp_msg_prepare m = {.incarnation = incarnation, .migration = migration, .epoch = 1,
                               .n_workers = 2, .n_layers = 5};

    m.cut[1] = 4;
    m.cut[2] = 5;
    return m;
}

static void frames_may_come_byte_by_byte(void **state)
{
    static uint8_t body[DP_BODY_MAX], frame[DP_HEADER_BYTES + DP_BODY_MAX];
    struct dp_msg_prepare m = prepare_of(1, 9);
    struct dp_control *c = connected();
    struct dp_writer w;
    size_t n;

    (void)state;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_prepare_encode(&w, &m);
    n = fake_frame(&peer, DP_MSG_PREPARE, body, dp_writer_used(&w), frame);
    for (size_t i = 0; i < n; i++) {
        assert_null(dp_control_prepare(c));
        fake_send_raw(&peer, frame + i, 1);
        dp_control_poll(c);
    }
    UNTIL(c, dp_control_prepare(c) != NULL);
    assert_int_equal(dp_control_prepare(c)->migration, 9);
    assert_int_equal(dp_control_prepare(c)->cut[1], 4);
    dp_control_prepare_done(c);
    assert_null(dp_control_prepare(c));
    finish(c);
}

static void several_frames_may_come_at_once(void **state)
{
    struct dp_msg_prepare p = prepare_of(1, 2);
    struct dp_msg_decision dec = {.incarnation = 1, .migration = 1, .epoch = 1};
    struct dp_msg_finish f = {.migration = 1};
    struct dp_msg_save s = {0};
    struct dp_control *c = connected();

    (void)state;
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &dec);
    FAKE_SEND(&peer, finish, DP_MSG_FINISH, &f);
    FAKE_SEND(&peer, save, DP_MSG_SAVE, &s);
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &p);
    UNTIL(c, dp_control_prepare(c) != NULL);
    assert_non_null(dp_control_decision(c, 1));
    assert_ptr_equal(dp_control_decision(c, 0), dp_control_decision(c, 1));
    assert_null(dp_control_decision(c, 2));
    assert_true(dp_control_is_finished(c, 1));
    assert_false(dp_control_is_finished(c, 2));
    assert_true(dp_control_take_save(c));
    assert_false(dp_control_take_save(c));
    finish(c);
}

/* What a daemon may not send ends the connection, and the worker opens a new one. */
static void refused(const void *frame, size_t bytes)
{
    struct dp_control *c = connected();
    struct dp_msg_hello got;

    fake_send_raw(&peer, frame, bytes);
    UNTIL(c, !dp_control_is_connected(c));
    fake_close(&peer);
    greet(c, &got);
    finish(c);
}

static void wrong_messages_end_the_line(void **state)
{
    static const uint16_t types[] = {DP_MSG_HELLO, DP_MSG_WELCOME, DP_MSG_VOTE, DP_MSG_RELAY,
                                     DP_MSG_STOP_SLOT, DP_MSG_STEP_START};
    uint8_t frame[DP_HEADER_BYTES + 64] = {0};
    struct fake_peer dummy = {0};
    uint8_t finish_long[12] = {0};
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        n = fake_frame(&dummy, types[i], NULL, 0, frame);
        refused(frame, n);
    }
    memset(frame, 'x', 16); /* no magic */
    refused(frame, 16);
    n = fake_frame(&dummy, 9999, NULL, 0, frame);
    refused(frame, n);
    n = fake_frame(&dummy, DP_MSG_FINISH, finish_long, 3, frame); /* too short inside */
    refused(frame, n);
    n = fake_frame(&dummy, DP_MSG_FINISH, NULL, 0, frame);
    frame[8] = 0xff; /* a body of 4 GB: refused from the header alone */
    refused(frame, n);
}

static void nothing_but_welcome_is_heard_before_welcome(void **state)
{
    struct dp_msg_hello h = hello_of(0), got;
    struct dp_msg_prepare p = prepare_of(1, 1);
    struct dp_err err;
    struct dp_control *c;

    (void)state;
    fake_daemon_start(&d);
    c = dp_control_create(d.path, &h, 0, &err);
    assert_non_null(c);
    assert_int_equal(fake_accept(&d, &peer, 10000), 0);
    take_hello(&got);
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &p);
    UNTIL(c, dp_control_fd(c) == -1);
    assert_null(dp_control_prepare(c));
    fake_close(&peer);
    finish(c);
}

static void a_vote_is_repeated_until_decided(void **state)
{
    struct dp_msg_vote v = {.incarnation = 1, .migration = 5, .rank = 1, .yes = 1}, back;
    struct dp_msg_decision dec = {.incarnation = 1, .migration = 5, .commit = 1, .epoch = 2};
    struct dp_msg_decision_ack a = {.migration = 5, .rank = 1, .epoch = 2};
    struct dp_msg_prepare p = prepare_of(1, 5);
    struct dp_layout l = {.epoch = 1, .n_workers = 2, .n_layers = 5, .cut = {0, 3, 5}};
    struct dp_control *c = connected();
    struct dp_msg_hello got;
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;
    struct dp_err err;

    (void)state;
    dp_control_state(c, 40, 5, &l);
    assert_true(dp_control_vote(c, &v));
    next_is(DP_MSG_VOTE, &body, &h);
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &p); /* it missed the vote */
    UNTIL(c, fake_next(&peer, 0, &h, &body) == 1);
    assert_int_equal(h.type, DP_MSG_VOTE);
    fake_close(&peer);
    greet(c, &got);
    assert_int_equal(got.doubt, 5);
    assert_int_equal(got.step, 40);
    dp_control_poll(c);
    next_is(DP_MSG_VOTE, &body, &h);
    dp_reader_init(&r, body, h.body_len);
    assert_int_equal(dp_msg_vote_decode(&r, &back, &err), 0);
    assert_int_equal(back.migration, 5);
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &dec);
    UNTIL(c, dp_control_decision(c, 5) != NULL);
    assert_true(dp_control_ack(c, &a));
    next_is(DP_MSG_DECISION_ACK, &body, &h);
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &dec); /* it missed the acknowledgement */
    UNTIL(c, fake_next(&peer, 0, &h, &body) == 1);
    assert_int_equal(h.type, DP_MSG_DECISION_ACK);
    fake_close(&peer);
    greet(c, &got);
    dp_control_poll(c);
    next_is(DP_MSG_DECISION_ACK, &body, &h); /* and no vote before it */
    finish(c);
}

static void acknowledged_and_finished_is_over(void **state)
{
    struct dp_msg_decision_ack a = {.migration = 5, .rank = 1, .epoch = 2};
    struct dp_msg_finish f = {.migration = 5};
    struct dp_msg_goodbye bye = {.rank = 1, .how = DP_BYE_DRAINED};
    struct dp_control *c = connected();
    struct dp_msg_hello got;
    struct dp_header h;
    const uint8_t *body;

    (void)state;
    dp_control_ack(c, &a);
    next_is(DP_MSG_DECISION_ACK, &body, &h);
    FAKE_SEND(&peer, finish, DP_MSG_FINISH, &f);
    UNTIL(c, dp_control_is_finished(c, 5));
    fake_close(&peer);
    greet(c, &got);
    dp_control_goodbye(c, &bye);
    next_is(DP_MSG_GOODBYE, &body, &h);
    assert_int_equal(peer.last_seq, 2); /* HELLO, GOODBYE */
    finish(c);
}

static void a_ping_is_answered(void **state)
{
    struct dp_msg_ping ping = {.number = 7};
    struct dp_control *c = connected();
    struct dp_msg_pong pong;
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;

    (void)state;
    FAKE_SEND(&peer, ping, DP_MSG_PING, &ping);
    dp_control_wait(c, 2000);
    next_is(DP_MSG_PONG, &body, &h);
    dp_reader_init(&r, body, h.body_len);
    assert_int_equal(dp_msg_pong_decode(&r, &pong, NULL), 0);
    assert_int_equal(pong.number, 7);
    finish(c);
}

static void the_end_of_the_job_is_heard(void **state)
{
    struct dp_msg_limit left = {.left_ms = 50000}, none = {.left_ms = DP_NO_TIME_LIMIT}, far = {.left_ms = UINT64_MAX - 1};
    struct dp_control *c = connected();
    uint64_t now = dp_now_ns();

    (void)state;
    assert_false(dp_control_has_limit(c));
    FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &left);
    UNTIL(c, dp_control_has_limit(c));
    assert_in_range(dp_control_end_ns(c), now + 50000 * UINT64_C(1000000), dp_now_ns() + 50000 * UINT64_C(1000000));
    FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &none);
    UNTIL(c, dp_control_end_ns(c) == 0);
    assert_true(dp_control_has_limit(c));
    FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &left);
    UNTIL(c, dp_control_end_ns(c) != 0);
    FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &far); /* no wrap around */
    UNTIL(c, dp_control_end_ns(c) == 0);
    finish(c);
}

static void old_incarnations_and_migrations_are_dropped(void **state)
{
    struct dp_msg_prepare p = prepare_of(3, 8), stale = prepare_of(2, 9), repeat = prepare_of(4, 8);
    struct dp_msg_decision dec = {.incarnation = 2, .migration = 8, .commit = 1};
    struct dp_msg_save s = {0};
    struct dp_control *c = connected();

    (void)state;
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &p);
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &stale);
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &dec);
    FAKE_SEND(&peer, save, DP_MSG_SAVE, &s);
    UNTIL(c, dp_control_take_save(c));
    assert_int_equal(dp_control_prepare(c)->migration, 8);
    assert_null(dp_control_decision(c, 8));
    dp_control_prepare_done(c);
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &repeat);
    dec.incarnation = 4;
    dec.commit = 0;
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &dec);
    dec.commit = 1; /* decided is decided */
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &dec);
    FAKE_SEND(&peer, save, DP_MSG_SAVE, &s);
    UNTIL(c, dp_control_take_save(c));
    assert_null(dp_control_prepare(c));
    assert_int_equal(dp_control_decision(c, 8)->commit, 0);
    finish(c);
}

static void events_are_kept_and_reports_are_not(void **state)
{
    struct dp_msg_event e = {.kind = DP_EV_PRUNED, .step = 3, .value = 0.5};
    struct dp_msg_report *rep = calloc(1, sizeof *rep);
    struct dp_control *c = connected();
    struct dp_msg_hello got;
    struct dp_header h;
    const uint8_t *body;

    (void)state;
    assert_non_null(rep);
    rep->n_layers = 2;
    assert_true(dp_control_report(c, rep));
    next_is(DP_MSG_REPORT, &body, &h);
    fake_close(&peer);
    UNTIL(c, !dp_control_is_connected(c));
    assert_false(dp_control_report(c, rep));
    for (int i = 0; i < 40; i++) { /* more than are kept */
        e.step = (uint64_t)i;
        assert_false(dp_control_event(c, &e));
    }
    greet(c, &got);
    dp_control_poll(c);
    for (int i = 8; i < 40; i++) {
        struct dp_msg_event back;
        struct dp_reader r;
        struct dp_err err;

        next_is(DP_MSG_EVENT, &body, &h);
        dp_reader_init(&r, body, h.body_len);
        assert_int_equal(dp_msg_event_decode(&r, &back, &err), 0);
        assert_int_equal(back.step, i);
    }
    fake_close(&peer);
    greet(c, &got); /* all were taken: nothing is repeated */
    assert_true(dp_control_report(c, rep));
    next_is(DP_MSG_REPORT, &body, &h);
    free(rep);
    finish(c);
}

/* A daemon that is stopped: the worker is not held up, and memory stays bounded. */
static void a_daemon_that_does_not_read_costs_nothing(void **state)
{
    struct dp_msg_report *rep = calloc(1, sizeof *rep);
    struct dp_control *c = connected();
    uint64_t begin = dp_now_ns();
    int taken = 0;

    (void)state;
    assert_non_null(rep);
    rep->n_layers = DP_MAX_LAYERS;
    for (int i = 0; i < 200; i++)
        taken += dp_control_report(c, rep);
    assert_true(taken < 50);
    assert_true(dp_control_is_connected(c));
    assert_true(dp_now_ns() - begin < 2000000000u);
    free(rep);
    fake_close(&peer);
    finish(c);
}

static void a_refusal_is_no_absence(void **state)
{
    struct dp_msg_hello h = hello_of(0), got;
    struct dp_err err = {0};
    pid_t pid;
    int status;

    (void)state;
    fake_daemon_start(&d);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (fake_accept(&d, &peer, 10000) < 0)
            _exit(1);
        take_hello(&got);
        fake_welcome(&peer, DP_VERDICT_FENCED, "", "slot node3 was released");
        fake_close(&peer);
        _exit(0);
    }
    assert_null(dp_control_create(d.path, &h, 10000, &err));
    assert_int_equal(err.code, DP_EAUTH);
    assert_non_null(strstr(err.text, "slot node3 was released"));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fake_daemon_stop(&d);
}

static void the_device_lock_is_held(void **state)
{
    struct dp_msg_hello h = hello_of(0), got;
    char path[128];
    struct dp_err err;
    struct dp_control *c;
    int fd, other;

    (void)state;
    fake_daemon_start(&d);
    snprintf(path, sizeof path, "%s/slot0.lock", d.dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0); /* somebody is still there */
    c = dp_control_create(d.path, &h, 0, &err);
    assert_non_null(c);
    assert_int_equal(fake_accept(&d, &peer, 10000), 0);
    take_hello(&got);
    fake_welcome(&peer, DP_VERDICT_OK, path, "");
    UNTIL(c, dp_control_is_connected(c));
    assert_int_equal(flock(fd, LOCK_UN), 0);
    UNTIL(c, flock(fd, LOCK_EX | LOCK_NB) < 0 || flock(fd, LOCK_UN) < 0); /* tried again, and got it */
    other = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(other, LOCK_SH | LOCK_NB), 0); /* a second worker of the node */
    close(other);
    fake_close(&peer);
    UNTIL(c, !dp_control_is_connected(c));
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1); /* without a daemon too */
    dp_control_destroy(c);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
    unlink(path);
    fake_daemon_stop(&d);
}

static void a_dead_daemon_is_tried_again_with_pauses(void **state)
{
    struct dp_control *c = connected();
    struct dp_msg_hello got;
    uint64_t begin;

    (void)state;
    fake_daemon_close(&d);
    fake_close(&peer);
    UNTIL(c, !dp_control_is_connected(c));
    begin = dp_now_ns();
    while (dp_now_ns() - begin < 300000000u) /* 50 + 100 + ... ms: the back-off grows */
        dp_control_wait(c, 20);
    assert_false(dp_control_is_connected(c));
    fake_daemon_relisten(&d);
    greet(c, &got);
    assert_true(dp_now_ns() - begin < 4000000000u);
    finish(c);
}

/* The next HELLO, in this version. */
static void hello_comes(struct dp_control *c, uint16_t version)
{
    const uint8_t *body;
    struct dp_header h;

    UNTIL(c, fake_accept(&d, &peer, 0) == 0);
    dp_control_poll(c);
    next_is(DP_MSG_HELLO, &body, &h);
    assert_int_equal(h.version, version);
}

/* Release 0.1.0 hangs up on our HELLO, and answers its own. One that answers that and is newer, was dying before. */
static void an_old_daemon_is_spoken_to_in_its_version(void **state)
{
    struct dp_msg_goodbye bye = {.rank = 1, .how = DP_BYE_DRAINED, .loss = 2.5}, got;
    struct dp_control *c = connected();
    const uint8_t *body;
    struct dp_header h;
    struct dp_reader r;

    (void)state;
    fake_close(&peer);
    hello_comes(c, DP_PROTO_VERSION);
    fake_close(&peer);
    hello_comes(c, DP_PROTO_MIN);
    peer.version = DP_PROTO_MIN;
    peer.seq = (uint32_t)DP_PROTO_VERSION << DP_SEQ_VERSION_SHIFT;
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    hello_comes(c, DP_PROTO_VERSION);
    fake_close(&peer);
    hello_comes(c, DP_PROTO_MIN);
    peer.version = DP_PROTO_MIN;
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    UNTIL(c, dp_control_is_connected(c));
    dp_control_goodbye(c, &bye);
    next_is(DP_MSG_GOODBYE, &body, &h);
    assert_int_equal(h.version, DP_PROTO_MIN);
    dp_reader_init(&r, body, h.body_len);
    r.version = DP_PROTO_MIN;
    assert_int_equal(dp_msg_goodbye_decode(&r, &got, NULL), 0);
    peer.version = DP_PROTO_VERSION; /* in the middle */
    FAKE_SEND(&peer, save, DP_MSG_SAVE, &(struct dp_msg_save){0});
    UNTIL(c, !dp_control_is_connected(c));
    assert_false(dp_control_take_save(c));
    finish(c);
}

/* An answer that takes long says nothing of a release: what an older HELLO lacks stays asked for. */
static void a_silent_daemon_is_spoken_to_in_our_version(void **state)
{
    struct dp_control *c = connected();

    (void)state;
    fake_close(&peer);
    hello_comes(c, DP_PROTO_VERSION);
    skipped_s += 6; /* more than a worker waits for WELCOME */
    UNTIL(c, dp_control_fd(c) < 0);
    fake_close(&peer);
    hello_comes(c, DP_PROTO_VERSION);
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    UNTIL(c, dp_control_is_connected(c));
    finish(c);
}

/* The next message says that layers 1 and 2 cost so much from step 9 on. */
static void hear_expected(uint64_t ns)
{
    static struct dp_msg_expect m;
    const uint8_t *body;
    struct dp_header h;
    struct dp_reader r;

    next_is(DP_MSG_EXPECT, &body, &h);
    dp_reader_init(&r, body, h.body_len);
    assert_int_equal(dp_msg_expect_decode(&r, &m, NULL), 0);
    assert_true(m.rank == 1 && m.step == 9 && m.first_layer == 1 && m.n_layers == 2);
    assert_int_equal(m.layer[1].fwd_ns, ns);
}

static void what_is_expected_is_said_after_each_welcome(void **state)
{
    struct dp_layer_load load[2] = {{.fwd_ns = 4}, {.fwd_ns = 5}};
    struct dp_layout layout = {.epoch = 1, .n_workers = 2, .n_layers = 5, .cut = {0, 3, 5}};
    struct dp_control *c = connected();
    struct dp_msg_hello got;
    struct dp_header h;
    const uint8_t *body;

    (void)state;
    assert_int_equal(dp_control_expect(c, 9, 1, load, 2, NULL), 0);
    hear_expected(5);
    load[1].fwd_ns = 6;
    assert_int_equal(dp_control_expect(c, 9, 1, load, 2, NULL), 0);
    hear_expected(6);
    fake_close(&peer);
    UNTIL(c, !dp_control_is_connected(c));
    greet(c, &got);
    dp_control_poll(c);
    hear_expected(6);
    assert_int_equal(dp_control_expect(c, 9, 4, load, 2, NULL), -1);
    dp_control_state(c, 10, 0, &layout); /* measured since */
    fake_close(&peer);
    UNTIL(c, !dp_control_is_connected(c));
    greet(c, &got);
    dp_control_event(c, &(struct dp_msg_event){.kind = DP_EV_EVAL});
    next_is(DP_MSG_EVENT, &body, &h);
    finish(c);
}

static struct dp_msg_proposal proposal_of(uint32_t incarnation, uint64_t number, uint32_t cut)
{
    return (struct dp_msg_proposal){.incarnation = incarnation, .number = number, .now_ns = 2e6, .then_ns = 1e6, .n_workers = 2,
                                    .n_layers = 5, .cut = {0, cut, 5}};
}

/* Sent, and everything before it is handled: the PING behind it is answered. */
static void propose(struct dp_control *c, const struct dp_msg_proposal *m)
{
    static uint64_t number;
    struct dp_header h;
    const uint8_t *body;

    FAKE_SEND(&peer, proposal, DP_MSG_PROPOSAL, m);
    FAKE_SEND(&peer, ping, DP_MSG_PING, &(struct dp_msg_ping){.number = ++number});
    UNTIL(c, fake_next(&peer, 0, &h, &body) == 1);
    assert_int_equal(h.type, DP_MSG_PONG);
}

static void the_newest_proposal_holds_until_it_is_in_force(void **state)
{
    struct dp_layout layout = {.epoch = 1, .n_workers = 2, .n_layers = 5, .cut = {0, 3, 5}};
    struct dp_control *c = connected();
    struct dp_msg_proposal m;

    (void)state;
    assert_null(dp_control_proposal(c));
    m = proposal_of(2, 4, 1);
    propose(c, &m);
    assert_non_null(dp_control_proposal(c));
    assert_int_equal(dp_control_proposal(c)->cut[1], 1);
    for (uint32_t i = 0; i < 3; i++) { /* an older number, a coordinator that was replaced, one that is new */
        m = proposal_of(i == 2 ? 3 : 2 - i, i == 0 ? 3 : i == 1 ? 9 : 1, 2);

        propose(c, &m);
        assert_int_equal(dp_control_proposal(c)->cut[1], i == 2 ? 2 : 1);
    }
    layout.cut[1] = 2;
    dp_control_state(c, 10, 0, &layout);
    assert_null(dp_control_proposal(c));
    m = proposal_of(3, 2, 5);
    m.n_workers = 1;
    FAKE_SEND(&peer, proposal, DP_MSG_PROPOSAL, &m);
    UNTIL(c, !dp_control_is_connected(c)); /* of another run */
    assert_null(dp_control_proposal(c));
    finish(c);
}

/* Has the process stopped (state T)? */
static bool is_stopped(pid_t pid)
{
    char path[64], text[512], *state;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return false;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'T';
}

/* A daemon that welcomes and dies at once: the worker finds both when it next looks. */
static void welcome_and_die(pid_t worker)
{
    struct dp_header h;
    const uint8_t *body;

    if (fake_accept(&d, &peer, 10000) < 0 || fake_next(&peer, 10000, &h, &body) != 1)
        _exit(1);
    kill(worker, SIGSTOP);
    for (uint64_t end = dp_now_ns() + 10000000000u; !is_stopped(worker) && dp_now_ns() < end;)
        sched_yield();
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    fake_daemon_close(&d);
    if (!fake_daemon_is_dead(&d))
        _exit(2);
    fake_close(&peer);
    kill(worker, SIGCONT);
    _exit(0);
}

static void a_welcome_from_a_dying_daemon_is_no_refusal(void **state)
{
    struct dp_msg_hello h = hello_of(1);
    struct dp_err err = {0};
    struct dp_control *c;
    pid_t worker = getpid(), child;
    int rc;

    (void)state;
    fake_daemon_start(&d);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        welcome_and_die(worker);
    fake_daemon_close(&d);
    c = dp_control_create(d.path, &h, 300, &err);
    assert_int_equal(waitpid(child, &rc, 0), child);
    assert_int_equal(rc, 0);
    assert_non_null(c);
    assert_false(dp_control_is_connected(c));
    dp_control_destroy(c);
    fake_daemon_stop(&d);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_daemon_everything_says_nothing),
    cmocka_unit_test(frames_may_come_byte_by_byte),
    cmocka_unit_test(several_frames_may_come_at_once),
    cmocka_unit_test(wrong_messages_end_the_line),
    cmocka_unit_test(nothing_but_welcome_is_heard_before_welcome),
    cmocka_unit_test(a_vote_is_repeated_until_decided),
    cmocka_unit_test(acknowledged_and_finished_is_over),
    cmocka_unit_test(a_ping_is_answered),
    cmocka_unit_test(the_end_of_the_job_is_heard),
    cmocka_unit_test(old_incarnations_and_migrations_are_dropped),
    cmocka_unit_test(events_are_kept_and_reports_are_not),
    cmocka_unit_test(a_daemon_that_does_not_read_costs_nothing),
    cmocka_unit_test(a_refusal_is_no_absence),
    cmocka_unit_test(the_device_lock_is_held),
    cmocka_unit_test(a_dead_daemon_is_tried_again_with_pauses),
    cmocka_unit_test(an_old_daemon_is_spoken_to_in_its_version),
    cmocka_unit_test(a_silent_daemon_is_spoken_to_in_our_version),
    cmocka_unit_test(what_is_expected_is_said_after_each_welcome),
    cmocka_unit_test(the_newest_proposal_holds_until_it_is_in_force),
    cmocka_unit_test(a_welcome_from_a_dying_daemon_is_no_refusal),
};
TEST_MAIN("control", tests)
