/* SPDX-License-Identifier: BSD-3-Clause */
/* See trust.h. Folders are walked upwards from an open one, so links in the path and what becomes of it
 * meanwhile do not matter: it is that folder's own ancestors that are looked at.
 */
#include "config.h"

#include "common/file/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 64 /* folders above a file; deeper ones are not trusted */

static bool is_trusted(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

static bool others_write(const struct stat *st)
{
    return (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

static int open_folder(const char *file, char *folder, size_t cap, struct dp_err *err)
{
    const char *slash = strrchr(file, '/');
    int fd;

    snprintf(folder, cap, "%.*s", !slash ? 1 : slash == file ? 1 : (int)(slash - file), slash ? file : ".");
    if (slash && (size_t)(slash - file) >= cap)
        return dp_err_set(err, DP_EINVAL, "%.80s...: too long", file);
    fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? dp_err_set(err, DP_EIO, "%s: %s", folder, strerror(errno)) : fd;
}

/* A folder above it. below: the one that was looked at before. Where others may write, a folder of somebody else
 * may be one that he made himself; root's and ours are safe there by the sticky bit. */
static int check_above(const char *folder, const struct stat *below, const struct stat *st, struct dp_err *err)
{
    if (!is_trusted(st->st_uid))
        return dp_err_set(err, DP_EAUTH, "%s: a folder above it belongs to uid %u", folder, st->st_uid);
    if (others_write(st) && (!(st->st_mode & S_ISVTX) || !is_trusted(below->st_uid)))
        return dp_err_set(err, DP_EAUTH, "%s: others may write to a folder above it (mode %04o)", folder,
                          st->st_mode & 07777);
    return 0;
}

/* fd is taken over. */
static int walk_up(int fd, const char *folder, struct stat below, struct dp_err *err)
{
    int rc = 0;

    for (int depth = 0; rc == 0; depth++) {
        struct stat st = below;
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

        close(fd);
        fd = up;
        if (fd < 0 || fstat(fd, &st) < 0 || depth == DEPTH_MAX)
            rc = dp_err_set(err, DP_EIO, "%s: the folders above it cannot be looked at", folder);
        else if (st.st_dev == below.st_dev && st.st_ino == below.st_ino)
            break; /* the root is above itself */
        else
            rc = check_above(folder, &below, &st, err);
        below = st;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int dp_trust_folder(const char *file, uid_t *owner, struct dp_err *err)
{
    char folder[256];
    int fd = open_folder(file, folder, sizeof folder, err);
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || others_write(&st)) {
        close(fd);
        return dp_err_set(err, DP_EAUTH, "%s: must be a folder that nobody else may write to (mode %04o)", folder,
                          st.st_mode & 07777);
    }
    *owner = st.st_uid;
    return walk_up(fd, folder, st, err);
}

int dp_trust_server(int fd, const char *path, struct dp_err *err)
{
    socklen_t len = sizeof(struct ucred);
    struct ucred cred = {0};
    uid_t owner;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return dp_err_set(err, DP_EAUTH, "who serves it is not known: %s", strerror(errno));
    if (dp_trust_folder(path, &owner, err) < 0)
        return -1;
    if (!is_trusted(cred.uid) && cred.uid != owner)
        return dp_err_set(err, DP_EAUTH, "served by uid %u, who is neither root nor owner of its folder", cred.uid);
    return 0;
}

/* What is there of a path, and can be looked at: it, or the nearest folder above it. */
static bool find_visible(const char *path, char *out, size_t cap, struct stat *st)
{
    char *slash;

    snprintf(out, cap, "%s", path);
    while (lstat(out, st) < 0) {
        slash = strrchr(out, '/');
        if (!slash || slash == out)
            return false;
        *slash = '\0';
    }
    return true;
}

int dp_trust_not_opened(const char *path, struct dp_err *err)
{
    const char *why = strerror(errno);
    bool is_refused = errno == EACCES || errno == EPERM;
    char visible[512];
    struct stat st;

    if (!is_refused || !find_visible(path, visible, sizeof visible, &st) || st.st_uid == geteuid())
        return dp_err_set(err, DP_EIO, "%s: %s", path, why);
    return dp_err_set(err, DP_EIO, "%s: %s: %s belongs to uid %u, and this daemon is uid %u. Did it run as another user before? "
                      "Then give it what it left: chown -R %u", path, why, visible, st.st_uid, geteuid(), geteuid());
}
