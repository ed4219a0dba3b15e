/* SPDX-License-Identifier: BSD-3-Clause */
/* A round of Slurm's sched/backfill (slurm.conf: bf_interval, bf_max_job_test, bf_window): every job, in
 * order, is given the earliest time at which its nodes are free for as long as its limit says, around all
 * that was given to those before it; whose time is now starts. Nothing is remembered from round to round.
 * Unlike EASY a job is held back for every job before it, not only for the head.
 */
#include <string.h>

#include "policies/cluster/state.h"

/* Free nodes from now on, when each running job takes as long as its limit says. */
static void plan_running(struct dp_cluster_state *s)
{
    s->plan[0] = (struct dp_cluster_free){s->now_ns, s->free};
    s->n_plan = 1;
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct dp_cluster_free *last = &s->plan[s->n_plan - 1];

        if (last->from_ns == s->running[i].limit_ends_ns) {
            last->nodes += s->running[i].nodes;
            continue;
        }
        last[1] = (struct dp_cluster_free){s->running[i].limit_ends_ns, last->nodes + s->running[i].nodes};
        s->n_plan++;
    }
}

/* The entry with which so many nodes are free for so long; DP_CLUSTER_NONE: none that begins within the window. */
static uint32_t earliest(const struct dp_cluster_state *s, uint32_t nodes, uint64_t for_ns)
{
    uint32_t from = 0;

    for (uint32_t i = 0; i < s->n_plan; i++) {
        if (s->plan[i].nodes < nodes)
            from = i + 1;
        else if (s->plan[from].from_ns - s->now_ns > s->machine->window_ns)
            return DP_CLUSTER_NONE;
        else if (i + 1 == s->n_plan || s->plan[i + 1].from_ns - s->plan[from].from_ns >= for_ns)
            break;
    }
    return from;
}

/* Make an entry begin at at_ns. returns: which one. */
static uint32_t split(struct dp_cluster_state *s, uint32_t first, uint64_t at_ns)
{
    while (first < s->n_plan && s->plan[first].from_ns < at_ns)
        first++;
    if (first < s->n_plan && s->plan[first].from_ns == at_ns)
        return first;
    memmove(&s->plan[first + 1], &s->plan[first], (s->n_plan - first) * sizeof *s->plan);
    s->plan[first] = (struct dp_cluster_free){at_ns, s->plan[first - 1].nodes};
    s->n_plan++;
    return first;
}

static void take(struct dp_cluster_state *s, uint32_t from, uint32_t nodes, uint64_t for_ns)
{
    uint32_t to = split(s, from, s->plan[from].from_ns + for_ns);

    for (uint32_t i = from; i < to; i++)
        s->plan[i].nodes -= nodes;
}

/* How many of the jobs that a round may test it has to: those behind the last one that could start now would
 * only be given starts in the future, which change nothing. */
static uint32_t count_jobs(const struct dp_cluster_state *s)
{
    uint32_t job = dp_cluster_queue_first(&s->queue), n = 0;

    if (dp_cluster_queue_find(&s->queue, 0, s->free, 0, 0) == DP_CLUSTER_NONE)
        return 0;
    for (uint32_t i = 1; i <= s->machine->depth && job != DP_CLUSTER_NONE; i++) {
        if (s->mix->job[job].nodes <= s->free)
            n = i;
        job = dp_cluster_queue_after(&s->queue, job);
    }
    return n;
}

bool dp_cluster_round_slurm(struct dp_cluster_state *s)
{
    uint32_t job = dp_cluster_queue_first(&s->queue), n = count_jobs(s);
    bool has_started = false;

    if (n)
        plan_running(s);
    for (; n && s->free; n--) {
        const struct dp_cluster_job *j = &s->mix->job[job];
        uint64_t limit_ns = dp_cluster_job_limit_ns(s->mix, j, s->is_shrinking);
        uint32_t at = earliest(s, j->nodes, limit_ns), next = dp_cluster_queue_after(&s->queue, job);

        if (at == 0 && j->nodes <= s->free) { /* a job without any length is in no plan */
            dp_cluster_start(s, job);
            has_started = true;
        }
        if (at != DP_CLUSTER_NONE && limit_ns)
            take(s, at, j->nodes, limit_ns);
        job = next;
    }
    return has_started;
}
