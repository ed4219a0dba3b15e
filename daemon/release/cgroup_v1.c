/* SPDX-License-Identifier: BSD-3-Clause */
/* See cgroup_v1.h. The way to a job's folder is walked from the root of each hierarchy, and every folder on it must be
 * root's: nobody else can have put a process there. freezer.state is root's, and opened as root (rights.h).
 */
#include "config.h"

#include "daemon/release/cgroup_v1.h"

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

#include "daemon/release/rights.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define DEPTH_MAX 8      /* of folders below a job's: step and task, and what a task made of its own */
#define FOLDERS_MAX 4096 /* of one job: whoever may make some can make many */

struct walk {
    const struct dp_empty_job *q;
    struct dp_cgroup_v1 *found;
    bool must_thaw;
    uint32_t n_folders, n_thawed;
};

static bool is_removed(int error)
{
    return error == ENOENT || error == ENODEV;
}

/* ---- one folder ---- */

static void take_processes(struct walk *w, int dir)
{
    int fd = openat(dir, "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct dp_cgroup_v1 *c = w->found;
    unsigned pid;

    if (!f) {
        c->is_incomplete |= fd >= 0 || !is_removed(errno);
        if (fd >= 0)
            close(fd);
        return;
    }
    errno = 0;
    while (fscanf(f, "%u", &pid) == 1) {
        if (pid == 0 || c->n == DP_CGROUP_V1_PIDS) { /* 0: one that our name space of pids does not have */
            c->is_incomplete = true;
            break;
        }
        c->pid[c->n++] = pid;
    }
    c->is_incomplete |= ferror(f) && !is_removed(errno);
    fclose(f);
}

static bool is_frozen(int dir)
{
    int fd = openat(dir, "freezer.state", O_RDONLY | O_NOFOLLOW | O_CLOEXEC); /* only this hierarchy has it */
    char text[16] = "";
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && strncmp(text, "THAWED", 6) != 0;
}

static bool thaw(int dir)
{
    bool done;
    int fd;

    dp_rights_see_as_root(true);
    fd = openat(dir, "freezer.state", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    dp_rights_see_as_root(false);
    done = fd >= 0 && write(fd, "THAWED", 6) == 6;
    if (fd >= 0)
        close(fd);
    return done;
}

/* Look at a folder of the job and all below; takes dir. A guest of sshd counts where his processes say that they are the
 * job's: in step_extern Slurm has a process of its own. */
static void visit(struct walk *w, int dir, int depth, bool is_extern)
{
    DIR *list = fdopendir(dir);
    const struct dirent *e;

    if (!list || depth == DEPTH_MAX || ++w->n_folders > FOLDERS_MAX) {
        w->found->is_incomplete = true;
        if (list)
            closedir(list);
        else
            close(dir);
        return;
    }
    if (!is_extern)
        take_processes(w, dir);
    if (is_frozen(dir)) {
        w->found->n_frozen++;
        w->n_thawed += w->must_thaw && thaw(dir);
    }
    while (errno = 0, (e = readdir(list))) {
        int next = e->d_type == DT_DIR && e->d_name[0] != '.' ? openat(dir, e->d_name, OPEN_DIR) : -1;

        if (next >= 0)
            visit(w, next, depth + 1, is_extern || !strcmp(e->d_name, "step_extern"));
        else if (e->d_type == DT_DIR && e->d_name[0] != '.')
            w->found->is_incomplete |= !is_removed(errno);
    }
    w->found->is_incomplete |= errno != 0 && !is_removed(errno);
    closedir(list);
}

/* ---- where they are ---- */

/* "30 25 0:26 / /sys/fs/cgroup/freezer rw,relatime shared:13 - cgroup cgroup rw,freezer": the root must be this name
 * space's own. */
static bool is_hierarchy(const char *line, char *point, size_t cap)
{
    char root[8] = "", where[256] = "";

    if (!strstr(line, " - cgroup ") || sscanf(line, "%*d %*d %*s %7s %255s", root, where) != 2 || strcmp(root, "/") ||
        strchr(where, '\\'))
        return false;
    snprintf(point, cap, "%s", where);
    return true;
}

/* Go into a folder of root's; takes dir. returns -1 where there is none, or none that may be trusted. */
static int go_into(struct walk *w, int dir, const char *name)
{
    int next = openat(dir, name, OPEN_DIR), error = errno;
    struct stat st;

    close(dir);
    if (next < 0) {
        w->found->is_incomplete |= !is_removed(error);
        return -1;
    }
    if (fstat(next, &st) == 0 && st.st_uid == 0)
        return next;
    close(next);
    return -1;
}

static void look_into(struct walk *w, const char *point, const char *base)
{
    char uid[32], job[32];
    int dir = open(point, OPEN_DIR);
    struct statfs fs;

    snprintf(uid, sizeof uid, "uid_%u", w->q->uid);
    snprintf(job, sizeof job, "job_%u", w->q->job_id);
    if (dir < 0 || fstatfs(dir, &fs) < 0 || fs.f_type != CGROUP_SUPER_MAGIC) {
        w->found->is_incomplete |= dir < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
        if (dir >= 0)
            close(dir);
        return; /* something else lies on top of it */
    }
    dir = go_into(w, dir, base);
    w->found->is_kept |= dir >= 0;
    dir = dir >= 0 ? go_into(w, dir, uid) : -1;
    dir = dir >= 0 ? go_into(w, dir, job) : -1;
    if (dir >= 0)
        visit(w, dir, 0, false);
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void keep_each_once(struct dp_cgroup_v1 *c)
{
    uint32_t n = 0;

    qsort(c->pid, c->n, sizeof c->pid[0], by_number);
    for (uint32_t i = 0; i < c->n; i++)
        if (n == 0 || c->pid[n - 1] != c->pid[i])
            c->pid[n++] = c->pid[i];
    c->n = n;
}

/* Where several slurmd share a machine, only the folder that names ours. */
static void walk_all(struct walk *w)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, point[256], own[80];
    struct dp_cgroup_v1 *c = w->found;
    size_t cap = 0;

    c->n = c->n_frozen = 0;
    c->is_kept = false;
    c->is_incomplete = f == NULL;
    snprintf(own, sizeof own, "slurm_%s", w->q->node);
    while (f && getline(&line, &cap, f) > 0) {
        if (!is_hierarchy(line, point, sizeof point))
            continue;
        look_into(w, point, own);
        if (!w->q->is_shared_host)
            look_into(w, point, "slurm");
    }
    free(line);
    if (f)
        fclose(f);
    keep_each_once(c);
}

void dp_cgroup_v1_read(const struct dp_empty_job *q, struct dp_cgroup_v1 *out)
{
    struct walk w = {.q = q, .found = out};

    walk_all(&w);
}

bool dp_cgroup_v1_has(const struct dp_cgroup_v1 *c, uint32_t pid)
{
    return bsearch(&pid, c->pid, c->n, sizeof pid, by_number) != NULL;
}

uint32_t dp_cgroup_v1_thaw(const struct dp_empty_job *q)
{
    static struct dp_cgroup_v1 found;
    struct walk w = {.q = q, .found = &found, .must_thaw = true};

    walk_all(&w);
    return w.n_thawed;
}
