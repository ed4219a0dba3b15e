/* SPDX-License-Identifier: BSD-3-Clause */
/* Speaks to a dynpiped's helper as somebody who took over the process that listens: takes that process's own
 * socket to it and sends requests of his own.
 *
 *   priv_probe PID fence JOB RESTART [WORKER-PID ...]    prints "gone=0|1 TEXT"
 *   priv_probe PID shrink JOB RESTART KEEP               prints "rc=N TEXT"
 *   priv_probe PID requeue JOB RESTART                   the same
 *   priv_probe PID flood N                               N requests with descriptors too many; prints nothing
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/release/as_owner.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/privileged.h"

#define DEADLINE_S 30.0
#define FLOOD_FDS 3

/* Our copy of its descriptor for a socket that keeps messages apart: the only one that it has. */
static int steal_socket(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    for (int theirs = 0; pidfd >= 0 && theirs < 256; theirs++) {
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0), type = 0;
        socklen_t len = sizeof type;

        if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET)
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

static int send_request(int fd, uint32_t op, const void *request, size_t bytes, const int *fds, size_t n_fds)
{
    struct dp_priv_envelope e = {op, DEADLINE_S};
    union {
        char buf[CMSG_SPACE(FLOOD_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov[2] = {{&e, sizeof e}, {(void *)(uintptr_t)request, bytes}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control,
                         .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
    struct cmsghdr *c;

    memset(&control, 0, sizeof control);
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* returns: bytes of the answer, read to its end. */
static size_t ask(int fd, uint32_t op, const void *request, size_t bytes, void *answer, size_t cap)
{
    size_t used = 0;
    ssize_t n;
    int ends[2];

    if (pipe(ends) < 0 || send_request(fd, op, request, bytes, &ends[1], 1) < 0) {
        perror("priv_probe");
        exit(1);
    }
    close(ends[1]);
    while (used < cap && (n = read(ends[0], (char *)answer + used, cap - used)) > 0)
        used += (size_t)n;
    close(ends[0]);
    return used;
}

static int fence(int fd, int argc, char **argv)
{
    struct dp_empty_request q = {.job_id = (uint32_t)strtoul(argv[3], NULL, 10),
                                 .restart_count = (uint32_t)strtoul(argv[4], NULL, 10), .timeout_ms = 1500};
    struct dp_empty_result r;

    for (int i = 5; i < argc; i++)
        q.worker[q.n_workers++].pid = (uint32_t)strtoul(argv[i], NULL, 10);
    if (ask(fd, DP_PRIV_EMPTY, &q, sizeof q, &r, sizeof r) != sizeof r)
        return 1;
    printf("gone=%d %s\n", r.gone, r.text);
    return 0;
}

static int shrink(int fd, char **argv)
{
    static struct dp_shrink_request q;
    struct dp_shrink_result r;

    q.job_id = (uint32_t)strtoul(argv[3], NULL, 10);
    q.restart_count = (uint32_t)strtoul(argv[4], NULL, 10);
    snprintf(q.keep, sizeof q.keep, "%s", argv[5]);
    if (ask(fd, DP_PRIV_SHRINK, &q, sizeof q, &r, sizeof r) != sizeof r)
        return 1;
    printf("rc=%d %s\n", r.rc, r.text);
    return 0;
}

static int requeue(int fd, char **argv)
{
    const struct dp_requeue_request q = {(uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10), 1};
    struct dp_shrink_result r;

    if (ask(fd, DP_PRIV_REQUEUE, &q, sizeof q, &r, sizeof r) != sizeof r)
        return 1;
    printf("rc=%d %s\n", r.rc, r.text);
    return 0;
}

static int flood(int fd, unsigned long n)
{
    static struct dp_empty_request q;
    const int fds[FLOOD_FDS] = {fd, fd, fd};

    for (unsigned long i = 0; i < n; i++)
        if (send_request(fd, DP_PRIV_EMPTY, &q, sizeof q, fds, 2 + i % 2) < 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int fd = argc >= 4 ? steal_socket((pid_t)strtol(argv[1], NULL, 10)) : -1;

    if (fd < 0) {
        fprintf(stderr, "priv_probe: no socket: %s\n", strerror(errno));
        return 2;
    }
    if (!strcmp(argv[2], "fence") && argc >= 5)
        return fence(fd, argc, argv);
    if (!strcmp(argv[2], "shrink") && argc == 6)
        return shrink(fd, argv);
    if (!strcmp(argv[2], "requeue") && argc == 5)
        return requeue(fd, argv);
    if (!strcmp(argv[2], "flood"))
        return flood(fd, strtoul(argv[3], NULL, 10));
    return 2;
}
