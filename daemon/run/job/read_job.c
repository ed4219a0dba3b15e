/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run's job is now, as Slurm says: asked when the run is made, when a step begins or ends, when another daemon
 * knows more, and every poll_s, each time in a child.
 */
#include "config.h"

#include "daemon/run/job/read_job.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/cards.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/job/step.h"
#include "daemon/run/run.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slot.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/wireup/wireup.h"
#include "daemon/run/worker.h"

#define READ_DEADLINE_S 70.0 /* a dead controller answers after 10 to 60 s */
#define READ_BACKOFF_MAX_S 30u /* pauses double up to it: slurmctld may be down for hours */
#define RETURN_NS (10 * DP_SECOND_NS) /* for workers of a job that is over to come back; they try every 2 s */

/* First answer for this run: who coordinates it? */
static void take_up(struct dp_run *run)
{
    struct dp_daemon *d = run->daemon;
    struct dp_err err = {0};

    run->role = strcmp(run->job.batch_host, d->node) ? DP_RUN_RELAY : DP_RUN_COORD;
    DP_RUN_LOG(run, dp_info, "job=%u uid=%u partition=%s nodes=%u batch_host=%s: %s", run->job_id, run->uid, run->job.partition,
            run->job.n_nodes, run->job.batch_host, run->role == DP_RUN_COORD ? "coordinating" : "passing on");
    if (run->role == DP_RUN_RELAY)
        dp_peer_want(d, run->job.batch_host);
    else if (!run->coord && dp_run_coord_has_journal(run) && dp_run_coord_open(run, DP_RUN_OPEN_REST, &err) < 0)
        dp_error("job=%u cannot go on from its journal: %s", run->job_id, err.text);
    dp_slices_restore(run);
    dp_slices_job(run, &run->job);
    dp_slot_serve(run);
    dp_workers_serve(run);
}

/* The job was requeued: what we had of it is over, what is registered now is new. */
static void start_over(struct dp_run *run, const struct dp_job_result *r)
{
    struct dp_msg_step_start start = run->start;
    struct dp_daemon *d = run->daemon;
    struct dp_tasks *tasks = NULL; /* of the new life */
    struct dp_err err = {0};
    struct dp_run *fresh;

    dp_tasks_move(&run->tasks, &tasks);
    dp_run_end(run, "the job was requeued");
    if (dp_node_journal_adopt(d->log, &start, &err) < 0)
        dp_error("job=%u %s", start.job_id, err.text);
    fresh = dp_run_adopt(d, &start, r);
    if (fresh) {
        dp_tasks_move(&tasks, &fresh->tasks);
        dp_run_cards_look(fresh);
    }
    dp_tasks_destroy(&tasks);
}

static bool is_requeued(const struct dp_run *run, const struct dp_job_info *now)
{
    const struct dp_node_job *known = dp_node_journal_find(run->daemon->log, run->job_id);

    if (run->role != DP_RUN_LOOKUP)
        return now->restart_count > run->job.restart_count;
    return known && known->is_fenced && now->restart_count > known->fence_restart;
}

/* The newest journal here is of a life of the job before this one. */
static bool has_former_life(const struct dp_run *run, const struct dp_job_info *now, uint32_t *restarts)
{
    return dp_run_coord_find_life(run, restarts) && *restarts < now->restart_count;
}

/* This daemon was away, and home was requeued. Of a run of slices the others may train on, and wait for who coordinates them, which
 * their comments do not say: so before the journal is given up Slurm is asked about them. returns: it is being asked. */
static bool asks_for_others(struct dp_run *run, const struct dp_job_result *r)
{
    uint32_t restarts;

    if (run->role != DP_RUN_LOOKUP || r->rc != 0 || r->others != DP_OTHERS_UNASKED || !run->start.slices || r->job.uid != run->uid ||
        !has_former_life(run, &r->job, &restarts))
        return false;
    run->must_ask_others = true;
    dp_run_read_soon(run);
    return true;
}

/* The node was lost with the coordinator of a former life, and is back while the job runs again, here or elsewhere, or waits. Where
 * nobody goes on from that journal it becomes a report, too. returns: there was one. */
static bool end_former_life(struct dp_run *run, const struct dp_job_info *now)
{
    struct dp_err err = {0};
    uint32_t restarts;

    if (!has_former_life(run, now, &restarts))
        return false;
    run->job = *now;
    run->job.restart_count = restarts;
    if (dp_run_coord_open(run, DP_RUN_OPEN_REST, &err) < 0)
        dp_error("job=%u a former life cannot be reported from its journal: %s", run->job_id, err.text);
    if (!run->coord)
        dp_run_coord_forget(run);
    return true;
}

/* The job ended while this daemon was away: what its journal holds becomes its report. */
static void end_from_journal(struct dp_run *run, const struct dp_job_info *job)
{
    struct dp_err err = {0};

    run->job = *job;
    if (!dp_run_coord_has_journal(run)) {
        end_former_life(run, job);
        return;
    }
    if (dp_run_coord_open(run, DP_RUN_OPEN_REST, &err) < 0)
        dp_error("job=%u cannot be reported from its journal: %s", run->job_id, err.text);
    else if (!run->coord)
        dp_run_coord_forget(run);
}

/* Without cgroups the proof of an empty slot finds what says whose it is, or has a GPU open: said once. */
static void warn_of_tracking(const struct dp_job_result *r)
{
    static bool has_warned;

    if (has_warned || r->rc != 0 || !strcmp(r->proctrack, "proctrack/cgroup"))
        return;
    has_warned = true;
    dp_warn("Slurm's ProctrackType is %s: a process can leave its job, and is then found only by a GPU that it has open; "
            "set ProctrackType=proctrack/cgroup where users are not trusted", r->proctrack);
}

/* At its time limit Slurm gives a job KillWait to save in. A worker that is in doubt about a hand-over can do so only
 * when it has heard the decision, so its daemon stays with it, and one that is restarted then takes the run up again
 * and waits for its workers to come back. Not where the job is in the queue again: what we know of it by then is its
 * next life. A slice has its worker's line under its home's name, and hands its layers over meanwhile. */
static bool has_workers_to_end(const struct dp_run *run, const struct dp_job_info *job)
{
    const struct dp_worker *w = run->workers;

    if (!job->is_completing)
        return false;
    if (run->role == DP_RUN_LOOKUP)
        return !job->is_queued && dp_job_has_node(job, run->daemon->node);
    while (w && !w->conn)
        w = w->next;
    return w || dp_slice_lives(run) || (run->awaited_ns && dp_now_ns() - run->awaited_ns < RETURN_NS);
}

static void take_up_again(struct dp_run *run, const struct dp_job_info *job)
{
    run->awaited_ns = dp_now_ns();
    run->job = *job;
    take_up(run);
}

/* Of a run of slices: its job is over, or began another life, and others train on. Companions are home's to its user, who
 * asked for one job: they save and stop when that is cancelled, or in the queue again, where it goes on from their checkpoint. */
static bool goes_on_without_home(struct dp_run *run, const struct dp_job_result *r)
{
    bool is_first = run->role == DP_RUN_LOOKUP, is_again = r->rc == 0 && is_requeued(run, &r->job);

    if (r->rc < 0 || (!is_first && r->rc == 0 && r->job.is_running && !is_again))
        return false;
    if (is_first ? !dp_slices_find_run(run, r) : !dp_slices_outlive(run))
        return false;
    is_again |= is_first && r->rc == 0 && r->job.restart_count > run->job.restart_count;
    if (!run->is_home_over)
        DP_RUN_LOG(run, dp_info, "job=%u is over (%s), its run goes on with other slices", run->job_id,
                   is_again ? "requeued" : r->text[0] ? r->text : "Slurm does not know it any more");
    run->is_home_over = true;
    run->is_unsure = false;
    run->job.end_s = 0;
    if (is_first)
        take_up(run);
    dp_run_coord_time(run);
    if (run->coord && !run->job.array_job_id && (is_again || (r->rc == 0 && r->job.is_cancelled)))
        dp_coord_stop(run->coord, is_again ? DP_STOP_REQUEUED : "the job that asked for the slices was cancelled");
    return true;
}

/* returns false when the run is gone. */
static bool use_answer(struct dp_run *run, const struct dp_job_result *r)
{
    bool is_first = run->role == DP_RUN_LOOKUP;
    /* Slurm counts the next life of a job as soon as it begins to end this one. */
    bool is_home_again = r->rc == 0 && dp_slices_are(run) && is_requeued(run, &r->job);
    uint32_t slice_of;

    warn_of_tracking(r);
    if (asks_for_others(run, r))
        return true;
    run->must_ask_others &= r->rc < 0;
    if (r->rc == 0 && !r->job.is_running && !is_home_again && has_workers_to_end(run, &r->job)) {
        if (is_first)
            take_up_again(run, &r->job);
        return true;
    }
    if (goes_on_without_home(run, r))
        return true;
    if (r->rc == 1 || (r->rc == 0 && !r->job.is_running)) {
        if (is_first && r->rc == 0)
            end_from_journal(run, &r->job);
        dp_run_end(run, r->text[0] ? r->text : "Slurm knows no such job");
        return false;
    }
    if (r->rc != 0)
        return true;
    if (r->job.uid != run->uid) {
        dp_run_end(run, "Slurm names another owner");
        return false;
    }
    if (is_requeued(run, &r->job)) {
        start_over(run, r);
        return false;
    }
    if (is_first && !run->is_fenced && !run->must_stop && !run->is_for_slices) {
        bool had_life = end_former_life(run, &r->job);

        if (!dp_job_has_node(&r->job, run->daemon->node)) {
            dp_run_end(run, "the job does not have this node");
            return false;
        }
        if (had_life) {
            start_over(run, r);
            return false;
        }
    }
    slice_of = run->job.slice_of;
    run->job = r->job;
    dp_companions_keep_mark(run, slice_of);
    dp_slices_job(run, &run->job);
    if (is_first)
        take_up(run);
    dp_run_coord_time(run);
    return true;
}

/* Slurm has said, since the last step began, what the job is. */
static void be_sure(struct dp_run *run)
{
    if (!run->is_unsure)
        return;
    run->is_unsure = false;
    dp_slot_serve(run);
    dp_workers_serve(run);
}

static void schedule_read(struct dp_run *run, bool has_failed)
{
    double delay_s = run->daemon->config->poll_s;

    run->read_backoff_s = has_failed ? (run->read_backoff_s ? run->read_backoff_s * 2 : 1) : 0;
    if (run->read_backoff_s > READ_BACKOFF_MAX_S)
        run->read_backoff_s = READ_BACKOFF_MAX_S;
    if (has_failed && dp_run_is_asking(run))
        delay_s = run->read_backoff_s;
    run->next_read_ns = dp_now_ns() + (uint64_t)(delay_s * 1e9);
}

static void on_read(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_job_result r = {.rc = -1};
    struct dp_run *run = arg;
    bool is_fresh = !run->must_read, is_wanted = run->coord_wants_read && is_fresh;
    struct dp_daemon *d = run->daemon;
    uint32_t job_id = run->job_id;

    run->reader = NULL;
    if (result && bytes == sizeof r)
        memcpy(&r, result, sizeof r);
    else
        snprintf(r.text, sizeof r.text, "slurm: %s", why);
    snprintf(run->read_why, sizeof run->read_why, "%.150s", r.rc < 0 ? r.text : "");
    if (r.rc < 0 && run->read_backoff_s == 0)
        dp_warn("job=%u cannot be read: %s", run->job_id, r.text);
    schedule_read(run, r.rc < 0);
    if (!use_answer(run, &r)) {
        dp_steps_answer(d, job_id);
        return;
    }
    if (is_fresh && r.rc == 0) {
        be_sure(run);
        dp_steps_answer(d, job_id);
    }
    if (is_wanted && run->coord && (r.rc == 0 || run->is_home_over) && dp_slices_are(run)) {
        run->coord_wants_read = false;
        dp_slices_read_job(run, run->is_home_over ? &run->job : &r.job);
    } else if (is_wanted && run->coord) {
        run->coord_wants_read = false;
        dp_coord_job_read(run->coord, dp_now_ns(), r.rc == 0 ? &r.job : NULL, r.text);
    }
}

static void read_now(struct dp_run *run)
{
    static struct dp_job_request q;
    struct dp_err err = {0};

    q = (struct dp_job_request){.job_id = run->job_id};
    run->must_read = false;
    if (run->is_home_over) {
        schedule_read(run, false);
        if (run->role == DP_RUN_COORD)
            dp_slices_read_job(run, run->coord_wants_read ? &run->job : NULL);
        run->coord_wants_read = false;
        return;
    }
    if (run->must_ask_others)
        dp_run_coord_ask_others(run, &q);
    run->reader = dp_helper_start(run->daemon->base, dp_job_read_work, &q, sizeof q, READ_DEADLINE_S, on_read, run, &err);
    if (!run->reader) {
        dp_warn("job=%u %s", run->job_id, err.text);
        schedule_read(run, true);
    }
}

/* An answer that is under way now may be older than the question, so it does not count. */
void dp_run_read_soon(struct dp_run *run)
{
    run->must_read = true;
    if (!run->reader)
        read_now(run);
}

struct dp_run *dp_run_adopt(struct dp_daemon *d, const struct dp_msg_step_start *start, const struct dp_job_result *r)
{
    struct dp_run *run = dp_run_make(d, start);

    if (!run || !use_answer(run, r))
        return NULL;
    schedule_read(run, false);
    return run;
}

bool dp_run_is_same_life(struct dp_run *run, uint32_t restarts)
{
    uint64_t now_ns = dp_now_ns();

    if (!run->daemon->config->slurm || restarts == run->job.restart_count)
        return true;
    if (run->is_home_over)
        return false; /* another life of its job has no part in it */
    if (restarts > run->job.restart_count && !run->is_unsure && now_ns - run->doubted_ns > DP_SECOND_NS) {
        run->doubted_ns = now_ns;
        run->is_unsure = true;
        dp_run_read_soon(run);
    }
    return false;
}

void dp_run_read_tick(struct dp_run *run, uint64_t now_ns)
{
    if (run->daemon->config->slurm && !run->reader && (run->must_read || now_ns >= run->next_read_ns))
        read_now(run);
}
