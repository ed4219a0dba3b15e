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

#include "policies/cluster/machine.h"
#include "policies/cluster/mix.h"
#include "policies/cluster/scheduler.h"

#define DP_CLUSTER_END_NS 4000000000000000000u /* 126 years */

/* mix passes dp_cluster_mix_check() for machine->nodes. is_shrinking: DynPipe jobs give nodes back.
 * out: [n_jobs] overwritten; every job has run. returns -1: out of memory, or it goes on after DP_CLUSTER_END_NS. */
int dp_cluster_run(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *machine, enum dp_cluster_scheduler scheduler,
                   bool is_shrinking, struct dp_cluster_times *out, struct dp_err *err);

#endif
