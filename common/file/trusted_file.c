/* SPDX-License-Identifier: BSD-3-Clause */
/* See trusted_file.h. The folders are looked at from the root down: who may not write one cannot put
 * something else under the names below it between this look and the use. */
#include "common/file/trusted_file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_one(const char *path, bool is_file, struct dp_err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (S_ISLNK(st.st_mode))
        return dp_err_set(err, DP_EAUTH, "%s is a symbolic link; give the path that it points to", path);
    if (is_file && !S_ISREG(st.st_mode))
        return dp_err_set(err, DP_EAUTH, "%s is not a regular file", path);
    if (!is_file && !S_ISDIR(st.st_mode))
        return dp_err_set(err, DP_EAUTH, "%s is not a folder", path);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return dp_err_set(err, DP_EAUTH, "%s belongs to uid %u, must belong to root or the daemon's user",
                          path, st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH) && (is_file || !(st.st_mode & S_ISVTX)))
        return dp_err_set(err, DP_EAUTH, "%s: others may write to it (mode %04o)", path, st.st_mode & 07777);
    return 0;
}

int dp_trusted_file_check(const char *file, struct dp_err *err)
{
    char path[256];
    size_t n = strlen(file);

    if (file[0] != '/' || n >= sizeof path)
        return dp_err_set(err, DP_EAUTH, "%.80s: must be an absolute path of at most %zu bytes", file,
                          sizeof path - 1);
    if (strstr(file, "/../") || strstr(file, "/./") || strstr(file, "//") || file[n - 1] == '/')
        return dp_err_set(err, DP_EAUTH, "%s: must be written without . and .. and double slashes", file);
    memcpy(path, file, n + 1);
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/')
            continue;
        path[i] = '\0';
        if (check_one(path, false, err) < 0)
            return -1;
        path[i] = '/';
    }
    return check_one(path, true, err);
}
