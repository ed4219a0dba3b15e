/* SPDX-License-Identifier: BSD-3-Clause */
/* In slurmstepd, as root: learn what the job asked for, tell the daemon of this node that a step
 * starts and ends, set DYNPIPE_* for its tasks.
 *
 * Whatever arrives here may be forged: options and variables of a job are bytes that its owner
 * chose. They are checked again, never printed, and at worst the step runs with a fixed layout. A
 * step that did not ask for DynPipe costs one look at the environment. Nothing here allocates.
 *
 * The daemon is told from init_post_opt, where slurmstepd still is root, so that SO_PEERCRED shows
 * it; the user is told from user_init on, where Slurm passes messages to srun or the job's output. Where the
 * daemon does not know yet whether the run may use this node, each task waits in its own process, as root,
 * and slurmstepd does not.
 */
#include "config.h" /* _GNU_SOURCE: sigabbrev_np */

#include "spank_plugin/plugin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/file/trust.h"
#include "common/slurm/node_name.h"
#include "spank_plugin/daemon_link.h"

#define UNSURE_MAX_S 150 /* a controller that is busy answers in time, and one that is dead starts no job */

/* Of the one step that this slurmstepd serves. */
static struct {
    bool is_active;    /* DynPipe was asked for */
    bool has_socket;   /* the tasks are told of the daemon's socket: it knows the step, or may yet */
    bool is_unsure;    /* the daemon cannot tell yet whether this run may use this node */
    bool has_waited;   /* a task, until that was known */
    bool is_told;      /* the daemon got, or may have got, the start */
    bool is_fenced;    /* the daemon says that this run must never again use this node */
    bool has_paused;   /* after the first line about a killed task */
    struct dp_msg_step_start start; /* with the options of the job */
    struct dp_msg_tasks tasks; /* that were forked so far */
    uint32_t job, step, node_index; /* of this node among those of the step */
    char node[64];
    char socket[256];
    char notice[1024]; /* one line for the user, empty: none */
} self;

void dp_remote_option(struct dp_given *given, const struct dp_option_def *def, const char *text,
                      const struct dp_plugin_args *args)
{
    if (dp_option_set(&given->options, def, text, args, NULL) < 0)
        given->is_bad = true;
}

/* Commands that never loaded this plugin (slurmrestd) leave only the DYNPIPE_* of the job.
 * returns: 0, or -1 when one of them does not pass. */
static int read_job_env(spank_t sp, const struct dp_plugin_args *args, struct dp_msg_step_start *o)
{
    char value[DP_SPEC_MAX];

    for (size_t i = 0; i < DP_OPTION_COUNT; i++) {
        const struct dp_option_def *def = &dp_option_defs[i];
        spank_err_t rc = spank_getenv(sp, def->env, value, sizeof value);
        if ((o->options_set & def->bit) || (rc != ESPANK_SUCCESS && rc != ESPANK_NOSPACE))
            continue;
        if (rc == ESPANK_NOSPACE || dp_option_set(o, def, value, args, NULL) < 0)
            return -1;
    }
    return 0;
}

/* returns: 1 with *o filled when the step runs under DynPipe, 0 when not, -1 when what the job asked
 * for is not readable. */
static int read_request(spank_t sp, const struct dp_given *given, const struct dp_plugin_args *args,
                        struct dp_msg_step_start *o)
{
    char spec[DP_SPEC_MAX];
    spank_err_t rc;

    if (given->is_refused)
        return 0;
    rc = spank_getenv(sp, DP_ENV_SPEC, spec, sizeof spec);
    if (rc == ESPANK_SUCCESS) {
        if (dp_options_parse(spec, args, o, NULL) < 0)
            return -1;
    } else if (rc == ESPANK_NOSPACE || given->is_bad) {
        return -1;
    } else {
        *o = given->options;
        if (read_job_env(sp, args, o) < 0)
            return -1;
    }
    return (o->options_set & DP_OPT_MODE) && o->mode != DP_MODE_OFF;
}

/* The node's name comes from slurmd, by slurmstepd's own environment: it becomes part of a path
 * that root opens, so the job's environment has no say in it. */
static int find_node(void)
{
    const char *name = getenv("SLURMD_NODENAME");
    char host[64] = "";

    if (!name) {
        gethostname(host, sizeof host - 1);
        host[strcspn(host, ".")] = 0;
        name = host;
    }
    if (!dp_is_node_name(name))
        return -1;
    snprintf(self.node, sizeof self.node, "%s", name);
    return 0;
}

/* Steps that run no tasks of a user (the external step of PrologFlags=Contain) are none of ours. */
static bool is_task_step(uint32_t step)
{
    return step != SLURM_EXTERN_CONT && step != SLURM_PENDING_STEP && step < NO_VAL;
}

static int read_items(spank_t sp, struct dp_msg_step_start *m)
{
    uid_t uid;
    gid_t gid;

    if (spank_get_item(sp, S_JOB_ID, &self.job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_STEPID, &self.step) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_NODEID, &self.node_index) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS)
        return -1;
    m->job_id = self.job;
    m->step_id = self.step;
    m->uid = uid;
    m->gid = gid;
    return 0;
}

#define FIXED "the run keeps a fixed layout"

static void heed_answer(const struct dp_msg_ack *ack)
{
    switch (ack->verdict) {
    case DP_VERDICT_OK:
        self.has_socket = true;
        if (*ack->text && self.node_index == 0) /* the same on every node: what the site allows */
            snprintf(self.notice, sizeof self.notice, "dynpipe: %s", ack->text);
        break;
    case DP_VERDICT_FENCED:
        self.is_fenced = true;
        snprintf(self.notice, sizeof self.notice,
                 "dynpipe: node %s was given back by this run and takes no more of its tasks%s%s", self.node,
                 *ack->text ? ": " : "", ack->text);
        break;
    case DP_VERDICT_LATER:
        self.has_socket = self.is_unsure = true;
        snprintf(self.notice, sizeof self.notice, "dynpipe: node %s was given back by this job before; its tasks wait: %s",
                 self.node, ack->text);
        break;
    default:
        self.has_socket = ack->verdict == DP_VERDICT_UNKNOWN;
        if (ack->verdict == DP_VERDICT_DENIED && self.start.slices) {
            /* Alone it would train once more what the others do, into the same files. */
            self.is_fenced = self.step != SLURM_BATCH_SCRIPT;
            snprintf(self.notice, sizeof self.notice, "dynpipe: the daemon on node %s refuses (%s): this slice does not begin",
                     self.node, *ack->text ? ack->text : "no reason given");
            break;
        }
        snprintf(self.notice, sizeof self.notice, "dynpipe: the daemon on node %s refuses (%s): " FIXED,
                 self.node, *ack->text ? ack->text : "no reason given");
    }
}

/* Where others could put a socket the tasks are sent nowhere. A folder that is not there yet they look at themselves. */
static bool is_place_for_a_daemon(void)
{
    struct dp_err err = {0};
    uid_t owner;

    return dp_trust_folder(self.socket, &owner, &err) == 0 || err.code != DP_EAUTH;
}

/* A daemon that is not there now may be later, and is told by the workers then. One that must not be trusted is told
 * nothing. */
static void tell_start(void)
{
    struct dp_msg_ack ack;
    struct dp_err err = {0};

    switch (dp_link_step_start(self.socket, &self.start, &ack, &err)) {
    case DP_LINK_OK:
        self.is_told = true;
        heed_answer(&ack);
        return;
    case DP_LINK_UNSURE:
        self.is_told = true;
        break;
    case DP_LINK_UNSENT:
        break;
    }
    self.has_socket = err.code != DP_EAUTH && is_place_for_a_daemon();
    snprintf(self.notice, sizeof self.notice, "dynpipe: no daemon on node %s (%s: %.160s): " FIXED "%s", self.node,
             self.socket, err.text, self.has_socket ? " until it is there" : "");
}

void dp_remote_start(spank_t sp, const struct dp_given *given, const struct dp_plugin_args *args)
{
    struct dp_err err;
    int wanted = read_request(sp, given, args, &self.start);

    if (wanted == 0 || read_items(sp, &self.start) < 0 || !is_task_step(self.step))
        return;
    self.is_active = true;
    if (wanted < 0) {
        if (self.node_index == 0) /* the same on every node */
            snprintf(self.notice, sizeof self.notice, "dynpipe: the options of this job are not readable: " FIXED);
    } else if (find_node() < 0) {
        snprintf(self.notice, sizeof self.notice, "dynpipe: this node has no usable name: " FIXED);
    } else if (dp_socket_path(args->socket, self.node, self.socket, sizeof self.socket, &err) < 0) {
        snprintf(self.notice, sizeof self.notice, "dynpipe: %.200s: " FIXED, err.text);
    } else {
        memcpy(self.start.node, self.node, sizeof self.start.node);
        tell_start();
    }
}

static void set_number(spank_t sp, const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    spank_setenv(sp, name, text, 1);
}

static void set_task_env(spank_t sp)
{
    char value[80], spec[DP_SPEC_MAX];

    if (dp_options_format(&self.start, spec, sizeof spec) == 0)
        spank_setenv(sp, DP_ENV_SPEC, spec, 1);

    spank_setenv(sp, DP_ENV_SOCKET, self.socket, 1);
    set_number(sp, DP_ENV_JOB, self.job);
    set_number(sp, DP_ENV_STEP, self.step);
    spank_setenv(sp, DP_ENV_NODE, self.node, 1);
    for (size_t i = 0; i < DP_OPTION_COUNT; i++)
        if (dp_option_value(&self.start, &dp_option_defs[i], value, sizeof value) == 0)
            spank_setenv(sp, dp_option_defs[i].env, value, 1);
}

/* Without a daemon of its own the tasks must not find the socket of another step or node either. */
static void clear_task_env(spank_t sp)
{
    for (size_t i = 0; dp_task_env[i]; i++)
        spank_unsetenv(sp, dp_task_env[i]);
    spank_setenv(sp, "DYNPIPE_MODE", dp_mode_name(DP_MODE_OFF), 1);
}

void dp_remote_user_init(spank_t sp)
{
    if (!self.is_active)
        return;
    if (*self.notice)
        slurm_spank_log("%s", self.notice);
    if (self.has_socket)
        set_task_env(sp);
    else
        clear_task_env(sp);
}

static void ask_again(void)
{
    const struct timespec pause = {.tv_nsec = 200 * 1000000L};
    struct dp_msg_ack ack = {.verdict = DP_VERDICT_LATER};
    struct dp_err err = {0};

    if (dp_link_step_start(self.socket, &self.start, &ack, &err) == DP_LINK_OK && ack.verdict != DP_VERDICT_LATER) {
        self.is_unsure = false;
        self.is_fenced = ack.verdict == DP_VERDICT_FENCED;
        return;
    }
    nanosleep(&pause, NULL);
}

void dp_remote_task_init_privileged(void)
{
    struct timespec start, now;

    if (!self.is_unsure)
        return;
    self.has_waited = true;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        ask_again();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (self.is_unsure && now.tv_sec - start.tv_sec < UNSURE_MAX_S);
}

/* The daemon was told of this step by that very path: where jobs have a /tmp of their own, slurmstepd sees that of the
 * node, and the task, whose process this is, does not. */
static void say_what_is_hidden(spank_t sp)
{
    uint32_t task;
    char line[512];
    int n;

    if (!self.is_told || self.step == SLURM_BATCH_SCRIPT || spank_get_item(sp, S_TASK_ID, &task) != ESPANK_SUCCESS || task != 0 ||
        access(self.socket, F_OK) == 0 || errno != ENOENT)
        return;
    n = snprintf(line, sizeof line, "dynpipe: the tasks on node %s do not see its daemon's socket %s (JobContainerType, namespace: a "
                 "folder of the job's own lies over it): " FIXED "; the site must put the socket elsewhere\n", self.node, self.socket);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* who has closed stderr reads nothing */
}

void dp_remote_task_init(spank_t sp)
{
    char line[256];
    int n;

    say_what_is_hidden(sp);
    if (!self.is_fenced && !self.is_unsure)
        return;
    if (self.has_waited) { /* else the user has been told */
        n = snprintf(line, sizeof line, "dynpipe: node %s takes no task of this job: it was given back, and %s\n", self.node,
                     self.is_fenced ? "the job was not requeued" : "it could not be found out in time whether it was requeued");
        if (write(STDERR_FILENO, line, (size_t)n) < 0)
            _exit(EXIT_FAILURE);
    }
    /* Slurm heeds a return value here only from a `required` plugin. This is the task's own process
     * just before its program would start; Slurm itself ends it the same way. */
    _exit(EXIT_FAILURE);
}

/* Which process is which rank: workers that meet through the daemon must not be able to claim another's. Told once, when
 * the last task of this node is there; their programs wait for that. */
void dp_remote_task_forked(spank_t sp)
{
    struct dp_msg_tasks *m = &self.tasks;
    uint32_t rank, n_here;
    pid_t pid;

    if (!self.is_told || self.step == SLURM_BATCH_SCRIPT || m->count == DP_MAX_WORKERS ||
        spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) != ESPANK_SUCCESS || spank_get_item(sp, S_TASK_PID, &pid) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &n_here) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &m->n_tasks) != ESPANK_SUCCESS)
        return;
    m->rank[m->count] = rank;
    m->pid[m->count++] = (uint32_t)pid;
    if (m->count < n_here || (m->n_tasks < 2 && !self.start.slices))
        return;
    m->job_id = self.job;
    m->step_id = self.step;
    dp_link_tasks(self.socket, m, NULL);
}

/* Give the line about a killed task time to reach srun. Nagle's algorithm keeps it in this node while
 * srun's machine has not acknowledged what was sent just before (the end of the task's output), which
 * it may delay by up to 200 ms, and an srun whose task was killed does not read to the end: it leaves
 * as soon as it knows that every task has ended. It learns this of the killed one after the pause.
 * Once per step: what dies later on this node dies of the first death, or in a cancelled job. */
static void pause_for_srun(void)
{
    const struct timespec pause = {.tv_nsec = 250 * 1000000L};

    if (!self.has_paused)
        nanosleep(&pause, NULL);
    self.has_paused = true;
}

void dp_remote_task_exit(spank_t sp)
{
    int status = 0;
    uint32_t task = 0;
    const char *name;

    if (!self.is_active || self.step == SLURM_BATCH_SCRIPT ||
        spank_get_item(sp, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS || !WIFSIGNALED(status) ||
        spank_get_item(sp, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
        return;
    name = sigabbrev_np(WTERMSIG(status));
    slurm_spank_log("dynpipe: task %u on node %s was killed by signal %d (SIG%s)%s", task, self.node,
                    WTERMSIG(status), name ? name : "?", WCOREDUMP(status) ? ", core dumped" : "");
    pause_for_srun();
}

void dp_remote_end(void)
{
    const struct dp_msg_step_end m = {.job_id = self.job, .step_id = self.step};

    if (self.is_told)
        dp_link_step_end(self.socket, &m, NULL);
}
