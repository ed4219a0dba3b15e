/* SPDX-License-Identifier: BSD-3-Clause */
/* See procread.h. A process is a group of threads, and /proc/PID shows the first of them: when that one has ended and
 * others live on, its state is Z, it has no memory, no files, and in version 1 no cgroup. So it is read by one that lives.
 *
 * slurmstepd, which watches the tasks, is told by its executable (owned by root, named slurmstepd) and its real uid, not by
 * a name that a task can give itself.
 */
#include "config.h"

#include "daemon/release/procread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/release/rights.h"

#define IS_EXITING 0x4u      /* PF_EXITING of the kernel, as stat shows it */
#define IS_KERNELS 0x200000u /* PF_KTHREAD likewise */
#define THREAD_LOOKS 4       /* at the threads of a process, until one is found that lives: they may come and go */

/* Opened as root where its file is root's. */
static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), error;

    if (fd >= 0 || errno != EACCES)
        return fd;
    dp_rights_see_as_root(true);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    error = errno;
    dp_rights_see_as_root(false);
    errno = error;
    return fd;
}

ssize_t dp_proc_text(uint32_t pid, const char *name, char *out, size_t cap)
{
    char path[96];
    size_t used = 0;
    ssize_t n = 0;
    int fd, error;

    out[0] = '\0';
    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    fd = open_file(path);
    if (fd < 0)
        return -1;
    while (used + 1 < cap && (n = read(fd, out + used, cap - 1 - used)) > 0)
        used += (size_t)n;
    error = errno;
    close(fd);
    out[used] = '\0';
    errno = error;
    return n < 0 ? -1 : (ssize_t)used;
}

static ssize_t thread_text(uint32_t pid, uint32_t tid, const char *name, char *out, size_t cap)
{
    char path[64];

    snprintf(path, sizeof path, "task/%u/%s", tid, name);
    return dp_proc_text(pid, path, out, cap);
}

ssize_t dp_proc_live_text(const struct dp_proc *p, const char *name, char *out, size_t cap)
{
    return p->tid == p->pid ? dp_proc_text(p->pid, name, out, cap) : thread_text(p->pid, p->tid, name, out, cap);
}

/* ---- its state ---- */

struct stat_line {
    char state;
    unsigned ppid, session, flags, n_threads;
    unsigned long long start;
};

/* "pid (comm) S ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime
 * cstime priority nice threads itrealvalue starttime ...": comm may hold anything, so look for the
 * last ')'. */
static bool parse_stat(const char *text, struct stat_line *out)
{
    const char *p = strrchr(text, ')');

    return p && sscanf(p + 1, " %c %u %*d %u %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u %*d %llu", &out->state,
                       &out->ppid, &out->session, &out->flags, &out->n_threads, &out->start) == 6;
}

static void take_comm(const char *text, struct dp_proc *out)
{
    const char *open_paren = strchr(text, '('), *p = strrchr(text, ')');
    size_t len = open_paren && p > open_paren ? (size_t)(p - open_paren - 1) : 0;

    if (len >= sizeof out->comm)
        len = sizeof out->comm - 1;
    if (len)
        memcpy(out->comm, open_paren + 1, len);
    out->comm[len] = '\0';
}

static bool is_over(const struct stat_line *s)
{
    return s->state == 'Z' || s->state == 'X';
}

/* returns 0, -1 and errno. */
static int read_stat(uint32_t pid, uint32_t tid, char *text, size_t cap, struct stat_line *out)
{
    ssize_t n = tid == pid ? dp_proc_text(pid, "stat", text, cap) : thread_text(pid, tid, "stat", text, cap);

    if (n < 0)
        return -1;
    errno = n == 0 ? ESRCH : EIO;
    return parse_stat(text, out) ? 0 : -1;
}

/* A thread that lives, best one that is not ending. returns its id, 0: none was seen, and errno where not all could be. */
static uint32_t live_thread(uint32_t pid, char *state)
{
    char path[64], text[1024];
    const struct dirent *e;
    struct stat_line s;
    uint32_t found = 0;
    bool is_sure = false;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%u/task", pid);
    dir = opendir(path);
    if (!dir)
        return 0;
    errno = 0;
    while (!is_sure && (e = readdir(dir))) {
        char *end;
        unsigned long tid = strtoul(e->d_name, &end, 10);

        if (*end || read_stat(pid, (uint32_t)tid, text, sizeof text, &s) < 0 || is_over(&s))
            continue;
        is_sure = !(s.flags & IS_EXITING);
        found = (uint32_t)tid;
        *state = s.state;
    }
    closedir(dir);
    return found;
}

/* The first thread has ended, or is about to, and there were others. */
static enum dp_proc_life look_at_threads(uint32_t pid, struct dp_proc *out)
{
    char text[1024];
    struct stat_line s;

    for (int i = 0; i < THREAD_LOOKS; i++) {
        errno = 0;
        out->tid = live_thread(pid, &out->state);
        if (out->tid)
            return DP_PROC_LIVES;
        if (errno && !dp_proc_has_ended(errno))
            return DP_PROC_UNKNOWN;
        if (read_stat(pid, pid, text, sizeof text, &s) < 0)
            return dp_proc_has_ended(errno) ? DP_PROC_GONE : DP_PROC_UNKNOWN;
        if (is_over(&s) && s.n_threads <= 1)
            return DP_PROC_GONE;
    }
    errno = EBUSY;
    return DP_PROC_UNKNOWN;
}

enum dp_proc_life dp_proc_look(uint32_t pid, struct dp_proc *out)
{
    char text[1024], path[32];
    struct stat_line s;
    struct stat st;

    memset(out, 0, sizeof *out);
    out->pid = out->tid = pid;
    snprintf(path, sizeof path, "/proc/%u", pid);
    if (pid == 0)
        return DP_PROC_GONE;
    if (read_stat(pid, pid, text, sizeof text, &s) < 0 || stat(path, &st) < 0)
        return dp_proc_has_ended(errno) ? DP_PROC_GONE : DP_PROC_UNKNOWN;
    take_comm(text, out);
    out->ppid = s.ppid;
    out->session = s.session;
    out->start_ticks = s.start;
    out->state = s.state;
    out->uid = st.st_uid;
    out->is_kernels = (s.flags & IS_KERNELS) != 0;
    if (!is_over(&s) && !(s.flags & IS_EXITING))
        return DP_PROC_LIVES;
    if (s.n_threads > 1)
        return look_at_threads(pid, out);
    return is_over(&s) ? DP_PROC_GONE : DP_PROC_LIVES;
}

bool dp_proc_read(uint32_t pid, struct dp_proc *out)
{
    return dp_proc_look(pid, out) == DP_PROC_LIVES;
}

/* Fields 50 and 51 of stat. */
int dp_proc_env_range(const struct dp_proc *p, uint64_t *start, uint64_t *end)
{
    char text[2048], *at;
    unsigned long long v[2], end_code = 0;

    if (dp_proc_live_text(p, "stat", text, sizeof text) < 0)
        return -1;
    at = strrchr(text, ')');
    for (int field = 2; at && field < 50; field++) {
        at = strchr(at + 1, ' ');
        if (at && field == 26)
            end_code = strtoull(at, NULL, 10);
    }
    if (!at || sscanf(at, " %llu %llu", &v[0], &v[1]) != 2) {
        errno = text[0] ? EIO : ESRCH;
        return -1;
    }
    /* While the kernel begins a program both are the place where the environment will be; where its code ends it says last. */
    *start = end_code ? v[0] : 0;
    *end = end_code ? v[1] : 0;
    return 0;
}

int dp_proc_uids(const struct dp_proc *p, unsigned *real, unsigned *effective)
{
    char text[4096];
    const char *at;

    if (dp_proc_live_text(p, "status", text, sizeof text) < 0)
        return -1;
    at = strstr(text, "\nUid:");
    if (at && sscanf(at + 5, "%u %u", real, effective) == 2)
        return 0;
    errno = text[0] ? EIO : ESRCH;
    return -1;
}

bool dp_proc_runs_slurms_program(uint32_t pid)
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

bool dp_proc_is_slurms(uint32_t pid)
{
    const struct dp_proc p = {.pid = pid, .tid = pid};
    unsigned real, effective;

    return dp_proc_runs_slurms_program(pid) && dp_proc_uids(&p, &real, &effective) == 0 && real == 0;
}

/* ---- how /proc is mounted ---- */

/* "25 30 0:23 / /proc rw,relatime shared:13 - proc proc rw,gid=7,hidepid=invisible": the options of the file system are
 * the last word. returns: it is the mount at /proc. */
static bool take_mount(const char *line, char *hidepid, size_t cap, unsigned *gid)
{
    const char *super = strstr(line, " - proc "), *at;
    char where[8] = "";

    if (sscanf(line, "%*d %*d %*s %*s %7s", where) != 1 || strcmp(where, "/proc"))
        return false;
    hidepid[0] = '\0';
    *gid = 0;
    if (!super)
        return true;
    at = strstr(super, "hidepid=");
    if (at)
        snprintf(hidepid, cap, "%.*s", (int)strcspn(at + 8, ",\n "), at + 8);
    at = strstr(super, "gid=");
    if (at)
        *gid = (unsigned)strtoul(at + 4, NULL, 10);
    return true;
}

/* Whoever may trace all processes sees them all; a group may be named that is told of them, where they are not to be
 * traced (4, ptraceable) either. */
bool dp_proc_hides(char *hidepid, size_t cap)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    bool is_found = false, is_hiding;
    char *line = NULL;
    unsigned gid = 0;
    size_t len = 0;

    hidepid[0] = '\0';
    while (f && getline(&line, &len, f) > 0)
        is_found |= take_mount(line, hidepid, cap, &gid); /* the last one lies on top */
    free(line);
    if (!f || ferror(f))
        is_found = false;
    if (f)
        fclose(f);
    if (!is_found)
        return true;
    if (!hidepid[0] || !strcmp(hidepid, "0") || !strcmp(hidepid, "off")) {
        hidepid[0] = '\0';
        return false;
    }
    is_hiding = strcmp(hidepid, "1") && strcmp(hidepid, "noaccess");
    return is_hiding && !dp_rights_trace_all() && !(strcmp(hidepid, "4") && strcmp(hidepid, "ptraceable") && gid &&
                                                    group_member(gid));
}
