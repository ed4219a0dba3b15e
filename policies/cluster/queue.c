/* SPDX-License-Identifier: BSD-3-Clause */
/* See queue.h. Branch k has the branches 2k and 2k + 1; leaf of job i is n_leaves + i. */
#include "policies/cluster/queue.h"

#include <stdlib.h>
#include <string.h>

int dp_cluster_queue_create(struct dp_cluster_queue *q, uint32_t n_jobs, struct dp_err *err)
{
    size_t all;

    memset(q, 0, sizeof *q);
    for (q->n_leaves = 1; q->n_leaves < n_jobs;)
        q->n_leaves *= 2;
    all = 2 * (size_t)q->n_leaves;
    q->n_jobs = n_jobs;
    q->next = calloc((size_t)n_jobs + 1, sizeof *q->next);
    q->before = calloc((size_t)n_jobs + 1, sizeof *q->before);
    q->nodes = malloc(all * sizeof *q->nodes);
    q->limit_ns = malloc(all * sizeof *q->limit_ns);
    if (!q->nodes || !q->limit_ns || !q->next || !q->before)
        return dp_err_set(err, DP_ENOMEM, "queue of %u jobs: out of memory", n_jobs);
    q->next[n_jobs] = q->before[n_jobs] = n_jobs;
    for (size_t i = 0; i < all; i++) {
        q->nodes[i] = UINT32_MAX;
        q->limit_ns[i] = UINT64_MAX;
    }
    return 0;
}

void dp_cluster_queue_release(struct dp_cluster_queue *q)
{
    free(q->nodes);
    free(q->limit_ns);
    free(q->next);
    free(q->before);
    memset(q, 0, sizeof *q);
}

static void put(struct dp_cluster_queue *q, uint32_t job, uint32_t nodes, uint64_t limit_ns)
{
    uint32_t k = q->n_leaves + job;

    q->nodes[k] = nodes;
    q->limit_ns[k] = limit_ns;
    for (k /= 2; k; k /= 2) {
        uint32_t a = 2 * k, b = a + 1;

        q->nodes[k] = q->nodes[a] < q->nodes[b] ? q->nodes[a] : q->nodes[b];
        q->limit_ns[k] = q->limit_ns[a] < q->limit_ns[b] ? q->limit_ns[a] : q->limit_ns[b];
    }
}

void dp_cluster_queue_add(struct dp_cluster_queue *q, uint32_t job, uint32_t nodes, uint64_t limit_ns)
{
    uint32_t last = q->before[q->n_jobs];

    put(q, job, nodes, limit_ns);
    q->next[last] = q->before[q->n_jobs] = job;
    q->before[job] = last;
    q->next[job] = q->n_jobs;
    q->n_waiting++;
}

void dp_cluster_queue_remove(struct dp_cluster_queue *q, uint32_t job)
{
    put(q, job, UINT32_MAX, UINT64_MAX);
    q->next[q->before[job]] = q->next[job];
    q->before[q->next[job]] = q->before[job];
    q->n_waiting--;
}

struct wanted {
    uint32_t from, any_nodes, short_nodes;
    uint64_t short_ns;
};

/* Below branch k, which spans `width` jobs from `first` on. */
static uint32_t find(const struct dp_cluster_queue *q, const struct wanted *w, uint32_t k, uint32_t first, uint32_t width)
{
    uint32_t found;

    if (first + width <= w->from || q->nodes[k] == UINT32_MAX)
        return DP_CLUSTER_NONE;
    if (q->nodes[k] > w->any_nodes && (q->nodes[k] > w->short_nodes || q->limit_ns[k] > w->short_ns))
        return DP_CLUSTER_NONE;
    if (width == 1)
        return first;
    found = find(q, w, 2 * k, first, width / 2);
    return found != DP_CLUSTER_NONE ? found : find(q, w, 2 * k + 1, first + width / 2, width / 2);
}

uint32_t dp_cluster_queue_find(const struct dp_cluster_queue *q, uint32_t from, uint32_t any_nodes, uint32_t short_nodes,
                               uint64_t short_ns)
{
    struct wanted w = {from, any_nodes, short_nodes, short_ns};

    return find(q, &w, 1, 0, q->n_leaves);
}

uint32_t dp_cluster_queue_after(const struct dp_cluster_queue *q, uint32_t job)
{
    return q->next[job] == q->n_jobs ? DP_CLUSTER_NONE : q->next[job];
}

uint32_t dp_cluster_queue_first(const struct dp_cluster_queue *q)
{
    return dp_cluster_queue_after(q, q->n_jobs);
}
