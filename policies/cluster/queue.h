/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs that wait, in the order of their arrival, with a fast answer to "which is the next that could
 * start here": a binary tree over the numbers of all jobs, that knows the least nodes and the least time
 * limit of those that wait below each of its branches; and a list to walk along.
 */
#ifndef DP_POLICIES_CLUSTER_QUEUE_H
#define DP_POLICIES_CLUSTER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define DP_CLUSTER_NONE UINT32_MAX

struct dp_cluster_queue {
    uint32_t n_leaves; /* a power of two */
    uint32_t n_waiting;
    uint32_t *nodes;    /* [2 * n_leaves] least of those below; UINT32_MAX: none waits */
    uint64_t *limit_ns; /* likewise */
    uint32_t *next, *before; /* [n_jobs + 1] of those that wait; entry n_jobs stands before the first and behind the last */
    uint32_t n_jobs;
};

/* Jobs 0 .. n_jobs - 1, none of which waits. Release it. */
int dp_cluster_queue_create(struct dp_cluster_queue *q, uint32_t n_jobs, struct dp_err *err);
void dp_cluster_queue_release(struct dp_cluster_queue *q);

/* A job joins at the end: its number is higher than that of all who wait. */
void dp_cluster_queue_add(struct dp_cluster_queue *q, uint32_t job, uint32_t nodes, uint64_t limit_ns);
void dp_cluster_queue_remove(struct dp_cluster_queue *q, uint32_t job);

/* The first that waits, numbered `from` or higher, and wants at most any_nodes nodes, or at most
 * short_nodes with a limit of at most short_ns. DP_CLUSTER_NONE: there is none. */
uint32_t dp_cluster_queue_find(const struct dp_cluster_queue *q, uint32_t from, uint32_t any_nodes, uint32_t short_nodes,
                               uint64_t short_ns);

/* The first that waits, and the one behind a job that waits. DP_CLUSTER_NONE: there is none. */
uint32_t dp_cluster_queue_first(const struct dp_cluster_queue *q);
uint32_t dp_cluster_queue_after(const struct dp_cluster_queue *q, uint32_t job);

#endif
