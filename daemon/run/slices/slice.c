/* SPDX-License-Identifier: BSD-3-Clause */
/* Of a slice: its worker waits for its rank, and its daemon asks where the run is. Nothing of it is kept anywhere: the worker asks again
 * and again (CARD of kind SLICE, every half second), and so does its daemon, so that one that is restarted learns it again.
 */
#include "config.h"

#include "daemon/run/slices/slicing.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/release/empty_slot.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/take_over.h"
#include "daemon/run/wireup/tasks.h"
#include "daemon/run/worker.h"

#define ASK_NS (1000 * DP_MS_NS)   /* home's daemon, again */
#define HEARD_NS (5000 * DP_MS_NS) /* who has not asked for so long does not wait any more */
#define TASKS_NS (2000 * DP_MS_NS) /* for the plugin to tell which process the task is */
#define PATIENCE_NS (60 * DP_SECOND_NS) /* beyond what home waits for others: it would have said so */
#define VIA_NS (3 * DP_SECOND_NS) /* one that is asked where the run is; then another one is */
#define SILENT 5u /* companions of an array in a row of which no daemon says anything: no worker is there, and no run */
#define STILL_NS (5 * DP_SECOND_NS) /* one that waits to be taken in: is its run still there? */

/* Its worker, as its run on this node knows it; NULL: not yet. */
static const struct dp_worker *worker_of(const struct dp_run *slice)
{
    const struct dp_run *run = dp_run_find(slice->daemon, slice->slicing->home_job);

    for (const struct dp_worker *w = run ? run->workers : NULL; w; w = w->next)
        if (w->slice == slice->job_id)
            return w;
    return NULL;
}

enum dp_slice_part dp_slice_part_in(const struct dp_run *slice)
{
    const struct dp_slicing *s = slice->slicing;

    if (!s || !s->pid || (s->is_back && s->state == DP_SLICE_WAITS))
        return DP_PART_UNKNOWN;
    if (s->state != DP_SLICE_RANKED)
        return DP_PART_NONE;
    if (worker_of(slice))
        return DP_PART_OF_RUN;
    return s->place.joins ? DP_PART_NONE : DP_PART_UNKNOWN;
}

void dp_slice_is_back(struct dp_run *slice, const struct dp_msg_hello *m)
{
    struct dp_slicing *s = slice->slicing;

    if (!s || s->state == DP_SLICE_RANKED)
        return;
    s->is_back = true;
    s->back = (struct dp_place){.rank = m->rank, .n_workers = m->n_workers, .n_there = m->n_there};
}

/* ---- a rank by the worker's word ---- */

static bool shows_slice_on(const struct dp_slices_result *seen, const char *node)
{
    for (uint32_t i = 0; i < seen->n; i++)
        if (seen->slice[i].is_running && seen->slice[i].slice_of && !strcmp(seen->slice[i].node, node))
            return true;
    return false;
}

/* Does Slurm show another slice of its run on that node? One of those here has asked. */
static bool has_slice_on(const struct dp_run *slice, const char *node)
{
    for (const struct dp_run *r = slice->daemon->runs; r; r = r->next)
        if (r->slicing && r->slicing->has_seen && slicing_are_of_one(r, slice) && shows_slice_on(&r->slicing->seen, node))
            return true;
    return false;
}

static bool has_rank_here(const struct dp_run *slice, uint32_t rank)
{
    const struct dp_slicing *s = slice->slicing;

    for (const struct dp_run *r = slice->daemon->runs; r; r = r->next)
        if (r != slice && r->slicing && r->slicing->state == DP_SLICE_RANKED && r->slicing->home_job == s->home_job &&
            r->slicing->place.rank == rank)
            return true;
    return false;
}

/* This daemon lost what it knew of the run, and the one that coordinated is lost, or was this one. Ranks are given by a coordinator, and
 * another one begins when all slices have come to it: so the worker's HELLO goes there as it is, where its rank is taken only if no other
 * slice has it. What the others know, their number and what rank one of them has, has to fit; and Slurm has to show a slice of the run
 * on the node that is to coordinate. */
static void claim(struct dp_run *slice)
{
    struct dp_slicing *s = slice->slicing;

    if (!s->is_back || !s->is_told || !s->told.n_workers || !strcmp(s->home_node, slice->daemon->node) ||
        !has_slice_on(slice, s->home_node))
        return;
    if (s->back.n_workers != s->told.n_workers || s->back.rank >= s->back.n_workers || !s->back.rank || s->back.rank == s->told.rank ||
        has_rank_here(slice, s->back.rank)) {
        DP_RUN_LOG(slice, dp_warn, "job=%u worker %u of %u says that it is in the run of job %u: others know better", slice->job_id,
                   s->back.rank, s->back.n_workers, s->home_job);
        return;
    }
    s->place = s->back;
    s->place.step_id = s->told.step_id;
    s->state = DP_SLICE_RANKED;
    s->is_claimed = true;
    s->claimed_ns = dp_now_ns();
    DP_RUN_LOG(slice, dp_info, "job=%u says to %s, which is to coordinate the run of job %u, that it is worker %u", slice->job_id,
               s->home_node, s->home_job, s->place.rank);
}

/* All of a run here, which passed on to one who did not begin. */
static void give_up_claims(struct dp_run *run)
{
    for (struct dp_run *r = dp_slices_here(run, NULL), *next; r; r = next) {
        struct dp_slicing *s = r->slicing;

        next = dp_slices_here(run, r);
        if (!s->is_claimed)
            continue;
        s->is_claimed = s->is_told = false;
        s->state = DP_SLICE_WAITS;
        s->home_job = 0;
    }
    run->is_superseded = run->role == DP_RUN_RELAY && run->is_for_slices && !dp_slices_here(run, NULL);
}

/* Confirmed when it is welcome. Else the others may look to another one by now: they are asked again. */
static void keep_claim(struct dp_run *slice, uint64_t now_ns)
{
    const struct dp_worker *w = worker_of(slice);
    struct dp_slicing *s = slice->slicing;
    struct dp_run *run = dp_run_find(slice->daemon, s->home_job);

    if (w && w->conn && !w->is_waiting)
        s->is_claimed = false;
    else if (run && now_ns - s->claimed_ns > SLICING_SEEK_NS)
        give_up_claims(run);
}

bool slicing_may_tell(struct dp_run *slice, const char *node)
{
    struct dp_slicing *s = slice->slicing;

    if (!s || !s->is_claimed)
        return true;
    if (strcmp(s->home_node, node))
        return false;
    s->claimed_ns = dp_now_ns();
    return true;
}

/* Does it have its rank, and is in no layout yet? */
static bool waits_to_be_taken_in(const struct dp_run *slice)
{
    const struct dp_slicing *s = slice->slicing;
    const struct dp_worker *w;

    if (!s->pid || s->state != DP_SLICE_RANKED || !s->place.joins)
        return false;
    w = worker_of(slice);
    return !w || w->joins;
}

/* Its run is over, and it was not told: its node was cut off then. What is said of a run that has workers here is not believed. */
static void be_left(struct dp_run *slice)
{
    struct dp_slicing *s = slice->slicing;
    struct dp_run *run = dp_run_find(slice->daemon, s->home_job);

    for (const struct dp_run *r = run ? dp_slices_here(run, NULL) : NULL; r; r = dp_slices_here(run, r))
        if (!waits_to_be_taken_in(r))
            return;
    s->state = DP_SLICE_REFUSED;
    snprintf(s->text, sizeof s->text, "the run of job %u is over", s->home_job);
    DP_RUN_LOG(slice, dp_info, "job=%u was not taken in: %s", slice->job_id, s->text);
    if (run && run->role == DP_RUN_RELAY && !dp_slices_here(run, NULL))
        dp_run_end(run, "its coordinator's daemon does not have it any more");
}

static void take_answer(struct dp_run *slice, const struct dp_msg_slice_rank *m)
{
    struct dp_slicing *s = slice->slicing;

    if (!s || m->pid != s->pid || m->job_id != s->home_job)
        return;
    if (m->state == DP_SLICE_REFUSED && waits_to_be_taken_in(slice))
        be_left(slice);
    if (s->state != DP_SLICE_WAITS)
        return; /* older than what is asked now */
    if (s->is_via) {
        s->n_via++;
        s->n_silent = 0;
        if (m->home_job && m->home_node[0]) {
            slicing_be_told(slice, m->home_job, m->home_restarts, m->home_node,
                            &(struct dp_place){.rank = m->rank, .n_workers = m->n_workers, .step_id = m->step_id});
        } else {
            s->n_none++;
            s->home_ns = 0; /* the next one */
        }
        return;
    }
    if (m->state == DP_SLICE_RANKED && (m->n_workers < 1 || m->n_workers > DP_MAX_WORKERS || m->rank >= m->n_workers ||
                                        m->n_there < 1 || m->n_there > m->n_workers))
        return;
    s->home_ns = dp_now_ns();
    snprintf(s->text, sizeof s->text, "%s", m->text);
    if (m->state == DP_SLICE_WAITS) {
        claim(slice);
        return;
    }
    s->state = m->state == DP_SLICE_RANKED ? DP_SLICE_RANKED : DP_SLICE_REFUSED;
    s->place = (struct dp_place){m->rank, m->n_workers, m->n_there, m->step_id, m->joins == 1};
    DP_RUN_LOG(slice, dp_info, "job=%u %s", slice->job_id, s->state == DP_SLICE_RANKED ? "has its rank" : s->text);
}

void dp_slice_answered(struct dp_conn *c, const struct dp_msg_slice_rank *m)
{
    struct dp_run *slice = dp_run_find(c->owner, m->slice);

    if (slice && dp_take_over_answered(slice, c->node, m))
        return;
    if (slice && slice->slicing && !strcmp(slice->slicing->home_node, c->node))
        take_answer(slice, m);
}

/* Home's job runs again on this node, and would be home of a run of its own; but this slice's worker trains on in the one before. */
static bool has_a_later_life(const struct dp_run *run, const struct dp_run *slice)
{
    const struct dp_slicing *s = slice->slicing;

    return run->role == DP_RUN_COORD && s->is_back && s->is_told && s->home_restarts < run->job.restart_count && !run->coord &&
           !dp_slices_are(run);
}

/* The run of home's name on this node; made where home is on another one. NULL: there is none yet. */
static struct dp_run *find_run(struct dp_run *slice)
{
    const struct dp_slicing *s = slice->slicing;
    struct dp_daemon *d = slice->daemon;
    struct dp_run *run = dp_run_find(d, s->home_job);
    struct dp_msg_step_start start = slice->start;

    if (run && has_a_later_life(run, slice))
        run->is_superseded = true; /* in its own turn */
    if (run || !strcmp(s->home_node, d->node))
        return run;
    start.job_id = s->home_job;
    start.slices = 0;
    run = dp_run_create(d, &start);
    if (run)
        run->is_for_slices = true;
    return run;
}

/* What Slurm says of home has to fit to what it says of the slice. */
static bool is_home_of(const struct dp_run *run, const struct dp_run *slice)
{
    return slicing_may_be_home(run) && slicing_are_of_one(run, slice) && !strcmp(run->job.batch_host, slice->slicing->home_node);
}

static void ask_where(struct dp_run *slice)
{
    struct dp_slicing *s = slice->slicing;
    struct dp_msg_slice m = {.job_id = s->home_job, .slice = slice->job_id, .pid = s->pid, .where = DP_WHERE_NOW};
    struct dp_run *other = dp_run_find(slice->daemon, s->home_job);
    struct dp_msg_slice_rank out;

    s->asked_ns = dp_now_ns();
    if (strcmp(s->home_node, slice->daemon->node)) {
        dp_peer_want(slice->daemon, s->home_node);
        (void)DP_PEER_SEND(slice->daemon, s->home_node, slice, DP_MSG_SLICE, &m);
    } else if (other && dp_slice_part_in(other) != DP_PART_UNKNOWN && slicing_may_tell(other, slice->daemon->node)) {
        slicing_tell_where(other, &m, &out);
        take_answer(slice, &out);
    }
}

static void ask(struct dp_run *slice, bool has_ended)
{
    struct dp_slicing *s = slice->slicing;
    struct dp_msg_slice m = {.job_id = s->home_job, .slice = slice->job_id, .restarts = slice->job.restart_count,
                             .step_id = s->step_id, .pid = s->pid, .has_ended = has_ended,
                             .where = s->is_back && !has_ended ? DP_WHERE_BACK : DP_WHERE_HOME};
    struct dp_run *run = find_run(slice);
    struct dp_msg_slice_rank out;

    if (!run || run->role == DP_RUN_LOOKUP)
        return;
    s->asked_ns = dp_now_ns();
    if (!is_home_of(run, slice)) {
        s->is_told = false;
        s->home_job = 0;
        return;
    }
    if (run->role == DP_RUN_RELAY) {
        (void)DP_PEER_SEND(slice->daemon, s->home_node, slice, DP_MSG_SLICE, &m);
        return;
    }
    slicing_ask_home(run, slice->daemon->node, &m, &out);
    if (!has_ended)
        take_answer(slice, &out);
}

static void ask_still(struct dp_run *slice, uint64_t now_ns)
{
    struct dp_slicing *s = slice->slicing;
    const struct dp_run *run = dp_run_find(slice->daemon, s->home_job);
    struct dp_msg_slice m = {.job_id = s->home_job, .slice = slice->job_id, .pid = s->pid, .where = DP_WHERE_STILL};

    if (!run || run->role != DP_RUN_RELAY || now_ns - s->asked_ns < STILL_NS)
        return;
    s->asked_ns = now_ns;
    m.restarts = run->job.restart_count;
    (void)DP_PEER_SEND(slice->daemon, s->home_node, slice, DP_MSG_SLICE, &m);
}

static void seek_rank(struct dp_run *slice, uint64_t now_ns)
{
    struct dp_slicing *s = slice->slicing;

    if (s->is_via && s->home_ns && now_ns - s->home_ns > VIA_NS) {
        s->n_via++; /* its daemon does not answer: another one may */
        s->home_ns = 0;
        if (s->is_via_companion && !s->is_back && ++s->n_silent >= SILENT)
            s->n_none = DP_MAX_SLOTS;
    }
    if (!s->home_job || now_ns - s->home_ns > SLICING_SEEK_NS)
        slicing_read(slice);
    if (s->is_via && (!s->asked_ns || now_ns - s->asked_ns > ASK_NS))
        ask_where(slice);
    else if (s->home_job && !s->is_via && (!s->asked_ns || now_ns - s->asked_ns > ASK_NS || !strcmp(s->home_node, slice->daemon->node)))
        ask(slice, false);
}

static const char *why_none(const struct dp_run *slice)
{
    if (!slice->job.array_job_id && !slice->job.slice_of && !dp_companions_may_be(slice))
        return "--dynpipe-slices=1 is for the tasks of a job array (sbatch --array), or with --dynpipe-max-gpus, and this job is none";
    return slice->job.n_nodes != 1 && !dp_slices_are(slice) ? "a slice has one node" : NULL;
}

/* returns: is it the slice's task? text: why not. */
static bool is_task(struct dp_run *slice, uint32_t step_id, uint32_t pid, const char **text, bool *is_refused)
{
    static char why[160];
    struct dp_slicing *s = slice->slicing;
    enum dp_claim claim = dp_tasks_check(slice->tasks, step_id, 0, 1, pid, why);

    if (!s->tried_ns || s->tried_step != step_id) {
        s->tried_step = step_id;
        s->tried_ns = dp_now_ns();
    }
    *text = why;
    if (claim == DP_CLAIM_FALSE)
        *is_refused = true;
    else if (claim == DP_CLAIM_EARLY && dp_now_ns() - s->tried_ns < TASKS_NS)
        *text = "its step begins";
    else
        return true;
    return false;
}

static void begin(struct dp_slicing *s, uint32_t step_id, uint32_t pid, uint64_t now_ns)
{
    s->state = DP_SLICE_WAITS;
    s->is_back = s->is_claimed = false;
    s->pid = pid;
    s->step_id = step_id;
    s->start_ticks = dp_process_start(pid);
    s->since_ns = now_ns;
    s->asked_ns = 0;
    snprintf(s->text, sizeof s->text, "Slurm is asked which slices there are");
}

static bool is_alive(const struct dp_slicing *s)
{
    return s->start_ticks && dp_process_start(s->pid) == s->start_ticks;
}

bool dp_slice_lives(const struct dp_run *slice)
{
    const struct dp_slicing *s = slice->slicing;

    return s && s->state == DP_SLICE_RANKED && s->pid && is_alive(s);
}

/* Home's daemon is not there, or of an older release. Not said to a worker that trains: it goes on without. */
static void give_up(struct dp_slicing *s, uint64_t now_ns)
{
    char text[200];

    snprintf(text, sizeof text, "%.199s", s->text);
    s->state = DP_SLICE_REFUSED;
    snprintf(s->text, sizeof s->text, "no rank in %.0f s: %s", (double)(now_ns - s->since_ns) / 1e9, text);
}

struct dp_run *dp_slice_run(struct dp_run *slice, uint32_t step_id, uint32_t pid, const char **text, bool *is_refused)
{
    uint64_t now_ns = dp_now_ns();
    struct dp_slicing *s = slicing_of(slice);
    struct dp_run *run;

    *is_refused = false;
    *text = s ? "Slurm has not said yet what the job is" : "out of memory";
    if (!s || dp_run_is_asking(slice))
        return NULL;
    *text = why_none(slice);
    *is_refused = *text != NULL;
    if (*text)
        return NULL;
    if (!is_task(slice, step_id, pid, text, is_refused))
        return NULL;
    if (s->pid != pid || s->step_id != step_id) {
        *text = "another process is the worker of this slice";
        *is_refused = s->pid && s->pid != pid && is_alive(s);
        if (*is_refused)
            return NULL;
        begin(s, step_id, pid, now_ns);
    }
    s->heard_ns = now_ns;
    if (s->state == DP_SLICE_WAITS)
        seek_rank(slice, now_ns);
    if (s->state == DP_SLICE_WAITS && !s->is_back &&
        now_ns - s->since_ns > PATIENCE_NS + (uint64_t)(slice->daemon->config->slices_wait_s * 1e9))
        give_up(s, now_ns);
    *text = s->text;
    *is_refused = s->state == DP_SLICE_REFUSED;
    if (s->state != DP_SLICE_RANKED)
        return NULL;
    run = find_run(slice);
    *text = "Slurm has not said yet what the job of its run is";
    return run && run->role != DP_RUN_LOOKUP && is_home_of(run, slice) ? run : NULL;
}

struct dp_place dp_slice_place(const struct dp_run *slice)
{
    return slice->slicing->place;
}

bool dp_slice_is_of_other(const struct dp_run *run)
{
    return run->slicing && run->slicing->pid && run->slicing->state == DP_SLICE_RANKED && run->slicing->home_job != run->job_id;
}

bool dp_slice_tell(const struct dp_run *run, char *out, size_t cap)
{
    const struct dp_slicing *s = run->slicing;

    if (!s || !s->pid || (s->state == DP_SLICE_RANKED && !dp_slice_is_of_other(run)))
        return false;
    if (s->state == DP_SLICE_RANKED)
        snprintf(out, cap, "a slice of the run of job %u on %s: ask for that", s->home_job, s->home_node);
    else
        snprintf(out, cap, "%s%s", s->state == DP_SLICE_WAITS ? "a slice that waits for the others: " : "", s->text);
    return true;
}

void slicing_tick_slice(struct dp_run *run, uint64_t now_ns)
{
    struct dp_slicing *s = run->slicing;

    if (s->pid && s->state == DP_SLICE_WAITS && !is_alive(s)) {
        if (s->home_job && !s->is_via)
            ask(run, true);
        s->pid = 0;
    } else if (s->pid && s->state == DP_SLICE_WAITS && now_ns - s->heard_ns < HEARD_NS) {
        seek_rank(run, now_ns);
    } else if (s->pid && s->is_claimed) {
        keep_claim(run, now_ns);
    } else if (waits_to_be_taken_in(run)) {
        ask_still(run, now_ns);
    }
}
