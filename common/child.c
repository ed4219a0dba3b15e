/* SPDX-License-Identifier: BSD-3-Clause */
/* See child.h. */
#include "config.h"

#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

void dp_child_become(int keep_fd, double deadline_s)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGPIPE)
            signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (keep_fd > 3)
        close_range(3, (unsigned)keep_fd - 1, 0);
    close_range((unsigned)keep_fd + 1, UINT_MAX, 0);
    alarm((unsigned)ceil(deadline_s) + 1);
}

/* Where memory runs out, in the unit's share or on the node, this process is ended and not the daemon, whose own value
 * it inherited. The file of a process that cannot be dumped is root's. */
static void go_first(void)
{
    int was = prctl(PR_GET_DUMPABLE), fd;

    prctl(PR_SET_DUMPABLE, 1);
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
    prctl(PR_SET_DUMPABLE, was);
}

void dp_child_limit(uint64_t address_bytes, double cpu_s)
{
    struct rlimit core = {0, 0}, cpu = {(rlim_t)ceil(cpu_s), (rlim_t)ceil(cpu_s) + 1};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit space = {address_bytes, address_bytes};

    setrlimit(RLIMIT_AS, &space);
#else
    (void)address_bytes; /* their shadow memory is larger */
#endif
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
    go_first();
}

void dp_child_write(int fd, const uint8_t *result, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, result, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        result += n;
        bytes -= (size_t)n;
    }
}
