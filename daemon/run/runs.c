/* SPDX-License-Identifier: BSD-3-Clause */
/* See runs.h. */
#include "config.h"

#include "daemon/run/runs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file/trust.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/job/seek.h"
#include "daemon/run/job/step.h"
#include "daemon/run/run.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/drain.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slices/take_over.h"
#include "daemon/run/state/history.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/wireup/missing.h"
#include "daemon/run/wireup/wireup.h"
#include "daemon/run/worker.h"

#define GOODBYE_WAIT_NS (2 * DP_SECOND_NS) /* from STEP_END for what other nodes still have to say */
#define RETURN_WAIT_NS (30 * DP_SECOND_NS) /* for workers elsewhere of whom it is not known that they have ended */

static int make_folder(const char *path, mode_t mode, struct dp_err *err)
{
    struct stat st;

    if (mkdir(path, mode) < 0 && errno != EEXIST)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid != geteuid()) {
        errno = EPERM;
        return dp_trust_not_opened(path, err);
    }
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return dp_err_set(err, DP_EAUTH, "%s: must be a folder of the daemon's user that nobody else may write to", path);
    return 0;
}

int dp_runs_open(struct dp_daemon *d, struct dp_err *err)
{
    char path[300];

    if (make_folder(d->config->state_dir, 0755, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s.locks", d->config->socket);
    if (make_folder(path, 0755, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/history", d->config->state_dir);
    if (make_folder(path, 0700, err) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/node.journal", d->config->state_dir);
    d->log = dp_node_journal_open(path, err);
    if (!d->log || dp_history_open(d, err) < 0)
        return -1;
    for (const struct dp_node_job *j = dp_node_journal_first(d->log); j; j = j->next) {
        struct dp_run *run = j->start.job_id ? dp_run_create(d, &j->start) : NULL;

        if (run && !d->config->slurm && dp_run_coord_has_journal(run) &&
            dp_run_coord_open(run, DP_RUN_OPEN_REST, err) < 0)
            dp_error("job=%u cannot go on from its journal: %s", run->job_id, err->text);
        if (run)
            dp_info("job=%u uid=%u taken up again%s", run->job_id, run->uid, run->is_fenced ? ", fenced" : "");
    }
    return 0;
}

void dp_runs_close(struct dp_daemon *d)
{
    dp_seeks_close(d);
    while (d->runs)
        dp_run_free(d->runs);
    dp_history_close(d);
    dp_node_journal_destroy(d->log);
    d->log = NULL;
}

static void log_events(struct dp_run *run)
{
    const char *text;

    while ((text = dp_coord_next_event(run->coord)))
        DP_RUN_LOG(run, dp_info, "job=%u %s", run->job_id, text);
}

/* A step ends on this node with its last process here. Where those were lost, and did not say goodbye, others may go on. */
static bool has_step_ended(struct dp_run *run, uint64_t now_ns)
{
    uint64_t wait_ns = dp_coord_goes_on(run->coord, false) ? RETURN_WAIT_NS : GOODBYE_WAIT_NS;

    if (run->is_home_over)
        return false; /* it was home's step */
    if (run->step_ended_ns && dp_coord_goes_on(run->coord, true))
        run->step_ended_ns = now_ns;
    return run->step_ended_ns && now_ns - run->step_ended_ns > wait_ns;
}

static void coord_tick(struct dp_run *run, uint64_t now_ns)
{
    dp_coord_tick(run->coord, now_ns);
    if (!dp_coord_is_over(run->coord) && has_step_ended(run, now_ns))
        dp_coord_end(run->coord, now_ns, "the step ended");
    if (((!run->daemon->config->slurm && !run->workers) || run->is_home_over) && dp_coord_all_left(run->coord))
        dp_coord_end(run->coord, now_ns, "all workers left"); /* nobody else says so */
    if (run->is_home_over && dp_slices_are_over(run))
        dp_coord_end(run->coord, now_ns, "no slice of it is left");
    log_events(run);
    if (!dp_coord_is_over(run->coord))
        return;
    if (run->is_home_over)
        dp_run_end(run, "all workers left"); /* no step of home begins any more */
    else if (run->daemon->config->slurm)
        dp_run_coord_close(run, true); /* the job may start another step, which opens the journal again */
    else if (!run->workers)
        dp_run_end(run, "all workers left");
}

void dp_runs_tick(struct dp_daemon *d)
{
    uint64_t now_ns = dp_now_ns();

    dp_steps_tick(d, now_ns);
    dp_seeks_tick(d, now_ns);
    dp_drain_tick(d, now_ns);
    for (struct dp_run *run = d->runs, *next; run; run = next) {
        next = run->next;
        if (run->is_superseded && !dp_slices_here(run, NULL)) {
            dp_run_drop(run);
            continue;
        }
        run->is_superseded = false;
        dp_run_read_tick(run, now_ns);
        dp_workers_tick(run, now_ns);
        dp_workers_explain(run, now_ns);
        dp_slices_tick(run, now_ns);
        dp_take_over_tick(run, now_ns);
        dp_companions_tick(run, now_ns);
        dp_wireup_tick(run, now_ns);
        dp_run_missing_tick(run, now_ns);
        if (run->coord)
            coord_tick(run, now_ns);
    }
}

static const char *const role_names[] = {"waiting for Slurm", "coordinator", "relay"};

static json_t *run_json(const struct dp_run *run)
{
    json_t *doc, *waiting = run->coord ? NULL : dp_wireup_waiting(run), *companions = dp_companions_json(run);
    json_int_t n_workers = 0;

    for (const struct dp_worker *w = run->workers; w; w = w->next)
        n_workers += w->conn && !w->is_waiting;
    doc = json_pack("{s:I, s:I, s:s, s:s, s:s, s:i, s:I, s:b, s:b}", "job_id", (json_int_t)run->job_id, "uid",
                    (json_int_t)run->uid, "state", waiting ? "waiting" : "running", "role", role_names[run->role], "batch_host",
                    run->job.batch_host, "nodes", (int)run->job.n_nodes, "workers_here", n_workers, "fenced",
                    run->is_fenced, "has_coordinator", run->coord != NULL);
    json_object_update(doc, waiting);
    json_decref(waiting);
    if (companions)
        json_object_set_new(doc, "companions", companions);
    return doc;
}

json_t *dp_runs_json(const struct dp_daemon *d, uid_t uid)
{
    json_t *list = json_array();

    for (const struct dp_run *run = d->runs; run; run = run->next)
        if ((uid == 0 || uid == run->uid) && !dp_slice_is_of_other(run))
            json_array_append_new(list, run_json(run));
    return list;
}
