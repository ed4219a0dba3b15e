/* SPDX-License-Identifier: BSD-3-Clause */
/* See run.h. What is asked of a run, or of all: changes none but its shares. */
#include "config.h"

#include "daemon/run/run.h"

#include <string.h>

#include "common/clock.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/peer_link.h"
#include "daemon/release/slot_lock.h"

#define RUN_LINES_PER_S 5.0 /* of the log, that a run's owner can cause */
#define RUN_LINES_BURST 200.0 /* a line for each of some hundred workers at start and end */
/* Twice as many reports as a worker is asked for, and some that come together when a node was deaf for a while. */
#define REPORTS_PER_INTERVAL 2.0
#define REPORTS_BURST 8.0
#define OTHERS_PER_S 50.0
#define OTHERS_BURST 200.0

struct dp_run *dp_run_find(const struct dp_daemon *d, uint32_t job_id)
{
    for (struct dp_run *r = d->runs; r; r = r->next)
        if (r->job_id == job_id)
            return r;
    return NULL;
}

bool dp_runs_has_owner(const struct dp_daemon *d, uid_t uid)
{
    for (const struct dp_run *r = d->runs; r; r = r->next)
        if (r->uid == uid)
            return true;
    return false;
}

bool dp_run_may_log(struct dp_run *run)
{
    struct dp_share *s = dp_share_of(&run->daemon->conns.shares, run->uid);
    uint64_t now_ns = dp_now_ns();

    if (!s)
        return false;
    if (!dp_bucket_has(&run->lines, RUN_LINES_PER_S, RUN_LINES_BURST, now_ns)) {
        s->n_unsaid++;
        return false;
    }
    run->lines.level -= 1.0;
    return dp_share_may_log(s, now_ns);
}

bool dp_job_has_node(const struct dp_job_info *job, const char *node)
{
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (!strcmp(job->node[i], node))
            return true;
    return false;
}

/* Is the link to a node still needed by some run? */
void dp_run_forget_peer(struct dp_daemon *d, const char *node)
{
    for (struct dp_run *r = d->runs; r; r = r->next)
        if ((r->role == DP_RUN_RELAY && !strcmp(r->job.batch_host, node)) ||
            (r->role == DP_RUN_COORD && r->coord && dp_job_has_node(dp_coord_job(r->coord), node)))
            return;
    dp_peer_forget(d, node);
}

bool dp_run_is_asking(const struct dp_run *run)
{
    return run->role == DP_RUN_LOOKUP || run->is_unsure;
}

bool dp_run_takes(struct dp_run *run, uint32_t rank, enum dp_msg_type type)
{
    double per_s = REPORTS_PER_INTERVAL * 1e3 / (double)run->daemon->config->report_ms;
    bool is_report = type == DP_MSG_REPORT;
    struct dp_bucket *b;

    if (rank >= DP_MAX_WORKERS)
        return false;
    b = is_report ? &run->heard[rank].reports : &run->heard[rank].others;
    if (!dp_bucket_has(b, is_report ? per_s : OTHERS_PER_S, is_report ? REPORTS_BURST : OTHERS_BURST, dp_now_ns()))
        return false;
    b->level -= 1.0;
    return true;
}

/* It may have given it back since. */
bool dp_run_has_member(const struct dp_run *run, const char *node)
{
    const struct dp_job_info *job = run->coord ? dp_coord_job(run->coord) : &run->job;

    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (!strcmp(job->node[i], node))
            return true;
    return false;
}

void dp_run_lock_path(const struct dp_run *run, char *out, size_t cap)
{
    dp_slot_lock_path(run->daemon->config->socket, run->job_id, out, cap);
}
