/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of a job that are hard to see: whoever is looked for must be found, or there is no proof. Real processes, which
 * their environment tells to be the job's; no case here rests on a cgroup. */
#include "config.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/procscan.h"
#include "daemon/release/rights.h"

/* A number that no other run of this test on the machine uses: the fence ends all of a job. */
#define JOB (1900000000u + 4u * (uint32_t)getpid())
#define OWNER 65534 /* nobody */
#define END_FD 9 /* of a process that goes on until the other end is closed */

static char lock_path[] = "/tmp/dp-proof-XXXXXX";

/* ---- the processes ---- */

static void say_ready(void)
{
    if (write(STDOUT_FILENO, "x", 1) != 1)
        _exit(1);
}

static char state_of_first_thread(void)
{
    struct dp_proc p;

    return dp_proc_read((uint32_t)getpid(), &p) ? p.tid == p.pid ? 'R' : 'Z' : '?';
}

static void *live_on(void *arg)
{
    (void)arg;
    while (state_of_first_thread() == 'R')
        sched_yield();
    say_ready();
    for (;;)
        pause();
    return NULL;
}

/* Its first thread ends, and another one lives on. */
static void lose_first_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, live_on, NULL))
        _exit(1);
    pthread_exit(NULL);
}

static bool must_end(void)
{
    struct pollfd p = {.fd = END_FD, .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

/* Its child goes on in its place, and its child's child, and so on. */
static void hop(void)
{
    say_ready();
    while (!must_end())
        if (fork() != 0)
            _exit(0);
    _exit(0);
}

/* It begins the same program again and again. */
static void storm(bool is_first)
{
    char *const argv[] = {(char *)"test_proof", (char *)"storm-on", NULL};
    extern char **environ;

    if (is_first)
        say_ready();
    if (must_end())
        _exit(0);
    execve("/proc/self/exe", argv, environ);
    _exit(1);
}

static void act(const char *how)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody; who goes on as another process has END_FD */
    if (!strcmp(how, "hopper"))
        hop();
    if (!strncmp(how, "storm", 5))
        storm(!strcmp(how, "storm"));
    if (!strncmp(how, "leaderless", 10)) {
        if (!strcmp(how, "leaderless-stubborn"))
            signal(SIGTERM, SIG_IGN);
        lose_first_thread();
    }
    if (!strcmp(how, "closed"))
        prctl(PR_SET_DUMPABLE, 0);
    say_ready();
    for (;;)
        pause();
}

/* Start one of a uid with the job in its environment, and what else is given; returns when it runs. end_fd: none, or what
 * it is to have as END_FD. */
static pid_t start_as(const char *how, uid_t uid, int end_fd, const char *first)
{
    char job_env[64];
    char *env[] = {(char *)(uintptr_t)first, job_env, NULL};
    char *argv[] = {(char *)"test_proof", (char *)(uintptr_t)how, NULL};
    int fds[2];
    pid_t pid;
    char byte;

    snprintf(job_env, sizeof job_env, "SLURM_JOB_ID=%u", JOB);
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        if (end_fd >= 0)
            dup2(end_fd, END_FD);
        if (uid == geteuid() || (setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0))
            execve("/proc/self/exe", argv, first ? env : env + 1);
        _exit(1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    return pid;
}

static pid_t start_process(const char *how)
{
    return start_as(how, geteuid(), -1, NULL);
}

static bool is_alive(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static struct dp_empty_job question(uid_t uid, uint32_t timeout_ms)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = uid, .timeout_ms = timeout_ms};

    q.begun_ticks = dp_process_start((uint32_t)getpid());
    snprintf(q.node, sizeof q.node, "n1");
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    return q;
}

/* ---- threads ---- */

static void a_process_without_its_first_thread_is_ended(void **state)
{
    static const char *const how[] = {"leaderless", "leaderless-stubborn"};
    struct dp_empty_job q = question(geteuid(), 60000);
    struct dp_empty_result r;

    (void)state;
    for (int i = 0; i < 2; i++) {
        pid_t pid = start_process(how[i]);

        dp_empty_slot(&q, &r);
        assert_int_equal(r.n_polite, 1);
        assert_true(r.gone);
        assert_true(r.n_term >= 1);
        assert_int_equal(r.n_kill > 0, i);
        assert_false(is_alive(pid));
    }
}

/* Nothing says that it is the job's, and what it has open its other thread has. */
static void its_device_is_seen(void **state)
{
    struct dp_empty_job q = question(geteuid(), 300);
    char device[] = "/tmp/dp-gpu-XXXXXX";
    struct dp_empty_result r;
    int fd = mkstemp(device); /* not closed by exec */
    pid_t hidden = start_process("leaderless");

    (void)state;
    close(fd);
    q.job_id++;
    dp_device_files_find(&q.devices, device);
    dp_empty_slot(&q, &r);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "has a device open"));
    end(hidden);
    q.timeout_ms = 60000; /* others of this user's may come and go so fast that a look has no result */
    dp_empty_slot(&q, &r);
    assert_true(r.gone);
    unlink(device);
}

/* ---- processes that are not there for long ---- */

/* Look again and again at one that is never not there. returns: how often it was not found, with nothing to say so. */
static unsigned count_misses(const char *how)
{
    static struct dp_proc_list list;
    struct dp_empty_job q = question(geteuid(), 0);
    uint64_t until_ns;
    unsigned misses = 0, looks = 0, n_unsure = 0;
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    start_as(how, geteuid(), fds[0], NULL);
    close(fds[0]);
    until_ns = dp_now_ns() + 3 * DP_SECOND_NS;
    for (; dp_now_ns() < until_ns; looks++) {
        dp_proc_scan(&q, &list);
        misses += list.n == 0 && !list.is_incomplete;
        n_unsure += list.n == 0 && list.is_incomplete;
    }
    print_message("# %s: %u looks, %u without a result (%s)\n", how, looks, n_unsure, list.why);
    close(fds[1]);
    do
        dp_proc_scan(&q, &list);
    while (list.n || list.is_incomplete);
    return misses;
}

static void one_that_goes_from_child_to_child_is_not_missed(void **state)
{
    unsigned misses;

    (void)state;
    signal(SIGCHLD, SIG_IGN); /* orphans come to us */
    misses = count_misses("hopper");
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(misses, 0);
}

static void one_that_begins_a_program_is_not_missed(void **state)
{
    (void)state;
    assert_int_equal(count_misses("storm"), 0);
}

/* The front of an environment is what its owner likes it to be. */
static void a_large_environment_is_read_to_its_end(void **state)
{
    static char large[100000];
    char *env[40], job_env[64];
    char *argv[] = {(char *)"test_proof", (char *)"plain", NULL};
    struct dp_empty_job q = question(geteuid(), 60000);
    struct rlimit stack = {64u << 20, RLIM_INFINITY};
    struct dp_empty_result r;
    int fds[2];
    pid_t pid;
    char byte;

    (void)state;
    memset(large, 'x', sizeof large - 1);
    memcpy(large, "A=", 2);
    snprintf(job_env, sizeof job_env, "SLURM_JOB_ID=%u", JOB);
    for (int i = 0; i < 20; i++)
        env[i] = large;
    env[20] = job_env;
    env[21] = NULL;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        setrlimit(RLIMIT_STACK, &stack);
        execve("/proc/self/exe", argv, env);
        _exit(1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    dp_empty_slot(&q, &r);
    assert_int_equal(r.n_polite, 1);
    assert_true(r.gone);
    assert_false(is_alive(pid));
}

/* ---- what may not be seen ---- */

static struct dp_empty_result *shared; /* with the process that looks */

/* As a process of its own looks, with other rights or limits than ours. */
static void look_in_child(const struct dp_empty_job *q, bool (*prepare)(void *arg), void *arg)
{
    int status;
    pid_t pid;

    memset(shared, 0, sizeof *shared);
    pid = fork();
    if (pid == 0) {
        if (!prepare(arg))
            _exit(77);
        dp_empty_slot(q, shared);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool become_owner(void *arg)
{
    (void)arg;
    return setresgid(OWNER, OWNER, OWNER) == 0 && setresuid(OWNER, OWNER, OWNER) == 0;
}

/* As the daemon's helper does it. */
static bool watch_as_owner(void *arg)
{
    const struct dp_rights owner = {OWNER, 65533, OWNER, NULL};
    struct dp_err err;

    (void)arg;
    return dp_rights_watch_as(&owner, &err) == 0;
}

static bool mount_hiding(void *arg)
{
    char options[32];

    snprintf(options, sizeof options, "hidepid=%s", (const char *)arg);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("proc", "/proc", "proc", 0, options) == 0;
}

static bool hide_and_become_owner(void *arg)
{
    return mount_hiding(arg) && become_owner(arg);
}

static bool hide_and_watch(void *arg)
{
    return mount_hiding(arg) && watch_as_owner(arg);
}

/* No descriptor is left but one: the list of processes can be read, and no process. */
static bool use_up_descriptors(void *arg)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit few;

    (void)arg;
    close(fd);
    few = (struct rlimit){(rlim_t)fd + 1, (rlim_t)fd + 1};
    return fd >= 0 && setrlimit(RLIMIT_NOFILE, &few) == 0;
}

#define NEEDS_ROOT() \
    do { \
        if (geteuid() != 0 || !dp_rights_trace_all()) \
            skip(); \
    } while (0)

static void what_may_not_be_read_is_no_proof(void **state)
{
    struct dp_empty_job q = question(OWNER, 300);
    pid_t pid;

    (void)state;
    NEEDS_ROOT();
    pid = start_as("closed", OWNER, -1, NULL);
    look_in_child(&q, become_owner, NULL);
    assert_false(shared->gone);
    assert_non_null(strstr(shared->text, "environ of pid"));
    assert_true(is_alive(pid));
    q.timeout_ms = 60000;
    look_in_child(&q, watch_as_owner, NULL); /* it may read it */
    assert_true(shared->gone);
    assert_int_equal(shared->n_polite, 1);
    assert_false(is_alive(pid));
    look_in_child(&q, become_owner, NULL);
    assert_true(shared->gone);
}

static void a_limit_that_is_reached_is_no_proof(void **state)
{
    struct dp_empty_job q = question(geteuid(), 300);
    pid_t pid = start_process("plain");

    (void)state;
    look_in_child(&q, use_up_descriptors, NULL);
    assert_false(shared->gone);
    assert_non_null(strstr(shared->text, "Too many open files"));
    assert_true(is_alive(pid));
    end(pid);
}

/* hidepid: whoever may not trace others does not see them, or sees that they are there and no more. */
static void hidden_processes_are_no_proof(void **state)
{
    static const char *const modes[] = {"1", "2", "4"};
    struct dp_empty_job q;
    pid_t pid;

    (void)state;
    NEEDS_ROOT();
    for (int i = 0; i < 3; i++) {
        q = question(OWNER, 300);
        pid = start_as("closed", OWNER, -1, NULL);
        look_in_child(&q, hide_and_become_owner, (void *)(uintptr_t)modes[i]);
        print_message("# hidepid=%s: %s\n", modes[i], shared->text);
        assert_false(shared->gone);
        assert_non_null(strstr(shared->text, "hidepid="));
        assert_true(is_alive(pid));
        q.timeout_ms = 60000;
        look_in_child(&q, hide_and_watch, (void *)(uintptr_t)modes[i]);
        assert_true(shared->gone);
        assert_int_equal(shared->n_polite, 1);
        assert_false(is_alive(pid));
    }
}

static int setup(void **state)
{
    int fd = mkstemp(lock_path);

    (void)state;
    close(fd);
    chmod(lock_path, 0666);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -1;
    /* Orphans come to us, so that none is left over as a zombie of somebody else. */
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int teardown(void **state)
{
    (void)state;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return unlink(lock_path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_without_its_first_thread_is_ended),
        cmocka_unit_test(its_device_is_seen),
        cmocka_unit_test(one_that_goes_from_child_to_child_is_not_missed),
        cmocka_unit_test(one_that_begins_a_program_is_not_missed),
        cmocka_unit_test(a_large_environment_is_read_to_its_end),
        cmocka_unit_test(what_may_not_be_read_is_no_proof),
        cmocka_unit_test(a_limit_that_is_reached_is_no_proof),
        cmocka_unit_test(hidden_processes_are_no_proof),
    };

    if (argc > 1)
        act(argv[1]);
    return cmocka_run_group_tests_name("proof", tests, setup, teardown);
}
