/* SPDX-License-Identifier: BSD-3-Clause */
/* See procscan.h. The scan reads /proc once; membership then spreads from parents to children and
 * from session leaders to their sessions until nothing changes. slurmstepd, which watches the tasks,
 * is told by its executable (owned by root, named slurmstepd) and its real uid, not by a name that a
 * task can give itself.
 */
#include "config.h"

#include "daemon/release/procscan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/release/procfd.h"
#include "daemon/release/rights.h"

ssize_t dp_proc_text(uint32_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    size_t used = 0;
    ssize_t n = 0;
    int fd;

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) {
        dp_rights_see_as_root(true);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        dp_rights_see_as_root(false);
    }
    if (fd < 0)
        return -1;
    while (used + 1 < cap && (n = read(fd, out + used, cap - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    out[used] = '\0';
    return n < 0 && used == 0 ? -1 : (ssize_t)used;
}

/* "pid (comm) S ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime
 * cstime priority nice threads itrealvalue starttime ...": comm may hold anything, so look for the
 * last ')'. */
static bool parse_stat(const char *text, struct dp_proc *out)
{
    const char *open_paren = strchr(text, '('), *p = strrchr(text, ')');
    unsigned long long start;
    unsigned ppid, session;
    size_t len;

    if (!open_paren || !p || p < open_paren)
        return false;
    len = (size_t)(p - open_paren - 1);
    if (len >= sizeof out->comm)
        len = sizeof out->comm - 1;
    memcpy(out->comm, open_paren + 1, len);
    out->comm[len] = '\0';
    if (sscanf(p + 1, " %c %u %*d %u %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &out->state,
               &ppid, &session, &start) != 4)
        return false;
    out->ppid = ppid;
    out->session = session;
    out->start_ticks = start;
    return out->state != 'Z' && out->state != 'X';
}

bool dp_proc_read(uint32_t pid, struct dp_proc *out)
{
    char text[1024], path[32];
    struct stat st;

    memset(out, 0, sizeof *out);
    out->pid = pid;
    snprintf(path, sizeof path, "/proc/%u", pid);
    if (pid == 0 || dp_proc_text(pid, "stat", text, sizeof text) <= 0 || !parse_stat(text, out) || stat(path, &st) < 0)
        return false;
    out->uid = st.st_uid;
    return true;
}

/* The real and effective uid; the owner of /proc/pid turns to root when a process is not dumpable. */
static bool read_uids(uint32_t pid, unsigned *real, unsigned *effective)
{
    char text[4096];
    const char *p;

    if (dp_proc_text(pid, "status", text, sizeof text) <= 0)
        return false;
    p = strstr(text, "\nUid:");
    return p && sscanf(p + 5, "%u %u", real, effective) == 2;
}

/* Is its executable Slurm's own, root's file that nobody else may write? */
static bool runs_slurms_program(uint32_t pid)
{
    char path[64], target[PATH_MAX];
    const char *base;
    struct stat st;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    n = readlink(path, target, sizeof target - 1);
    if (n <= 0 || stat(path, &st) < 0 || st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return false;
    target[n] = '\0';
    base = strrchr(target, '/');
    return base && (!strcmp(base + 1, "slurmstepd") || !strcmp(base + 1, "slurmd"));
}

/* real: its real uid. Slurm's own stays root's, whatever rights it takes for a while; a user who runs
 * slurmstepd himself, with a library of his own before it, must not hide in it. */
static bool is_slurmstepd(const struct dp_empty_job *q, uint32_t pid, unsigned real)
{
    return (real == 0 || q->is_users_slurm) && runs_slurms_program(pid);
}

bool dp_proc_is_slurms(uint32_t pid)
{
    unsigned real, effective;

    return runs_slurms_program(pid) && read_uids(pid, &real, &effective) && real == 0;
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

enum claim { CLAIM_NONE, CLAIM_OURS, CLAIM_OTHER };

/* Whose does the environment say that it is? */
static enum claim claim_of_environment(const struct dp_empty_job *q, uint32_t pid, uint32_t *env_job)
{
    static char env[1 << 20]; /* larger environments are rare; ARG_MAX leaves the front readable */
    ssize_t n = dp_proc_text(pid, "environ", env, sizeof env);
    const char *job, *node, *socket;

    *env_job = 0;
    if (n <= 0)
        return CLAIM_NONE;
    job = env_value(env, (size_t)n, "SLURM_JOB_ID");
    node = env_value(env, (size_t)n, "SLURMD_NODENAME");
    *env_job = job ? (uint32_t)strtoul(job, NULL, 10) : 0;
    if (*env_job != q->job_id)
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
static bool is_in_cgroup(const struct dp_empty_job *q, const struct dp_cgroups *groups, uint32_t job_id, uint32_t pid)
{
    char text[8192], job[32];
    const char *p;

    if (dp_proc_text(pid, "cgroup", text, sizeof text) <= 0)
        return false;
    if (dp_cgroups_have(groups, job_id, text))
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
static bool has_lock(const struct dp_empty_job *q, uint32_t pid)
{
    struct stat lock;

    return stat(q->lock_path, &lock) == 0 && dp_procfd_find(pid, is_lock, &lock) == 1;
}

/* Read all processes of the user into out (is_member: by themselves). */
static uint32_t read_all(const struct dp_empty_job *q, struct dp_proc_list *out)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    uint32_t n = 0;

    out->is_incomplete = dir == NULL;
    while (dir && (e = readdir(dir))) {
        struct dp_proc *p = &out->proc[n];
        unsigned real, effective;
        char *end;
        unsigned long pid = strtoul(e->d_name, &end, 10);

        if (*end || pid < 2 || pid == (unsigned long)getpid() || !dp_proc_read((uint32_t)pid, p))
            continue;
        if (!read_uids(p->pid, &real, &effective) || (real != q->uid && effective != q->uid) ||
            is_slurmstepd(q, p->pid, real))
            continue;
        p->is_claimed = is_registered(q, p);
        if (is_in_cgroup(q, &out->groups, q->job_id, p->pid) || (p->is_claimed && has_lock(q, p->pid)))
            p->is_member = true;
        else
            switch (claim_of_environment(q, p->pid, &p->env_job)) {
            case CLAIM_OURS:
                p->is_member = true;
                break;
            case CLAIM_OTHER:
                if (p->is_claimed)
                    break;
                continue; /* the same job on another node: not even as somebody's child */
            case CLAIM_NONE:
                break;
            }
        if (++n == DP_MAX_SCANNED) {
            out->is_incomplete = true;
            break;
        }
    }
    if (dir)
        closedir(dir);
    return n;
}

static const struct dp_proc *find_proc(const struct dp_proc_list *list, uint32_t n, uint32_t pid)
{
    for (uint32_t i = 0; i < n; i++)
        if (list->proc[i].pid == pid)
            return &list->proc[i];
    return NULL;
}

/* By its environment it may say so falsely: then it is the owner himself who hides a process of this job
 * behind another one of his on the same node. A process in a cgroup of Slurm's cannot. */
static bool is_of_other_job(const struct dp_empty_job *q, const struct dp_cgroups *groups, const struct dp_proc *p)
{
    for (uint32_t i = 0; i < q->n_other_jobs; i++)
        if (p->env_job == q->other_job[i] || is_in_cgroup(q, groups, q->other_job[i], p->pid))
            return true;
    return false;
}

void dp_proc_scan(const struct dp_empty_job *q, struct dp_proc_list *out)
{
    bool has_changed = true, any = false;
    uint32_t n, kept = 0;

    dp_cgroups_read(q, &out->groups);
    n = read_all(q, out);
    while (has_changed) {
        has_changed = false;
        for (uint32_t i = 0; i < n; i++) {
            struct dp_proc *p = &out->proc[i];
            const struct dp_proc *parent, *leader;

            if (p->is_member)
                continue;
            parent = find_proc(out, n, p->ppid);
            leader = p->session != p->pid ? find_proc(out, n, p->session) : NULL;
            if ((parent && parent->is_member) || (leader && leader->is_member)) {
                p->is_member = true;
                has_changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < n && !any; i++)
        any = out->proc[i].is_member || out->proc[i].is_claimed;
    for (uint32_t i = 0; i < n; i++) {
        struct dp_proc *p = &out->proc[i];

        if (!any && !is_of_other_job(q, &out->groups, p))
            p->is_holder = dp_device_files_are_open(&q->devices, p->pid, out->device);
        if (p->is_member || p->is_claimed || p->is_holder)
            out->proc[kept++] = *p;
    }
    out->n = kept;
}
