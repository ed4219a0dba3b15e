/* SPDX-License-Identifier: BSD-3-Clause */
/* See cgroup.h. Every path is walked from the root of the hierarchy, folder by folder and without following links, and
 * what is written to must lie on a cgroup2 file system: whatever the names say, nothing else can be meant. The folders
 * are root's, and so is cgroup.kill: it is opened as root (rights.h), and nothing else is.
 */
#include "config.h"

#include "daemon/release/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/release/procscan.h"
#include "daemon/release/rights.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define SLUID_LEN 14 /* 's' and 13 digits to the base of 32 */

/* ---- the hierarchy ---- */

/* "36 35 0:31 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw": the root must be this name space's own, not
 * a part of it that is mounted somewhere. */
static bool is_mount(const char *line, char *point, size_t cap)
{
    char root[8] = "", where[256] = "";
    const char *type = strstr(line, " - ");

    if (!type || strncmp(type, " - cgroup2 ", 11) || sscanf(line, "%*d %*d %*s %7s %255s", root, where) != 2 ||
        strcmp(root, "/") || strchr(where, '\\'))
        return false;
    snprintf(point, cap, "%s", where);
    return true;
}

/* returns a descriptor of the root, -1: version 2 is not mounted here. */
static int open_root(void)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, point[256];
    size_t cap = 0;
    bool found = false;

    while (f && !found && getline(&line, &cap, f) > 0)
        found = is_mount(line, point, sizeof point);
    free(line);
    if (f)
        fclose(f);
    errno = ENXIO;
    return found ? open(point, OPEN_DIR) : -1;
}

static bool is_cgroup2(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Open root/path/more; more may be "". Root's folders only. */
static int open_below(const char *path, const char *more)
{
    char all[DP_CGROUP_PATH + 64], *rest = all, *name;
    int fd = open_root(), next;
    struct stat st;

    snprintf(all, sizeof all, "%s/%s", path, more);
    while (fd >= 0 && (name = strsep(&rest, "/"))) {
        if (!*name)
            continue;
        errno = EINVAL;
        next = strcmp(name, "..") ? openat(fd, name, OPEN_DIR) : -1;
        if (next >= 0 && (fstat(next, &st) < 0 || st.st_uid != 0)) {
            close(next);
            next = -1;
            errno = EACCES;
        }
        close(fd);
        fd = next;
    }
    return fd;
}

/* ---- which folders ---- */

static bool is_wanted(const struct dp_empty_job *q, uint32_t job_id)
{
    bool is = job_id == q->job_id;

    for (uint32_t i = 0; i < q->n_other_jobs && !is; i++)
        is = q->other_job[i] == job_id;
    return is;
}

/* Length of the part of a path that is Slurm's scope of this node, 0: it is not in it. Where several slurmd share a
 * machine, so may Slurms whose nodes have the same names, in cgroups of their own: only ours is where it would be if
 * it were alone. */
static size_t scope_len(const struct dp_empty_job *q, const char *path)
{
    char own[128];
    size_t n;

    if (q->is_shared_host) {
        n = (size_t)snprintf(own, sizeof own, "/system.slice/%s_slurmstepd.scope", q->node);
        return !strncmp(path, own, n) && (path[n] == '/' || !path[n]) ? n : 0;
    }
    snprintf(own, sizeof own, "%s_slurmstepd.scope", q->node);
    for (const char *p = path; *p == '/'; p += 1 + n) {
        n = strcspn(p + 1, "/");
        if ((n == strlen(own) && !memcmp(p + 1, own, n)) ||
            (n == strlen("slurmstepd.scope") && !memcmp(p + 1, "slurmstepd.scope", n)))
            return (size_t)(p + 1 + n - path);
    }
    return 0;
}

static void add_scope(struct dp_cgroups *out, const char *path, size_t len)
{
    for (uint32_t i = 0; i < out->n_scopes; i++)
        if (strlen(out->scope[i]) == len && !memcmp(out->scope[i], path, len))
            return;
    if (out->n_scopes == DP_CGROUP_SCOPES)
        out->is_incomplete = true;
    else
        snprintf(out->scope[out->n_scopes++], sizeof out->scope[0], "%.*s", (int)len, path);
}

static void add_step(struct dp_cgroups *out, uint32_t job_id, const char *path, size_t len)
{
    for (uint32_t i = 0; i < out->n; i++)
        if (strlen(out->step[i].path) == len && !memcmp(out->step[i].path, path, len))
            return;
    if (out->n == DP_CGROUP_STEPS) {
        out->is_incomplete = true;
        return;
    }
    out->step[out->n].job_id = job_id;
    snprintf(out->step[out->n++].path, sizeof out->step[0].path, "%.*s", (int)len, path);
}

/* "job_12" of this job, or an id of 26.05, of which the name alone says no more. */
static bool is_job_folder(const char *name, size_t len, uint32_t job_id)
{
    char job[32];
    size_t n = (size_t)snprintf(job, sizeof job, "job_%u", job_id);

    if (len == SLUID_LEN && name[0] == 's')
        return strspn(name + 1, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") >= SLUID_LEN - 1;
    return len == n && !memcmp(name, job, n);
}

/* Where a slurmstepd of the job is: SCOPE/JOB/step_S/slurm. */
static void take_stepd(const struct dp_empty_job *q, uint32_t job_id, const char *path, struct dp_cgroups *out)
{
    size_t scope = scope_len(q, path), job, step;
    const char *p = path + scope;

    if (!scope)
        return;
    add_scope(out, path, scope);
    if (*p != '/' || !is_wanted(q, job_id))
        return;
    job = strcspn(p + 1, "/");
    if (!is_job_folder(p + 1, job, job_id) || p[1 + job] != '/')
        return;
    p += 1 + job;
    step = strcspn(p + 1, "/");
    if (!strncmp(p + 1, "step_", 5) && !strcmp(p + 1 + step, "/slurm"))
        add_step(out, job_id, path, (size_t)(p + 1 + step - path));
}

/* The line of version 2 in /proc/PID/cgroup, as a text of its own. returns NULL where there is none. */
static const char *path_of(const char *text, char *out, size_t cap)
{
    const char *p = !strncmp(text, "0::", 3) ? text : strstr(text, "\n0::");
    size_t n;

    if (!p)
        return NULL;
    p = strchr(p, '/');
    n = p ? strcspn(p, "\n") : cap;
    if (n >= cap)
        return NULL;
    snprintf(out, cap, "%.*s", (int)n, p);
    return out;
}

/* A slurmstepd of root's calls itself "slurmstepd: [JOB.STEP]", and one that keeps the scope alive "slurmstepd
 * infinity". */
static void look_at_stepd(const struct dp_empty_job *q, uint32_t pid, struct dp_cgroups *out)
{
    char title[128], text[8192], path[DP_CGROUP_PATH];
    unsigned job_id = 0;

    if (!dp_proc_is_slurms(pid) || dp_proc_text(pid, "cmdline", title, sizeof title) <= 0 ||
        dp_proc_text(pid, "cgroup", text, sizeof text) <= 0 || !path_of(text, path, sizeof path))
        return;
    if (sscanf(title, "slurmstepd: [%u.", &job_id) != 1)
        job_id = 0;
    take_stepd(q, job_id, path, out);
}

static void look_at_processes(const struct dp_empty_job *q, struct dp_cgroups *out)
{
    DIR *dir = opendir("/proc");
    const struct dirent *e;
    struct stat st;

    out->is_incomplete = dir == NULL;
    while (dir && (e = readdir(dir))) {
        char *end;
        unsigned long pid = strtoul(e->d_name, &end, 10);

        if (!*end && pid > 1 && fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && st.st_uid == 0)
            look_at_stepd(q, (uint32_t)pid, out);
    }
    if (dir)
        closedir(dir);
}

/* Steps whose slurmstepd was killed, where the folder has the job's number. */
static void look_into_scope(const struct dp_empty_job *q, const char *scope, struct dp_cgroups *out)
{
    char path[DP_CGROUP_PATH], job[32];
    const struct dirent *e;
    DIR *dir;
    int fd;

    snprintf(job, sizeof job, "job_%u", q->job_id);
    fd = open_below(scope, job);
    dir = fd >= 0 ? fdopendir(fd) : NULL;
    while (dir && (e = readdir(dir)))
        if (!strncmp(e->d_name, "step_", 5) &&
            (size_t)snprintf(path, sizeof path, "%s/%s/%s", scope, job, e->d_name) < sizeof path)
            add_step(out, q->job_id, path, strlen(path));
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

/* Where Slurm has its scope unless it is told otherwise, and where nobody sits in it now. */
static void add_usual_scope(const char *scope, struct dp_cgroups *out)
{
    int fd = open_below(scope, "");

    if (fd < 0)
        return;
    add_scope(out, scope, strlen(scope));
    close(fd);
}

void dp_cgroups_read(const struct dp_empty_job *q, struct dp_cgroups *out)
{
    char own[128];

    out->n = out->n_scopes = 0;
    look_at_processes(q, out);
    snprintf(own, sizeof own, "/system.slice/%s_slurmstepd.scope", q->node);
    add_usual_scope(own, out);
    if (!q->is_shared_host)
        add_usual_scope("/system.slice/slurmstepd.scope", out);
    for (uint32_t i = 0; i < out->n_scopes; i++)
        look_into_scope(q, out->scope[i], out);
    dp_cgroup_v1_read(q, &out->v1);
    out->is_incomplete |= out->v1.is_incomplete;
}

bool dp_cgroups_have(const struct dp_cgroups *c, uint32_t job_id, const char *text)
{
    char path[DP_CGROUP_PATH];

    if (!path_of(text, path, sizeof path))
        return false;
    for (uint32_t i = 0; i < c->n; i++) {
        size_t n = strlen(c->step[i].path);

        if (c->step[i].job_id == job_id && !strncmp(path, c->step[i].path, n) && path[n] == '/')
            return true;
    }
    return false;
}

/* ---- who is in them ---- */

static bool is_extern(const char *path)
{
    return !strcmp(strrchr(path, '/'), "/step_extern");
}

/* What the kernel says of a folder and all below it. returns 1, 0 (also where it is gone), -1: not known. */
static int is_populated(const char *step)
{
    char text[256];
    const char *p;
    ssize_t n = -1;
    int dir = open_below(step, "user"), fd;

    if (dir < 0)
        return errno == ENOENT ? 0 : -1;
    fd = openat(dir, "cgroup.events", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof text - 1);
        close(fd);
    }
    /* It may have been removed meanwhile: only an empty one can be. */
    if (n < 0)
        n = errno == ENOENT || errno == ENODEV ? 0 : -1;
    close(dir);
    text[n > 0 ? n : 0] = '\0';
    p = strstr(text, "populated ");
    return n == 0 ? 0 : p ? p[strlen("populated ")] != '0' : -1;
}

uint32_t dp_cgroups_populated(const struct dp_cgroups *c, uint32_t job_id, char *which, size_t cap)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        if (c->step[i].job_id == job_id && !is_extern(c->step[i].path) && is_populated(c->step[i].path)) {
            snprintf(which, cap, "%s", c->step[i].path);
            n++;
        }
    return n;
}

static bool kill_all(const char *step)
{
    int dir = open_below(step, "user"), fd;
    bool done;

    if (dir < 0)
        return false;
    dp_rights_see_as_root(true);
    fd = is_cgroup2(dir) ? openat(dir, "cgroup.kill", O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    dp_rights_see_as_root(false);
    done = fd >= 0 && write(fd, "1", 1) == 1;
    if (fd >= 0)
        close(fd);
    close(dir);
    return done;
}

uint32_t dp_cgroups_kill(const struct dp_cgroups *c, uint32_t job_id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        if (c->step[i].job_id == job_id && !is_extern(c->step[i].path) && is_populated(c->step[i].path) == 1)
            n += kill_all(c->step[i].path);
    return n;
}
