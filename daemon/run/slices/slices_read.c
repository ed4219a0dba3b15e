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

const struct dp_slice *slicing_seen_of(const struct dp_run *home, uint32_t *n)
{
    static struct dp_slice of_life[DP_MAX_SLOTS];
    const struct dp_slices_result *seen = &home->slicing->seen;

    *n = 0;
    for (uint32_t i = 0; i < seen->n; i++)
        if (slicing_is_of_life(seen, &seen->slice[i], home->job.restart_count))
            of_life[(*n)++] = seen->slice[i];
    return of_life;
}

static void tell_coordinator(struct dp_run *home, const char *why)
{
    static struct dp_job_info now;
    struct dp_slicing *s = home->slicing;
    const struct dp_slice *slice;
    uint32_t n;

    if (!s->has_job)
        return;
    s->has_job = false;
    if (!home->coord || !dp_slices_are(home))
        return;
    slice = slicing_seen_of(home, &n);
    if (s->seen.rc == 0 && !s->seen.is_cut && !why)
        dp_group_job_now(s->group, &s->job, slice, n, &now);
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
    const struct dp_slice *slice;
    uint32_t n;

    if (!dp_slices_are(run) || s->seen.is_cut)
        return false;
    slice = slicing_seen_of(run, &n);
    dp_group_job_now(s->group, &run->job, slice, s->seen.rc == 0 ? n : 0, &now);
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

/* What the user submitted is over, and companions have its layers: all tasks of an array, by scancel, before it was clear that the run is
 * meant; or a job that was requeued, while another daemon coordinated, which is lost. */
static void stop_with_home(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;
    bool is_again = !s->seen.array_job_id && s->seen.home_restarts > run->job.restart_count;

    if (!run->is_home_over || !run->coord || !s->has_seen || !(s->seen.is_cancelled || is_again) || s->is_told_stop)
        return;
    s->is_told_stop = true;
    dp_coord_stop(run->coord, is_again ? DP_STOP_REQUEUED : "the array whose tasks asked for the other slices was cancelled");
}

/* Of home: who is waited for, while the group gathers. */
static void keep_group(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;
    const struct dp_slice *slice;
    uint32_t n;

    if (!s->group)
        return;
    slice = slicing_seen_of(run, &n);
    dp_group_keep(s->group, slice, n, s->seen.has_waiting || dp_companions_may_come(run, s->read_ns));
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
        stop_with_home(run);
    if (s->has_seen && !why)
        keep_group(run);
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
