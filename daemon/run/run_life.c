/* SPDX-License-Identifier: BSD-3-Clause */
/* See run_life.h. A run begins when the plugin (root, or the daemon's own user) registers a step of a job;
 * what the job is - owner, nodes, batch host, restart count - is then asked of Slurm, never taken
 * from a message. It ends when Slurm says that the job is over, was requeued, or is not known.
 *
 * Without Slurm (`slurm = false`) a worker's HELLO registers the run: its owner is whoever the kernel
 * says the worker is, and its only node is this one.
 */
#include "config.h"

#include "daemon/run/run_life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/newcomers.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slices/take_over.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/wireup/wireup.h"
#include "daemon/run/worker.h"

static void set_standalone_job(struct dp_run *run)
{
    struct dp_job_info *job = &run->job;

    memset(job, 0, sizeof *job);
    job->job_id = run->job_id;
    job->uid = run->uid;
    job->gid = run->start.gid;
    job->is_running = true;
    job->n_nodes = 1;
    snprintf(job->node[0], sizeof job->node[0], "%s", run->daemon->node);
    snprintf(job->batch_host, sizeof job->batch_host, "%s", run->daemon->node);
    job->start_s = dp_wall_ns() / DP_SECOND_NS;
    run->role = DP_RUN_COORD;
}

struct dp_run *dp_run_make(struct dp_daemon *d, const struct dp_msg_step_start *start)
{
    const struct dp_node_job *known = dp_node_journal_find(d->log, start->job_id);
    struct dp_run *run = calloc(1, sizeof *run);

    if (!run)
        return NULL;
    run->daemon = d;
    run->job_id = start->job_id;
    run->uid = start->uid;
    run->start = *start;
    run->is_fenced = known && known->is_fenced;
    run->next = d->runs;
    d->runs = run;
    return run;
}

struct dp_run *dp_run_create(struct dp_daemon *d, const struct dp_msg_step_start *start)
{
    struct dp_run *run = dp_run_make(d, start);

    if (run && !d->config->slurm)
        set_standalone_job(run);
    else if (run)
        dp_run_read_soon(run);
    return run;
}

static void unlink_run(struct dp_run *run)
{
    struct dp_run **at = &run->daemon->runs;

    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
}

void dp_run_free(struct dp_run *run)
{
    unlink_run(run);
    dp_slices_destroy(run);
    dp_take_over_destroy(run);
    dp_newcomers_forget(run);
    dp_companions_destroy(run);
    if (run->role == DP_RUN_RELAY)
        dp_run_forget_peer(run->daemon, run->job.batch_host);
    dp_workers_destroy(run);
    dp_wireup_destroy(run);
    for (uint32_t i = 0; i < run->job.n_nodes && run->role == DP_RUN_COORD; i++)
        dp_run_forget_peer(run->daemon, run->job.node[i]); /* that was called for a wire-up */
    dp_helper_cancel(run->reader);
    dp_helper_cancel(run->shrinker);
    dp_helper_cancel(run->requeuer);
    dp_helper_cancel(run->memorer);
    dp_helper_cancel(run->planner);
    dp_helper_cancel(run->fencer);
    dp_helper_cancel(run->looker);
    dp_coord_destroy(run->coord);
    dp_journal_destroy(run->journal);
    free(run);
}

void dp_run_drop(struct dp_run *run)
{
    struct dp_err err = {0};
    char lock[320];

    if (run->role == DP_RUN_COORD)
        dp_run_coord_forget(run);
    if (dp_node_journal_end(run->daemon->log, run->job_id, &err) < 0)
        dp_error("job=%u %s", run->job_id, err.text);
    dp_run_lock_path(run, lock, sizeof lock);
    unlink(lock);
    dp_run_free(run);
}

void dp_run_end(struct dp_run *run, const char *why)
{
    DP_RUN_LOG(run, dp_info, "job=%u ends: %s", run->job_id, why);
    dp_companions_end(run);
    if (run->coord) {
        dp_coord_end(run->coord, dp_now_ns(), why);
        dp_run_coord_close(run, true);
        dp_run_coord_forget(run);
    }
    dp_run_drop(run);
}
