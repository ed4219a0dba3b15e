/* SPDX-License-Identifier: BSD-3-Clause */
/* See procscan.h. The scan reads /proc once; membership then spreads from parents to children and
 * from session leaders to their sessions until nothing changes.
 *
 * /proc is a list that is read while processes begin and end. Whoever ended between its name was read and he was looked
 * at may have left a child that was not there when the names were read: then the names are read again, and those are
 * looked at that have not been yet, until all who are named have been. A process that cannot be looked at is not one that
 * has ended: it is noted, and the scan proves nothing.
 */
#include "config.h"

#include "daemon/release/procscan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/release/procfd.h"
#include "daemon/release/rights.h"

#define LISTS_MAX 64           /* readings of the list of processes in one scan */
#define SCANS_MAX 8            /* until nobody ends whose devices are looked at */
#define PIDS_MAX (4u << 20)    /* of the kernel's: PID_MAX_LIMIT */
#define ENVIRONS_MAX 3         /* readings of an environment that is there and is read as nothing */
#define ENVIRON_BYTES (6u << 20) /* the most that the kernel hands to a program */

struct scan {
    const struct dp_empty_job *q;
    struct dp_proc_list *out;
    uint32_t n;                     /* processes of the owner's in out->proc, and those in the job's cgroups */
    uint64_t judged[PIDS_MAX / 64]; /* pids that need no second look */
    bool must_look_again;           /* at the process that is looked at, or its child: it has ended, or is between two programs */
    struct dp_proc again;           /* the last one of these */
    char hidepid[16];
};

/* ---- what cannot be looked at ---- */

static void give_up(struct dp_proc_list *out, const char *why)
{
    if (!out->is_incomplete)
        snprintf(out->why, sizeof out->why, "%s", why);
    out->is_incomplete = true;
}

static bool began_before_the_job(const struct dp_empty_job *q, const struct dp_proc *p)
{
    return p->start_ticks && p->start_ticks < q->begun_ticks;
}

/* A dynpiped keeps others from looking into it; one that may trace nobody meets its own kind, of its own user. A process
 * that only calls itself so could as well have cleared its environment. */
static bool is_a_daemon(const struct dp_proc *p, int error)
{
    return (error == EACCES || error == EPERM) && !dp_rights_trace_all() && !strncmp(p->comm, "dynpiped", 8);
}

/* Something of a process could not be read: it has ended, or there is no proof while it lives. Not so where it began before
 * the job did. */
static void note(struct scan *s, const struct dp_proc *p, const char *what, int error)
{
    char why[sizeof s->out->why];
    size_t n;

    s->must_look_again |= dp_proc_has_ended(error);
    if (dp_proc_has_ended(error) || began_before_the_job(s->q, p) || is_a_daemon(p, error))
        return;
    n = (size_t)snprintf(why, sizeof why, "%s of pid %u '%s' cannot be read: %s", what, p->pid, p->comm, strerror(error));
    if (s->hidepid[0] && n < sizeof why)
        snprintf(why + n, sizeof why - n, " (/proc is mounted with hidepid=%s)", s->hidepid);
    give_up(s->out, why);
}

static ssize_t see(struct scan *s, const struct dp_proc *p, const char *name, char *text, size_t cap)
{
    ssize_t n = dp_proc_live_text(p, name, text, cap);

    if (n < 0)
        note(s, p, name, errno);
    return n;
}

static void give_up_on_last(struct scan *s)
{
    char why[sizeof s->out->why];

    snprintf(why, sizeof why, "processes begin and end faster than they can be looked at, the last one pid %u '%s'", s->again.pid,
             s->again.comm);
    give_up(s->out, why);
}

/* hidepid: processes that are not seen are not counted. */
static void give_up_hidden(struct scan *s)
{
    char why[sizeof s->out->why];

    snprintf(why, sizeof why, "/proc hides processes of others (hidepid=%s), and the daemon may not see them", s->hidepid);
    give_up(s->out, s->hidepid[0] ? why : "how /proc is mounted cannot be read");
}

/* ---- whose is it? ---- */

/* real: its real uid. Slurm's own stays root's, whatever rights it takes for a while; a user who runs
 * slurmstepd himself, with a library of his own before it, must not hide in it. */
static bool is_slurmstepd(const struct dp_empty_job *q, uint32_t pid, unsigned real)
{
    return (real == 0 || q->is_users_slurm) && dp_proc_runs_slurms_program(pid);
}

/* Value of a variable in an environment block, NULL: not there. */
static const char *env_value(const char *env, size_t bytes, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = env; p < env + bytes; p += strlen(p) + 1)
        if (!strncmp(p, name, len) && p[len] == '=')
            return p + len + 1;
    return NULL;
}

/* A process has no environment that can be read while it begins a program, and none when it ends: what it will be, or has
 * been, is not known then. returns bytes, 0: it has an empty one, or it is not known yet, or cannot be (noted). */
static ssize_t read_environment(struct scan *s, const struct dp_proc *p, char *env, size_t cap)
{
    uint64_t start, end;
    ssize_t n;

    for (int i = 0; i < ENVIRONS_MAX; i++) {
        n = see(s, p, "environ", env, cap);
        if (n != 0)
            return n > 0 ? n : 0;
        if (dp_proc_env_range(p, &start, &end) < 0) {
            note(s, p, "stat", errno);
            return 0;
        }
        if (end && start == end)
            return 0;
    }
    s->must_look_again = true;
    return 0;
}

enum claim { CLAIM_NONE, CLAIM_OURS, CLAIM_OTHER };

/* Whose does the environment say that it is? */
static enum claim claim_of_environment(struct scan *s, struct dp_proc *p)
{
    static char env[ENVIRON_BYTES + 1];
    const struct dp_empty_job *q = s->q;
    ssize_t n = read_environment(s, p, env, sizeof env);
    const char *job, *node, *socket;

    p->env_job = 0;
    if (n <= 0)
        return CLAIM_NONE;
    job = env_value(env, (size_t)n, "SLURM_JOB_ID");
    node = env_value(env, (size_t)n, "SLURMD_NODENAME");
    p->env_job = job ? (uint32_t)strtoul(job, NULL, 10) : 0;
    if (p->env_job != q->job_id)
        return CLAIM_NONE;
    if (!q->is_shared_host)
        return CLAIM_OURS;
    /* Two private Slurms of one user may have the same job on a node of the same name. */
    socket = env_value(env, (size_t)n, "DYNPIPE_SOCKET");
    if (socket && q->socket[0] && strcmp(socket, q->socket) != 0)
        return CLAIM_OTHER;
    /* slurmstepd names the node to all that it starts; salloc's shell and its srun have the job only. */
    return node && !strcmp(node, q->node) ? CLAIM_OURS : CLAIM_OTHER;
}

/* Is it in Slurm's cgroup of the job - and on a shared machine of this node? In one of those that were found
 * (cgroup.h), or in one whose path says so: /slurm/uid_U/job_J/step_S (v1, "slurm_NODE" with several slurmd) or
 * .../NODE_slurmstepd.scope/job_J/step_S/user/... (v2). */
static bool is_in_cgroup(struct scan *s, uint32_t job_id, const struct dp_proc *proc)
{
    const struct dp_empty_job *q = s->q;
    char text[8192], job[32];
    const char *p;

    if (see(s, proc, "cgroup", text, sizeof text) <= 0)
        return false;
    if (dp_cgroups_have(&s->out->groups, job_id, text))
        return true;
    snprintf(job, sizeof job, "/job_%u", job_id);
    for (p = text; (p = strstr(p, job)); p++) {
        char after = p[strlen(job)];
        const char *line = p;

        if (after != '/' && after != '\n' && after != '\0')
            continue;
        while (line > text && line[-1] != '\n')
            line--;
        if (!memmem(line, (size_t)(p - line), "slurm", 5))
            continue;
        return !q->is_shared_host || memmem(line, (size_t)(p - line), q->node, strlen(q->node)) != NULL;
    }
    return false;
}

static bool is_registered(const struct dp_empty_job *q, const struct dp_proc *p)
{
    for (uint32_t i = 0; i < q->n_workers; i++)
        if (q->worker[i].pid == p->pid && (!q->worker[i].start_ticks || q->worker[i].start_ticks == p->start_ticks))
            return true;
    return false;
}

static bool is_lock(void *arg, const struct dp_open_file *f)
{
    const struct stat *lock = arg;

    return f->inode == lock->st_ino && f->device[0] == major(lock->st_dev) && f->device[1] == minor(lock->st_dev);
}

/* Does it have the slot's lock open? Nobody can but the job's owner, and he has no other use for it. */
static bool has_lock(const struct dp_empty_job *q, const struct dp_proc *p)
{
    struct stat lock;

    return stat(q->lock_path, &lock) == 0 && dp_procfd_find(p->pid, p->tid, is_lock, &lock) == 1;
}

/* returns: it may be of the job, by itself (is_member), or by its parent or session. */
static bool is_candidate(struct scan *s, struct dp_proc *p)
{
    const struct dp_empty_job *q = s->q;
    bool is_in_v1 = dp_cgroup_v1_has(&s->out->groups.v1, p->pid);
    unsigned real, effective;

    if (p->is_kernels)
        return false;
    if (dp_proc_uids(p, &real, &effective) < 0) {
        note(s, p, "status", errno);
        return false;
    }
    if ((!is_in_v1 && real != q->uid && effective != q->uid) || is_slurmstepd(q, p->pid, real))
        return false;
    p->is_claimed = is_registered(q, p);
    p->is_member = is_in_v1 || is_in_cgroup(s, q->job_id, p) || (p->is_claimed && has_lock(q, p));
    if (p->is_member)
        return true;
    switch (claim_of_environment(s, p)) {
    case CLAIM_OURS:
        p->is_member = true;
        return true;
    case CLAIM_OTHER:
        return p->is_claimed; /* the same job on another node: not even as somebody's child */
    case CLAIM_NONE:
        break;
    }
    return true;
}

/* ---- all of them ---- */

static bool is_judged(const struct scan *s, unsigned long pid)
{
    return s->judged[pid / 64] >> pid % 64 & 1;
}

/* Look at a process whose name was read. returns: the names must be read again, for itself or for a child that it left. */
static bool judge(struct scan *s, uint32_t pid)
{
    struct dp_proc *p = &s->out->proc[s->n];
    enum dp_proc_life life = dp_proc_look(pid, p);

    s->must_look_again = false;
    if (life == DP_PROC_UNKNOWN)
        note(s, p, "state", errno);
    else if (life == DP_PROC_LIVES && is_candidate(s, p) && !s->must_look_again)
        s->n++;
    if (!s->must_look_again && (life != DP_PROC_GONE || p->state))
        s->judged[pid / 64] |= UINT64_C(1) << pid % 64;
    s->must_look_again |= life == DP_PROC_GONE;
    if (s->must_look_again)
        s->again = *p;
    return s->must_look_again;
}

/* It has cards open for us, and where the daemon runs as the owner, it is a process of his. */
static bool is_looker(const struct dp_empty_job *q, unsigned long pid)
{
    return q->looker && q->looker->fd >= 0 && pid == (unsigned long)q->looker->pid;
}

/* Look at all that are listed and have not been looked at. returns: once more. */
static bool read_list(struct scan *s, DIR *dir)
{
    const struct dirent *e;
    bool is_again = false;

    rewinddir(dir);
    while (errno = 0, (e = readdir(dir))) {
        char *end;
        unsigned long pid = strtoul(e->d_name, &end, 10);

        if (*end || pid < 2 || pid >= PIDS_MAX || pid == (unsigned long)getpid() || is_judged(s, pid) || is_looker(s->q, pid))
            continue;
        is_again |= judge(s, (uint32_t)pid);
        if (s->n == DP_MAX_SCANNED) {
            give_up(s->out, "more processes than can be looked at");
            return false;
        }
    }
    if (errno)
        give_up(s->out, "the list of processes cannot be read");
    return is_again;
}

static int by_pid(const void *a, const void *b)
{
    const struct dp_proc *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Read all processes of the user into out (is_member: by themselves), in the order of their pids. */
static void read_all(struct scan *s)
{
    DIR *dir = opendir("/proc");
    int lists = 0;

    memset(s->judged, 0, sizeof s->judged);
    if (!dir)
        give_up(s->out, "/proc cannot be opened");
    while (dir && read_list(s, dir) && ++lists < LISTS_MAX)
        ;
    if (lists == LISTS_MAX)
        give_up_on_last(s);
    if (dir)
        closedir(dir);
    qsort(s->out->proc, s->n, sizeof s->out->proc[0], by_pid);
}

static const struct dp_proc *find_proc(const struct scan *s, uint32_t pid)
{
    const struct dp_proc key = {.pid = pid};

    return bsearch(&key, s->out->proc, s->n, sizeof s->out->proc[0], by_pid);
}

/* To children, and from leaders to their sessions. */
static void spread_membership(struct scan *s)
{
    bool has_changed = true;

    while (has_changed) {
        has_changed = false;
        for (uint32_t i = 0; i < s->n; i++) {
            struct dp_proc *p = &s->out->proc[i];
            const struct dp_proc *parent, *leader;

            if (p->is_member)
                continue;
            parent = find_proc(s, p->ppid);
            leader = p->session != p->pid ? find_proc(s, p->session) : NULL;
            if ((parent && parent->is_member) || (leader && leader->is_member)) {
                p->is_member = true;
                has_changed = true;
            }
        }
    }
}

/* By its environment it may say so falsely: then it is the owner himself who hides a process of this job
 * behind another one of his on the same node. A process in a cgroup of Slurm's cannot. */
static bool is_of_other_job(struct scan *s, const struct dp_proc *p)
{
    for (uint32_t i = 0; i < s->q->n_other_jobs; i++)
        if (p->env_job == s->q->other_job[i] || is_in_cgroup(s, s->q->other_job[i], p))
            return true;
    return false;
}

static bool has_device(struct scan *s, const struct dp_proc *p)
{
    int rc = dp_device_files_are_open(&s->q->devices, p->pid, p->tid, s->out->device);

    s->must_look_again = false;
    if (rc < 0)
        note(s, p, "fd", errno);
    return rc == 1;
}

/* Keep the members and the claimed, and where there are none the holders of a device. returns: one of whom it is not known
 * whether he is one has ended, with a child, maybe, that is. */
static bool keep(struct scan *s)
{
    struct dp_proc_list *out = s->out;
    bool any = false, is_again = false;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->n && !any; i++)
        any = out->proc[i].is_member || out->proc[i].is_claimed;
    for (uint32_t i = 0; i < s->n; i++) {
        struct dp_proc *p = &out->proc[i];

        if (!any && !is_of_other_job(s, p)) {
            p->is_holder = has_device(s, p);
            is_again |= s->must_look_again;
            s->again = s->must_look_again ? *p : s->again;
        }
        if (p->is_member || p->is_claimed || p->is_holder)
            out->proc[kept++] = *p;
    }
    out->n = kept;
    return is_again && !kept;
}

static struct scan scan;

enum dp_whose dp_proc_whose(const struct dp_empty_job *q, struct dp_proc_list *list, uint32_t pid)
{
    unsigned real, effective;
    enum dp_proc_life life;
    struct dp_proc p;

    scan.q = q;
    scan.out = list;
    scan.must_look_again = false;
    life = dp_proc_look(pid, &p);
    if (life != DP_PROC_LIVES)
        return life == DP_PROC_GONE ? DP_WHOSE_ENDED : DP_WHOSE_UNKNOWN;
    if (dp_proc_uids(&p, &real, &effective) < 0)
        return dp_proc_has_ended(errno) ? DP_WHOSE_ENDED : DP_WHOSE_UNKNOWN;
    if ((real != q->uid && effective != q->uid) || claim_of_environment(&scan, &p) == CLAIM_OTHER || is_of_other_job(&scan, &p))
        return DP_WHOSE_OTHERS;
    return scan.must_look_again || list->is_incomplete ? DP_WHOSE_UNKNOWN : DP_WHOSE_OWNERS;
}

void dp_proc_scan(const struct dp_empty_job *q, struct dp_proc_list *out)
{
    struct scan *s = &scan;
    bool is_again = true;

    s->q = q;
    s->out = out;
    out->is_incomplete = false;
    out->why[0] = '\0';
    if (dp_proc_hides(s->hidepid, sizeof s->hidepid))
        give_up_hidden(s);
    dp_cgroups_read(q, &out->groups);
    for (int i = 0; i < SCANS_MAX && is_again; i++) {
        s->n = 0;
        read_all(s);
        spread_membership(s);
        is_again = keep(s);
    }
    if (is_again)
        give_up_on_last(s);
}
