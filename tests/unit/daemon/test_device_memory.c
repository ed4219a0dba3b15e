/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cards as part of the proof that a slot is empty, with a library that stands in for NVIDIA's: what it says of
 * memory and processes, its errors, and that it hangs. Processes and /proc are real. */
#include "config.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/release/device_memory.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/privileged.h"
#include "daemon/release/procscan.h"
#include "tests/lib/nvml_script.h"

/* A number that no other run of this test on the machine uses. */
#define JOB (1500000000u + 4u * (uint32_t)getpid())
#define OWNER 65534 /* nobody */
#define MIB (1ull << 20)
#define NVIDIA 195u

static char script_path[] = "/tmp/dp-nvml-XXXXXX", lock_path[] = "/tmp/dp-nvml-lock-XXXXXX";
static char whole[512], old[512], bare[512];
static struct nvml_script *script;
static struct dp_empty_result r;

/* A process of a user, as a process of a job; returns when it runs. */
static pid_t start_as(uid_t uid, uint32_t job)
{
    char job_env[64], *const env[] = {job_env, NULL}, *const argv[] = {(char *)"test_device_memory", (char *)"wait", NULL};
    int fds[2];
    pid_t pid;
    char byte;

    snprintf(job_env, sizeof job_env, "SLURM_JOB_ID=%u", job);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        if (setresuid(uid, uid, uid) == 0)
            execve("/proc/self/exe", argv, env);
        _exit(1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static struct dp_device_files files_of(uint32_t n)
{
    struct dp_device_files files = {.n = n + 1};

    for (uint32_t i = 0; i < n; i++) {
        files.number[i][0] = NVIDIA;
        files.number[i][1] = i;
    }
    files.number[n][0] = NVIDIA;
    files.number[n][1] = 255; /* nvidiactl */
    return files;
}

/* As slot.c and empty_slot_job.c do it. */
static void prove(const char *library, uint32_t n_cards, struct dp_cards_before before, uint32_t other_job, uint32_t timeout_ms)
{
    struct dp_device_files files = files_of(n_cards);
    struct dp_empty_job q = {.job_id = JOB, .uid = OWNER, .timeout_ms = timeout_ms, .before = before, .n_other_jobs = other_job != 0,
                             .other_job = {other_job}};
    struct dp_looker looker;

    snprintf(q.node, sizeof q.node, "n1");
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    dp_looker_start(&looker, library, &files, (struct dp_hung){0}, 60);
    q.looker = &looker;
    dp_empty_slot(&q, &r);
    dp_looker_end(&looker);
    if (looker.pid > 0)
        waitpid(looker.pid, NULL, 0);
}

static struct dp_cards_before look_before(const char *library, uint32_t n_cards)
{
    struct dp_device_files files = files_of(n_cards);
    struct dp_cards_before before = {0};
    static struct dp_cards cards;
    struct dp_looker looker;

    dp_looker_start(&looker, library, &files, (struct dp_hung){0}, 60);
    dp_looker_look(&looker, 60000, &cards);
    dp_cards_keep(&before, &cards);
    dp_looker_end(&looker);
    if (looker.pid > 0)
        waitpid(looker.pid, NULL, 0);
    return before;
}

static int begin(void **state)
{
    (void)state;
    memset(script, 0, sizeof *script);
    script->n_cards = 1;
    script->card[0].used = 500 * MIB;
    return 0;
}

/* Who is not root cannot have processes of others. */
static void need_root(void)
{
    if (geteuid() != 0)
        skip();
}

static void assert_held(const char *why)
{
    if (r.gone || !strstr(r.text, why))
        print_error("%s\n", r.text);
    assert_false(r.gone);
    assert_non_null(strstr(r.text, why));
}

static void assert_gone(const char *word)
{
    char want[80];
    const char *at;

    snprintf(want, sizeof want, " device_memory=%s", word);
    at = strstr(r.text, want);
    if (!r.gone || !at)
        print_error("%s\n", r.text);
    assert_true(r.gone);
    assert_non_null(at);
    assert_true(at[strlen(want)] == '\0' || at[strlen(want)] == ',');
}

static void memory_that_is_back_is_a_proof(void **state)
{
    struct dp_cards_before before = look_before(whole, 1);

    (void)state;
    assert_int_equal(before.n, 1);
    assert_int_equal(before.card[0].used, 500 * MIB);
    script->card[0].used += DP_CARDS_TOLERANCE;
    script->n_reads = 0;
    prove(whole, 1, before, 0, 60000);
    assert_gone("back:1,processes:0,unseen:0");
    assert_int_equal(script->n_reads, 2); /* two samples */
}

/* A process that was killed in the middle of something leaves memory behind: nobody is seen, and the card is not free. */
static void memory_that_does_not_come_back_holds_the_slot(void **state)
{
    struct dp_cards_before before = look_before(whole, 1);

    (void)state;
    script->card[0].used += DP_CARDS_TOLERANCE + MIB;
    prove(whole, 1, before, 0, 600);
    assert_held("0 processes left, device memory nvidia0: 565 MiB in use, 500 before the run, and no process is on it");
    assert_true(script->n_reads > 3); /* it was looked at again and again */
}

static void memory_that_comes_back_late_is_waited_for(void **state)
{
    struct dp_cards_before before = look_before(whole, 1);

    (void)state;
    script->card[0].used_then = script->card[0].used;
    script->card[0].used = 70000 * MIB;
    script->card[0].n_before_then = 6;
    prove(whole, 1, before, 0, 60000);
    assert_gone("back:1,processes:0,unseen:0");
    assert_true(script->n_reads >= 7);
}

/* The first sample is good, and the second one is not: the driver told too early. */
static void one_sample_is_not_enough(void **state)
{
    struct dp_cards_before before = look_before(whole, 1);

    (void)state;
    script->n_reads = 0;
    script->card[0].n_before_then = 1;
    script->card[0].used_then = 9000 * MIB;
    prove(whole, 1, before, 0, 600);
    assert_held("9000 MiB in use");
}

/* It has unmapped all that /proc shows: the driver knows that it is there. */
static void a_process_of_the_owners_on_a_card_holds_the_slot(void **state)
{
    struct dp_cards_before before = look_before(whole, 1);
    pid_t hidden;
    char why[80];

    (void)state;
    need_root();
    hidden = start_as(OWNER, JOB + 1);
    script->card[0].n_pids = 1;
    script->card[0].pid[0] = (uint32_t)hidden;
    prove(whole, 1, before, 0, 600);
    snprintf(why, sizeof why, "nvidia0: pid %d, which is the owner's, is on it", (int)hidden);
    assert_held(why);
    assert_int_equal(waitpid(hidden, NULL, WNOHANG), 0); /* and nobody ends it */
    prove(whole, 1, before, JOB + 1, 60000);             /* but for one of another job of his here */
    assert_gone("back:0,processes:1,unseen:0");
    end(hidden);
    prove(whole, 1, before, 0, 600);
    assert_held("which has ended, is on it");
}

/* On a card that others use, too, what is in use is theirs; so it is where nobody looked before the run. */
static void others_on_a_card_are_counted_by_processes(void **state)
{
    struct dp_cards_before before = look_before(whole, 1), none = {0};
    pid_t others;

    (void)state;
    need_root();
    others = start_as(OWNER - 1, JOB + 1);
    script->card[0].used = 40000 * MIB;
    script->card[0].n_pids = 1;
    script->card[0].pid[0] = (uint32_t)others;
    assert_int_equal(look_before(whole, 1).n, 0);
    prove(whole, 1, before, 0, 60000);
    assert_gone("back:0,processes:1,unseen:0");
    end(others);
    script->card[0].n_pids = 0;
    prove(whole, 1, none, 0, 60000);
    assert_gone("back:0,processes:1,unseen:0");
}

/* Of several, each by itself: cards in parts are not looked at, nor cards that are no device file's; what a card of the
 * host's memory has in use says nothing. */
static void each_card_is_judged_by_itself(void **state)
{
    struct dp_cards_before before;

    (void)state;
    script->n_cards = 4;
    for (unsigned i = 0; i < 4; i++)
        script->card[i] = script->card[0];
    for (unsigned i = 0; i < 4; i++)
        script->card[i].minor = 3 - i; /* indices are not minor numbers */
    script->card[1].is_mig = 1;        /* nvidia2 */
    script->card[2].is_numa = 1;       /* nvidia1 */
    before = look_before(whole, 3);
    assert_int_equal(before.n, 1);
    assert_int_equal(before.card[0].minor, 0);
    script->card[0].used = script->card[1].used = script->card[2].used = 70000 * MIB;
    prove(whole, 3, before, 0, 60000);
    assert_gone("back:1,processes:1,unseen:1");
    before = look_before(whole, 4);
    assert_int_equal(before.n, 2);
    script->card[0].used += 70000 * MIB;
    prove(whole, 4, before, 0, 600);
    assert_held("nvidia3: 140000 MiB in use, 70000 before");
    script->n_cards = 2; /* nvidia0 has fallen off the bus */
    prove(whole, 1, before, 0, 600);
    assert_held("the driver does not see it any more");
}

static void errors_hold_the_slot(void **state)
{
    struct dp_cards_before before = look_before(whole, 1), none = {0};

    (void)state;
    script->card[0].memory = 15;
    prove(whole, 1, before, 0, 600);
    assert_held("nvidia0: nvmlDeviceGetMemoryInfo: error 15 (GPU is lost)");
    assert_true(script->n_inits > 2); /* begun anew each time */
    script->card[0].memory = 0;
    script->card[0].list = 999;
    prove(whole, 1, none, 0, 600);
    assert_held("nvidia0: nvmlDeviceGetComputeRunningProcesses: error 999");
    script->card[0].list = 0;
    script->handle = 15;
    prove(whole, 1, none, 0, 600);
    assert_held("nvmlDeviceGetHandleByIndex_v2: error 15");
    script->handle = 0;
    script->init = 9;
    prove(whole, 1, none, 0, 600);
    assert_held("nvmlInit_v2: error 9");
    prove(whole, 1, (struct dp_cards_before){.is_shut = true}, 0, 60000); /* it was so before the run */
    assert_gone("not_looked_at");
    assert_non_null(strstr(r.text, "nvmlInit_v2: error 9"));
    before.is_shut = true; /* in its second look only */
    prove(whole, 1, before, 0, 600);
    assert_held("looked at before the run, and not now: nvmlInit_v2");
    script->init = 0;
    script->card[0].n_pids = 1; /* an entry that we read wrongly, or a process of another name space */
    prove(whole, 1, none, 0, 600);
    assert_held("a process without a number");
    script->card[0].n_pids = NVML_PIDS;
    for (unsigned i = 0; i < NVML_PIDS; i++)
        script->card[0].pid[i] = 1 + i;
    prove(whole, 1, none, 0, 600);
    assert_held("more than 64 processes");
}

/* A driver that does not say who is on a card. */
static void a_card_that_is_kept_dark_is_told(void **state)
{
    struct dp_cards_before none = {0};

    (void)state;
    script->card[0].list = 3;
    assert_int_equal(look_before(whole, 1).n, 0);
    prove(whole, 1, none, 0, 60000);
    assert_gone("back:0,processes:0,unseen:1");
}

static void a_driver_that_hangs_holds_the_slot(void **state)
{
    struct dp_device_files files = files_of(1);
    struct dp_cards_before before = look_before(whole, 1);
    static struct dp_cards cards;
    struct dp_looker looker;
    pid_t stuck;

    (void)state;
    script->hangs = 1;
    prove(whole, 1, before, 0, 600);
    assert_held("the driver's library (NVML) does not answer: pid");
    assert_true(r.hung.pid != 0);
    assert_true(r.took_ns < 30000000000u);
    script->hangs = 0;
    script->dies = 1;
    prove(whole, 1, before, 0, 600);
    assert_held("the process that asks NVML has ended");
    script->dies = 0;
    /* As long as the one lives, no second one is made to hang. */
    stuck = start_as(geteuid(), JOB + 1);
    dp_looker_start(&looker, whole, &files, (struct dp_hung){(uint32_t)stuck, dp_process_start((uint32_t)stuck)}, 60);
    assert_int_equal(looker.pid, 0);
    dp_looker_look(&looker, 60000, &cards);
    assert_int_equal(cards.state, DP_CARDS_FAILED);
    end(stuck);
    dp_looker_start(&looker, whole, &files, looker.hung, 60);
    assert_true(looker.pid > 0);
    dp_looker_look(&looker, 60000, &cards);
    assert_int_equal(cards.state, DP_CARDS_SEEN);
    dp_looker_end(&looker);
    waitpid(looker.pid, NULL, 0);
}

/* Where the daemon runs as the owner, who asks the driver is a process of his that has a card open. */
static void who_asks_is_in_nobodys_way(void **state)
{
    struct dp_empty_job q = {.job_id = JOB, .uid = geteuid(), .timeout_ms = 60000};
    struct dp_looker looker;

    (void)state;
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    q.devices = files_of(1);
    snprintf(q.devices.patterns, sizeof q.devices.patterns, "%s", script_path); /* which the library has open */
    dp_looker_start(&looker, whole, &q.devices, (struct dp_hung){0}, 60);
    q.looker = &looker;
    dp_empty_slot(&q, &r);
    assert_gone("back:0,processes:1,unseen:0");
    dp_looker_end(&looker);
    waitpid(looker.pid, NULL, 0);
}

/* Processes are ended all the same, and only then it is said that memory cannot be asked about. */
static void who_is_left_is_ended_while_a_driver_hangs(void **state)
{
    struct dp_device_files files = files_of(1);
    struct dp_empty_job q = {.job_id = JOB, .uid = OWNER, .timeout_ms = 60000};
    pid_t stuck, worker;
    struct dp_looker looker;

    (void)state;
    need_root();
    stuck = start_as(geteuid(), JOB + 1);
    worker = start_as(OWNER, JOB);
    snprintf(q.lock_path, sizeof q.lock_path, "%s", lock_path);
    dp_looker_start(&looker, whole, &files, (struct dp_hung){(uint32_t)stuck, dp_process_start((uint32_t)stuck)}, 60);
    q.looker = &looker;
    dp_empty_slot(&q, &r);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    assert_held("does not answer");
    assert_true(r.took_ns < 30000000000u);
    end(stuck);
}

/* A job is not held because of a library that never was there; what was looked at before it, is. */
static void without_a_library_all_is_as_before(void **state)
{
    struct dp_cards_before before = look_before(whole, 1), none = {0};

    (void)state;
    prove("/nowhere/libnvidia-ml.so.1", 1, none, 0, 60000);
    assert_gone("not_looked_at");
    assert_non_null(strstr(r.text, "/nowhere/libnvidia-ml.so.1: cannot open"));
    prove(bare, 1, none, 0, 60000);
    assert_gone("not_looked_at");
    assert_non_null(strstr(r.text, "has no nvmlDeviceGetMemoryInfo"));
    prove(whole, 0, none, 0, 60000);
    assert_gone("not_looked_at");
    assert_non_null(strstr(r.text, "no card of NVIDIA's is seen"));
    assert_int_equal(script->n_inits, 1);
    prove("/nowhere/libnvidia-ml.so.1", 1, before, 0, 600);
    assert_held("looked at before the run, and not now");
}

static void an_old_driver_is_understood(void **state)
{
    struct dp_cards_before before = look_before(old, 1);
    pid_t others[2];

    (void)state;
    need_root();
    for (int i = 0; i < 2; i++)
        others[i] = start_as(OWNER - 1, JOB + 1);
    assert_int_equal(before.n, 1);
    script->card[0].n_pids = 2;
    script->card[0].pid[0] = (uint32_t)others[0];
    script->card[0].pid[1] = (uint32_t)others[1];
    prove(old, 1, before, 0, 60000);
    assert_gone("back:0,processes:1,unseen:0");
    prove(whole, 1, before, 0, 60000); /* also where entries of one version are longer than documented */
    assert_gone("back:0,processes:1,unseen:0");
    end(others[0]);
    end(others[1]);
}

/* The environment of the daemon does not say which library it loads. */
static void an_environment_chooses_no_library(void **state)
{
    (void)state;
    unsetenv("LD_LIBRARY_PATH");
    assert_string_equal(dp_nvml_library(), "libnvidia-ml.so.1");
    setenv("LD_LIBRARY_PATH", "/tmp", 1);
    assert_string_equal(dp_nvml_library(), "");
    prove(dp_nvml_library(), 1, (struct dp_cards_before){0}, 0, 60000);
    assert_gone("not_looked_at");
    unsetenv("LD_LIBRARY_PATH");
    assert_int_equal(script->n_inits, 0);
}

/* What a daemon has a child do when a run begins: files are looked for, and the least of two looks counts. */
static void the_least_before_a_run_is_kept(void **state)
{
    static struct dp_cards_result before;
    struct dp_priv_scope scope = {0};
    struct dp_cards_request q = {0};
    char folder[] = "/tmp/dp-dev-XXXXXX", path[64];
    struct dp_err err = {0};
    struct dp_priv *priv;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/nvidia0", folder);
    if (mknod(path, S_IFCHR | 0600, makedev(NVIDIA, 0)) < 0) {
        rmdir(folder);
        skip();
    }
    snprintf(scope.devices, sizeof scope.devices, "%s/nvidia[0-9]*", folder);
    snprintf(scope.nvml, sizeof scope.nvml, "%.255s", whole);
    priv = dp_priv_create("", &scope, &err);
    assert_non_null(priv);
    script->card[0].used = 30000 * MIB; /* of the job before, given back late */
    script->card[0].used_then = 500 * MIB;
    script->card[0].n_before_then = 1;
    assert_int_equal(dp_cards_work(&q, sizeof q, (uint8_t *)&before), sizeof before);
    assert_int_equal(before.before.n, 1);
    assert_int_equal(before.before.card[0].used, 500 * MIB);
    assert_string_equal(before.text, "");
    script->init = 9;
    dp_cards_work(&q, sizeof q, (uint8_t *)&before);
    assert_int_equal(before.before.n, 0);
    assert_true(before.before.is_shut);
    assert_non_null(strstr(before.text, "nvmlInit_v2: error 9"));
    dp_priv_destroy(priv);
    unlink(path);
    rmdir(folder);
}

static int setup(void **state)
{
    const char *build = getenv("DP_BUILDDIR");
    int fd = mkstemp(script_path), lock = mkstemp(lock_path);

    (void)state;
    if (fd < 0 || lock < 0 || ftruncate(fd, sizeof *script) < 0)
        return -1;
    close(lock);
    script = mmap(NULL, sizeof *script, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    snprintf(whole, sizeof whole, "%.400s/tests/lib/nvml.so", build ? build : ".");
    snprintf(old, sizeof old, "%.400s/tests/lib/nvml_old.so", build ? build : ".");
    snprintf(bare, sizeof bare, "%.400s/tests/lib/nvml_bare.so", build ? build : ".");
    setenv("NVML_SCRIPT", script_path, 1);
    return script == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    unlink(lock_path);
    return unlink(script_path);
}

/* Who runs as a process of a job. */
static void wait_for_the_end(void)
{
    if (write(STDOUT_FILENO, "x", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_that_is_back_is_a_proof, begin),
        cmocka_unit_test_setup(memory_that_does_not_come_back_holds_the_slot, begin),
        cmocka_unit_test_setup(memory_that_comes_back_late_is_waited_for, begin),
        cmocka_unit_test_setup(one_sample_is_not_enough, begin),
        cmocka_unit_test_setup(a_process_of_the_owners_on_a_card_holds_the_slot, begin),
        cmocka_unit_test_setup(others_on_a_card_are_counted_by_processes, begin),
        cmocka_unit_test_setup(each_card_is_judged_by_itself, begin),
        cmocka_unit_test_setup(errors_hold_the_slot, begin),
        cmocka_unit_test_setup(a_card_that_is_kept_dark_is_told, begin),
        cmocka_unit_test_setup(a_driver_that_hangs_holds_the_slot, begin),
        cmocka_unit_test_setup(who_asks_is_in_nobodys_way, begin),
        cmocka_unit_test_setup(who_is_left_is_ended_while_a_driver_hangs, begin),
        cmocka_unit_test_setup(without_a_library_all_is_as_before, begin),
        cmocka_unit_test_setup(an_old_driver_is_understood, begin),
        cmocka_unit_test_setup(an_environment_chooses_no_library, begin),
        cmocka_unit_test_setup(the_least_before_a_run_is_kept, begin),
    };

    if (argc > 1 && !strcmp(argv[1], "wait"))
        wait_for_the_end();
    return cmocka_run_group_tests_name("device_memory", tests, setup, teardown);
}
