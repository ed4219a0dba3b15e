/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is home: which slice of those that Slurm shows gives its run the name, and where the run is when that one is over. */
#include "config.h"

#include "daemon/run/slices/slicing.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"

#define ALL_NONE_NS (10 * DP_SECOND_NS) /* others are in no run, they say: a daemon that was restarted knows better by then */

uint32_t slicing_family(const struct dp_run *run)
{
    return run->job.array_job_id ? run->job.array_job_id : run->job.slice_of ? run->job.slice_of : run->job_id;
}

bool slicing_may_be_home(const struct dp_run *run)
{
    return run->job.array_job_id || !run->job.slice_of;
}

bool slicing_are_of_one(const struct dp_run *a, const struct dp_run *b)
{
    return a->uid == b->uid && slicing_family(a) == slicing_family(b);
}

bool slicing_is_of_life(const struct dp_slices_result *seen, const struct dp_slice *slice, uint32_t restarts)
{
    return !slice->slice_of || seen->array_job_id || slice->is_older == (restarts < seen->home_restarts);
}

/* A companion may be one of an array: that is seen, not known. */
static bool is_of_array(const struct dp_run *run, const struct dp_slices_result *seen)
{
    return run->job.array_job_id || seen->array_job_id;
}

int slicing_find_home_at(const struct dp_run *run, const struct dp_slices_result *seen)
{
    if (is_of_array(run, seen))
        return dp_group_home(seen->slice, seen->n, seen->read_s);
    for (uint32_t i = 0; seen->has_home && i < seen->n; i++)
        if (seen->slice[i].job_id == slicing_family(run))
            return (int)i;
    return -1;
}

/* A companion of an earlier life of home's job: its run, if there is any, is of that life. */
static bool is_older(const struct dp_run *run, const struct dp_slices_result *seen)
{
    const struct dp_slice *own = dp_group_find_slice(seen->slice, seen->n, run->job_id);

    return own && own->is_older;
}

/* Another slice, that runs and is one by its comment, of the same life of home. */
static bool is_marked(const struct dp_run *run, const struct dp_slices_result *seen, const struct dp_slice *s)
{
    return s->job_id != run->job_id && s->is_running && s->slice_of && s->is_older == is_older(run, seen);
}

/* The nth of those, from 0, in the order of Slurm's list; *n_all: how many there are. -1: none. */
static int find_marked(const struct dp_run *run, const struct dp_slices_result *seen, uint32_t nth, uint32_t *n_all)
{
    int at = -1;

    *n_all = 0;
    for (uint32_t i = 0; i < seen->n; i++)
        if (is_marked(run, seen, &seen->slice[i]) && (*n_all)++ == nth)
            at = (int)i;
    return at;
}

/* Whom to ask. Home, while it runs and is the one that began first: comments may be of a life before, and a home that was requeued is
 * no part of its run any more. Else *is_via: a slice that has its rank, by its comment, which a daemon gave it; when all of these are
 * in no run (they were requeued since, all of them; or are companions of an array's run that is over), whoever would be home of a new
 * one: but for a worker that trains, which has no part in a new one. */
static int find_whom(const struct dp_run *run, const struct dp_slices_result *seen, bool *is_via)
{
    const struct dp_slicing *s = run->slicing;
    uint32_t n, n_all;
    int at = find_marked(run, seen, 0, &n), home;

    *is_via = false;
    if (!is_of_array(run, seen) && seen->has_home && !is_older(run, seen))
        return slicing_find_home_at(run, seen);
    if (is_older(run, seen)) {
        *is_via = at >= 0;
        return *is_via ? find_marked(run, seen, s->n_via % n, &n_all) : -1;
    }
    if (at < 0 || (is_of_array(run, seen) && s->n_none >= n && !s->is_back))
        return slicing_find_home_at(run, seen);
    home = is_of_array(run, seen) ? slicing_find_home_at(run, seen) : -1;
    if (home >= 0 && seen->slice[home].job_id == seen->slice[at].slice_of)
        return home;
    *is_via = true;
    return find_marked(run, seen, s->n_via % n, &n_all);
}

/* A companion that has no run: its home is over, or in a life of which it is no part. What Slurm shows is no older than the
 * companion's own worker, who made us ask. A worker that comes back to its daemon, which was restarted, has one: whoever coordinates it
 * has all save and stop, and has to be found for that. */
static bool leave_out(struct dp_run *run, const struct dp_slices_result *seen)
{
    struct dp_slicing *s = run->slicing;
    const char *why = seen->has_home ? "it was asked for in an earlier life of that job" : seen->home_why;
    uint32_t n;

    if (!run->job.slice_of || run->job.array_job_id || s->state != DP_SLICE_WAITS)
        return false;
    if (is_older(run, seen) && s->is_back)
        return false;
    if (!seen->has_home && !seen->is_home_queued && find_marked(run, seen, 0, &n) >= 0 &&
        (s->n_none < n || dp_now_ns() - s->since_ns < ALL_NONE_NS))
        return false; /* they may train on without it; or they began as late as this one */
    if (seen->has_home && dp_group_find_slice(seen->slice, seen->n, run->job_id) && !is_older(run, seen))
        return false;
    s->state = DP_SLICE_REFUSED;
    snprintf(s->text, sizeof s->text, "a slice of job %u, by its comment, and no run is there: %s", run->job.slice_of, why);
    DP_RUN_LOG(run, dp_info, "job=%u is %s", run->job_id, s->text);
    return true;
}

/* A run that this daemon coordinates, whose job is over, of that life of its job that this slice is of. */
static const struct dp_run *find_outliving(const struct dp_run *run, const struct dp_slices_result *seen)
{
    const struct dp_slice *own = dp_group_find_slice(seen->slice, seen->n, run->job_id);

    for (const struct dp_run *r = run->daemon->runs; r; r = r->next)
        if (r != run && r->is_home_over && r->role == DP_RUN_COORD && dp_slices_are(r) && slicing_are_of_one(r, run) &&
            (!own || slicing_is_of_life(seen, own, r->job.restart_count)))
            return r;
    return NULL;
}

static void set_home(struct dp_run *run, uint32_t home_job, const char *node)
{
    struct dp_slicing *s = run->slicing;

    if (s->is_via && strcmp(s->home_node, node))
        dp_run_forget_peer(run->daemon, s->home_node);
    s->home_job = home_job;
    snprintf(s->home_node, sizeof s->home_node, "%s", node);
    s->home_ns = dp_now_ns();
    s->asked_ns = 0;
    s->is_via = s->is_told = false;
}

void slicing_be_told(struct dp_run *run, uint32_t home_job, uint32_t restarts, const char *node, const struct dp_place *place)
{
    struct dp_slicing *s = run->slicing;

    set_home(run, home_job, node);
    s->told = place ? *place : (struct dp_place){0};
    s->is_told = true;
    s->home_restarts = restarts;
    s->n_none = s->n_silent = 0;
    if (home_job == run->job_id) {
        s->state = DP_SLICE_REFUSED;
        snprintf(s->text, sizeof s->text, "a run that began in an earlier life of this job goes on without it");
    }
    DP_RUN_LOG(run, dp_info, "job=%u is a slice of the run of job %u on %s, whose own slice is over", run->job_id, home_job, node);
}

void slicing_find_home(struct dp_run *run, const struct dp_slices_result *seen)
{
    struct dp_slicing *s = run->slicing;
    const struct dp_run *here = find_outliving(run, seen);
    bool is_via;
    int at;

    if (s->state == DP_SLICE_RANKED || leave_out(run, seen) || (s->is_told && dp_now_ns() - s->home_ns < SLICING_SEEK_NS))
        return;
    if (here && !s->is_told) {
        slicing_be_told(run, here->job_id, here->job.restart_count, run->daemon->node, NULL);
        return;
    }
    at = find_whom(run, seen, &is_via);
    if (at < 0)
        return;
    s->home_ns = dp_now_ns();
    if (s->home_job == seen->slice[at].job_id && s->is_via == is_via)
        return;
    set_home(run, seen->slice[at].job_id, seen->slice[at].node);
    s->is_via = is_via;
    s->is_via_companion = seen->slice[at].is_companion;
    if (!is_via)
        DP_RUN_LOG(run, dp_info, "job=%u is a slice of the run of job %u on %s", run->job_id, s->home_job, s->home_node);
}
