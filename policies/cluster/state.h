/* SPDX-License-Identifier: BSD-3-Clause */
/* What the event loop (run.c) and the schedulers share: the queue, the free nodes, who runs until when, as far as a
 * scheduler may know, and the events to come. */
#ifndef DP_POLICIES_CLUSTER_STATE_H
#define DP_POLICIES_CLUSTER_STATE_H

#include "policies/cluster/machine.h"
#include "policies/cluster/mix.h"
#include "policies/cluster/queue.h"

/* A job that runs, as the scheduler sees it. */
struct dp_cluster_running {
    uint64_t limit_ends_ns;
    uint32_t job, nodes;
};

/* Free nodes over time, for a scheduler with rounds: entry i holds from its time to that of entry i + 1. */
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
    struct dp_cluster_free *plan;       /* room for 2 * (running jobs + depth) + 2 entries; only where the scheduler has rounds */
    uint32_t n_plan;
    /* of state.c */
    struct dp_cluster_event *heap;
    uint32_t n_heap;
};

/* At the beginning of time; is_shrinking and times are the caller's. Release it, whatever this returns (0 or -1). */
int dp_cluster_state_create(struct dp_cluster_state *s, const struct dp_cluster_mix *mix, const struct dp_cluster_machine *machine,
                            bool has_plan, struct dp_err *err);
void dp_cluster_state_release(struct dp_cluster_state *s);

/* When the next job ends or gives nodes back; UINT64_MAX: none does. */
uint64_t dp_cluster_next_ns(const struct dp_cluster_state *s);
/* Carry out all of that at now_ns: first who ends, then what is given back. */
void dp_cluster_carry_out(struct dp_cluster_state *s);

/* Start a job that waits and fits into the free nodes. */
void dp_cluster_start(struct dp_cluster_state *s, uint32_t job);

/* In strict order from the head until one does not fit. returns: the job that does not, or DP_CLUSTER_NONE. */
uint32_t dp_cluster_start_in_order(struct dp_cluster_state *s);

/* Something has changed: start what may start. Never fail. */
void dp_cluster_pass_easy(struct dp_cluster_state *s);
/* One round of backfill. returns: has a job started? Then the next round may look at others. */
bool dp_cluster_round_slurm(struct dp_cluster_state *s);

#endif
