/* SPDX-License-Identifier: BSD-3-Clause */
/* See tasks.h. A task may be a script that starts the worker, so a process counts as what its nearest ancestor is that the
 * plugin told of. */
#include "config.h"

#include "daemon/run/wireup/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/release/procscan.h"

#define STEPS_MAX 16 /* steps of one job whose tasks are known at a time; the oldest goes */
#define DEPTH_MAX 64 /* parents of a process that are looked at */
#define LAST_SENDS 2 /* of tasks that have ended: the first may come too early */

static struct dp_tasks *find(const struct dp_tasks *list, uint32_t step_id)
{
    const struct dp_tasks *t = list;

    while (t && t->m.step_id != step_id)
        t = t->next;
    return (struct dp_tasks *)(uintptr_t)t;
}

static void drop_oldest(struct dp_tasks **list)
{
    struct dp_tasks *last = NULL;
    int n = 0;

    for (struct dp_tasks *t = *list; t; t = t->next, n++)
        if (t->last_sends || !last || !last->last_sends)
            last = t; /* one that has ended first */
    if (n >= STEPS_MAX)
        dp_tasks_forget(list, last->m.step_id);
}

static bool has_life(const struct dp_tasks *t)
{
    struct dp_proc p;

    for (uint32_t i = 0; i < t->m.count; i++)
        if (t->start_ticks[i] && dp_proc_read(t->m.pid[i], &p) && p.start_ticks == t->start_ticks[i])
            return true;
    return false;
}

/* The same step may be of the next life of a job. Or a task asks again whether it may start, after all were told of. */
void dp_tasks_expect(struct dp_tasks **list, uint32_t step_id, uint64_t now_ns)
{
    struct dp_tasks *t = find(*list, step_id);

    if (t) {
        t->is_told = t->is_told && has_life(t);
        t->last_sends = 0;
        return;
    }
    drop_oldest(list);
    t = calloc(1, sizeof *t);
    if (!t)
        return;
    t->m.step_id = step_id;
    t->since_ns = now_ns;
    t->next = *list;
    *list = t;
}

void dp_tasks_tell(struct dp_tasks **list, const struct dp_msg_tasks *m, uint64_t now_ns)
{
    struct dp_tasks *t;
    struct dp_proc p;

    dp_tasks_expect(list, m->step_id, now_ns);
    t = find(*list, m->step_id);
    if (!t)
        return;
    t->m = *m;
    t->is_told = true;
    t->sent_ns = 0;
    for (uint32_t i = 0; i < m->count; i++)
        t->start_ticks[i] = dp_proc_read(m->pid[i], &p) ? p.start_ticks : 0;
}

void dp_tasks_forget(struct dp_tasks **list, uint32_t step_id)
{
    for (struct dp_tasks **at = list; *at; at = &(*at)->next)
        if ((*at)->m.step_id == step_id) {
            struct dp_tasks *t = *at;

            *at = t->next;
            free(t);
            return;
        }
}

void dp_tasks_end(struct dp_tasks **list, uint32_t step_id)
{
    struct dp_tasks *t = find(*list, step_id);

    if (t && t->is_told && !t->sent_ns)
        t->last_sends = LAST_SENDS;
    else
        dp_tasks_forget(list, step_id);
}

void dp_tasks_move(struct dp_tasks **from, struct dp_tasks **to)
{
    for (struct dp_tasks **at = from; *at;) {
        struct dp_tasks *t = *at;

        if (!has_life(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->sent_ns = 0;
        t->next = *to;
        *to = t;
    }
}

void dp_tasks_destroy(struct dp_tasks **list)
{
    while (*list)
        dp_tasks_forget(list, (*list)->m.step_id);
}

/* The task that this process is; -1: none. */
static int task_of(const struct dp_tasks *t, const struct dp_proc *p)
{
    for (uint32_t i = 0; i < t->m.count; i++)
        if (t->m.pid[i] == p->pid && t->start_ticks[i] == p->start_ticks)
            return (int)i;
    return -1;
}

enum dp_claim dp_tasks_check(const struct dp_tasks *list, uint32_t step_id, uint32_t rank, uint32_t n_workers, uint32_t pid,
                             char why[160])
{
    const struct dp_tasks *t = find(list, step_id);
    struct dp_proc p;
    uint32_t at = pid;

    why[0] = '\0';
    if (!t || !t->is_told)
        return t ? DP_CLAIM_EARLY : DP_CLAIM_UNKNOWN;
    if (t->m.n_tasks != n_workers) {
        snprintf(why, 160, "step %u has %u tasks, not %u", step_id, t->m.n_tasks, n_workers);
        return DP_CLAIM_FALSE;
    }
    for (int depth = 0; depth < DEPTH_MAX && at > 1; depth++) {
        int i;

        if (!dp_proc_read(at, &p)) {
            snprintf(why, 160, "process %u cannot be seen by the daemon (is /proc mounted with hidepid?)", at);
            return DP_CLAIM_FALSE;
        }
        i = task_of(t, &p);
        if (i >= 0 && t->m.rank[i] == rank)
            return DP_CLAIM_TRUE;
        if (i >= 0) {
            snprintf(why, 160, "process %u is of task %u of step %u, not of task %u", pid, t->m.rank[i], step_id, rank);
            return DP_CLAIM_FALSE;
        }
        at = p.ppid;
    }
    snprintf(why, 160, "process %u was not started by any task of step %u here", pid, step_id);
    return DP_CLAIM_FALSE;
}
