/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's talk with the daemon, against daemons of every temper: right, refusing, dead, absent,
 * silent, full, slow, closing early, and answering nonsense. Each must be over in bounded time: by a clock
 * that only the talk's own waits move, so that it does not matter how busy this machine is. */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spank_plugin/daemon_link.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/dplinkXXXXXX", path[64];
static int listener = -1;
static pid_t daemon_pid;

/* The clock of what is tested (the linker puts these in the place of libc's). A nap takes what it asks for. A
 * poll in vain takes the time that it was given, one that a daemon answers takes answer_ms. */
static int64_t clock_ms;
static int answer_ms;
static int drip[2] = {-1, -1}; /* each poll lets a daemon that drips send one byte */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    *t = (struct timespec){.tv_sec = clock_ms / 1000, .tv_nsec = clock_ms % 1000 * 1000000};
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    (void)left;
    clock_ms += t->tv_sec * 1000 + t->tv_nsec / 1000000;
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    if (daemon_pid <= 0 || answer_ms > timeout) {
        clock_ms += timeout;
        return 0;
    }
    if (drip[1] >= 0 && write(drip[1], "x", 1) != 1)
        return -1;
    clock_ms += answer_ms;
    return __real_poll(fds, n, 60000);
}

static void open_listener(int backlog)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    unlink(path);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(listener, backlog), 0);
}

/* Fork a daemon that takes one connection, reads `want` bytes, writes n and closes. between_ms: n bytes are
 * that far apart, 0: they come at once. */
static void start_daemon(size_t want, const void *answer, size_t n, int between_ms)
{
    open_listener(4);
    answer_ms = between_ms;
    if (between_ms)
        assert_int_equal(pipe(drip), 0);
    daemon_pid = fork();
    assert_true(daemon_pid >= 0);
    if (daemon_pid > 0)
        return;
    uint8_t buf[2048];
    int fd = accept(listener, NULL, NULL);
    for (size_t got = 0; got < want;) {
        ssize_t k = read(fd, buf, sizeof buf);
        if (k <= 0)
            _exit(1);
        got += (size_t)k;
    }
    for (size_t i = 0; i < n; i++) {
        char c;

        if (between_ms && read(drip[0], &c, 1) != 1)
            _exit(0);
        if (between_ms || i == 0)
            if (send(fd, (const uint8_t *)answer + i, between_ms ? 1 : n, MSG_NOSIGNAL) < 0)
                _exit(0);
    }
    _exit(0);
}

/* As release 0.1.0: hangs up on what is not of version 1. */
static void start_old_daemon(const void *answer, size_t n)
{
    uint8_t buf[2048];

    open_listener(4);
    daemon_pid = fork();
    assert_true(daemon_pid >= 0);
    while (daemon_pid == 0) {
        int fd = accept(listener, NULL, NULL);

        if (read(fd, buf, sizeof buf) < DP_HEADER_BYTES)
            _exit(1);
        if (buf[5] == 1 && write(fd, answer, n) == (ssize_t)n)
            _exit(0);
        close(fd);
    }
}

static void end_daemon(void)
{
    if (daemon_pid > 0) {
        kill(daemon_pid, SIGKILL);
        waitpid(daemon_pid, NULL, 0);
    }
    daemon_pid = 0;
    if (listener >= 0)
        close(listener);
    listener = -1;
    for (int i = 0; i < 2; i++) {
        if (drip[i] >= 0)
            close(drip[i]);
        drip[i] = -1;
    }
    unlink(path);
}

static size_t ack_frame(uint8_t *out, uint8_t verdict, const char *text, uint16_t type)
{
    struct dp_msg_ack ack = {.verdict = verdict};
    struct dp_writer w;
    struct dp_header h = {.version = DP_PROTO_VERSION, .type = type, .seq = 1};

    snprintf(ack.text, sizeof ack.text, "%s", text);
    dp_writer_init(&w, out + DP_HEADER_BYTES, 512);
    dp_msg_ack_encode(&w, &ack);
    h.body_len = (uint32_t)dp_writer_used(&w);
    dp_header_encode(out, &h);
    return DP_HEADER_BYTES + h.body_len;
}

/* One call; fails the test when it takes longer than allowed. */
static enum dp_link_result call(struct dp_msg_ack *ack, struct dp_err *err)
{
    const struct dp_msg_step_start m = {.job_id = 7, .node = "n1", .policy = "time"};
    int64_t t0 = clock_ms;
    enum dp_link_result r = dp_link_step_start(path, &m, ack, err);

    assert_true(clock_ms - t0 <= DP_LINK_TIMEOUT_MS);
    if (r != DP_LINK_OK && err->code == DP_ETIMEOUT)
        assert_int_equal(clock_ms - t0, DP_LINK_TIMEOUT_MS); /* and no sooner than promised */
    return r;
}

#define START_BYTES (DP_HEADER_BYTES + 20 + 2 + 4 + 8 + 2 + 4 + 2 + 2)

static void test_answer(void **state)
{
    uint8_t frame[1024];
    struct dp_msg_ack ack;
    struct dp_err err;

    (void)state;
    start_daemon(START_BYTES, frame, ack_frame(frame, DP_VERDICT_FENCED, "gone", DP_MSG_ACK), 0);
    assert_int_equal(call(&ack, &err), DP_LINK_OK);
    assert_int_equal(ack.verdict, DP_VERDICT_FENCED);
    assert_string_equal(ack.text, "gone");
    end_daemon();
}

static void test_old_daemon(void **state)
{
    uint8_t frame[1024];
    struct dp_msg_ack ack;
    struct dp_err err;
    size_t n;

    (void)state;
    n = ack_frame(frame, DP_VERDICT_OK, "old", DP_MSG_ACK);
    frame[5] = 1;
    start_old_daemon(frame, n);
    assert_int_equal(call(&ack, &err), DP_LINK_OK);
    assert_string_equal(ack.text, "old");
    end_daemon();
    frame[5] = 200; /* a version that nobody spoke to it */
    start_daemon(START_BYTES, frame, n, 0);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    end_daemon();
}

static void test_absent_and_dead(void **state)
{
    struct dp_msg_ack ack;
    struct dp_err err;

    (void)state;
    assert_int_equal(call(&ack, &err), DP_LINK_UNSENT);
    assert_string_equal(err.text, "No such file or directory");
    open_listener(4);
    close(listener);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSENT);
    assert_string_equal(err.text, "Connection refused");
    end_daemon();
}

static void test_silent(void **state)
{
    struct dp_msg_ack ack;
    struct dp_err err;

    (void)state;
    open_listener(4);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    assert_int_equal(err.code, DP_ETIMEOUT);
    end_daemon();
}

static void test_full_backlog(void **state)
{
    struct dp_msg_ack ack;
    struct dp_err err;
    enum dp_link_result r = DP_LINK_OK;

    (void)state;
    open_listener(0);
    /* The first call fills the queue that nobody empties: its connection stays in it. */
    for (int i = 0; i < 4 && r != DP_LINK_UNSENT; i++)
        r = call(&ack, &err);
    assert_int_equal(r, DP_LINK_UNSENT);
    assert_int_equal(err.code, DP_ETIMEOUT);
    end_daemon();
}

static void test_nonsense(void **state)
{
    uint8_t frame[4096];
    struct dp_msg_ack ack;
    struct dp_err err;
    size_t n;

    (void)state;
    memset(frame, 'x', sizeof frame);
    start_daemon(START_BYTES, frame, sizeof frame, 0);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    assert_int_equal(err.code, DP_EPROTO);
    end_daemon();

    start_daemon(START_BYTES, frame, ack_frame(frame, 0, "", DP_MSG_STEP_END), 0);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    end_daemon();

    n = ack_frame(frame, 0, "a line\nand another", DP_MSG_ACK);
    frame[DP_HEADER_BYTES + 9] = '\n'; /* the writer made it '?' */
    start_daemon(START_BYTES, frame, n, 0);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    end_daemon();

    n = ack_frame(frame, 0, "cut", DP_MSG_ACK);
    start_daemon(START_BYTES, frame, n - 1, 0);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    assert_int_equal(err.code, DP_EGONE);
    end_daemon();
}

/* A byte every 60 ms keeps a wait per read going for ever; the deadline covers the whole. */
static void test_drip(void **state)
{
    uint8_t frame[1024];
    struct dp_msg_ack ack;
    struct dp_err err;

    (void)state;
    start_daemon(START_BYTES, frame, ack_frame(frame, 0, "slow and steady", DP_MSG_ACK), 60);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSURE);
    assert_int_equal(err.code, DP_ETIMEOUT);
    end_daemon();
}

static void test_step_end(void **state)
{
    const struct dp_msg_step_end m = {.job_id = 7, .step_id = 9};
    struct dp_msg_step_end got;
    struct dp_reader r;
    struct dp_header h;
    uint8_t buf[64];
    struct dp_err err;
    int64_t t0 = clock_ms;

    (void)state;
    assert_int_equal(dp_link_step_end(path, &m, &err), -1);
    open_listener(4);
    assert_int_equal(dp_link_step_end(path, &m, &err), 0); /* nobody reads, nobody waits */
    assert_int_equal(clock_ms, t0);
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(read(fd, buf, sizeof buf), DP_HEADER_BYTES + 8);
    assert_int_equal(dp_header_decode(buf, &h, &err), 0);
    assert_int_equal(h.type, DP_MSG_STEP_END);
    dp_reader_init(&r, buf + DP_HEADER_BYTES, h.body_len);
    assert_int_equal(dp_msg_step_end_decode(&r, &got, &err), 0);
    assert_int_equal(got.step_id, 9);
    close(fd);
    end_daemon();
}

/* Where others may write they can serve a socket of their own; the plugin says nothing to it. */
static void test_folder_of_others(void **state)
{
    static const mode_t modes[] = {0777, 01777, 0775};
    struct dp_msg_ack ack;
    struct dp_err err;

    (void)state;
    open_listener(4);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(dir, modes[i]), 0);
        assert_int_equal(call(&ack, &err), DP_LINK_UNSENT);
        assert_non_null(strstr(err.text, "nobody else may write"));
    }
    assert_int_equal(chmod(dir, 0700), 0);
    end_daemon();
}

/* The same socket and folder, but another user listens: he has taken root's or the daemon's place. */
static void test_served_by_another(void **state)
{
    struct dp_msg_ack ack;
    struct dp_err err;
    int gate[2];
    char byte;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(pipe(gate), 0);
    open_listener(4);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        if (setresuid(65534, 65534, 65534) == 0 && listen(listener, 4) == 0 && write(gate[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(gate[1]);
    assert_int_equal(read(gate[0], &byte, 1), 1);
    close(gate[0]);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSENT);
    assert_non_null(strstr(err.text, "served by uid 65534"));
    /* Where root gave him the folder, he is the daemon. Below /tmp, where everybody can make one, nobody gave it. */
    assert_int_equal(chown(dir, 65534, 65534), 0);
    assert_int_equal(call(&ack, &err), DP_LINK_UNSENT);
    assert_non_null(strstr(err.text, "others may write to a folder above it"));
    assert_int_equal(chown(dir, 0, 0), 0);
    end_daemon();
}

static int setup(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_DFL); /* as in slurmstepd: a signal here would kill the step */
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/s", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    end_daemon();
    return rmdir(dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_answer),  cmocka_unit_test(test_absent_and_dead),
    cmocka_unit_test(test_old_daemon),
    cmocka_unit_test(test_silent),  cmocka_unit_test(test_full_backlog),
    cmocka_unit_test(test_nonsense), cmocka_unit_test(test_drip),
    cmocka_unit_test(test_step_end), cmocka_unit_test(test_folder_of_others),
    cmocka_unit_test(test_served_by_another),
};

int main(void)
{
    return cmocka_run_group_tests_name("daemon_link", tests, setup, teardown);
}
