/* SPDX-License-Identifier: BSD-3-Clause */
/* See run.h. Whatever happens at one time is carried out before a scheduler looks: first jobs end, then
 * nodes come back, then jobs arrive. */
#include "policies/cluster/run.h"

#include <stdlib.h>
#include <string.h>

#include "policies/cluster/state.h"

enum kind { ENDS, GIVES_BACK };

struct dp_cluster_event {
    uint64_t at_ns;
    uint32_t job;
    uint16_t kind, step; /* step: of the job's holds, that begins */
};

const struct dp_cluster_scheduler_info dp_cluster_schedulers[DP_CLUSTER_SCHEDULERS] = {
    [DP_CLUSTER_FIFO] = {"fifo", "first come, first served: no job overtakes another"},
    [DP_CLUSTER_EASY] = {"easy", "EASY backfill: a job may overtake where that does not delay the head of the queue"},
    [DP_CLUSTER_SLURM] = {"slurm", "as Slurm's sched/backfill: in order at every event, and rounds that reserve for every job tested"},
};

int dp_cluster_scheduler_find(const char *name, enum dp_cluster_scheduler *out, struct dp_err *err)
{
    for (int i = 0; i < DP_CLUSTER_SCHEDULERS; i++) {
        if (!strcmp(name, dp_cluster_schedulers[i].name)) {
            *out = (enum dp_cluster_scheduler)i;
            return 0;
        }
    }
    return dp_err_set(err, DP_EINVAL, "no scheduler \"%.64s\"; known: fifo, easy, slurm", name);
}

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

/* ---- the loop ---- */

static void carry_out(struct dp_cluster_state *s, uint32_t *n_arrived)
{
    const struct dp_cluster_mix *mix = s->mix;

    while (s->n_heap && s->heap[0].at_ns == s->now_ns) {
        struct dp_cluster_event e = pop(s);

        if (e.kind == ENDS)
            end(s, e.job);
        else
            give_back(s, e.job, e.step);
    }
    for (; *n_arrived < mix->n_jobs && mix->job[*n_arrived].submit_ns == s->now_ns; ++*n_arrived) {
        const struct dp_cluster_job *j = &mix->job[*n_arrived];

        dp_cluster_queue_add(&s->queue, *n_arrived, j->nodes, dp_cluster_job_limit_ns(mix, j, s->is_shrinking));
    }
}

static int play(struct dp_cluster_state *s, enum dp_cluster_scheduler scheduler, struct dp_err *err)
{
    uint32_t n_arrived = 0;
    uint64_t round_ns = UINT64_MAX, soonest_ns = 0; /* next round of backfill, and when it may be at the soonest */

    while (n_arrived < s->mix->n_jobs || s->n_heap) {
        uint64_t arrival_ns = n_arrived < s->mix->n_jobs ? s->mix->job[n_arrived].submit_ns : UINT64_MAX;
        uint64_t event_ns = s->n_heap ? s->heap[0].at_ns : UINT64_MAX;

        event_ns = arrival_ns < event_ns ? arrival_ns : event_ns;
        s->now_ns = event_ns < round_ns ? event_ns : round_ns;
        if (s->now_ns > DP_CLUSTER_END_NS)
            return dp_err_set(err, DP_EINVAL, "after 126 years %u jobs still wait", s->queue.n_waiting);
        if (event_ns == s->now_ns) {
            carry_out(s, &n_arrived);
            if (scheduler == DP_CLUSTER_EASY)
                dp_cluster_pass_easy(s);
            else
                dp_cluster_start_in_order(s);
            if (scheduler == DP_CLUSTER_SLURM)
                round_ns = s->now_ns > soonest_ns ? s->now_ns : soonest_ns;
        }
        if (round_ns == s->now_ns) {
            soonest_ns = s->now_ns + s->machine->interval_ns;
            round_ns = dp_cluster_round_slurm(s) ? soonest_ns : UINT64_MAX;
        }
    }
    return 0;
}

static int state_init(struct dp_cluster_state *s, const struct dp_cluster_mix *mix, const struct dp_cluster_machine *m,
                      enum dp_cluster_scheduler scheduler, struct dp_err *err)
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
    if (scheduler == DP_CLUSTER_SLURM)
        s->plan = calloc(2 * (most + depth) + 2, sizeof *s->plan);
    if (!s->running || !s->heap || (scheduler == DP_CLUSTER_SLURM && !s->plan))
        return dp_err_set(err, DP_ENOMEM, "%u jobs on %u nodes: out of memory", mix->n_jobs, m->nodes);
    return 0;
}

int dp_cluster_run(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *machine, enum dp_cluster_scheduler scheduler,
                   bool is_shrinking, struct dp_cluster_times *out, struct dp_err *err)
{
    struct dp_cluster_state s = {.is_shrinking = is_shrinking, .times = out};
    int rc = state_init(&s, mix, machine, scheduler, err);

    for (uint32_t i = 0; i < mix->n_jobs; i++)
        out[i] = (struct dp_cluster_times){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (rc == 0)
        rc = play(&s, scheduler, err);
    dp_cluster_queue_release(&s.queue);
    free(s.running);
    free(s.heap);
    free(s.plan);
    return rc;
}
