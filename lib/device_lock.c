/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_lock.h. */
#include "lib/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"

#define RETRY_NS UINT64_C(1000000000) /* whoever tests it holds it for a moment */

void dp_device_lock_init(struct dp_device_lock *l)
{
    *l = (struct dp_device_lock){.fd = -1};
}

/* The file, if it is one: what is a device or a pipe is not opened to its end. -1 and errno. */
static int open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

int dp_device_lock_take(struct dp_device_lock *l, const char *path)
{
    uint64_t now = dp_now_ns();
    int fd, why;

    if (l->fd >= 0 || !path[0] || (l->tried_ns && now - l->tried_ns < RETRY_NS))
        return 0;
    l->tried_ns = now;
    fd = open_file(path);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0) {
        l->fd = fd;
        return 0;
    }
    why = errno;
    if (fd >= 0)
        close(fd);
    if (l->has_failed)
        return 0;
    l->has_failed = true;
    errno = why;
    return -1;
}

void dp_device_lock_release(struct dp_device_lock *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
