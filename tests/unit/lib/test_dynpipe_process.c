/* SPDX-License-Identifier: BSD-3-Clause */
/* A process with the shared object in it that forks, has a second thread, is stopped for a while or is killed does what the header
 * says. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/lib/dynpipe_world.h"

#define MS 20000 /* where an answer has to come */

static void ended_well(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Exit status of a child: the line of what is not so. */
#define MUST(cond)               \
    do {                         \
        if (!(cond))             \
            _exit(__LINE__ % 251 + 1); \
    } while (0)

static void in_the_child_of_a_fork(struct dynpipe *d)
{
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dynpipe_load load = {0};
    uint32_t cut[WORKERS + 1];

    MUST(!dynpipe_is_connected(d) && dynpipe_fd(d) == -1);
    MUST(strstr(dynpipe_why(d), "child"));
    MUST(train(d, 2, 3) == 0 && dynpipe_expect(d, 9, 0, &load, 1) == 0 && dynpipe_event(d, DYNPIPE_EV_SAVED, 1, 0, "x") == 0);
    MUST(!dynpipe_leads(d) && !dynpipe_pending(d) && !dynpipe_proposal(d, &plan) && !dynpipe_take_save(d));
    MUST(isnan(dynpipe_time_left(d)));
    MUST(dynpipe_prepare(d, 5, &plan, MS) == 0 && dynpipe_decide(d, 5, 1, a_digest, NULL, MS) == DYNPIPE_END);
    MUST(dynpipe_state(d) == DYNPIPE_IDLE && dynpipe_layout(d, cut) == WORKERS && cut[1] == 3);
    dynpipe_done(d, 5, 1, 1);
    dynpipe_forget(d);
    dynpipe_poll(d);
    dynpipe_wait(d, 1);
    dynpipe_leave(d, DYNPIPE_COMPLETED, "not mine");
    _exit(0);
}

static void a_child_is_a_stranger(void **state)
{
    struct dynpipe_run run = run_of(0, ALL);
    struct dp_msg_hello hello;
    struct dynpipe *d = joined(&run, &hello);
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        in_the_child_of_a_fork(d);
    ended_well(child);
    settle(d); /* the connection is as it was, and nothing but the PING's answer came */
    assert_int_equal(dynpipe_is_connected(d), 1);
    finish(d);
}

static void *decides(void *arg)
{
    static int answer;

    answer = dynpipe_decide(arg, 5, 1, a_digest, NULL, 600000);
    return &answer;
}

static void a_second_thread_finds_it_busy(void **state)
{
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dynpipe_run run = run_of(0, ALL);
    struct dynpipe_load load = {0};
    struct dp_msg_hello hello;
    const uint8_t *body;
    struct dp_header h;
    pthread_t thread;
    struct dynpipe *d = joined(&run, &hello);
    void *answer;

    (void)state;
    ask(5, 0, 4, 7, false);
    assert_int_equal(dynpipe_prepare(d, 5, &plan, MS), 1);
    assert_int_equal(pthread_create(&thread, NULL, decides, d), 0);
    assert_int_equal(fake_next(&peer, MS, &h, &body), 1); /* the vote: it is inside, and stays until it hears */
    assert_int_equal(h.type, DP_MSG_VOTE);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_BUSY);
    assert_int_equal(dynpipe_state(d), DYNPIPE_BUSY);
    assert_true(!dynpipe_is_connected(d) && dynpipe_fd(d) == -1 && train(d, 2, 3) == 0 && dynpipe_expect(d, 9, 0, &load, 1) == -1);
    assert_true(dynpipe_event(d, DYNPIPE_EV_SAVED, 1, 0, "x") == -1 && !dynpipe_leads(d) && !dynpipe_pending(d));
    assert_true(!dynpipe_proposal(d, &plan) && !dynpipe_take_save(d) && isnan(dynpipe_time_left(d)) && !dynpipe_layout(d, NULL));
    assert_int_equal(dynpipe_prepare(d, 5, &plan, 0), 0);
    assert_string_equal(dynpipe_why(d), "another thread is inside of this handle");
    dynpipe_done(d, 5, 1, 1);
    dynpipe_forget(d);
    dynpipe_poll(d);
    dynpipe_wait(d, MS);
    dynpipe_leave(d, DYNPIPE_FAILED, "does nothing");
    tell(5, true, 1, "");
    assert_int_equal(pthread_join(thread, &answer), 0);
    assert_int_equal(*(int *)answer, DYNPIPE_COMMIT);
    dynpipe_done(d, 5, 1, 1);
    finish(d);
}

/* Two handles of one process, as two workers of a trainer have them, each in its thread. */
static void *trains(void *arg)
{
    struct dynpipe *d = arg;

    for (uint64_t step = 1; step <= 200; step++) {
        train(d, step, 3);
        dynpipe_state(d);
        dynpipe_wait(d, 0);
    }
    return NULL;
}

static void two_handles_are_two(void **state)
{
    struct dynpipe_run run = run_of(0, ALL), other = run_of(1, ALL);
    pthread_t thread[2];
    struct dynpipe *d[2];

    (void)state;
    run.socket = other.socket = "/nonexistent/dynpiped.sock";
    d[0] = dynpipe_join(&run, 0, NULL, 0);
    d[1] = dynpipe_join(&other, 0, NULL, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, trains, d[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        dynpipe_leave(d[i], DYNPIPE_COMPLETED, NULL);
    }
}

/* A trainer in a process of its own, until `go_on` is closed. */
static pid_t start_trainer(uint32_t rank, int go_on[2])
{
    pid_t child;

    assert_int_equal(pipe(go_on), 0);
    assert_int_equal(fcntl(go_on[0], F_SETFL, O_NONBLOCK), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct dynpipe_run run = run_of(rank, ALL);
        struct dynpipe *d = dynpipe_join(&run, MS, NULL, 0);
        char byte;

        close(go_on[1]);
        MUST(d);
        while (read(go_on[0], &byte, 1) < 0 && errno == EAGAIN) {
            dynpipe_wait(d, 10);
            MUST(dynpipe_state(d) == DYNPIPE_IDLE);
        }
        dynpipe_leave(d, DYNPIPE_COMPLETED, NULL);
        _exit(0);
    }
    close(go_on[0]);
    return child;
}

/* The next message of this trainer is of that type. */
static void trainer_says(struct fake_peer *p, uint16_t type)
{
    const uint8_t *body;
    struct dp_header h;

    assert_int_equal(fake_next(p, MS, &h, &body), 1);
    assert_string_equal(dp_msg_name(h.type), dp_msg_name(type));
}

static void welcome_trainer(struct fake_peer *p, const char *lock)
{
    assert_int_equal(fake_accept(&the_daemon, p, MS), 0);
    trainer_says(p, DP_MSG_HELLO);
    fake_welcome(p, DP_VERDICT_OK, lock, "");
    FAKE_SEND(p, ping, DP_MSG_PING, &(struct dp_msg_ping){.number = 1});
    trainer_says(p, DP_MSG_PONG);
}

static void who_was_stopped_goes_on(void **state)
{
    int go_on[2], status;
    pid_t child;

    (void)state;
    fake_daemon_start(&the_daemon);
    child = start_trainer(0, go_on);
    welcome_trainer(&peer, "");
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    for (uint64_t i = 2; i < 50; i++) /* a daemon that goes on talking; they fit into the socket */
        FAKE_SEND(&peer, ping, DP_MSG_PING, &(struct dp_msg_ping){.number = i});
    sleep(2);
    assert_int_equal(kill(child, SIGCONT), 0);
    for (uint64_t i = 2; i < 50; i++)
        trainer_says(&peer, DP_MSG_PONG);
    close(go_on[1]);
    trainer_says(&peer, DP_MSG_GOODBYE);
    ended_well(child);
    fake_close(&peer);
    fake_daemon_stop(&the_daemon);
}

static void who_is_killed_frees_its_device_and_nothing_else(void **state)
{
    static struct fake_peer other;
    int go_on[2], killed_go_on[2], fd, status;
    char lock[128];
    pid_t child, killed;

    (void)state;
    fake_daemon_start(&the_daemon);
    snprintf(lock, sizeof lock, "%s/slot0.lock", the_daemon.dir);
    fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    child = start_trainer(0, go_on);
    welcome_trainer(&other, "");
    killed = start_trainer(1, killed_go_on);
    welcome_trainer(&peer, lock);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    assert_int_equal(kill(killed, SIGKILL), 0);
    assert_int_equal(waitpid(killed, &status, 0), killed);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(fake_next(&peer, MS, &(struct dp_header){0}, &(const uint8_t *){NULL}), -1);
    FAKE_SEND(&other, ping, DP_MSG_PING, &(struct dp_msg_ping){.number = 2});
    trainer_says(&other, DP_MSG_PONG);
    close(go_on[1]);
    close(killed_go_on[1]);
    trainer_says(&other, DP_MSG_GOODBYE);
    ended_well(child);
    close(fd);
    unlink(lock);
    fake_close(&peer);
    fake_close(&other);
    fake_daemon_stop(&the_daemon);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_child_is_a_stranger),
    cmocka_unit_test(who_was_stopped_goes_on),
    cmocka_unit_test(who_is_killed_frees_its_device_and_nothing_else),
    cmocka_unit_test(a_second_thread_finds_it_busy),
    cmocka_unit_test(two_handles_are_two),
};

TEST_MAIN("dynpipe_process", tests)
