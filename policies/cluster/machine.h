/* SPDX-License-Identifier: BSD-3-Clause */
/* A cluster of equal nodes, as its scheduler is configured, and when the jobs of a mix ran on it. */
#ifndef DP_POLICIES_CLUSTER_MACHINE_H
#define DP_POLICIES_CLUSTER_MACHINE_H

#include <stdint.h>

struct dp_cluster_machine {
    uint32_t nodes;
    uint64_t latency_ns; /* from the release of a node to the first job that can start on it; at most DP_CLUSTER_MAX_NS */
    /* of scheduler slurm, as SchedulerParameters in slurm.conf */
    uint64_t interval_ns; /* bf_interval, at least 1 s: no two rounds of backfill are nearer */
    uint64_t window_ns;   /* bf_window, at most DP_CLUSTER_MAX_NS: nothing is reserved that would start later than so long from now */
    uint32_t depth;       /* bf_max_job_test: at most so many jobs in a round */
};

struct dp_cluster_times {
    uint64_t start_ns, end_ns;
    uint64_t promised_ns; /* EASY: the first start that the job was promised as head of the queue; else UINT64_MAX */
};

#endif
