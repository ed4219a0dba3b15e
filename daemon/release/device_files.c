/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_files.h. A device is known by its numbers where we see it, whatever name a process opened it by;
 * and by its name, because a daemon with a /dev of its own (PrivateDevices=yes) does not see it. The processes
 * of a job have no such /dev.
 */
#include "config.h"

#include "daemon/release/device_files.h"

#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "daemon/release/procfd.h"

/* Call fn for every pattern of the list until it says true. */
static bool any_pattern(const char *list, bool (*fn)(void *arg, const char *pattern), void *arg)
{
    char pattern[256];

    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");

        while (*p == ' ' && n > 0) {
            p++;
            n--;
        }
        snprintf(pattern, sizeof pattern, "%.*s", (int)n, p);
        if (pattern[0] && fn(arg, pattern))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static bool find_devices(void *arg, const char *pattern)
{
    struct dp_device_files *d = arg;
    struct stat st;
    glob_t found;

    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc && d->n < DP_DEVICES_MAX; i++)
        if (stat(found.gl_pathv[i], &st) == 0 && S_ISCHR(st.st_mode)) {
            d->number[d->n][0] = major(st.st_rdev);
            d->number[d->n][1] = minor(st.st_rdev);
            d->n++;
        }
    globfree(&found);
    return false;
}

void dp_device_files_find(struct dp_device_files *d, const char *patterns)
{
    memset(d, 0, sizeof *d);
    snprintf(d->patterns, sizeof d->patterns, "%s", patterns);
    any_pattern(d->patterns, find_devices, d);
}

static bool is_name(void *arg, const char *pattern)
{
    return fnmatch(pattern, arg, FNM_PATHNAME) == 0;
}

struct question {
    const struct dp_device_files *d;
    char *path;
};

static bool is_device(void *arg, const struct dp_open_file *f)
{
    struct question *q = arg;
    bool found = false;

    for (uint32_t i = 0; i < q->d->n && !found; i++)
        found = f->is_device[0] == q->d->number[i][0] && f->is_device[1] == q->d->number[i][1];
    if (!found)
        found = any_pattern(q->d->patterns, is_name, (void *)(uintptr_t)f->path);
    if (found)
        memcpy(q->path, f->path, sizeof f->path);
    return found;
}

int dp_device_files_are_open(const struct dp_device_files *d, uint32_t pid, uint32_t tid, char path[256])
{
    struct question q = {d, path};

    return d->patterns[0] ? dp_procfd_find(pid, tid, is_device, &q) : 0;
}
