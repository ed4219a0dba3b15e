/* SPDX-License-Identifier: BSD-3-Clause */
/* What the event loop (run.c) and the schedulers share: the queue, the free nodes, and who runs until
 * when, as far as a scheduler may know. */
#ifndef DP_POLICIES_CLUSTER_STATE_H
#define DP_POLICIES_CLUSTER_STATE_H

#include "policies/cluster/queue.h"
#include "policies/cluster/run.h"

/* A job that runs, as the scheduler sees it. */
struct dp_cluster_running {
    uint64_t limit_ends_ns;
    uint32_t job, nodes;
};

/* Free nodes over time, for DP_CLUSTER_SLURM: entry i holds from its time to that of entry i + 1. */
struct dp_cluster_free {
    uint64_t from_ns;
    uint32_t nodes;
};

struct dp_cluster_state {
    const struct dp_cluster_mix *mix;
    const struct dp_cluster_machine *machine;
    bool is_shrinking;
    uint64_t now_ns;
    uint32_t free;
    struct dp_cluster_queue queue;
    uint32_t n_running;
    struct dp_cluster_running *running; /* by limit_ends_ns, then job */
    struct dp_cluster_times *times;     /* [n_jobs] */
    struct dp_cluster_free *plan;       /* room for 2 * (running jobs + depth) + 2 entries; only of DP_CLUSTER_SLURM */
    uint32_t n_plan;
    /* of run.c */
    struct dp_cluster_event *heap;
    uint32_t n_heap;
};

/* Start a job that waits and fits into the free nodes. */
void dp_cluster_start(struct dp_cluster_state *s, uint32_t job);

/* In strict order from the head until one does not fit. returns: the job that does not, or DP_CLUSTER_NONE. */
uint32_t dp_cluster_start_in_order(struct dp_cluster_state *s);

/* Something has changed: start what may start. Never fail. */
void dp_cluster_pass_easy(struct dp_cluster_state *s);
/* One round of backfill. returns: has a job started? Then the next round may look at others. */
bool dp_cluster_round_slurm(struct dp_cluster_state *s);

#endif
