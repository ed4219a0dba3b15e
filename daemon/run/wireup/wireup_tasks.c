/* SPDX-License-Identifier: BSD-3-Clause */
/* See wireup.h: what Slurm's plugin tells of a step's tasks, here and on to the batch host, which names by it who is missing.
 */
#include "config.h"

#include <stdio.h>

#include "common/clock.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/run.h"
#include "daemon/run/wireup/wireup.h"

#define AGAIN_NS (2000 * DP_MS_NS)   /* a batch host that was told too early forgets it */
#define FOR_NS (60000 * DP_MS_NS) /* a batch host that took none of them for so long has no daemon */

static void send_tasks(const struct dp_run *run, struct dp_tasks *t, uint64_t now_ns)
{
    static struct dp_msg_tasks m;

    m = t->m;
    m.restarts = run->job.restart_count;
    if (DP_PEER_SEND(run->daemon, run->job.batch_host, tasks, DP_MSG_TASKS, &m))
        t->sent_ns = now_ns;
}

static void note_tasks(struct dp_run *run, const char *node, const struct dp_msg_tasks *m)
{
    struct dp_roster *r;

    if (m->n_tasks < 2 || m->n_tasks > DP_MAX_WORKERS || !(r = dp_wireup_table(run, m->step_id, m->n_tasks)) ||
        r->n_workers != m->n_tasks)
        return;
    (void)dp_roster_outlet(r, node); /* who waits there is told, too */
    for (uint32_t i = 0; i < m->count; i++)
        if (m->rank[i] < r->n_workers)
            snprintf(r->entry[m->rank[i]].told, sizeof r->entry[0].told, "%s", node);
}

void dp_wireup_tasks(struct dp_conn *c, const struct dp_msg_tasks *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);

    if (!run)
        return;
    if (c->role == DP_ROLE_PLUGIN) {
        dp_tasks_tell(&run->tasks, m, dp_now_ns());
        dp_wireup_tick(run, dp_now_ns());
    } else if (run->role == DP_RUN_COORD && dp_run_has_member(run, c->node) && dp_run_is_same_life(run, m->restarts) &&
               !dp_run_is_asking(run)) {
        note_tasks(run, c->node, m);
    }
}

static void tell_tasks(struct dp_run *run, struct dp_tasks *t, uint64_t now_ns)
{
    if (!t->is_told || now_ns - t->since_ns > FOR_NS || (t->sent_ns && now_ns - t->sent_ns < AGAIN_NS))
        return;
    if (run->role == DP_RUN_RELAY) {
        send_tasks(run, t, now_ns);
    } else if (!t->sent_ns) {
        note_tasks(run, run->daemon->node, &t->m);
        t->sent_ns = now_ns;
    }
}

void dp_wireup_tasks_tick(struct dp_run *run, uint64_t now_ns)
{
    struct dp_tasks *next;

    for (struct dp_tasks *t = run->tasks; t; t = next) {
        uint64_t sent_ns = t->sent_ns;

        next = t->next;
        tell_tasks(run, t, now_ns);
        if (t->last_sends && ((t->sent_ns != sent_ns && --t->last_sends == 0) || now_ns - t->since_ns > FOR_NS))
            dp_tasks_forget(&run->tasks, t->m.step_id);
    }
}
