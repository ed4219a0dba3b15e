/* SPDX-License-Identifier: BSD-3-Clause */
/* Benchmarks between workers: a process for each, as in a run, that know each other by the real transport. */
#ifndef DP_WORKER_BENCH_WORKERS_H
#define DP_WORKER_BENCH_WORKERS_H

#include "worker/net/transport.h"

#define BENCH_MAX_WORKERS 16 /* processes on one machine */

/* Fork n - 1 times, each process the next one: every process but the last has one child to wait for. fd: n pairs, filled but
 * for the first. returns: the rank of this process, or -1 (DP_EIO). */
int bench_workers_start(int n, int fd[][2], struct dp_err *err);
/* The transport of a process, which knows rank 0, or as rank 0 all others. The caller destroys it. NULL on failure. */
struct dp_transport *bench_workers_meet(uint32_t rank, uint32_t n, int fd[][2], struct dp_err *err);

#endif
