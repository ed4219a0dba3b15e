/* SPDX-License-Identifier: BSD-3-Clause */
/* What Slurm says of slices: asked in a child, for a run about once a second at most, and only while somebody waits for the answer. */
#include "config.h"

#include "daemon/run/slices/slicing.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/helper.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/slices/companions.h"

#define READ_DEADLINE_S 70.0 /* a dead controller answers after 10 to 60 s */
#define READ_NS (1000 * DP_MS_NS)  /* least time between two questions to Slurm */
#define PAUSE_MAX_NS (15 * DP_SECOND_NS) /* most of it */

static void tell_coordinator(struct dp_run *home, const char *why)
{
    static struct dp_job_info now;
    struct dp_slicing *s = home->slicing;

    if (!s->has_job)
        return;
    s->has_job = false;
    if (!home->coord || !dp_slices_are(home))
        return;
    if (s->seen.rc == 0 && !s->seen.is_cut && !why)
        dp_group_job_now(s->group, &s->job, s->seen.slice, s->seen.n, &now);
    now.is_running |= home->is_home_over; /* the run's slices do, and home's job, as a daemon that was restarted read it, is over */
    dp_coord_job_read(home->coord, dp_now_ns(), s->seen.rc == 0 && !s->seen.is_cut && !why ? &now : NULL,
                      why ? why : s->seen.is_cut ? "there are more slices than a run may have" : s->seen.text);
}

/* Several slices of a run on a node ask once. */
static bool is_beside(const struct dp_run *a, const struct dp_run *b)
{
    return a != b && a->slicing && slicing_are_of_one(a, b);
}

/* Of a run that outlives its job. What Slurm does not know any more is over; so is what it shows in another life only. */
static bool is_all_over(const struct dp_run *run)
{
    const struct dp_slicing *s = run->slicing;
    static struct dp_job_info now;

    if (!dp_slices_are(run) || s->seen.is_cut)
        return false;
    dp_group_job_now(s->group, &run->job, s->seen.slice, s->seen.rc == 0 ? s->seen.n : 0, &now);
    for (uint32_t i = 0; i < now.n_nodes; i++)
        if (now.slice[i] && now.slice[i] != run->job_id)
            return false;
    return true;
}

/* Companions are looked for among all jobs of their owner. Where he has thousands, Slurm rests from each answer. */
static uint64_t pause_ns(const struct dp_run *run)
{
    uint64_t pause_ns = run->job.array_job_id && !slicing_looks_for_companions(run) ? 0 : 10 * (dp_now_ns() - run->slicing->read_ns);

    return pause_ns < READ_NS ? READ_NS : pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
}

/* All tasks of the array are over, by scancel, and left their layers to companions before it was clear that the run is meant. */
static void stop_with_array(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;

    if (!run->is_home_over || !run->coord || !s->has_seen || !s->seen.is_cancelled || s->is_cancelled)
        return;
    s->is_cancelled = true;
    dp_coord_stop(run->coord, "the array whose tasks asked for the other slices was cancelled");
}

static void on_read(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_run *run = arg;
    struct dp_slicing *s = run->slicing;

    s->reader = NULL;
    s->next_ns = dp_now_ns() + pause_ns(run);
    if (s->must_read) {
        s->must_read = false;
        s->next_ns = 0;
        slicing_read(run);
        return;
    }
    if (result && bytes == sizeof s->seen) {
        memcpy(&s->seen, result, sizeof s->seen);
        s->seen.text[sizeof s->seen.text - 1] = '\0';
        s->seen_ns = s->seen.rc == 0 && !s->seen.is_cut ? s->read_ns : s->seen_ns;
        s->has_seen = s->seen.rc == 0 && !s->seen.is_cut && s->seen.n <= DP_MAX_SLOTS;
        why = NULL;
    }
    if (why || s->seen.rc != 0 || s->seen.is_cut)
        snprintf(s->text, sizeof s->text, "%.200s", why ? why : s->seen.is_cut ? "there are too many slices for a run" : s->seen.text);
    else
        slicing_find_home(run, &s->seen);
    for (struct dp_run *r = run->daemon->runs; r && s->has_seen && !why; r = r->next)
        if (is_beside(r, run))
            slicing_find_home(r, &s->seen);
    if (!why && s->seen.rc >= 0)
        s->is_all_over = run->is_home_over && is_all_over(run);
    if (!why)
        stop_with_array(run);
    if (s->group && s->has_seen && !why)
        dp_group_keep(s->group, s->seen.slice, s->seen.n, s->seen.has_waiting || dp_companions_may_come(run, s->read_ns));
    tell_coordinator(run, why);
}

void slicing_read(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;
    struct dp_slices_request q = {run->job.array_job_id, run->uid, slicing_family(run), slicing_looks_for_companions(run)};
    struct dp_err err = {0};

    if (s->reader || dp_now_ns() < s->next_ns)
        return;
    for (const struct dp_run *r = run->daemon->runs; r && !s->group; r = r->next)
        if (is_beside(r, run) && r->slicing->reader)
            return;
    s->read_ns = dp_now_ns();
    s->reader = dp_helper_start(run->daemon->base, dp_slices_read_work, &q, sizeof q, READ_DEADLINE_S, on_read, run, &err);
    if (!s->reader) {
        s->next_ns = dp_now_ns() + READ_NS;
        DP_RUN_LOG(run, dp_warn, "job=%u %s", run->job_id, err.text);
    }
}

void dp_slices_read_job(struct dp_run *home, const struct dp_job_info *job)
{
    struct dp_slicing *s = home->slicing;

    if (!s)
        return;
    if (!job) {
        s->next_ns = 0;
        slicing_read(home);
        return;
    }
    s->job = *job;
    s->has_job = true;
    s->must_read = s->reader != NULL;
    s->next_ns = 0;
    slicing_read(home);
}
