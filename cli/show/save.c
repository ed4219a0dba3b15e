/* SPDX-License-Identifier: BSD-3-Clause */
/* See save.h. */
#include "config.h"

#include "cli/show/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Half a picture is none. But a device, or a link to one, is nobody's to remove. */
static void remove_half(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(path);
}

/* A new file beside one of ours, or beside where none is, to take its place: what was there before stays until all of the
 * new one is on the disk. returns -1 for everything else, which is written where it is: devices, links, files of others. */
static int open_beside(const char *path, char *out, size_t cap)
{
    mode_t mask = umask(0);
    struct stat st = {.st_mode = S_IFREG | (0666 & ~mask), .st_nlink = 1, .st_uid = geteuid()};
    int fd;

    umask(mask);
    if (lstat(path, &st) == 0 ? !S_ISREG(st.st_mode) || access(path, W_OK) < 0 : errno != ENOENT)
        return -1;
    if (st.st_nlink != 1 || st.st_uid != geteuid() || (size_t)snprintf(out, cap, "%s.XXXXXX", path) >= cap)
        return -1;
    fd = mkostemp(out, O_CLOEXEC);
    if (fd >= 0)
        fchmod(fd, st.st_mode & 0777);
    return fd;
}

int dp_show_save(const char *path, char *text, size_t bytes, struct dp_err *err)
{
    char beside[PATH_MAX];
    int fd = text ? open_beside(path, beside, sizeof beside) : -1, rc = 0;
    FILE *f;

    if (!text)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
    f = fd >= 0 ? fdopen(fd, "w") : fopen(path, "we");
    if (!f || fwrite(text, 1, bytes, f) != bytes)
        rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (f && fclose(f) != 0 && rc == 0)
        rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (fd >= 0 && rc == 0 && rename(beside, path) < 0)
        rc = dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (fd >= 0 && rc < 0)
        unlink(beside);
    else if (f && rc < 0)
        remove_half(path);
    free(text);
    return rc;
}
