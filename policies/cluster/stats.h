/* SPDX-License-Identifier: BSD-3-Clause */
/* What a simulated job mix means for those who wait and for those who pay.
 *
 * Waiting time: start - submit. Bounded slowdown: max(1, (end - submit) / max(run, 10 s)) with the run time
 * without DynPipe in both cases (Feitelson and Rudolph 1998, JSSPP, LNCS 1459). Makespan: from the first
 * submit to the last end. Held: node-seconds of jobs, as Slurm allocates them; needed: what the same jobs
 * would hold if DynPipe gave back whatever they do not need. Percentiles are by nearest rank.
 */
#ifndef DP_POLICIES_CLUSTER_STATS_H
#define DP_POLICIES_CLUSTER_STATS_H

#include "policies/cluster/run.h"

#define DP_CLUSTER_SHORT_NS 10000000000u /* of the bounded slowdown */

struct dp_cluster_spread {
    double mean, median, p95, max; /* 0 of no jobs */
};

struct dp_cluster_stats {
    uint32_t n_jobs, n_shrinking; /* shrinking: DynPipe jobs, whether or not it is switched on */
    struct dp_cluster_spread wait_s, wait_others_s, wait_shrinking_s, slowdown;
    double turnaround_shrinking_s; /* end - submit, mean of the DynPipe jobs */
    double makespan_s, held_node_s, needed_node_s;
    double held_share, needed_share; /* of nodes * makespan; 0 where that is 0 */
};

/* What users and the administrator see of a simulated mix. times: [mix->n_jobs]; is_shrinking: with DynPipe switched
 * on. Slowdown is the bounded one: from submit to end, over the run time without DynPipe (at least
 * DP_CLUSTER_SHORT_NS of it), at least 1. returns 0, or -1 with DP_ENOMEM. */
int dp_cluster_stats_fill(const struct dp_cluster_mix *mix, uint32_t nodes, bool is_shrinking, const struct dp_cluster_times *times,
                          struct dp_cluster_stats *out, struct dp_err *err);

/* Jobs that start earlier, and later, by more than a second in b than in a. */
struct dp_cluster_moved {
    uint32_t earlier, later;
    double earlier_s, later_s; /* by so much on average; 0 of no jobs */
};
/* a, b: [mix->n_jobs] each, the same mix simulated in two ways. */
void dp_cluster_compare(const struct dp_cluster_mix *mix, const struct dp_cluster_times *a, const struct dp_cluster_times *b,
                        struct dp_cluster_moved *out);

#endif
