/* SPDX-License-Identifier: BSD-3-Clause */
/* A job mix: what arrives at a cluster, how many whole nodes it wants, and how the need of DynPipe jobs
 * falls while they run.
 */
#ifndef DP_POLICIES_CLUSTER_MIX_H
#define DP_POLICIES_CLUSTER_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_CLUSTER_MAX_JOBS 10000000u /* 64 bytes each */
#define DP_CLUSTER_MAX_NODES 1000000u /* six times those of Fugaku */
#define DP_CLUSTER_MAX_STEPS 64u /* releases of one job */
#define DP_CLUSTER_MAX_GROUPS 64u /* ways in which the need of jobs falls: a list written by hand */
#define DP_CLUSTER_MAX_NS 100000000000000000u /* of a run time or limit: 3 years */
#define DP_CLUSTER_MAX_SUBMIT_NS 1000000000000000000u /* 31 years */
#define DP_CLUSTER_MAX_STRETCH 10 /* a run that takes longer than ten times is no trade */

/* From `at` on the job needs `hold` of its nodes. */
struct dp_cluster_step {
    double at;   /* share of its run time, 0 < at < 1, rising */
    double hold; /* share of its nodes, 0 < hold < 1, falling */
};

/* How the need of some jobs falls. */
struct dp_cluster_curve {
    uint32_t n_steps;
    struct dp_cluster_step step[DP_CLUSTER_MAX_STEPS];
    double stretch;      /* run time with DynPipe over run time without, 0.01 .. DP_CLUSTER_MAX_STRETCH */
    uint32_t min_nodes;  /* never fewer; at least 1, the node of the batch script */
    bool is_single;      /* Slurm takes nodes back once only (22.05 without slurmdbd) */
};

/* Who a job is: -1 is unknown. */
struct dp_cluster_owner {
    int32_t user, group, executable, queue, partition;
};

struct dp_cluster_job {
    uint64_t submit_ns, run_ns; /* run: without DynPipe */
    uint64_t limit_ns;          /* what its user asked for; >= run_ns */
    uint32_t nodes;             /* 1 .. nodes of the cluster */
    uint32_t number;            /* in its file; from 1 */
    uint32_t class_id;          /* of a generated mix */
    uint32_t curve;             /* 0: no DynPipe job, else mix->curve[curve - 1] */
    uint32_t log_at;            /* its line is mix->log.text + log_at - 1; 0: it has none */
    struct dp_cluster_owner owner;
};

/* The workload file that the jobs come from, whole: it holds what no simulation needs. */
struct dp_cluster_log {
    char *text; /* NULL: they come from a model */
    size_t bytes;
    uint64_t processors; /* of the cluster that is simulated */
};

struct dp_cluster_mix {
    uint32_t n_jobs, n_curves;
    struct dp_cluster_job *job; /* by rising submit_ns; equal ones in the order in which they queue up */
    struct dp_cluster_curve *curve;
    struct dp_cluster_log log;
};

/* Frees what *mix holds and empties it. */
void dp_cluster_mix_release(struct dp_cluster_mix *mix);

/* Order by submit time; jobs of the same time stay in their order.
 * n_wrong: = jobs that came before one that was submitted earlier. returns -1: out of memory. */
int dp_cluster_mix_sort(struct dp_cluster_mix *mix, uint32_t *n_wrong, struct dp_err *err);

/* What a simulation takes for granted: the bounds in the comments above, on a cluster of so many nodes. */
int dp_cluster_mix_check(const struct dp_cluster_mix *mix, uint32_t nodes, struct dp_err *err);

/* So many nodes from so long after the start on, until the next entry or the end. */
struct dp_cluster_hold {
    uint64_t after_ns;
    uint32_t nodes;
};

/* What a job needs over its time with DynPipe, in falling numbers of whole nodes; the first entry is all of them
 * at 0. returns: entries written, 1 .. DP_CLUSTER_MAX_STEPS + 1. */
uint32_t dp_cluster_job_needs(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job,
                              struct dp_cluster_hold out[DP_CLUSTER_MAX_STEPS + 1]);
/* What it holds. Shrinking: what it needs; but where curve->is_single, of several releases the one that returns
 * the most node-seconds. Else all its nodes. */
uint32_t dp_cluster_job_holds(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job, bool is_shrinking,
                              struct dp_cluster_hold out[DP_CLUSTER_MAX_STEPS + 1]);
/* Node-seconds of such a list. */
double dp_cluster_node_s(const struct dp_cluster_hold *hold, uint32_t n, uint64_t run_ns);

/* Run time and limit of a job with or without DynPipe; the limit is never shorter. */
uint64_t dp_cluster_job_run_ns(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job, bool is_shrinking);
uint64_t dp_cluster_job_limit_ns(const struct dp_cluster_mix *mix, const struct dp_cluster_job *job, bool is_shrinking);

#endif
