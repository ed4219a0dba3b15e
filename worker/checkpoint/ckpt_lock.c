/* SPDX-License-Identifier: BSD-3-Clause */
/* See ckpt_lock.h. The lock is flock(2) on DIR/.lock, so the kernel drops it with the process, however
 * that one ends; the text in the file only tells people who holds it. The file stays: removing it would
 * let two processes lock two files of the same name. */
#include "worker/checkpoint/ckpt_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define PATIENCE_NS UINT64_C(3000000000) /* a run before this one that is being killed gives it back within that */
#define RETRY_NS 50000000 /* a try costs a system call */

static void say_holder(int fd)
{
    char host[128] = "?", text[192];
    int n;

    gethostname(host, sizeof host - 1);
    n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < 0)
        return; /* the lock holds all the same */
}

static int refuse(const char *dir, int fd, struct dp_err *err)
{
    char text[192] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return dp_err_set(err, DP_EINVAL, "checkpoint.dir %s is in use by another run (%s): give each run a directory of its own",
                      dir, text[0] ? text : "unknown");
}

/* returns: 0 locked, or errno. */
static int lock_patiently(int fd)
{
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    uint64_t end = dp_now_ns() + PATIENCE_NS;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EINTR && (errno != EWOULDBLOCK || dp_now_ns() > end))
            return errno;
        nanosleep(&pause, NULL);
    }
    return 0;
}

int dp_ckpt_lock(const struct dp_train_config *config, int *out, struct dp_err *err)
{
    const char *dir = config->checkpoint.dir;
    char path[sizeof config->checkpoint.dir + 8];
    int fd, why;

    *out = -1;
    if (!dir[0])
        return 0;
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return dp_err_set(err, DP_EIO, "checkpoint.dir %s: %s", dir, strerror(errno));
    snprintf(path, sizeof path, "%s/.lock", dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "checkpoint.dir %s: %s", dir, strerror(errno));
    why = lock_patiently(fd);
    if (why == EWOULDBLOCK) {
        refuse(dir, fd, err);
        close(fd);
        return -1;
    }
    if (why) {
        dp_warn("checkpoint.dir %s cannot be locked (%s): see that no other run uses it", dir, strerror(why));
        close(fd);
        return 0;
    }
    say_holder(fd);
    *out = fd;
    return 0;
}
