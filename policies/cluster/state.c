/* SPDX-License-Identifier: BSD-3-Clause */
/* See state.h. */
#include "policies/cluster/state.h"

#include <stdlib.h>
#include <string.h>

enum kind { ENDS, GIVES_BACK };

struct dp_cluster_event {
    uint64_t at_ns;
    uint32_t job;
    uint16_t kind, step; /* step: of the job's holds, that begins */
};

/* ---- events: a binary heap by time, kind, job ---- */

static bool is_before(const struct dp_cluster_event *a, const struct dp_cluster_event *b)
{
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns;
    return a->kind != b->kind ? a->kind < b->kind : a->job < b->job;
}

static void push(struct dp_cluster_state *s, struct dp_cluster_event e)
{
    uint32_t i = s->n_heap++;

    for (; i && is_before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static struct dp_cluster_event pop(struct dp_cluster_state *s)
{
    struct dp_cluster_event top = s->heap[0], last = s->heap[--s->n_heap];
    uint32_t i = 0;

    for (uint32_t child = 1; child < s->n_heap; child = 2 * i + 1) {
        child += child + 1 < s->n_heap && is_before(&s->heap[child + 1], &s->heap[child]);
        if (!is_before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* ---- running jobs ---- */

/* The first that does not come before (limit_ends_ns, job). */
static uint32_t place_of(const struct dp_cluster_state *s, uint64_t limit_ends_ns, uint32_t job)
{
    uint32_t low = 0, high = s->n_running;

    while (low < high) {
        uint32_t mid = (low + high) / 2;
        const struct dp_cluster_running *r = &s->running[mid];

        if (r->limit_ends_ns < limit_ends_ns || (r->limit_ends_ns == limit_ends_ns && r->job < job))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static uint64_t limit_ends_ns(const struct dp_cluster_state *s, uint32_t job)
{
    return s->times[job].start_ns + dp_cluster_job_limit_ns(s->mix, &s->mix->job[job], s->is_shrinking);
}

/* Its next nodes that a DynPipe job gives back, where they come into use before it ends. */
static void plan_release(struct dp_cluster_state *s, uint32_t job, uint32_t step)
{
    struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];
    uint32_t n = dp_cluster_job_holds(s->mix, &s->mix->job[job], true, hold);
    uint64_t at_ns = step < n ? s->times[job].start_ns + hold[step].after_ns + s->machine->latency_ns : UINT64_MAX;

    if (at_ns < s->times[job].end_ns)
        push(s, (struct dp_cluster_event){at_ns, job, GIVES_BACK, (uint16_t)step});
}

void dp_cluster_start(struct dp_cluster_state *s, uint32_t job)
{
    const struct dp_cluster_job *j = &s->mix->job[job];
    uint32_t at;

    dp_cluster_queue_remove(&s->queue, job);
    s->free -= j->nodes;
    s->times[job].start_ns = s->now_ns;
    s->times[job].end_ns = s->now_ns + dp_cluster_job_run_ns(s->mix, j, s->is_shrinking);
    at = place_of(s, limit_ends_ns(s, job), job);
    memmove(&s->running[at + 1], &s->running[at], (s->n_running - at) * sizeof *s->running);
    s->running[at] = (struct dp_cluster_running){limit_ends_ns(s, job), job, j->nodes};
    s->n_running++;
    push(s, (struct dp_cluster_event){s->times[job].end_ns, job, ENDS, 0});
    if (j->curve && s->is_shrinking)
        plan_release(s, job, 1);
}

static void end(struct dp_cluster_state *s, uint32_t job)
{
    uint32_t at = place_of(s, limit_ends_ns(s, job), job);

    s->free += s->running[at].nodes;
    s->n_running--;
    memmove(&s->running[at], &s->running[at + 1], (s->n_running - at) * sizeof *s->running);
}

static void give_back(struct dp_cluster_state *s, uint32_t job, uint32_t step)
{
    struct dp_cluster_running *r = &s->running[place_of(s, limit_ends_ns(s, job), job)];
    struct dp_cluster_hold hold[DP_CLUSTER_MAX_STEPS + 1];

    dp_cluster_job_holds(s->mix, &s->mix->job[job], true, hold);
    s->free += r->nodes - hold[step].nodes;
    r->nodes = hold[step].nodes;
    plan_release(s, job, step + 1);
}

uint32_t dp_cluster_start_in_order(struct dp_cluster_state *s)
{
    uint32_t head = dp_cluster_queue_first(&s->queue);

    while (head != DP_CLUSTER_NONE && s->mix->job[head].nodes <= s->free) {
        dp_cluster_start(s, head);
        head = dp_cluster_queue_first(&s->queue);
    }
    return head;
}

void dp_cluster_carry_out(struct dp_cluster_state *s)
{
    while (s->n_heap && s->heap[0].at_ns == s->now_ns) {
        struct dp_cluster_event e = pop(s);

        if (e.kind == ENDS)
            end(s, e.job);
        else
            give_back(s, e.job, e.step);
    }
}

uint64_t dp_cluster_next_ns(const struct dp_cluster_state *s)
{
    return s->n_heap ? s->heap[0].at_ns : UINT64_MAX;
}

int dp_cluster_state_create(struct dp_cluster_state *s, const struct dp_cluster_mix *mix, const struct dp_cluster_machine *m,
                            bool has_plan, struct dp_err *err)
{
    size_t most = mix->n_jobs < m->nodes ? mix->n_jobs : m->nodes; /* that can run at once */
    size_t depth = mix->n_jobs < m->depth ? mix->n_jobs : m->depth;

    s->mix = mix;
    s->machine = m;
    s->free = m->nodes;
    if (dp_cluster_queue_create(&s->queue, mix->n_jobs, err) < 0)
        return -1;
    s->running = calloc(most + 1, sizeof *s->running);
    s->heap = calloc(2 * most + 1, sizeof *s->heap);
    if (has_plan)
        s->plan = calloc(2 * (most + depth) + 2, sizeof *s->plan);
    if (!s->running || !s->heap || (has_plan && !s->plan))
        return dp_err_set(err, DP_ENOMEM, "%u jobs on %u nodes: out of memory", mix->n_jobs, m->nodes);
    return 0;
}

void dp_cluster_state_release(struct dp_cluster_state *s)
{
    dp_cluster_queue_release(&s->queue);
    free(s->running);
    free(s->heap);
    free(s->plan);
}
