/* SPDX-License-Identifier: BSD-3-Clause */
/* EASY backfill (Lifka 1995, "The ANL/IBM SP scheduling system"; Mu'alem and Feitelson 2001, IEEE TPDS 12):
 * the head of the queue is promised the earliest time at which enough nodes are free when every running job
 * takes as long as its limit says. A later job may start now if it ends by then, or if it takes none of the
 * nodes that the head needs then.
 */
#include "policies/cluster/state.h"

struct promise {
    uint64_t at_ns;
    uint32_t extra; /* nodes that are free then and that the head does not need */
};

static struct promise promise_to(const struct dp_cluster_state *s, uint32_t head)
{
    uint32_t free = s->free, wanted = s->mix->job[head].nodes, i = 0;
    uint64_t at_ns = s->now_ns;

    /* every job fits into the empty cluster, so this ends */
    while (free < wanted) {
        at_ns = s->running[i].limit_ends_ns;
        for (; i < s->n_running && s->running[i].limit_ends_ns == at_ns; i++)
            free += s->running[i].nodes;
    }
    return (struct promise){at_ns, free - wanted};
}

void dp_cluster_pass_easy(struct dp_cluster_state *s)
{
    uint32_t head = dp_cluster_start_in_order(s), job = head;
    struct promise p;

    if (head == DP_CLUSTER_NONE)
        return;
    if (s->times[head].promised_ns == UINT64_MAX)
        s->times[head].promised_ns = promise_to(s, head).at_ns;
    if (dp_cluster_queue_find(&s->queue, head + 1, s->free, 0, 0) == DP_CLUSTER_NONE)
        return;
    p = promise_to(s, head);
    for (;;) {
        uint32_t any = p.extra < s->free ? p.extra : s->free;
        const struct dp_cluster_job *j;

        job = dp_cluster_queue_find(&s->queue, job + 1, any, s->free, p.at_ns - s->now_ns);
        if (job == DP_CLUSTER_NONE)
            return;
        j = &s->mix->job[job];
        if (dp_cluster_job_limit_ns(s->mix, j, s->is_shrinking) > p.at_ns - s->now_ns)
            p.extra -= j->nodes;
        dp_cluster_start(s, job);
    }
}
