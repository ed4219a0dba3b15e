/* SPDX-License-Identifier: BSD-3-Clause */
/* See slices.h. A worker that waits for its rank asks again and again (CARD of kind SLICE, every half second), and its daemon
 * asks home's again every second; so nothing of it has to be kept anywhere, and a daemon that is restarted learns it again.
 *
 * Slurm is asked in a child, for a run about once a second at most, and only while somebody waits for the answer.
 */
#include "config.h"

#include "daemon/run/slices/slices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/helper.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/release/empty_slot.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/group.h"
#include "daemon/run/slices/take_over.h"
#include "daemon/run/wireup/tasks.h"
#include "daemon/run/worker.h"

#define READ_DEADLINE_S 70.0 /* a dead controller answers after 10 to 60 s */
#define READ_NS (1000 * DP_MS_NS)  /* least time between two questions to Slurm */
#define PAUSE_MAX_NS (15 * DP_SECOND_NS) /* most of it */
#define KEEP_NS (5000 * DP_MS_NS)  /* while others are waited for: who has ended meanwhile? */
#define ASK_NS (1000 * DP_MS_NS)   /* home's daemon, again */
#define HEARD_NS (5000 * DP_MS_NS) /* who has not asked for so long does not wait any more */
#define TASKS_NS (2000 * DP_MS_NS) /* for the plugin to tell which process the task is */
#define PATIENCE_NS (60 * DP_SECOND_NS) /* beyond what home waits for others: it would have said so */
#define MISSED_NS (5 * DP_SECOND_NS) /* one that Slurm took may come again by itself */
#define REPLACE_NS (30 * DP_SECOND_NS) /* between two times that others are asked for; twice as long where they did not last */
#define REPLACE_MAX_NS (1800 * DP_SECOND_NS) /* then it begins with that again */
#define VIA_NS (3 * DP_SECOND_NS) /* one that is asked where the run is; then another one is */
#define SEEK_NS (10 * DP_SECOND_NS) /* home does not answer: is it still home? */
#define STILL_NS (5 * DP_SECOND_NS) /* one that waits to be taken in: is its run still there? */

struct dp_slicing {
    /* Of a slice. */
    uint8_t state; /* enum dp_slice_state */
    uint32_t pid, step_id;
    bool is_back;  /* its worker is in a run, and comes back to a daemon that does not know it */
    uint64_t start_ticks, since_ns, heard_ns, asked_ns;
    uint32_t tried_step; /* the step of which somebody spoke last, since when */
    uint64_t tried_ns;
    uint32_t home_job;
    char home_node[64];
    uint64_t home_ns; /* when Slurm was asked which one it is */
    /* Home is over: slices of its run are asked one after the other where that is now. */
    bool is_via;             /* home_job and home_node are such a slice's */
    bool is_told;            /* one has said it */
    uint32_t home_restarts;  /* told: which life of home's job the run has its name of */
    uint32_t n_via, n_none;  /* asked so far; of these in a row so many are in no run */
    struct dp_place place;
    char text[256];

    /* What Slurm said of the array, or of home and its companions. */
    struct dp_helper *reader;
    bool has_seen;
    uint64_t next_ns; /* not asked before */
    uint64_t read_ns; /* when it was asked last */
    uint64_t seen_ns; /* when what it has said was asked; 0: it has not */
    struct dp_slices_result seen;

    /* Of home; NULL: nobody has asked it. */
    struct dp_group *group;
    bool has_asked;          /* for companions, since the run began, or this daemon */
    uint32_t n_asked;        /* so many */
    uint32_t grows;          /* number of the coordinator's request that was asked for with them; 0: none was under way */
    uint64_t missed_ns, replaced_ns, pause_ns; /* since when slices are missing; asked for others last; not again for so long */
    bool is_all_over;        /* no slice of a run that outlives its job is left in Slurm */
    bool has_job, must_read; /* the coordinator waits for what the slices are; must: a question that is older is under way */
    struct dp_job_info job;
};

static struct dp_slicing *slicing(struct dp_run *run)
{
    if (!run->slicing)
        run->slicing = calloc(1, sizeof *run->slicing);
    return run->slicing;
}

bool dp_slice_is(const struct dp_run *run)
{
    return run->start.slices && run->daemon->config->slurm;
}

bool dp_slices_are(const struct dp_run *home)
{
    return home->slicing && home->slicing->group && home->slicing->group->state == DP_GROUP_CLOSED;
}

bool dp_slices_have(const struct dp_run *home, uint32_t rank, const char *node, uint32_t slice)
{
    const struct dp_group *g = home->slicing->group;

    return rank < g->n && !strcmp(g->member[rank].node, node) && (!slice || g->member[rank].job_id == slice);
}

bool dp_slices_is_empty(const struct dp_run *home, uint32_t rank)
{
    return dp_slices_are(home) && rank < home->slicing->group->n && !home->slicing->group->member[rank].job_id;
}

void dp_slices_job(const struct dp_run *run, struct dp_job_info *job)
{
    static struct dp_job_info home;

    if (!dp_slices_are(run))
        return;
    home = *job;
    dp_group_job(run->slicing->group, &home, job);
}

/* ---- whose slices ---- */

/* Of a run of companions: the job that is home, 0: the job is a task of an array. */
static uint32_t home_of_companions(const struct dp_run *run)
{
    return run->job.array_job_id ? 0 : run->job.slice_of ? run->job.slice_of : run->job_id;
}

/* May a run have this job's name? A task of an array may begin first; else it is a job that is no companion itself. */
static bool may_be_home(const struct dp_run *run)
{
    return run->job.array_job_id || !run->job.slice_of;
}

/* Of the same array, or of the same home: one question to Slurm is for both. */
static bool are_of_one(const struct dp_run *a, const struct dp_run *b)
{
    return a->uid == b->uid && a->job.array_job_id == b->job.array_job_id && home_of_companions(a) == home_of_companions(b);
}

/* Which of them is home, by what Slurm says of it alone: -1: none can be told. */
static int find_home_at(const struct dp_run *run, const struct dp_slices_result *seen)
{
    if (run->job.array_job_id)
        return dp_group_home(seen->slice, seen->n, seen->read_s);
    for (uint32_t i = 0; seen->has_home && i < seen->n; i++)
        if (seen->slice[i].job_id == home_of_companions(run))
            return (int)i;
    return -1;
}

/* Another slice, that runs and is one by its comment. */
static bool is_marked(const struct dp_run *run, const struct dp_slice *s)
{
    return s->job_id != run->job_id && s->is_running && s->slice_of;
}

/* The nth of those, from 0, in the order of Slurm's list; *n_all: how many there are. -1: none. */
static int find_marked(const struct dp_run *run, const struct dp_slices_result *seen, uint32_t nth, uint32_t *n_all)
{
    int at = -1;

    *n_all = 0;
    for (uint32_t i = 0; i < seen->n; i++)
        if (is_marked(run, &seen->slice[i]) && (*n_all)++ == nth)
            at = (int)i;
    return at;
}

/* Whom to ask. Home, while it runs and is the one that began first: comments may be of a life before, and a home that was requeued is
 * no part of its run any more. Else *is_via: a slice that has its rank, by its comment, which a daemon gave it; when all of these are
 * in no run (they were requeued since, all of them), whoever would be home of a new one. */
static int find_whom(const struct dp_run *run, const struct dp_slices_result *seen, bool *is_via)
{
    const struct dp_slicing *s = run->slicing;
    uint32_t n, n_all;
    int at = find_marked(run, seen, 0, &n), home;

    *is_via = false;
    if (!run->job.array_job_id && seen->has_home)
        return find_home_at(run, seen);
    if (at < 0 || (run->job.array_job_id && s->n_none >= n))
        return find_home_at(run, seen);
    home = run->job.array_job_id ? find_home_at(run, seen) : -1;
    if (home >= 0 && seen->slice[home].job_id == seen->slice[at].slice_of)
        return home;
    *is_via = true;
    return find_marked(run, seen, s->n_via % n, &n_all);
}

/* ---- Slurm ---- */

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
    dp_coord_job_read(home->coord, dp_now_ns(), s->seen.rc == 0 && !s->seen.is_cut && !why ? &now : NULL,
                      why ? why : s->seen.is_cut ? "there are more slices than a run may have" : s->seen.text);
}

/* A companion that has no run: its home is over, or in a life of which it is no part. What Slurm shows is no older than the
 * companion's own worker, who made us ask. */
static bool leave_out(struct dp_run *run, const struct dp_slices_result *seen)
{
    struct dp_slicing *s = run->slicing;
    const char *why = seen->has_home ? "it was asked for in an earlier life of that job" : seen->home_why;
    uint32_t n;

    if (!run->job.slice_of || run->job.array_job_id || s->state != DP_SLICE_WAITS)
        return false;
    if (!seen->has_home && !seen->is_home_queued && find_marked(run, seen, 0, &n) >= 0)
        return false; /* they may train on without it */
    if (seen->has_home && dp_group_find_slice(seen->slice, seen->n, run->job_id))
        return false;
    s->state = DP_SLICE_REFUSED;
    snprintf(s->text, sizeof s->text, "a slice of job %u, by its comment, and no run is there: %s", run->job.slice_of, why);
    DP_RUN_LOG(run, dp_info, "job=%u is %s", run->job_id, s->text);
    return true;
}

/* A run that this daemon coordinates, whose job is over. */
static const struct dp_run *find_outliving(const struct dp_run *run)
{
    for (const struct dp_run *r = run->daemon->runs; r; r = r->next)
        if (r != run && r->is_home_over && r->role == DP_RUN_COORD && dp_slices_are(r) && are_of_one(r, run))
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

/* Another slice's daemon, or this one, knows where the run is. */
static void be_told(struct dp_run *run, uint32_t home_job, uint32_t restarts, const char *node)
{
    struct dp_slicing *s = run->slicing;

    set_home(run, home_job, node);
    s->is_told = true;
    s->home_restarts = restarts;
    s->n_none = 0;
    if (home_job == run->job_id) {
        s->state = DP_SLICE_REFUSED;
        snprintf(s->text, sizeof s->text, "a run that began in an earlier life of this job goes on without it");
    }
    DP_RUN_LOG(run, dp_info, "job=%u is a slice of the run of job %u on %s, whose own slice is over", run->job_id, home_job, node);
}

static void find_home(struct dp_run *run, const struct dp_slices_result *seen)
{
    struct dp_slicing *s = run->slicing;
    const struct dp_run *here = find_outliving(run);
    bool is_via;
    int at;

    if (s->state == DP_SLICE_RANKED || leave_out(run, seen) || (s->is_told && dp_now_ns() - s->home_ns < SEEK_NS))
        return;
    if (here && !s->is_told) {
        be_told(run, here->job_id, here->job.restart_count, run->daemon->node);
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
    if (!is_via)
        DP_RUN_LOG(run, dp_info, "job=%u is a slice of the run of job %u on %s", run->job_id, s->home_job, s->home_node);
}

/* Several slices of a run on a node ask once. */
static bool is_beside(const struct dp_run *a, const struct dp_run *b)
{
    return a != b && a->slicing && are_of_one(a, b);
}

static void read_slices(struct dp_run *run);

/* Of a run that outlives its job. What Slurm does not know any more is over. */
static bool is_all_over(const struct dp_run *run)
{
    const struct dp_slicing *s = run->slicing;

    if (!dp_slices_are(run) || s->seen.is_cut)
        return false;
    for (uint32_t i = 0; s->seen.rc == 0 && i < s->seen.n; i++)
        if (s->seen.slice[i].job_id != run->job_id && dp_group_rank(s->group, s->seen.slice[i].job_id) >= 0)
            return false;
    return true;
}

/* Companions are looked for among all jobs of their owner. Where he has thousands, Slurm rests from each answer. */
static uint64_t pause_ns(const struct dp_run *run)
{
    uint64_t pause_ns = run->job.array_job_id ? 0 : 10 * (dp_now_ns() - run->slicing->read_ns);

    return pause_ns < READ_NS ? READ_NS : pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
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
        read_slices(run);
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
        find_home(run, &s->seen);
    for (struct dp_run *r = run->daemon->runs; r && s->has_seen && !why; r = r->next)
        if (is_beside(r, run))
            find_home(r, &s->seen);
    if (!why && s->seen.rc >= 0)
        s->is_all_over = run->is_home_over && is_all_over(run);
    if (s->group && s->has_seen && !why)
        dp_group_keep(s->group, s->seen.slice, s->seen.n, s->seen.has_waiting || dp_companions_may_come(run, s->read_ns));
    tell_coordinator(run, why);
}

static void read_slices(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;
    struct dp_slices_request q = {run->job.array_job_id, run->uid, home_of_companions(run)};
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
        read_slices(home);
        return;
    }
    s->job = *job;
    s->has_job = true;
    s->must_read = s->reader != NULL;
    s->next_ns = 0;
    read_slices(home);
}

/* ---- at home ---- */

void dp_slices_restore(struct dp_run *home)
{
    const struct dp_job_info *job = home->coord ? dp_coord_job(home->coord) : NULL;
    struct dp_slicing *s;
    uint32_t step_id;

    if (!job || !job->n_nodes || !job->slice[0] || dp_slices_are(home) || !(s = slicing(home)) ||
        !(s->group || (s->group = calloc(1, sizeof *s->group))))
        return;
    dp_group_restore(s->group, home->job_id, job, dp_coord_step(home->coord, &step_id) ? &step_id : NULL);
}

struct dp_run *dp_slices_here(const struct dp_run *home, const struct dp_run *after)
{
    for (struct dp_run *r = after ? after->next : home->daemon->runs; r; r = r->next)
        if (r->slicing && r->slicing->state == DP_SLICE_RANKED && r->slicing->pid && r->slicing->home_job == home->job_id && r != home)
            return r;
    return NULL;
}

const struct dp_slices_result *dp_slices_seen(struct dp_run *slice, uint64_t since_ns)
{
    const struct dp_slicing *s = slice->slicing;

    if (s && s->seen_ns >= since_ns && s->seen_ns)
        return &s->seen;
    if (s)
        read_slices(slice);
    return NULL;
}

void dp_slices_move(struct dp_run *home, const char *node)
{
    for (struct dp_run *r = dp_slices_here(home, NULL); r; r = dp_slices_here(home, r))
        snprintf(r->slicing->home_node, sizeof r->slicing->home_node, "%s", node);
}

int dp_slices_adopt(struct dp_run *home, const struct dp_group *g)
{
    struct dp_slicing *s = slicing(home);

    if (!s || !(s->group || (s->group = calloc(1, sizeof *s->group))))
        return -1;
    *s->group = *g;
    dp_slices_job(home, &home->job);
    return 0;
}

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

void dp_slice_is_back(struct dp_run *slice)
{
    if (slice->slicing && slice->slicing->state != DP_SLICE_RANKED)
        slice->slicing->is_back = true;
}

bool dp_slices_are_over(const struct dp_run *home)
{
    return home->slicing && home->slicing->is_all_over;
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
    job->job_id = run->job_id;
    job->uid = run->uid;
    job->restart_count = restarts;
    job->slice_of = 0;
    job->n_nodes = 1;
    snprintf(job->node[0], sizeof job->node[0], "%s", node);
    snprintf(job->batch_host, sizeof job->batch_host, "%s", node);
}

/* The journal has the slots. */
static bool resume(struct dp_run *run, const struct dp_job_result *r)
{
    struct dp_err err = {0};

    if (!run->start.slices || !dp_run_coord_find_life(run))
        return false;
    fill_job(run, r, NULL, run->job.restart_count, run->daemon->node);
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
            strcmp(s->slicing->home_node, run->daemon->node)) {
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

/* The coordinator's journal has the slots before a rank is told. */
static void close_group(struct dp_run *home)
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
    struct dp_slicing *s = slicing(home);
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

/* Whose daemon on `node` speaks for a slice there. */
static void ask_home(struct dp_run *home, const char *node, const struct dp_msg_slice *m, struct dp_msg_slice_rank *out)
{
    struct dp_group_member who = {.job_id = m->slice, .restart_count = m->restarts, .step_id = m->step_id, .pid = m->pid};
    struct dp_err err = {0};
    struct dp_slicing *s;
    struct dp_group *g;
    char why[256];
    bool is_seen;
    int at, rc;

    *out = (struct dp_msg_slice_rank){.job_id = home->job_id, .slice = m->slice, .pid = m->pid};
    snprintf(who.node, sizeof who.node, "%s", node);
    if (home->role != DP_RUN_COORD || dp_run_is_asking(home) || !may_be_home(home) || !dp_slice_is(home) || !(g = gather(home))) {
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
        read_slices(home);
        return;
    }
    at = find_home_at(home, &s->seen);
    if (g->state == DP_GROUP_GATHERING && (at < 0 || s->seen.slice[at].job_id != home->job_id)) {
        wait_for(out, "Slurm does not say that this slice is home");
        read_slices(home);
        return;
    }
    rc = dp_group_join(g, s->seen.slice, s->seen.n, &who, dp_now_ns(), &err);
    is_seen = rc >= 0;
    if (rc > 0)
        rc = seat(home, &who, &err);
    if (rc < 0) {
        if (err.code == DP_EGONE) {
            wait_for(out, err.text);
            if (!is_seen)
                read_slices(home);
        } else {
            DP_RUN_LOG(home, dp_info, "job=%u slice=%u on %s is refused: %s", home->job_id, m->slice, node, err.text);
            refuse(out, err.text);
        }
        return;
    }
    close_group(home);
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

/* Where is the run that this slice has its rank in? */
static void tell_where(const struct dp_run *slice, const struct dp_msg_slice *m, struct dp_msg_slice_rank *out)
{
    const struct dp_slicing *s = slice->slicing;
    const struct dp_run *run = s && s->pid && s->state == DP_SLICE_RANKED ? dp_run_find(slice->daemon, s->home_job) : NULL;

    *out = (struct dp_msg_slice_rank){.job_id = slice->job_id, .slice = m->slice, .pid = m->pid,
                                      .state = dp_slice_part_in(slice) == DP_PART_OF_RUN ? DP_SLICE_RANKED : DP_SLICE_WAITS};
    if (!run || run->role == DP_RUN_LOOKUP)
        return;
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
    if (!home || (m->where && m->has_ended))
        return; /* it is asked again */
    if (m->where) {
        if (dp_slice_part_in(home) == DP_PART_UNKNOWN)
            return;
        tell_where(home, m, &out);
        if (out.home_job)
            dp_take_over_promise(dp_run_find(c->owner, out.home_job), c->node);
        DP_CONN_SEND(c, slice_rank, DP_MSG_SLICE_RANK, &out);
        return;
    }
    ask_home(home, c->node, m, &out);
    if (!m->has_ended)
        DP_CONN_SEND(c, slice_rank, DP_MSG_SLICE_RANK, &out);
}

/* ---- of a slice ---- */

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
        if (m->home_job && m->home_node[0]) {
            be_told(slice, m->home_job, m->home_restarts, m->home_node);
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
    if (m->state == DP_SLICE_WAITS)
        return;
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

/* The run of home's name on this node; made where home is on another one. NULL: there is none yet. */
static struct dp_run *find_run(struct dp_run *slice)
{
    const struct dp_slicing *s = slice->slicing;
    struct dp_daemon *d = slice->daemon;
    struct dp_run *run = dp_run_find(d, s->home_job);
    struct dp_msg_step_start start = slice->start;

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
    return may_be_home(run) && are_of_one(run, slice) && !strcmp(run->job.batch_host, slice->slicing->home_node);
}

static void ask_where(struct dp_run *slice)
{
    struct dp_slicing *s = slice->slicing;
    struct dp_msg_slice m = {.job_id = s->home_job, .slice = slice->job_id, .pid = s->pid, .where = DP_WHERE_NOW};
    const struct dp_run *other = dp_run_find(slice->daemon, s->home_job);
    struct dp_msg_slice_rank out;

    s->asked_ns = dp_now_ns();
    if (strcmp(s->home_node, slice->daemon->node)) {
        dp_peer_want(slice->daemon, s->home_node);
        (void)DP_PEER_SEND(slice->daemon, s->home_node, slice, DP_MSG_SLICE, &m);
    } else if (other) {
        tell_where(other, &m, &out);
        take_answer(slice, &out);
    }
}

static void ask(struct dp_run *slice, bool has_ended)
{
    struct dp_slicing *s = slice->slicing;
    struct dp_msg_slice m = {.job_id = s->home_job, .slice = slice->job_id, .restarts = slice->job.restart_count,
                             .step_id = s->step_id, .pid = s->pid, .has_ended = has_ended};
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
    ask_home(run, slice->daemon->node, &m, &out);
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
    }
    if (!s->home_job || now_ns - s->home_ns > SEEK_NS)
        read_slices(slice);
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
    s->is_back = false;
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

/* Home's daemon is not there, or of an older release. */
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
    struct dp_slicing *s = slicing(slice);
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
    if (s->state == DP_SLICE_WAITS && now_ns - s->since_ns > PATIENCE_NS + (uint64_t)(slice->daemon->config->slices_wait_s * 1e9))
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

/* A job that is no task of an array, and no companion, asks for its companions as soon as it runs: where its run has not begun. */
static void want_companions(struct dp_run *run)
{
    if (!dp_companions_may_be(run) || dp_companions_are_wanted(run) || run->role != DP_RUN_COORD || run->coord || run->job.n_nodes != 1 ||
        !run->job.is_running || dp_run_coord_has_journal(run))
        return;
    if (dp_companions_want(run, run->start.slices - 1, 0, 0) < 0)
        DP_RUN_LOG(run, dp_error, "job=%u out of memory: it has no companions", run->job_id);
}

/* The coordinator waits for those that it has asked for, and withdraws them itself: it is told what became of them. */
static void tell_of_growth(struct dp_run *home, uint64_t now_ns, const struct dp_companions_view *now)
{
    struct dp_coord_growth_news news = {now->n_waiting, now->n_running, now->n_ended,
                                        now->state == DP_COMPANIONS_REFUSED ? now->text : ""};

    if (now->state != DP_COMPANIONS_ASKING)
        dp_coord_growth_told(home->coord, now_ns, &news);
}

/* Once it trains: as many as it may still have. Those that wait in the queue join when they begin; for one that Slurm took, or whose
 * worker was lost, another one is asked for, and withdrawn when it waits too long. */
static void follow_companions(struct dp_run *home, uint64_t now_ns)
{
    struct dp_slicing *s = home->slicing;
    uint64_t wait_ns = (uint64_t)(home->daemon->config->slices_wait_s * 1e9);
    struct dp_companions_view now;
    struct dp_coord_growth growth;
    uint32_t missing, wanted, grows;
    bool did_not_last;

    if (!dp_companions_may_be(home) || !home->coord || !dp_slices_are(home) || home->is_home_over)
        return; /* nobody is left whose job others could be like */
    wanted = dp_coord_slices_wanted(home->coord, &missing);
    if (!wanted)
        return;
    dp_coord_grows(home->coord, &growth);
    grows = growth.is_asked ? growth.number : 0;
    if (!s->has_asked || s->n_asked != wanted - 1 || s->grows != grows) {
        s->has_asked = true;
        s->n_asked = wanted - 1;
        s->grows = grows;
        (void)dp_companions_want(home, wanted - 1, grows ? growth.since_s : 0, 0); /* no memory: said again when the number changes */
    }
    dp_companions_look(home, &now);
    if (grows) {
        s->missed_ns = 0;
        tell_of_growth(home, now_ns, &now);
        return;
    }
    if (!missing || now.state == DP_COMPANIONS_ASKING || now.n_waiting) {
        s->missed_ns = 0;
        return;
    }
    if (!s->missed_ns)
        s->missed_ns = now_ns;
    if (now_ns - s->missed_ns < MISSED_NS || (s->replaced_ns && now_ns - s->replaced_ns < s->pause_ns))
        return;
    did_not_last = s->replaced_ns && now_ns - s->replaced_ns < 2 * s->pause_ns;
    s->pause_ns = did_not_last && s->pause_ns < REPLACE_MAX_NS ? 2 * s->pause_ns : REPLACE_NS;
    s->replaced_ns = now_ns;
    s->missed_ns = 0;
    DP_RUN_LOG(home, dp_info, "job=%u slices=%u are missing of %u: Slurm is asked for others", home->job_id, missing, wanted);
    (void)dp_companions_want(home, wanted - 1, s->seen.read_s, wait_ns);
}

void dp_slices_tick(struct dp_run *run, uint64_t now_ns)
{
    struct dp_slicing *s = run->slicing;

    if (!dp_run_is_asking(run))
        want_companions(run);
    if (!s || dp_run_is_asking(run))
        return;
    if (s->pid && s->state == DP_SLICE_WAITS && !is_alive(s)) {
        if (s->home_job && !s->is_via)
            ask(run, true);
        s->pid = 0;
    } else if (s->pid && s->state == DP_SLICE_WAITS && now_ns - s->heard_ns < HEARD_NS) {
        seek_rank(run, now_ns);
    } else if (waits_to_be_taken_in(run)) {
        ask_still(run, now_ns);
    }
    if (s->group && s->group->state == DP_GROUP_GATHERING && s->group->began_ns) {
        if (now_ns > s->next_ns + KEEP_NS)
            read_slices(run);
        close_group(run);
    }
    follow_companions(run, now_ns);
}

/* The run of this name ends here: its slices have none any more; who has no rank yet looks for another home. */
static void forget_home(struct dp_run *run)
{
    for (struct dp_run *r = run->daemon->runs; r; r = r->next) {
        struct dp_slicing *s = r->slicing;

        if (!s || s->home_job != run->job_id)
            continue;
        if (s->state == DP_SLICE_RANKED) {
            s->state = DP_SLICE_REFUSED;
            snprintf(s->text, sizeof s->text, "the run of job %u is over", run->job_id);
        }
        s->home_job = 0;
    }
}

void dp_slices_destroy(struct dp_run *run)
{
    struct dp_slicing *s = run->slicing;
    struct dp_run *home;
    bool has_others = false;

    forget_home(run);
    if (!s)
        return;
    home = s->home_job && s->home_job != run->job_id ? dp_run_find(run->daemon, s->home_job) : NULL;
    for (const struct dp_run *r = run->daemon->runs; r; r = r->next)
        has_others |= r != run && r->slicing && r->slicing->home_job == s->home_job;
    dp_helper_cancel(s->reader);
    if (s->is_via)
        dp_run_forget_peer(run->daemon, s->home_node);
    free(s->group);
    free(s);
    run->slicing = NULL;
    if (home && home->is_for_slices && !has_others)
        dp_run_end(home, "no slice of it is here any more");
}
