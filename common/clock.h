/* SPDX-License-Identifier: BSD-3-Clause */
/* The three clocks of the project, and their unit. Wall-clock time is for printing only. */
#ifndef DP_COMMON_CLOCK_H
#define DP_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define DP_SECOND_NS UINT64_C(1000000000) /* a second in nanoseconds */
#define DP_MS_NS UINT64_C(1000000)        /* a millisecond likewise */

static inline uint64_t dp_clock_read_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * DP_SECOND_NS + (uint64_t)t.tv_nsec;
}

/* Monotonic time: deadlines, pauses, durations. */
static inline uint64_t dp_now_ns(void)
{
    return dp_clock_read_ns(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread: the cost of a layer on backend cpu, where workers may share
 * cores (design.md, "When to move, when to pack"). */
static inline uint64_t dp_thread_cpu_ns(void)
{
    return dp_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Seconds since 1970, for records that people read. */
static inline uint64_t dp_wall_ns(void)
{
    return dp_clock_read_ns(CLOCK_REALTIME);
}

#endif
