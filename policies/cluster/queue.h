/* The jobs that wait, in the order of their arrival, with a fast answer to "which is the next that could
 * start here": a binary tree over the numbers of all jobs, that knows the least nodes and the least time
 * limit of those that wait below each of its branches.
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
};

/* Jobs 0 .. n_jobs - 1, none of which waits. Release it. */
int dp_cluster_queue_create(struct dp_cluster_queue *q, uint32_t n_jobs, struct dp_err *err);
void dp_cluster_queue_release(struct dp_cluster_queue *q);

void dp_cluster_queue_add(struct dp_cluster_queue *q, uint32_t job, uint32_t nodes, uint64_t limit_ns);
void dp_cluster_queue_remove(struct dp_cluster_queue *q, uint32_t job);

/* The first that waits, numbered `from` or higher, and wants at most any_nodes nodes, or at most
 * short_nodes with a limit of at most short_ns. DP_CLUSTER_NONE: there is none. */
uint32_t dp_cluster_queue_find(const struct dp_cluster_queue *q, uint32_t from, uint32_t any_nodes, uint32_t short_nodes,
                               uint64_t short_ns);

/* The first that waits, numbered `from` or higher. */
uint32_t dp_cluster_queue_next(const struct dp_cluster_queue *q, uint32_t from);

#endif
