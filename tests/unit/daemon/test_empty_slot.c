/* SPDX-License-Identifier: BSD-3-Clause */
/* Emptying a slot: what belongs to (job, node) is ended and nothing else is, and there is no proof
 * while anything is left. Real processes, told apart by their environment as Slurm sets it. */
#include "config.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <stdbool.h>
#include <unistd.h>

#include "daemon/release/empty_slot.h"
#include "daemon/release/procscan.h"

/* A number that no other run of this test on the machine uses: the fence ends all of a job. */
#define JOB (1000000000u + 4u * (uint32_t)getpid())

static char lock_path[] = "/tmp/dp-fence-XXXXXX";

static const char *const socket_path = "/run/a.sock";
static const char *task_socket = "/run/a.sock"; /* what the next process is given */

/* The program runs itself as a process of a job: argv[1] says what it does about signals. */
static void act(const char *how)
{
    if (!strcmp(how, "stubborn"))
        signal(SIGTERM, SIG_IGN);
    if (!strcmp(how, "detached")) {
        pid_t parent = getpid();

        if (fork() > 0)
            _exit(0);
        setsid();
        while (getppid() == parent)
            sched_yield(); /* ready when the parent is gone */
    }
    if (!strcmp(how, "parent") && fork() == 0) {
        char *const argv[] = {(char *)"test_empty_slot", (char *)"child", NULL}, *const env[] = {NULL};

        execve("/proc/self/exe", argv, env); /* a child that says nothing about the job */
        _exit(1);
    }
    if (write(STDOUT_FILENO, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* Start one with a job and node in its environment; returns when it (and its child) runs. */
static pid_t start_process(const char *how, uint32_t job, const char *node)
{
    char job_env[64], node_env[64], socket_env[64];
    char *env[] = {job_env, node_env, socket_env, NULL};
    char *argv[] = {(char *)"test_empty_slot", (char *)(uintptr_t)how, NULL};
    int fds[2], n_ready = strcmp(how, "parent") ? 1 : 2;
    pid_t pid;
    char byte;

    snprintf(job_env, sizeof job_env, "SLURM_JOB_ID=%u", job);
    snprintf(node_env, sizeof node_env, "SLURMD_NODENAME=%s", node ? node : "");
    snprintf(socket_env, sizeof socket_env, "DYNPIPE_SOCKET=%s", task_socket);
    if (!node)
        env[1] = NULL;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execve("/proc/self/exe", argv, env);
        _exit(1);
    }
    close(fds[1]);
    while (n_ready-- > 0)
        assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    return pid;
}

static void run_fence(struct dp_empty_result *r, uint32_t grace_ms, uint32_t timeout_ms, bool is_shared)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = geteuid(), .is_shared_host = is_shared, .grace_ms = grace_ms,
                             .timeout_ms = timeout_ms};

    snprintf(q.node, sizeof q.node, "n1");
    snprintf(q.socket, sizeof q.socket, "%s", socket_path);
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    dp_empty_slot(&q, r);
}

/* A root-owned copy of sleep(1) under the name of Slurm's, run by another user as a process of the job. */
static pid_t start_as_slurmstepd(const char *path, uid_t uid)
{
    char job_env[64], *const env[] = {job_env, NULL}, *const argv[] = {(char *)"slurmstepd", (char *)"1000", NULL};
    int fds[2];
    pid_t pid;
    char byte;

    snprintf(job_env, sizeof job_env, "SLURM_JOB_ID=%u", JOB);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        if (setresuid(uid, uid, uid) == 0)
            execve(path, argv, env);
        _exit(write(fds[1], "x", 1) == 1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 0); /* closed by exec */
    close(fds[0]);
    return pid;
}

static void copy_program(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    char buf[4096];
    ssize_t n;

    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, buf, sizeof buf)) > 0)
        assert_int_equal(write(out, buf, (size_t)n), n);
    close(in);
    close(out);
    assert_int_equal(chmod(to, 0755), 0);
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

/* Slurm's slurmstepd is left alone; a user who runs it himself does not escape by that. */
static void a_users_own_slurmstepd_is_ended(void **state)
{
    char folder[] = "/tmp/dp-stepd-XXXXXX", path[64];
    struct dp_empty_job q = {.job_id = JOB, .uid = 65534, .timeout_ms = 60000};
    struct dp_empty_result r;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/slurmstepd", folder);
    copy_program("/bin/sleep", path);
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    pid = start_as_slurmstepd(path, q.uid);
    dp_empty_slot(&q, &r);
    assert_int_equal(r.n_polite, 1);
    assert_true(r.gone);
    assert_false(is_alive(pid));
    unlink(path);
    rmdir(folder);
}

static void empty_is_proved_at_once(void **state)
{
    struct dp_empty_result r;

    (void)state;
    run_fence(&r, 1000, 60000, true);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 0);
    assert_true(r.took_ns >= 200000000u && r.took_ns < 2000000000u);
    print_message("# proof of an empty slot: %.0f ms\n", (double)r.took_ns / 1e6);
}

static void ends_with_term(void **state)
{
    struct dp_empty_result r;
    pid_t pid = start_process("plain", JOB, "n1");

    (void)state;
    run_fence(&r, 50, 60000, true);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 1);
    assert_true(r.n_term >= 1);
    assert_int_equal(r.n_kill, 0);
    assert_false(is_alive(pid));
}

static void ends_the_stubborn_the_stopped_and_the_detached(void **state)
{
    struct dp_empty_result r;
    pid_t stubborn = start_process("stubborn", JOB, "n1"), stopped = start_process("stubborn", JOB, "n1");
    pid_t detached = start_process("detached", JOB, "n1"); /* its child lives on */

    (void)state;
    kill(stopped, SIGSTOP);
    run_fence(&r, 50, 60000, true);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 3);
    assert_true(r.n_kill >= 2);
    assert_false(is_alive(stubborn));
    assert_false(is_alive(stopped));
    assert_false(is_alive(detached));
    print_message("# two that ignore TERM, one detached: %.0f ms\n", (double)r.took_ns / 1e6);
}

static void ends_children_that_say_nothing(void **state)
{
    struct dp_empty_result r;
    pid_t parent = start_process("parent", JOB, "n1");

    (void)state;
    run_fence(&r, 50, 60000, true);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 2);
    assert_false(is_alive(parent));
}

static void leaves_others_alone(void **state)
{
    struct dp_empty_result r;
    pid_t other_job = start_process("plain", JOB + 1, "n1"), other_node = start_process("plain", JOB, "n2");
    pid_t client = start_process("plain", JOB, NULL); /* salloc's shell on the same machine */

    (void)state;
    run_fence(&r, 50, 60000, true);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 0);
    assert_true(is_alive(other_job));
    assert_true(is_alive(other_node));
    assert_true(is_alive(client));
    end(client);
    /* Where one slurmd has the machine, the name of the node in the environment proves nothing. */
    run_fence(&r, 50, 60000, false);
    assert_true(r.gone);
    assert_true(is_alive(other_job));
    assert_false(is_alive(other_node));
    end(other_job);
}

/* Two private Slurms of one user on one machine: the same job id, the same node name. */
static void leaves_another_cluster_alone(void **state)
{
    struct dp_empty_result r;
    pid_t pid;

    (void)state;
    task_socket = "/run/b.sock";
    pid = start_process("plain", JOB, "n1");
    task_socket = socket_path;
    run_fence(&r, 0, 60000, true);
    assert_true(r.gone);
    assert_true(is_alive(pid));
    run_fence(&r, 0, 60000, false); /* alone on its machine a daemon takes no such excuse */
    assert_true(r.gone);
    assert_false(is_alive(pid));
}

static void a_held_lock_is_no_proof(void **state)
{
    struct dp_empty_result r;
    int fd = open(lock_path, O_RDWR);

    (void)state;
    assert_int_equal(flock(fd, LOCK_EX), 0);
    run_fence(&r, 50, 400, true);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "device lock"));
    close(fd);
    run_fence(&r, 50, 60000, true);
    assert_true(r.gone);
}

/* What the process that listens says of a pid ends nobody; it only stands in the way of a proof. */
static void a_pid_that_is_only_named_is_not_hit(void **state)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = geteuid(), .grace_ms = 10, .timeout_ms = 60000, .n_workers = 1};
    struct dp_empty_result r;
    pid_t other = start_process("plain", JOB + 2, "n1");

    (void)state;
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    q.worker[0].pid = (uint32_t)other;
    q.worker[0].start_ticks = dp_process_start((uint32_t)other) + 1; /* another life of that number */
    dp_empty_slot(&q, &r);
    assert_true(r.gone);
    q.worker[0].start_ticks--;
    q.timeout_ms = 300;
    dp_empty_slot(&q, &r);
    assert_false(r.gone);
    assert_int_equal(r.n_term + r.n_kill, 0);
    assert_non_null(strstr(r.text, "registered, but nothing shows"));
    assert_true(is_alive(other));
    end(other);
    q.timeout_ms = 60000;
    dp_empty_slot(&q, &r);
    assert_true(r.gone);
}

/* A worker that says nothing of its job, but holds the lock that its owner alone can open. */
static void a_registered_worker_with_the_lock_is_ended(void **state)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = geteuid(), .timeout_ms = 60000, .n_workers = 1};
    struct dp_empty_result r;
    int fd = open(lock_path, O_RDONLY); /* not closed by exec */
    pid_t worker = start_process("plain", JOB + 2, "n1");

    (void)state;
    close(fd);
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    q.worker[0].pid = (uint32_t)worker;
    q.worker[0].start_ticks = dp_process_start((uint32_t)worker);
    dp_empty_slot(&q, &r);
    assert_true(r.gone);
    assert_false(is_alive(worker));
}

/* It left its job, environment and all, but has the node's GPU open: it may not be ended on that ground, for it
 * may be anything of the owner's, and the slot is not empty. */
static void a_held_device_is_no_proof(void **state)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = geteuid(), .timeout_ms = 300};
    char device[] = "/tmp/dp-gpu-XXXXXX", pattern[64];
    struct dp_empty_result r;
    int fd = mkstemp(device); /* not closed by exec */
    pid_t hidden = start_process("plain", JOB + 2, "n1");

    (void)state;
    close(fd);
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    snprintf(pattern, sizeof pattern, "/dev/nvidia[0-9]*, /tmp/dp-gp?-%s", device + strlen("/tmp/dp-gpu-"));
    dp_device_files_find(&q.devices, pattern);
    dp_empty_slot(&q, &r);
    assert_false(r.gone);
    assert_int_equal(r.n_term + r.n_kill, 0);
    assert_non_null(strstr(r.text, "has a device open"));
    assert_non_null(strstr(r.text, device));
    assert_true(is_alive(hidden));
    q.timeout_ms = 60000; /* others of this user's may come and go so fast that a look has no result */
    q.n_other_jobs = 1; /* it is of another job of the owner, which Slurm runs here, too */
    q.other_job[0] = JOB + 2;
    dp_empty_slot(&q, &r);
    assert_true(r.gone);
    q.n_other_jobs = 0;
    end(hidden);
    dp_empty_slot(&q, &r);
    assert_true(r.gone);
    unlink(device);
}

/* What Slurm says of the job, and who comes to life while it is asked for the first time. */
static enum dp_empty_life says_first, says_later;
static pid_t old_one, new_one;
static int n_asked;

static enum dp_empty_life ask(const struct dp_empty_job *q)
{
    (void)q;
    if (n_asked++)
        return says_later;
    while ((new_one = start_process("stubborn", JOB, "n1")) > 0 &&
           dp_process_start((uint32_t)new_one) == dp_process_start((uint32_t)old_one))
        end(new_one);
    return says_first;
}

static void run_asking(enum dp_empty_life first, enum dp_empty_life later, struct dp_empty_result *r)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = geteuid(), .ask = ask, .timeout_ms = 4000};

    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    says_first = first;
    says_later = later;
    n_asked = 0;
    old_one = start_process("stubborn", JOB, "n1");
    dp_empty_slot(&q, r);
}

/* The job comes back to this node while its old life is ended there: same id, same environment. */
static void the_next_life_is_left_alone(void **state)
{
    struct dp_empty_result r;

    (void)state;
    run_asking(DP_LIFE_SAME, DP_LIFE_OVER, &r);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "requeued"));
    assert_true(is_alive(new_one));
    end(new_one);
    end(old_one);
}

static void who_comes_late_is_ended_if_slurm_says_so(void **state)
{
    struct dp_empty_result r;

    (void)state;
    run_asking(DP_LIFE_SAME, DP_LIFE_SAME, &r);
    assert_true(r.gone);
    assert_false(is_alive(new_one));
    assert_false(is_alive(old_one));
    assert_int_equal(n_asked, 2);
}

static void nobody_new_is_ended_while_slurm_does_not_say(void **state)
{
    struct dp_empty_result r;

    (void)state;
    run_asking(DP_LIFE_SAME, DP_LIFE_UNKNOWN, &r);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "Slurm does not say"));
    assert_true(is_alive(new_one));
    assert_false(is_alive(old_one));
    assert_in_range(n_asked, 3, 4 + 4000 / 250);
    end(new_one);
}

/* ---- cgroups, laid out as Slurm does it, in a hierarchy of this test's own ---- */

static char hierarchy[64] = "/tmp/dp-cgroup-XXXXXX"; /* its root, mounted; empty: there is none here */
static char freezer[64] = "/tmp/dp-freezer-XXXXXX"; /* the same of version 1; empty: there is none here */
static char our_freezer[320];
static char our_group[320];                          /* the folder that is the root, seen from outside */
static char stepd_folder[] = "/tmp/dp-stepd-XXXXXX";

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    close(fd);
    return done;
}

/* Where a file system of that type, and with that option, is mounted; false: nowhere. */
static bool find_mount(const char *type, const char *option, char *point, size_t cap)
{
    FILE *f = fopen("/proc/mounts", "re");
    char line[512], where[256] = "";

    while (f && !*where && fgets(line, sizeof line, f))
        if (sscanf(line, "%*s %255s ", where) != 1 || !strstr(line, type) || !strstr(line, option))
            *where = '\0';
    if (f)
        fclose(f);
    snprintf(point, cap, "%s", where);
    return *where;
}

/* Make a folder of ours where that is mounted, and sit in it. */
static bool sit_in(const char *type, const char *option, char *group, size_t cap)
{
    char point[256], path[400], pid[16];

    if (geteuid() != 0 || !find_mount(type, option, point, sizeof point))
        return false;
    snprintf(group, cap, "%s/dp-test-%d", point, (int)getpid());
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    return mkdir(group, 0755) == 0 && write_text(path, pid);
}

/* Their own roots: what is made here is nobody else's, and Slurm's own folders are out of reach. */
static void enter_hierarchies(void)
{
    bool is_v2 = sit_in(" cgroup2 ", "", our_group, sizeof our_group) && mkdtemp(hierarchy);
    bool is_v1 = sit_in(" cgroup ", "freezer", our_freezer, sizeof our_freezer) && mkdtemp(freezer);
    bool is_ours = (is_v1 || is_v2) && unshare(CLONE_NEWCGROUP | CLONE_NEWNS) == 0 &&
                   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;

    if (!is_ours || !is_v2 || mount("none", hierarchy, "cgroup2", 0, NULL) < 0)
        hierarchy[0] = '\0';
    if (!is_ours || !is_v1 || mount("none", freezer, "cgroup", 0, "freezer") < 0)
        freezer[0] = '\0';
}

/* root: hierarchy or freezer. */
static void make_group_in(const char *root, const char *path)
{
    char all[512];

    for (const char *p = path; *p; p += *p == '/') {
        p += strcspn(p, "/");
        snprintf(all, sizeof all, "%s/%.*s", root, (int)(p - path), path);
        assert_true(mkdir(all, 0755) == 0 || errno == EEXIST);
    }
}

static void remove_groups_in(const char *root, const char *path)
{
    char all[512];

    for (size_t n = strlen(path); n > 0; n--)
        if (!path[n] || path[n] == '/') {
            snprintf(all, sizeof all, "%s/%.*s", root, (int)n, path);
            rmdir(all); /* others may be in it */
        }
}

static void remove_groups(const char *path)
{
    remove_groups_in(hierarchy, path);
}

/* A process in that folder, of a uid, without an environment and in a session of its own; argv[0]: its title. */
static pid_t start_below(const char *root, const char *group, uid_t uid, const char *program, const char *title)
{
    char *const env[] = {NULL}, *const argv[] = {(char *)(uintptr_t)title, (char *)"1000", NULL};
    char path[600], pid_text[16];
    int fds[2];
    pid_t pid;
    char byte;

    make_group_in(root, group);
    snprintf(path, sizeof path, "%s/%s/cgroup.procs", root, group);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        snprintf(pid_text, sizeof pid_text, "%d", (int)getpid());
        setsid();
        if (write_text(path, pid_text) && setresuid(uid, uid, uid) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
            freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr))
            execve(program, argv, env);
        _exit(write(fds[1], "x", 1) == 1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 0); /* closed by exec */
    close(fds[0]);
    return pid;
}

static pid_t start_in(const char *group, uid_t uid, const char *program, const char *title)
{
    return start_below(hierarchy, group, uid, program, title);
}

/* The step daemon of a step, where Slurm has it. */
static pid_t start_stepd(const char *step, uint32_t job)
{
    char program[64], title[64], group[256];

    snprintf(program, sizeof program, "%s/slurmstepd", stepd_folder);
    snprintf(title, sizeof title, "slurmstepd: [%u.0]", job);
    snprintf(group, sizeof group, "%s/slurm", step);
    return start_in(group, 0, program, title);
}

static pid_t start_task(const char *step, uid_t uid)
{
    char group[256];

    snprintf(group, sizeof group, "%s/user/task_0", step);
    return start_in(group, uid, "/bin/sleep", "sleep");
}

static void remove_step(const char *step)
{
    char group[256];

    snprintf(group, sizeof group, "%s/slurm", step);
    remove_groups(group);
    snprintf(group, sizeof group, "%s/user/task_0", step);
    remove_groups(group);
}

#define OWNER 65534

static void run_on_node(struct dp_empty_result *r, bool is_shared, uint32_t timeout_ms)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = OWNER, .is_shared_host = is_shared, .grace_ms = 50, .timeout_ms = timeout_ms};

    snprintf(q.node, sizeof q.node, "n1");
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    dp_empty_slot(&q, r);
}

static int n_said;

static enum dp_empty_life say_requeued(const struct dp_empty_job *q)
{
    (void)q;
    n_said++;
    return DP_LIFE_OVER;
}

#define NEEDS_CGROUPS() \
    do { \
        if (!hierarchy[0]) \
            skip(); \
    } while (0)

/* Nothing says whose they are but the folder: of the owner, and of a uid that he got from a user name space. */
static void what_left_its_environment_and_its_uid_is_ended(void **state)
{
    char step[128];
    struct dp_empty_result r;
    pid_t stepd, owners, others;

    (void)state;
    NEEDS_CGROUPS();
    snprintf(step, sizeof step, "system.slice/n1_slurmstepd.scope/job_%u/step_0", JOB);
    for (int shared = 0; shared < 2; shared++) {
        stepd = start_stepd(step, JOB);
        owners = start_task(step, OWNER);
        others = start_task(step, 165536);
        run_on_node(&r, shared, 60000);
        assert_true(r.gone);
        assert_true(r.n_group_kill >= 1);
        assert_non_null(strstr(r.text, " cgroup=empty "));
        assert_false(is_alive(owners));
        assert_false(is_alive(others));
        assert_true(is_alive(stepd)); /* ends by itself, and the step with it where there are more nodes */
        end(stepd);
        remove_step(step);
    }
}

/* Slurm 26.05 names the folder by an id that changes with every shrink: its step daemons show where it is. */
static void folders_that_do_not_name_the_job_are_found(void **state)
{
    const char *step = "system.slice/slurmstepd.scope/s0EKNKTV3WPV50/step_0";
    const char *other = "system.slice/slurmstepd.scope/s0EKNKTV3WPV51/step_0";
    struct dp_empty_result r;
    pid_t stepd, task, other_stepd, other_task;

    (void)state;
    NEEDS_CGROUPS();
    stepd = start_stepd(step, JOB);
    task = start_task(step, OWNER);
    other_stepd = start_stepd(other, JOB + 1);
    other_task = start_task(other, OWNER);
    run_on_node(&r, false, 60000);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 1);
    assert_false(is_alive(task));
    assert_true(is_alive(stepd) && is_alive(other_stepd) && is_alive(other_task));
    end(stepd);
    end(other_stepd);
    end(other_task);
    remove_step(step);
    remove_step(other);
}

/* The next life's folders have the same names: whoever is in them is not ended before Slurm was asked. */
static void cgroups_of_the_next_life_are_left_alone(void **state)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = OWNER, .ask = say_requeued, .timeout_ms = 4000};
    struct dp_empty_result r;
    char step[128];
    pid_t task;

    (void)state;
    NEEDS_CGROUPS();
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    snprintf(step, sizeof step, "system.slice/slurmstepd.scope/job_%u/step_0", JOB);
    task = start_task(step, 165536);
    dp_empty_slot(&q, &r);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "requeued"));
    assert_int_equal(n_said, 1);
    assert_true(is_alive(task));
    end(task);
    remove_step(step);
}

/* A step daemon that was killed leaves its tasks and its folder. */
static void tasks_without_a_step_daemon_are_ended(void **state)
{
    char step[128];
    struct dp_empty_result r;
    pid_t task;

    (void)state;
    NEEDS_CGROUPS();
    snprintf(step, sizeof step, "system.slice/slurmstepd.scope/job_%u/step_4294967294", JOB);
    task = start_task(step, 165536);
    run_on_node(&r, false, 60000);
    assert_true(r.gone);
    assert_false(is_alive(task));
    remove_step(step);
}

/* Folders that only look alike: of another node, another Slurm's, of a process that is no step daemon of root's, and
 * the step in which Slurm itself has a process. */
static void what_is_not_a_folder_of_the_job_is_left_alone(void **state)
{
    char other_node[128], other_slurm[128], forged[128], external[128], program[64], title[64], group[160];
    struct dp_empty_result r;
    pid_t stepd[3], task[4], liar;

    (void)state;
    NEEDS_CGROUPS();
    snprintf(other_node, sizeof other_node, "system.slice/n2_slurmstepd.scope/job_%u/step_0", JOB);
    snprintf(other_slurm, sizeof other_slurm, "box/system.slice/n1_slurmstepd.scope/job_%u/step_0", JOB);
    snprintf(forged, sizeof forged, "user.slice/slurmstepd.scope/s0EKNKTV3WPV52/step_0");
    snprintf(external, sizeof external, "system.slice/n1_slurmstepd.scope/job_%u/step_extern", JOB);
    stepd[0] = start_stepd(other_node, JOB);
    stepd[1] = start_stepd(other_slurm, JOB);
    stepd[2] = start_stepd(external, JOB);
    task[0] = start_task(other_node, 165536);
    task[1] = start_task(other_slurm, 165536);
    task[2] = start_task(external, 0);
    task[3] = start_task(forged, 165536);
    snprintf(program, sizeof program, "%s/slurmstepd", stepd_folder); /* run by a user, who calls himself so */
    snprintf(title, sizeof title, "slurmstepd: [%u.0]", JOB);
    snprintf(group, sizeof group, "%s/slurm", forged);
    liar = start_in(group, OWNER, program, title);
    run_on_node(&r, true, 60000);
    assert_true(r.gone);
    assert_int_equal(r.n_group_kill, 0);
    for (int i = 0; i < 4; i++)
        assert_true(is_alive(task[i]));
    for (int i = 0; i < 3; i++)
        end(stepd[i]);
    for (int i = 0; i < 4; i++)
        end(task[i]);
    end(liar);
    remove_step(other_node);
    remove_step(other_slurm);
    remove_step(external);
    remove_step(forged);
}

/* Folders of somebody else's are not gone by, nor is what cannot be read taken for empty. */
static void a_folder_of_a_users_is_none_of_slurms(void **state)
{
    char step[128], path[256];
    struct dp_empty_result r;
    pid_t task;

    (void)state;
    NEEDS_CGROUPS();
    snprintf(step, sizeof step, "system.slice/slurmstepd.scope/job_%u/step_0", JOB);
    task = start_task(step, 165536);
    snprintf(path, sizeof path, "%s/%s/user", hierarchy, step);
    assert_int_equal(chown(path, OWNER, OWNER), 0);
    run_on_node(&r, false, 300);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "1 cgroups not empty: /system.slice/slurmstepd.scope/job_"));
    assert_true(is_alive(task));
    assert_int_equal(chown(path, 0, 0), 0);
    run_on_node(&r, false, 60000);
    assert_true(r.gone);
    assert_false(is_alive(task));
    remove_step(step);
}

/* ---- frozen ones, and version 1 ---- */

static void set_state(const char *root, const char *group, const char *file, const char *text)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s/%s", root, group, file);
    assert_true(write_text(path, text));
}

static void wait_for_state(const char *root, const char *group, const char *file, const char *wanted)
{
    char path[400], text[256];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/%s/%s", root, group, file);
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = read(fd, text, sizeof text - 1);
        close(fd);
        text[n > 0 ? n : 0] = '\0';
    } while (!strstr(text, wanted));
}

static void frozen_ones_of_version_2_are_ended(void **state)
{
    char step[128], group[160];
    struct dp_empty_result r;
    pid_t task;

    (void)state;
    NEEDS_CGROUPS();
    snprintf(step, sizeof step, "system.slice/slurmstepd.scope/job_%u/step_0", JOB);
    snprintf(group, sizeof group, "%s/user", step);
    task = start_task(step, 165536);
    set_state(hierarchy, group, "cgroup.freeze", "1");
    wait_for_state(hierarchy, group, "cgroup.events", "frozen 1");
    run_on_node(&r, false, 60000);
    assert_true(r.gone);
    assert_false(is_alive(task));
    remove_step(step);
}

#define NEEDS_FREEZER() \
    do { \
        if (!freezer[0]) \
            skip(); \
    } while (0)

static void v1_group(char *out, size_t cap, const char *base, uint32_t job, const char *more)
{
    snprintf(out, cap, "%s/uid_%u/job_%u%s", base, OWNER, job, more);
}

/* Of the owner, and of a uid that he got from a user name space; the step daemon that sits there, too, is left alone. */
static void whoever_is_in_a_cgroup_of_version_1_is_ended(void **state)
{
    char program[64], title[64], step[128], task[128];
    struct dp_empty_result r;
    pid_t stepd, owners, others;

    (void)state;
    NEEDS_FREEZER();
    snprintf(program, sizeof program, "%s/slurmstepd", stepd_folder);
    snprintf(title, sizeof title, "slurmstepd: [%u.0]", JOB);
    for (int shared = 0; shared < 2; shared++) {
        v1_group(step, sizeof step, shared ? "slurm_n1" : "slurm", JOB, "/step_0");
        v1_group(task, sizeof task, shared ? "slurm_n1" : "slurm", JOB, "/step_0/task_0");
        stepd = start_below(freezer, step, 0, program, title);
        owners = start_below(freezer, task, OWNER, "/bin/sleep", "sleep");
        others = start_below(freezer, task, 165536, "/bin/sleep", "sleep");
        run_on_node(&r, shared, 60000);
        assert_true(r.gone);
        assert_int_equal(r.n_polite, 2);
        assert_non_null(strstr(r.text, " cgroup=empty "));
        assert_false(is_alive(owners));
        assert_false(is_alive(others));
        assert_true(is_alive(stepd));
        end(stepd);
        remove_groups_in(freezer, task);
    }
}

/* Whichever of the job's folders it is that was frozen. */
static void frozen_ones_of_version_1_are_ended(void **state)
{
    static const char *const where[] = {"", "/step_0", "/step_0/task_0"};
    struct dp_empty_result r;
    char frozen[128], task[128];
    pid_t pid;

    (void)state;
    NEEDS_FREEZER();
    v1_group(task, sizeof task, "slurm", JOB, "/step_0/task_0");
    for (int i = 0; i < 3; i++) {
        v1_group(frozen, sizeof frozen, "slurm", JOB, where[i]);
        pid = start_below(freezer, task, OWNER, "/bin/sleep", "sleep");
        set_state(freezer, frozen, "freezer.state", "FROZEN");
        wait_for_state(freezer, task, "freezer.state", "FROZEN");
        run_on_node(&r, false, 60000);
        assert_true(r.gone);
        assert_true(r.n_kill >= 1);
        assert_false(is_alive(pid));
        remove_groups_in(freezer, task);
    }
}

static void frozen_ones_of_the_next_life_stay_frozen(void **state)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = OWNER, .ask = say_requeued, .timeout_ms = 10000};
    struct dp_empty_result r;
    char task[128];
    pid_t pid;

    (void)state;
    NEEDS_FREEZER();
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    v1_group(task, sizeof task, "slurm", JOB, "/step_0/task_0");
    pid = start_below(freezer, task, OWNER, "/bin/sleep", "sleep");
    set_state(freezer, task, "freezer.state", "FROZEN");
    wait_for_state(freezer, task, "freezer.state", "FROZEN");
    dp_empty_slot(&q, &r);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, "requeued"));
    wait_for_state(freezer, task, "freezer.state", "FROZEN");
    set_state(freezer, task, "freezer.state", "THAWED");
    assert_true(is_alive(pid));
    end(pid);
    remove_groups_in(freezer, task);
}

/* Of another job, another node, a folder of a user's, and a guest of sshd's of another uid. */
static void other_cgroups_of_version_1_are_left_alone(void **state)
{
    char group[4][128], path[256];
    struct dp_empty_result r;
    pid_t pid[4];

    (void)state;
    NEEDS_FREEZER();
    v1_group(group[0], sizeof group[0], "slurm_n1", JOB + 1, "/step_0");
    v1_group(group[1], sizeof group[1], "slurm_n2", JOB, "/step_0");
    v1_group(group[2], sizeof group[2], "slurm_n1", JOB, "/step_extern");
    v1_group(group[3], sizeof group[3], "slurm", JOB, "/step_0");
    for (int i = 0; i < 4; i++)
        pid[i] = start_below(freezer, group[i], 165536, "/bin/sleep", "sleep");
    run_on_node(&r, true, 60000);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 0);
    snprintf(path, sizeof path, "%s/slurm", freezer);
    assert_int_equal(chown(path, OWNER, OWNER), 0);
    run_on_node(&r, false, 60000);
    assert_true(r.gone);
    assert_int_equal(r.n_polite, 0);
    for (int i = 0; i < 4; i++) {
        assert_true(is_alive(pid[i]));
        end(pid[i]);
        remove_groups_in(freezer, group[i]);
    }
}

static int setup(void **state)
{
    char program[64];
    int fd = mkstemp(lock_path);

    (void)state;
    close(fd);
    if (!mkdtemp(stepd_folder) || chmod(stepd_folder, 0755) < 0)
        return -1;
    snprintf(program, sizeof program, "%s/slurmstepd", stepd_folder);
    copy_program("/bin/sleep", program);
    enter_hierarchies();
    /* Orphans come to us, so that none is left over as a zombie of somebody else. */
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Back to where we came from, so that the folder can go. */
static void leave_hierarchy(const char *mounted, const char *group)
{
    char path[400], pid[16];

    if (!mounted[0])
        return;
    snprintf(path, sizeof path, "%.300s/../cgroup.procs", group);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    write_text(path, pid);
    umount2(mounted, MNT_DETACH);
    rmdir(mounted);
    rmdir(group);
}

static int teardown(void **state)
{
    char program[64];

    (void)state;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    snprintf(program, sizeof program, "%s/slurmstepd", stepd_folder);
    unlink(program);
    rmdir(stepd_folder);
    leave_hierarchy(hierarchy, our_group);
    leave_hierarchy(freezer, our_freezer);
    return unlink(lock_path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_proved_at_once),
        cmocka_unit_test(a_users_own_slurmstepd_is_ended),
        cmocka_unit_test(ends_with_term),
        cmocka_unit_test(ends_the_stubborn_the_stopped_and_the_detached),
        cmocka_unit_test(ends_children_that_say_nothing),
        cmocka_unit_test(leaves_others_alone),
        cmocka_unit_test(leaves_another_cluster_alone),
        cmocka_unit_test(a_held_lock_is_no_proof),
        cmocka_unit_test(a_pid_that_is_only_named_is_not_hit),
        cmocka_unit_test(a_registered_worker_with_the_lock_is_ended),
        cmocka_unit_test(a_held_device_is_no_proof),
        cmocka_unit_test(the_next_life_is_left_alone),
        cmocka_unit_test(who_comes_late_is_ended_if_slurm_says_so),
        cmocka_unit_test(nobody_new_is_ended_while_slurm_does_not_say),
        cmocka_unit_test(what_left_its_environment_and_its_uid_is_ended),
        cmocka_unit_test(folders_that_do_not_name_the_job_are_found),
        cmocka_unit_test(cgroups_of_the_next_life_are_left_alone),
        cmocka_unit_test(tasks_without_a_step_daemon_are_ended),
        cmocka_unit_test(what_is_not_a_folder_of_the_job_is_left_alone),
        cmocka_unit_test(a_folder_of_a_users_is_none_of_slurms),
        cmocka_unit_test(frozen_ones_of_version_2_are_ended),
        cmocka_unit_test(whoever_is_in_a_cgroup_of_version_1_is_ended),
        cmocka_unit_test(frozen_ones_of_version_1_are_ended),
        cmocka_unit_test(frozen_ones_of_the_next_life_stay_frozen),
        cmocka_unit_test(other_cgroups_of_version_1_are_left_alone),
    };

    if (argc > 1)
        act(argv[1]);
    return cmocka_run_group_tests_name("fence", tests, setup, teardown);
}
