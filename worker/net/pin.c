/* SPDX-License-Identifier: BSD-3-Clause */
/* See pin.h. Slurm may have bound the task already; only cores that it left are used, so a worker that
 * was given one core stays on it. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "worker/net/pin.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

int dp_pin(uint32_t local_rank, uint32_t n_local, uint32_t threads, struct dp_err *err)
{
    int allowed[CPU_SETSIZE];
    uint32_t n = 0;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return dp_err_set(err, DP_EIO, "cores of this process: %s", strerror(errno));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            allowed[n++] = i;
    if (n < (uint64_t)n_local * threads)
        return 0;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < threads; i++)
        CPU_SET(allowed[local_rank * threads + i], &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        return dp_err_set(err, DP_EIO, "cannot bind to core %d: %s", allowed[local_rank * threads], strerror(errno));
    return 0;
}
