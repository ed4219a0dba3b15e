/* SPDX-License-Identifier: BSD-3-Clause */
/* Of home: the group gathers and begins, who comes later gets a seat, and what a run that outlives its job is found again by. */
#include "config.h"

#include "daemon/run/slices/slicing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/take_over.h"

void dp_slices_restore(struct dp_run *home)
{
    const struct dp_job_info *job = home->coord ? dp_coord_job(home->coord) : NULL;
    struct dp_slicing *s;
    uint32_t step_id;

    if (!job || !job->n_nodes || !job->slice[0] || dp_slices_are(home) || !(s = slicing_of(home)) ||
        !(s->group || (s->group = calloc(1, sizeof *s->group))))
        return;
    dp_group_restore(s->group, home->job_id, job, dp_coord_step(home->coord, &step_id) ? &step_id : NULL);
}

int dp_slices_adopt(struct dp_run *home, const struct dp_group *g)
{
    struct dp_slicing *s = slicing_of(home);

    if (!s || !(s->group || (s->group = calloc(1, sizeof *s->group))))
        return -1;
    *s->group = *g;
    dp_slices_job(home, &home->job);
    return 0;
}

bool dp_slices_outlive(const struct dp_run *run)
{
    if (run->role == DP_RUN_COORD)
        return dp_slices_are(run) && run->coord && dp_coord_can_do_without(run->coord, run->job_id);
    return dp_slices_here(run, NULL) != NULL;
}

/* As much of the run's job as is known here. */
static void fill_job(struct dp_run *run, const struct dp_job_result *r, const struct dp_run *slice, uint32_t restarts, const char *node)
{
    struct dp_job_info *job = &run->job;

    if (r->rc == 0)
        *job = r->job;
    else if (slice)
        *job = slice->job;
    if (slice && !job->array_job_id)
        job->array_job_id = slice->slicing->seen.array_job_id; /* of a companion of an array that Slurm has forgotten half */
    job->job_id = run->job_id;
    job->uid = run->uid;
    job->restart_count = restarts;
    job->slice_of = 0;
    job->n_nodes = 1;
    snprintf(job->node[0], sizeof job->node[0], "%s", node);
    snprintf(job->batch_host, sizeof job->batch_host, "%s", node);
}

/* Home runs, in this life or a later one. */
static bool is_home_running(const struct dp_job_result *r)
{
    return r->rc == 0 && r->job.is_running;
}

/* The journal has the slots. */
static bool resume(struct dp_run *run, const struct dp_job_result *r)
{
    struct dp_err err = {0};
    uint32_t restarts;

    if (r->others == DP_OTHERS_NONE || (is_home_running(r) && r->others != DP_OTHERS_RUN))
        return false;
    if (!run->start.slices || !dp_run_coord_find_life(run, &restarts))
        return false;
    fill_job(run, r, NULL, restarts, run->daemon->node);
    run->job.slice[0] = run->job_id;
    if (dp_run_coord_open(run, DP_RUN_OPEN_REST, &err) < 0) {
        dp_error("job=%u cannot go on from its journal: %s", run->job_id, err.text);
        return false;
    }
    if (!run->coord)
        return false;
    if (dp_coord_can_do_without(run->coord, run->job_id))
        return true;
    dp_run_coord_close(run, false);
    return false;
}

bool dp_slices_find_run(struct dp_run *run, const struct dp_job_result *r)
{
    if (r->rc == 0 && r->job.uid != run->uid)
        return false;
    for (const struct dp_run *s = run->daemon->runs; s; s = s->next)
        if (s->slicing && s->slicing->is_told && s->slicing->home_job == run->job_id && s != run && s->uid == run->uid &&
            strcmp(s->slicing->home_node, run->daemon->node) &&
            (!is_home_running(r) || s->slicing->home_restarts < r->job.restart_count)) {
            fill_job(run, r, s, s->slicing->home_restarts, s->slicing->home_node);
            return true;
        }
    return resume(run, r);
}

/* Why there are no more of them, beside what the group says. */
static void say_what_became(struct dp_run *home)
{
    struct dp_group *g = home->slicing->group;
    char why[256], text[sizeof g->text];

    dp_companions_tell(home, why, sizeof why);
    if (!why[0])
        return;
    if (g->possible < g->least)
        snprintf(text, sizeof text, "no more than %u of the %u slices that the run needs are there", g->possible, g->least);
    else
        snprintf(text, sizeof text, "%s", g->text);
    snprintf(g->text, sizeof g->text, "%.140s; %.110s", text, why);
}

/* squeue and sacct show what belongs together. */
static void mark_slices(struct dp_run *home)
{
    const struct dp_group *g = home->slicing->group;
    uint32_t slice[DP_MAX_SLOTS];

    for (uint32_t i = 0; i < g->n_there; i++)
        slice[i] = g->member[i].job_id;
    dp_companions_mark(home, slice, g->n_there);
}

void slicing_close_group(struct dp_run *home)
{
    struct dp_group *g = home->slicing->group;
    static struct dp_job_info job;
    struct dp_err err = {0};
    char why[256];

    if (!dp_group_tick(g, dp_now_ns()))
        return;
    if (g->state != DP_GROUP_CLOSED) {
        say_what_became(home);
        DP_RUN_LOG(home, dp_warn, "job=%u the run does not begin: %s", home->job_id, g->text);
        dp_companions_stop(home);
        return;
    }
    job = home->job;
    dp_group_job(g, &job, &home->job);
    if (dp_run_coord_open(home, DP_RUN_OPEN_STEP, &err) < 0) {
        DP_RUN_LOG(home, dp_error, "job=%u: %s", home->job_id, err.text);
        home->job = job;
        g->state = DP_GROUP_FAILED;
        snprintf(g->text, sizeof g->text, "the run cannot begin: %.200s", err.text);
        return;
    }
    dp_companions_tell(home, why, sizeof why);
    DP_RUN_LOG(home, dp_info, "job=%u the run begins with %u of %u slices%s%s", home->job_id, g->n_there, g->wanted, why[0] ? ": " : "",
               why);
    mark_slices(home);
}

/* As many as it begins with, and more where it may grow: those who train build themselves for all of them. */
static uint32_t seats_of(const struct dp_run *home)
{
    struct dp_run_limits limits;
    char note[256];

    dp_config_limits(home->daemon->config, home->job.partition, &home->start, &limits, note);
    return dp_companions_may_be(home) && limits.growth.max_gpus > home->start.slices ? limits.growth.max_gpus : home->start.slices;
}

static struct dp_group *gather(struct dp_run *home)
{
    struct dp_slicing *s = slicing_of(home);
    const struct dp_msg_step_start *o = &home->start;
    uint32_t least = o->options_set & DP_OPT_MIN_GPUS ? o->min_gpus : o->slices;

    if (!s || s->group)
        return s ? s->group : NULL;
    s->group = calloc(1, sizeof *s->group);
    if (s->group)
        dp_group_init(s->group, home->job_id, o->slices, least < o->slices ? least : o->slices, seats_of(home),
                      (uint64_t)(home->daemon->config->slices_wait_s * 1e9));
    return s->group;
}

static void wait_for(struct dp_msg_slice_rank *out, const char *why)
{
    out->state = DP_SLICE_WAITS;
    snprintf(out->text, sizeof out->text, "%.255s", why);
}

static void refuse(struct dp_msg_slice_rank *out, const char *why)
{
    out->state = DP_SLICE_REFUSED;
    snprintf(out->text, sizeof out->text, "%.255s", why);
}

/* It comes later: the coordinator says which rank it has, if any. */
static int seat(struct dp_run *home, const struct dp_group_member *who, struct dp_err *err)
{
    struct dp_group *g = home->slicing->group;
    uint32_t rank;

    if (!home->coord)
        return dp_err_set(err, DP_EAUTH, "the run is over");
    if (dp_coord_seat(home->coord, dp_now_ns(), who->node, who->job_id, who->restart_count, &rank, err) < 0)
        return -1;
    if (rank >= g->n)
        return dp_err_set(err, DP_EAUTH, "seat %u of %u", rank, g->n);
    dp_group_seat(g, rank, who);
    dp_slices_job(home, &home->job);
    dp_companions_mark(home, &who->job_id, 1);
    return 0;
}

void slicing_ask_home(struct dp_run *home, const char *node, const struct dp_msg_slice *m, struct dp_msg_slice_rank *out)
{
    struct dp_group_member who = {.job_id = m->slice, .restart_count = m->restarts, .step_id = m->step_id, .pid = m->pid};
    const struct dp_slice *slice;
    struct dp_err err = {0};
    struct dp_slicing *s;
    struct dp_group *g;
    char why[256];
    bool is_seen;
    uint32_t n;
    int at, rc;

    *out = (struct dp_msg_slice_rank){.job_id = home->job_id, .slice = m->slice, .pid = m->pid};
    snprintf(who.node, sizeof who.node, "%s", node);
    if (home->role != DP_RUN_COORD || dp_run_is_asking(home) || !slicing_may_be_home(home) || !dp_slice_is(home) ||
        (m->where == DP_WHERE_BACK && !dp_slices_are(home)) || !(g = gather(home))) {
        wait_for(out, "home's daemon does not know what its job is yet");
        return;
    }
    s = home->slicing;
    if (m->has_ended) {
        dp_group_leave(g, m->slice, m->pid);
        return;
    }
    if (!s->has_seen) {
        wait_for(out, "Slurm has not said which slices there are");
        slicing_read(home);
        return;
    }
    at = slicing_find_home_at(home, &s->seen);
    if (g->state == DP_GROUP_GATHERING && (at < 0 || s->seen.slice[at].job_id != home->job_id)) {
        wait_for(out, "Slurm does not say that this slice is home");
        slicing_read(home);
        return;
    }
    slice = slicing_seen_of(home, &n);
    rc = dp_group_join(g, slice, n, &who, dp_now_ns(), &err);
    is_seen = rc >= 0;
    if (rc > 0)
        rc = seat(home, &who, &err);
    if (rc < 0) {
        if (err.code == DP_EGONE) {
            wait_for(out, err.text);
            if (!is_seen)
                slicing_read(home);
        } else {
            DP_RUN_LOG(home, dp_info, "job=%u slice=%u on %s is refused: %s", home->job_id, m->slice, node, err.text);
            refuse(out, err.text);
        }
        return;
    }
    slicing_close_group(home);
    if (g->state == DP_GROUP_FAILED) {
        refuse(out, g->text);
    } else if (g->state == DP_GROUP_CLOSED && !g->has_step) {
        wait_for(out, "home's worker has not come back to its daemon, which was restarted");
    } else if (g->state == DP_GROUP_CLOSED) {
        out->state = DP_SLICE_RANKED;
        out->rank = (uint32_t)dp_group_rank(g, m->slice);
        out->n_workers = g->n;
        out->n_there = g->n_there;
        out->joins = home->coord && dp_coord_is_newcomer(home->coord, out->rank);
        out->step_id = g->step_id;
    } else {
        dp_companions_tell(home, why, sizeof why);
        snprintf(out->text, sizeof out->text, "%u of %u slices have come%s%.200s", g->n, g->wanted, why[0] ? "; " : "", why);
    }
}

void slicing_tell_where(const struct dp_run *slice, const struct dp_msg_slice *m, struct dp_msg_slice_rank *out)
{
    const struct dp_slicing *s = slice->slicing;
    const struct dp_run *run = s && s->pid && s->state == DP_SLICE_RANKED ? dp_run_find(slice->daemon, s->home_job) : NULL;

    *out = (struct dp_msg_slice_rank){.job_id = slice->job_id, .slice = m->slice, .pid = m->pid,
                                      .state = dp_slice_part_in(slice) == DP_PART_OF_RUN ? DP_SLICE_RANKED : DP_SLICE_WAITS};
    if (!run || run->role == DP_RUN_LOOKUP)
        return;
    out->rank = s->place.rank;
    out->n_workers = s->place.n_workers;
    out->n_there = s->place.n_there;
    out->step_id = s->place.step_id;
    out->home_job = s->home_job;
    out->home_restarts = run->job.restart_count;
    snprintf(out->home_node, sizeof out->home_node, "%s", s->home_node);
}

/* A slice waits to be taken in by a run, which this daemon had, or another life of it. */
static bool has_none(const struct dp_run *home, const struct dp_msg_slice *m)
{
    return !home || (home->role != DP_RUN_LOOKUP && !home->is_unsure && home->job.restart_count > m->restarts);
}

void dp_slice_asked(struct dp_conn *c, const struct dp_msg_slice *m)
{
    struct dp_run *home = dp_run_find(c->owner, m->job_id);
    struct dp_msg_slice_rank out;

    if (m->where == DP_WHERE_STILL) {
        if (!has_none(home, m))
            return;
        out = (struct dp_msg_slice_rank){.job_id = m->job_id, .slice = m->slice, .pid = m->pid};
        refuse(&out, "the run is over");
        DP_CONN_SEND(c, slice_rank, DP_MSG_SLICE_RANK, &out);
        return;
    }
    if (!home || (m->where == DP_WHERE_NOW && m->has_ended))
        return; /* it is asked again */
    if (m->where == DP_WHERE_NOW) {
        if (dp_slice_part_in(home) == DP_PART_UNKNOWN || !slicing_may_tell(home, c->node))
            return;
        slicing_tell_where(home, m, &out);
        if (out.home_job)
            dp_take_over_promise(dp_run_find(c->owner, out.home_job), c->node);
        DP_CONN_SEND(c, slice_rank, DP_MSG_SLICE_RANK, &out);
        return;
    }
    slicing_ask_home(home, c->node, m, &out);
    if (!m->has_ended)
        DP_CONN_SEND(c, slice_rank, DP_MSG_SLICE_RANK, &out);
}
