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

#include "daemon/release/rights.h"

static bool read_entry(int dir_fd, const char *name, struct dp_open_file *out)
{
    ssize_t n = readlinkat(dir_fd, name, out->path, sizeof out->path - 1);
    struct statx st;

    if (n <= 0 || statx(dir_fd, name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) < 0)
        return false;
    out->path[n] = '\0';
    out->inode = st.stx_ino;
    out->device[0] = st.stx_dev_major;
    out->device[1] = st.stx_dev_minor;
    out->is_device[0] = S_ISCHR(st.stx_mode) ? st.stx_rdev_major : 0;
    out->is_device[1] = S_ISCHR(st.stx_mode) ? st.stx_rdev_minor : 0;
    return true;
}

static int walk(int dir_fd, bool (*fn)(void *arg, const struct dp_open_file *f), void *arg)
{
    DIR *dir = fdopendir(dir_fd);
    const struct dirent *e;
    struct dp_open_file f;
    int found = 0;

    if (!dir) {
        close(dir_fd);
        return -1;
    }
    while (!found && (e = readdir(dir)))
        if (e->d_name[0] != '.' && read_entry(dir_fd, e->d_name, &f))
            found = fn(arg, &f);
    closedir(dir);
    return found;
}

int dp_procfd_find(uint32_t pid, bool (*fn)(void *arg, const struct dp_open_file *f), void *arg)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    bool is_root = false;
    char path[64];
    int fd, rc;

    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    fd = open(path, flags);
    if (fd < 0 && errno == EACCES) {
        is_root = true;
        dp_rights_see_as_root(true);
        fd = open(path, flags);
    }
    rc = fd >= 0 ? walk(fd, fn, arg) : errno == ENOENT || errno == ESRCH ? 0 : -1;
    if (is_root)
        dp_rights_see_as_root(false);
    return rc;
}
