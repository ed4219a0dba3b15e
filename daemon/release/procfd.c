/* SPDX-License-Identifier: BSD-3-Clause */
/* See procfd.h. A process that cannot be dumped gives its /proc/pid/fd to root: dp_rights_see_as_root(). */
#include "config.h"

#include "daemon/release/procfd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/release/procread.h"
#include "daemon/release/rights.h"

/* returns 1, 0: it was closed meanwhile, -1: it cannot be looked at, and errno. */
static int read_entry(int dir_fd, const char *name, struct dp_open_file *out)
{
    ssize_t n = readlinkat(dir_fd, name, out->path, sizeof out->path - 1);
    struct statx st;

    if (n < 0 && errno == ENAMETOOLONG)
        n = 0; /* its numbers say what it is */
    if (n < 0 || statx(dir_fd, name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) < 0)
        return dp_proc_has_ended(errno) ? 0 : -1;
    out->path[n] = '\0';
    out->inode = st.stx_ino;
    out->device[0] = st.stx_dev_major;
    out->device[1] = st.stx_dev_minor;
    out->is_device[0] = S_ISCHR(st.stx_mode) ? st.stx_rdev_major : 0;
    out->is_device[1] = S_ISCHR(st.stx_mode) ? st.stx_rdev_minor : 0;
    return 1;
}

static int walk(int dir_fd, bool (*fn)(void *arg, const struct dp_open_file *f), void *arg)
{
    DIR *dir = fdopendir(dir_fd);
    const struct dirent *e;
    struct dp_open_file f;
    int found = 0, error = 0, rc;

    if (!dir) {
        error = errno;
        close(dir_fd);
        errno = error;
        return -1;
    }
    while (found != 1 && (errno = 0, e = readdir(dir))) {
        rc = e->d_name[0] != '.' ? read_entry(dir_fd, e->d_name, &f) : 0;
        if (rc < 0)
            error = errno;
        found = rc > 0 && fn(arg, &f);
    }
    if (errno && found != 1 && !dp_proc_has_ended(errno))
        error = errno;
    closedir(dir);
    errno = error;
    return found == 1 ? 1 : error ? -1 : 0;
}

int dp_procfd_find(uint32_t pid, uint32_t tid, bool (*fn)(void *arg, const struct dp_open_file *f), void *arg)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    bool is_root = false;
    char path[64];
    int fd, rc, error;

    snprintf(path, sizeof path, "/proc/%u/task/%u/fd", pid, tid);
    fd = open(path, flags);
    if (fd < 0 && errno == EACCES) {
        is_root = true;
        dp_rights_see_as_root(true);
        fd = open(path, flags);
    }
    rc = fd >= 0 ? walk(fd, fn, arg) : -1;
    error = errno;
    if (is_root)
        dp_rights_see_as_root(false);
    errno = error;
    return rc;
}
