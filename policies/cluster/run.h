/* SPDX-License-Identifier: BSD-3-Clause */
/* A job mix on a cluster of equal nodes, from event to event: jobs arrive, a scheduler starts them, they
 * give nodes back, they end.
 *
 * Nodes are whole and alike, so their number is all that a decision needs. A scheduler knows the limits
 * that users ask for, never the run times, and nothing of what a DynPipe job will give back. A node that
 * is given back starts nothing before latency_ns have passed (Slurm wakes its scheduler after the update
 * of the job); one that an ending job leaves starts the next at once, with and without DynPipe.
 */
#ifndef DP_POLICIES_CLUSTER_RUN_H
#define DP_POLICIES_CLUSTER_RUN_H

#include "policies/cluster/mix.h"

#define DP_CLUSTER_END_NS 4000000000000000000u /* 126 years */

enum dp_cluster_scheduler { DP_CLUSTER_FIFO, DP_CLUSTER_EASY, DP_CLUSTER_SLURM, DP_CLUSTER_SCHEDULERS };

struct dp_cluster_scheduler_info {
    const char *name, *help;
};
extern const struct dp_cluster_scheduler_info dp_cluster_schedulers[DP_CLUSTER_SCHEDULERS];
/* By name. returns 0, or -1 with the known ones in the text. */
int dp_cluster_scheduler_find(const char *name, enum dp_cluster_scheduler *out, struct dp_err *err);

struct dp_cluster_machine {
    uint32_t nodes;
    uint64_t latency_ns; /* from the release of a node to the first job that can start on it; at most DP_CLUSTER_MAX_NS */
    /* of DP_CLUSTER_SLURM, as SchedulerParameters in slurm.conf */
    uint64_t interval_ns; /* bf_interval, at least 1 s: no two rounds of backfill are nearer */
    uint64_t window_ns;   /* bf_window, at most DP_CLUSTER_MAX_NS: nothing is reserved that would start later than so long from now */
    uint32_t depth;       /* bf_max_job_test: at most so many jobs in a round */
};

struct dp_cluster_times {
    uint64_t start_ns, end_ns;
    uint64_t promised_ns; /* EASY: the first start that the job was promised as head of the queue; else UINT64_MAX */
};

/* mix passes dp_cluster_mix_check() for machine->nodes. is_shrinking: DynPipe jobs give nodes back.
 * out: [n_jobs] overwritten; every job has run. returns -1: out of memory, or it goes on after DP_CLUSTER_END_NS. */
int dp_cluster_run(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *machine, enum dp_cluster_scheduler scheduler,
                   bool is_shrinking, struct dp_cluster_times *out, struct dp_err *err);

#endif
