/* SPDX-License-Identifier: BSD-3-Clause */
/* See memory_limit.h. Slurm limits a step's memory by its cgroup (ConstrainRAMSpace), or by an rlimit, or not
 * at all; a policy that knows the limit never proposes a layout that the kernel would kill. Workers
 * that share a node share its cgroup: then pipeline.memory_mb says what each may take. */
#include "worker/train/start/memory_limit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define UNLIMITED (UINT64_C(1) << 60) /* v1 says "no limit" by a number near 2^63 */

/* The lower of two limits; 0 is none. */
static uint64_t lower_limit(uint64_t a, uint64_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* A file of the kernel as text, NUL-terminated; empty when it cannot be read. */
static void slurp(const char *path, char *out, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, cap - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
}

static uint64_t limit_in(const char *folder, const char *file)
{
    char path[PATH_MAX + 32], text[64], *end;
    unsigned long long v;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    slurp(path, text, sizeof text);
    v = strtoull(text, &end, 10);
    return end == text || v >= UNLIMITED ? 0 : v; /* "max": no number */
}

/* The limits of a cgroup and of all above it, up to the root of its hierarchy. */
static uint64_t limit_up(const char *base, const char *group, const char *file)
{
    char folder[PATH_MAX];
    size_t floor = strlen(base);
    uint64_t limit = 0;

    if ((size_t)snprintf(folder, sizeof folder, "%s%s", base, group) >= sizeof folder)
        return 0;
    for (;;) {
        char *slash;

        limit = lower_limit(limit, limit_in(folder, file));
        slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < floor)
            return limit;
        *slash = '\0';
    }
}

/* "0::/path" (v2) or "5:memory:/path" (v1). */
uint64_t dp_memory_cgroup_limit(const char *root, const char *cgroups)
{
    char line[PATH_MAX], base[PATH_MAX];
    uint64_t limit = 0;

    for (const char *p = cgroups; *p;) {
        size_t n = strcspn(p, "\n");
        char *controllers, *group;

        snprintf(line, sizeof line, "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
        controllers = strchr(line, ':');
        group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (!controllers[1]) {
            limit = lower_limit(limit, limit_up(root, group, "memory.max"));
        } else if (!strcmp(controllers + 1, "memory")) {
            snprintf(base, sizeof base, "%.4000s/memory", root);
            limit = lower_limit(limit, limit_up(base, group, "memory.limit_in_bytes"));
        }
    }
    return limit;
}

static uint64_t line_of(const char *stat, const char *name)
{
    const char *at = stat;
    size_t n = strlen(name);

    while (at && (strncmp(at, name, n) != 0 || at[n] != ' ')) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at + n + 1, NULL, 10) : 0;
}

/* total: "" (v2), or what v1 puts before the numbers of a whole subtree. */
static uint64_t held_in(const char *folder, const char *usage, const char *total)
{
    static const char *const clean[] = {"inactive_file", "active_file"}, *const dirty[2][2] = {
        {"file_dirty", "file_writeback"}, {"dirty", "writeback"}};
    char path[PATH_MAX + 32], stat[16384], name[64];
    uint64_t held = limit_in(folder, usage), files = 0, kept = 0;

    snprintf(path, sizeof path, "%s/memory.stat", folder);
    slurp(path, stat, sizeof stat);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", total, clean[i]);
        files += line_of(stat, name);
        snprintf(name, sizeof name, "%s%s", total, dirty[*total != '\0'][i]);
        kept += line_of(stat, name);
    }
    files = files > kept ? files - kept : 0;
    return held > files ? held - files : 0;
}

/* What is above the step of a path like /job_7/step_0/user/task_0: the job's. From 26.05 on its name is another id. */
static bool cut_to_job(char *group)
{
    char *at = strstr(group, "/step_");

    if (!at || at == group)
        return false;
    *at = '\0';
    return true;
}

uint64_t dp_memory_job(const char *root, const char *cgroups)
{
    char line[PATH_MAX], folder[2 * PATH_MAX];
    uint64_t held = 0;

    for (const char *p = cgroups; *p && !held;) {
        size_t n = strcspn(p, "\n");
        char *controllers, *group;

        snprintf(line, sizeof line, "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
        controllers = strchr(line, ':');
        group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || !cut_to_job(group + 1))
            continue;
        *group++ = '\0';
        if (!controllers[1] && (size_t)snprintf(folder, sizeof folder, "%s%s", root, group) < PATH_MAX)
            held = held_in(folder, "memory.current", "");
        else if (!strcmp(controllers + 1, "memory") &&
                 (size_t)snprintf(folder, sizeof folder, "%s/memory%s", root, group) < PATH_MAX)
            held = held_in(folder, "memory.usage_in_bytes", "total_");
    }
    return held;
}

uint64_t dp_memory_own_job(void)
{
    char cgroups[8192];

    slurp("/proc/self/cgroup", cgroups, sizeof cgroups);
    return dp_memory_job("/sys/fs/cgroup", cgroups);
}

static uint64_t rlimit_of(int what)
{
    struct rlimit r;

    return getrlimit(what, &r) < 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= UNLIMITED ? 0 : r.rlim_cur;
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    char text[128];

    slurp("/proc/self/statm", text, sizeof text);
    return sscanf(text, "%*u %llu", &pages) == 1 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* A device that cannot say any more what is free has failed: whatever it is told next says so. */
static uint64_t device_limit(struct dp_backend *be, uint64_t stage_bytes)
{
    struct dp_device_info now = be->info;

    if (be->ops->info(be, &now, NULL) < 0)
        now = be->info;
    return now.free_bytes + stage_bytes;
}

uint64_t dp_memory_limit(struct dp_backend *be, int64_t memory_mb, uint64_t stage_bytes)
{
    uint64_t resident = resident_bytes(), base = resident > stage_bytes ? resident - stage_bytes : 0, limit;
    char cgroups[8192];

    if (memory_mb > 0)
        return (uint64_t)memory_mb << 20;
    if (be->info.total_bytes)
        return device_limit(be, stage_bytes);
    slurp("/proc/self/cgroup", cgroups, sizeof cgroups);
    limit = lower_limit(dp_memory_cgroup_limit("/sys/fs/cgroup", cgroups), lower_limit(rlimit_of(RLIMIT_AS), rlimit_of(RLIMIT_DATA)));
    if (!limit)
        return 0;
    return limit > base ? limit - base : 1; /* 1: no room at all, which 0 would not say */
}
