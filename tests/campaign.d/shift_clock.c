/* SPDX-License-Identifier: BSD-3-Clause */
/* A wall clock that jumps, for one process: loaded before it (LD_PRELOAD), this adds so many seconds to what clock_gettime,
 * gettimeofday and time say as stand in the file $DP_FAULTS/NODE.clock. No file: nothing. Two numbers: the one and the other in
 * turn, SWING_NS each. NODE is DP_FAULTS_NODE of a daemon, SLURMD_NODENAME of a task. The clocks that count from the boot are left
 * alone: on a machine whose wall clock is set, they run on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SWING_NS 5000000 /* about what a credential takes from one process to the other */

static int (*real_gettime)(clockid_t clock, struct timespec *out);
static char path[256]; /* kept: helpers of a daemon empty their environment */

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("DP_FAULTS"), *node = getenv("DP_FAULTS_NODE");

    *(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (!node)
        node = getenv("SLURMD_NODENAME");
    if (folder && node)
        snprintf(path, sizeof path, "%s/%s.clock", folder, node);
}

static time_t shift_s(void)
{
    int error = errno, fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char text[24], *end;
    struct timespec now = {0};
    ssize_t n = 0;
    long first, second;

    if (fd >= 0) {
        n = read(fd, text, sizeof text - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    first = strtol(text, &end, 10);
    second = *end == ' ' ? strtol(end, NULL, 10) : first;
    if (second != first)
        real_gettime(CLOCK_MONOTONIC, &now);
    errno = error;
    return (time_t)(now.tv_nsec / SWING_NS % 2 ? second : first);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc;

    if (!real_gettime)
        begin(); /* another library's constructor was first */
    rc = real_gettime(clock, out);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += shift_s();
    return rc;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    int rc = clock_gettime(CLOCK_REALTIME, &now);

    (void)zone;
    if (rc == 0)
        *out = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
