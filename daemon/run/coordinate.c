/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator's surroundings: its journal, and how what it asks for is carried out. Answers that
 * a helper gives come back through the event loop, so the coordinator is never entered from within
 * one of its own requests.
 *
 * The coordinator is made by the first HELLO, so that the options of the step that has the workers
 * count, or at once when a journal of the job is found.
 */
#include "config.h"

#include "daemon/run/coordinate.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/job_time.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/release/as_owner.h"
#include "daemon/release/privileged.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/job/step.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/newcomers.h"
#include "daemon/run/slot.h"
#include "daemon/run/state/history.h"
#include "daemon/run/worker.h"

#define SHRINK_DEADLINE_S 20.0 /* what was done all the same shows when the job is read */
#define THINK_SPACE (UINT64_C(2) << 30) /* of a decision: its site policy may have half of it */
#define THINK_CPU_S 30.0 /* of the same: one that takes longer is ended, and the run stays as it is */
#define THINKERS 8u /* at a time */
#define THINKERS_OF_USER 2u /* so that no user has all of them */

static void journal_path(const struct dp_run *run, char *out, size_t cap)
{
    snprintf(out, cap, "%s/job-%u.%u.journal", run->daemon->config->state_dir, run->job_id, run->job.restart_count);
}

bool dp_run_coord_has_journal(const struct dp_run *run)
{
    char path[320];

    journal_path(run, path, sizeof path);
    return access(path, F_OK) == 0;
}

bool dp_run_coord_find_life(const struct dp_run *run, uint32_t *restarts)
{
    DIR *dir = opendir(run->daemon->config->state_dir);
    bool is_any = false;
    uint32_t job_id, life;
    char rest[10];

    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (sscanf(e->d_name, "job-%" SCNu32 ".%" SCNu32 ".%9s", &job_id, &life, rest) == 3 && !strcmp(rest, "journal") &&
            job_id == run->job_id && (!is_any || life > *restarts)) {
            *restarts = life;
            is_any = true;
        }
    if (dir)
        closedir(dir);
    return is_any;
}

/* ---- what it asks for ---- */

static enum dp_journal_fate on_journal(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                       struct dp_err *err)
{
    struct dp_run *run = arg;
    bool was_failing = dp_journal_trouble(run->journal) != NULL;
    struct dp_err local = {0};
    enum dp_journal_fate fate = dp_journal_append(run->journal, (uint8_t)type, payload, bytes, &local);

    if (fate != DP_JOURNAL_DURABLE && !was_failing) /* it is tried again, ten times a second */
        dp_error("job=%u journal: %s", run->job_id, local.text);
    if (fate != DP_JOURNAL_DURABLE && err)
        *err = local;
    return fate;
}

static int on_settle(void *arg, struct dp_err *err)
{
    struct dp_run *run = arg;

    return dp_journal_settle(run->journal, err);
}

static int on_reserve(void *arg, size_t bytes, struct dp_err *err)
{
    struct dp_run *run = arg;

    return dp_journal_reserve(run->journal, bytes, err);
}

static void on_to_worker(void *arg, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct dp_run *run = arg;
    struct dp_msg_relay relay = {.job_id = run->job_id, .rank = rank, .restarts = run->job.restart_count,
                                 .inner_type = (uint16_t)type, .inner_len = (uint32_t)bytes, .inner = body};

    if (rank >= DP_MAX_WORKERS || !run->rank_node[rank][0])
        return;
    if (!strcmp(run->rank_node[rank], run->daemon->node))
        dp_worker_send(run, rank, type, body, bytes);
    else
        (void)DP_PEER_SEND(run->daemon, run->rank_node[rank], relay, DP_MSG_RELAY, &relay);
}

/* dp_slot_stop() answers through the event loop when it is this node's own slot. */
static void on_stop_slot(void *arg, uint32_t slot, uint32_t grace_ms)
{
    struct dp_run *run = arg;
    const struct dp_job_info *job = dp_coord_job(run->coord);
    struct dp_msg_stop_slot stop = {.job_id = run->job_id, .uid = run->uid, .restarts = run->job.restart_count,
                                    .incarnation = dp_coord_incarnation(run->coord), .grace_ms = grace_ms};
    struct dp_daemon *d = run->daemon;

    if (slot >= job->n_nodes)
        return;
    if (!strcmp(job->node[slot], d->node))
        dp_slot_stop(d, d->node, &stop);
    else if (!DP_PEER_SEND(d, job->node[slot], stop_slot, DP_MSG_STOP_SLOT, &stop))
        dp_peer_want(d, job->node[slot]); /* the coordinator asks again */
}

/* Its proof would be that of another release, and it could not tell this life of the job from another one. */
static bool on_is_outdated(void *arg, uint32_t slot, char *why, size_t cap)
{
    const struct dp_run *run = arg;
    const struct dp_job_info *job = dp_coord_job(run->coord);

    if (slot >= job->n_nodes || !dp_peer_is_old(run->daemon, job->node[slot]))
        return false;
    snprintf(why, cap, "%.63s: " DP_PEER_OLD_FMT "no node is given back until it is upgraded", job->node[slot],
             dp_peer_version(run->daemon, job->node[slot]), DP_PROTO_VERSION);
    return true;
}

/* A helper's answer about the job; why: there is none. */
static struct dp_shrink_result take_result(const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_shrink_result r = {.rc = -1};

    if (result && bytes == sizeof r)
        memcpy(&r, result, sizeof r);
    else
        snprintf(r.text, sizeof r.text, "%s", why);
    r.text[sizeof r.text - 1] = '\0';
    return r;
}

static void on_shrunk(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_shrink_result r = take_result(result, bytes, why);
    struct dp_run *run = arg;

    run->shrinker = NULL;
    dp_info("job=%u shrink: rc=%d %s", run->job_id, r.rc, r.text);
    if (run->coord)
        dp_coord_release_answer(run->coord, dp_now_ns(), r.rc, r.text);
}

static void on_shrink(void *arg, const uint8_t keep[DP_MAX_SLOTS])
{
    static struct dp_shrink_request q;
    struct dp_run *run = arg;
    const struct dp_job_info *job = dp_coord_job(run->coord);
    struct dp_err err = {0};
    size_t n = 0;

    if (run->shrinker)
        return; /* its answer is under way */
    memset(&q, 0, sizeof q);
    q.job_id = run->job_id;
    q.restart_count = run->job.restart_count;
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (keep[i] && n < sizeof q.keep)
            n += (size_t)snprintf(q.keep + n, sizeof q.keep - n, "%s%s", n ? "," : "", job->node[i]);
    dp_info("job=%u asking Slurm to keep %s", run->job_id, q.keep);
    run->shrinker = dp_priv_start(run->daemon->priv, run->daemon->base, DP_PRIV_SHRINK, &q, sizeof q,
                                  SHRINK_DEADLINE_S, on_shrunk, run, &err);
    if (!run->shrinker)
        dp_error("job=%u shrink: %s", run->job_id, err.text); /* the coordinator's own timeout repeats it */
}

static void on_requeued(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_shrink_result r = take_result(result, bytes, why);
    struct dp_run *run = arg;

    run->requeuer = NULL;
    if (run->coord)
        dp_coord_requeue_answer(run->coord, dp_now_ns(), r.rc, r.text);
}

static void on_requeue(void *arg, bool may_requeue)
{
    struct dp_run *run = arg;
    struct dp_requeue_request q = {run->job_id, run->job.restart_count, may_requeue};
    struct dp_err err = {0};

    if (run->requeuer)
        return; /* its answer is under way */
    run->requeuer = dp_priv_start(run->daemon->priv, run->daemon->base, DP_PRIV_REQUEUE, &q, sizeof q,
                                  SHRINK_DEADLINE_S, on_requeued, run, &err);
    if (!run->requeuer)
        dp_error("job=%u requeue: %s", run->job_id, err.text); /* the coordinator asks again */
}

static void on_memory_lowered(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_shrink_result r = take_result(result, bytes, why);
    struct dp_run *run = arg;

    run->memorer = NULL;
    dp_info("job=%u memory: rc=%d %s", run->job_id, r.rc, r.text);
    if (run->coord)
        dp_coord_memory_answer(run->coord, dp_now_ns(), r.rc, r.text);
}

static void on_memory(void *arg, uint32_t mb)
{
    struct dp_run *run = arg;
    struct dp_memory_request q = {run->job_id, run->job.restart_count, mb};
    struct dp_err err = {0};

    if (run->memorer)
        return; /* its answer is under way */
    dp_info("job=%u asking Slurm for %u MiB per node and no more", run->job_id, mb);
    run->memorer = dp_priv_start(run->daemon->priv, run->daemon->base, DP_PRIV_MEMORY, &q, sizeof q,
                                 SHRINK_DEADLINE_S, on_memory_lowered, run, &err);
    if (!run->memorer)
        dp_error("job=%u memory: %s", run->job_id, err.text); /* the coordinator's own timeout repeats it */
}

static void answer_standalone_read(evutil_socket_t fd, short what, void *arg)
{
    struct dp_daemon *d = arg;

    (void)fd;
    (void)what;
    for (struct dp_run *run = d->runs; run; run = run->next)
        if (run->coord && run->coord_wants_read) {
            run->coord_wants_read = false;
            dp_coord_job_read(run->coord, dp_now_ns(), &run->job, "");
        }
}

static void on_read_job(void *arg)
{
    static const struct timeval now = {0};
    struct dp_run *run = arg;

    run->coord_wants_read = true;
    if (run->daemon->config->slurm)
        dp_run_read_soon(run);
    else
        event_base_once(run->daemon->base, -1, EV_TIMEOUT, answer_standalone_read, run->daemon, &now);
}

/* The child has the coordinator as it was when it was forked: a pointer is all it needs. */
static size_t plan_work(const void *request, size_t bytes, uint8_t *result)
{
    const struct dp_coord *c;

    (void)bytes;
    memcpy(&c, request, sizeof c);
    dp_child_limit(THINK_SPACE, THINK_CPU_S);
    return dp_coord_plan(c, result);
}

static void on_planned(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_run *run = arg;

    run->planner = NULL;
    if (run->coord)
        dp_coord_planned(run->coord, dp_now_ns(), result, bytes, why);
}

static bool may_plan(const struct dp_run *run)
{
    uint32_t all = 0, own = 0;

    for (const struct dp_run *r = run->daemon->runs; r; r = r->next) {
        all += r->planner != NULL;
        own += r->planner && r->uid == run->uid;
    }
    return all < THINKERS && own < THINKERS_OF_USER;
}

static int on_plan(void *arg, double deadline_s, struct dp_err *err)
{
    struct dp_run *run = arg;

    if (!may_plan(run))
        return 1;
    run->planner = dp_helper_start(run->daemon->base, plan_work, &run->coord, sizeof run->coord, deadline_s,
                                   on_planned, run, err);
    return run->planner ? 0 : -1;
}

static void answer_found(evutil_socket_t fd, short what, void *arg)
{
    struct dp_daemon *d = arg;

    (void)fd;
    (void)what;
    for (struct dp_run *run = d->runs; run; run = run->next)
        for (uint32_t rank = 0; run->coord && rank < DP_MAX_WORKERS; rank++) {
            struct dp_msg_worker_lost lost = {run->job_id, rank, 0, 1};
            const char *node = run->is_gone[rank] ? dp_coord_worker_at(run->coord, rank, &lost.pid) : NULL;

            run->is_gone[rank] = 0;
            if (node)
                dp_coord_worker_lost(run->coord, dp_now_ns(), &lost);
        }
}

static void on_find_worker(void *arg, uint32_t rank)
{
    static const struct timeval now = {0};
    struct dp_run *run = arg;
    uint32_t pid = 0;
    const char *node = dp_coord_worker_at(run->coord, rank, &pid);
    struct dp_msg_find_worker m = {run->job_id, rank, pid, run->job.restart_count};

    if (!node)
        return;
    if (strcmp(node, run->daemon->node)) {
        (void)DP_PEER_SEND(run->daemon, node, find_worker, DP_MSG_FIND_WORKER, &m);
    } else if (dp_worker_is_gone(run, rank, pid)) {
        run->is_gone[rank] = 1;
        event_base_once(run->daemon->base, -1, EV_TIMEOUT, answer_found, run->daemon, &now);
    }
}

static bool on_introduce(void *arg, uint32_t rank, bool tell)
{
    static uint8_t body[DP_CARD_MAX + 512];
    struct dp_run *run = arg;
    struct dp_msg_card card;
    struct dp_writer w;

    if (!dp_newcomers_find(run, rank, &card))
        return false;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_card_encode(&w, &card);
    for (uint32_t r = 0; tell && r < DP_MAX_WORKERS; r++)
        if (r != rank && (dp_coord_is_in(run->coord, r) || dp_coord_is_newcomer(run->coord, r)))
            on_to_worker(run, r, DP_MSG_CARD, body, dp_writer_used(&w));
    return true;
}

static const struct dp_coord_ops coord_ops = {
    .journal = on_journal,
    .settle = on_settle,
    .reserve = on_reserve,
    .to_worker = on_to_worker,
    .stop_slot = on_stop_slot,
    .shrink = on_shrink,
    .requeue = on_requeue,
    .read_job = on_read_job,
    .plan = on_plan,
    .is_outdated = on_is_outdated,
    .memory = on_memory,
    .find_worker = on_find_worker,
    .introduce = on_introduce,
};

/* ---- begin and end ---- */

static int on_replay(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    const struct dp_run *run = arg;

    return dp_coord_replay(run->coord, (enum dp_record)type, payload, bytes, err);
}

static enum dp_journal_fate put_record(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                       struct dp_err *err)
{
    return dp_journal_append(arg, (uint8_t)type, payload, bytes, err);
}

/* The journal is written anew. */
static int on_fill(void *arg, struct dp_journal *fresh, struct dp_err *err)
{
    const struct dp_run *run = arg;

    return dp_coord_snapshot(run->coord, put_record, fresh, err);
}

static void find_limits(const struct dp_run *run, const struct dp_job_info *job, struct dp_run_limits *limits)
{
    const struct dp_config *config = run->daemon->config;
    char note[256];

    dp_config_limits(config, run->job.partition, &run->start, limits, note);
    if (!config->slurm && limits->mode > DP_MODE_BALANCE)
        limits->mode = DP_MODE_BALANCE; /* nothing to give back to */
    if (!config->slurm || job->slice[0])
        limits->stall_end_s = 0; /* and no queue; of slices home alone would come back */
    if (!dp_companions_may_be(run) || (run->is_home_over && !run->job.array_job_id))
        limits->growth.max_gpus = 0; /* nobody would submit them */
}

static void say_begun(struct dp_run *run, const struct dp_run_limits *limits)
{
    DP_RUN_LOG(run, dp_info, "job=%u coordinator incarnation=%u mode=%s policy=%s", run->job_id, dp_coord_incarnation(run->coord),
            dp_mode_name(limits->mode), limits->policy);
    dp_run_coord_time(run);
}

int dp_run_coord_take_over(struct dp_run *run, const struct dp_job_info *job, const struct dp_survivor *survivor, uint32_t n,
                           struct dp_err *err)
{
    struct dp_run_limits limits;
    char path[320];

    find_limits(run, job, &limits);
    journal_path(run, path, sizeof path);
    dp_run_coord_forget(run);
    run->coord = dp_coord_create(job, &limits, &coord_ops, run, err);
    if (!run->coord)
        return -1;
    run->journal = dp_journal_open(path, NULL, on_fill, run, err);
    if (!run->journal || dp_coord_take_over(run->coord, dp_now_ns(), survivor, n, err) < 0 || dp_journal_compact(run->journal, err) < 0) {
        dp_run_coord_close(run, false);
        dp_run_coord_forget(run);
        return -1;
    }
    say_begun(run, &limits);
    return 0;
}

/* As the journal of this life has it. */
static int replay(struct dp_run *run, struct dp_run_limits *limits, struct dp_err *err)
{
    char path[320];

    find_limits(run, &run->job, limits);
    journal_path(run, path, sizeof path);
    run->coord = dp_coord_create(&run->job, limits, &coord_ops, run, err);
    if (!run->coord)
        return -1;
    run->journal = dp_journal_open(path, on_replay, on_fill, run, err);
    if (run->journal)
        return 0;
    dp_run_coord_close(run, false);
    return -1;
}

/* The role of the run is not known yet: what stands in run->job is nothing that anybody relies on. */
void dp_run_coord_ask_others(struct dp_run *run, struct dp_job_request *out)
{
    static uint32_t slot[DP_MAX_SLOTS];
    struct dp_run_limits limits;
    struct dp_err err = {0};
    uint32_t restarts;

    out->asks_others = true;
    out->n_others = 0;
    if (!dp_run_coord_find_life(run, &restarts))
        return;
    run->job = (struct dp_job_info){.job_id = run->job_id, .uid = run->uid, .restart_count = restarts, .n_nodes = 1,
                                    .slice = {run->job_id}};
    snprintf(run->job.node[0], sizeof run->job.node[0], "%s", run->daemon->node);
    memcpy(run->job.batch_host, run->job.node[0], sizeof run->job.batch_host);
    if (replay(run, &limits, &err) < 0)
        dp_error("job=%u its journal cannot be read: %s", run->job_id, err.text);
    else
        out->n_others = dp_coord_list_others(run->coord, run->job_id, slot);
    for (uint32_t i = 0; i < out->n_others; i++) {
        out->other[i].job_id = dp_coord_job(run->coord)->slice[slot[i]];
        out->other[i].restart_count = dp_coord_job(run->coord)->slice_restarts[slot[i]];
    }
    dp_run_coord_close(run, false);
    memset(&run->job, 0, sizeof run->job);
}

int dp_run_coord_open(struct dp_run *run, enum dp_run_open what, struct dp_err *err)
{
    struct dp_run_limits limits;

    if (replay(run, &limits, err) < 0)
        return -1;
    if (what == DP_RUN_OPEN_REST && dp_coord_is_over(run->coord)) {
        dp_run_coord_close(run, false);
        return 0;
    }
    if (dp_coord_begin(run->coord, dp_now_ns(), err) < 0) {
        dp_run_coord_close(run, false);
        return -1;
    }
    run->step_ended_ns = 0;
    if (dp_journal_cut_bytes(run->journal) > 0)
        dp_warn("job=%u journal: cut a torn tail of %llu bytes", run->job_id,
                (unsigned long long)dp_journal_cut_bytes(run->journal));
    say_begun(run, &limits);
    return 0;
}

void dp_run_coord_time(struct dp_run *run)
{
    uint64_t now_ns = dp_now_ns();

    if (!run->coord || !run->daemon->config->slurm)
        return;
    dp_coord_time_left(run->coord, now_ns, run->job.end_s, dp_job_left_ms(&run->job, now_ns, dp_wall_ns()));
    dp_coord_may_shrink(run->coord, now_ns, run->job.shrinks_allowed, run->job.has_stepmgr);
}

void dp_run_coord_forget(const struct dp_run *run)
{
    char path[320];

    journal_path(run, path, sizeof path);
    unlink(path);
}

/* End the coordinator, and the links to nodes that it called (STOP_SLOT, or they were missed). */
static void forget_nodes(struct dp_run *run)
{
    static struct dp_job_info job;
    bool has_nodes = run->coord != NULL;

    if (has_nodes)
        job = *dp_coord_job(run->coord);
    dp_coord_destroy(run->coord);
    run->coord = NULL;
    for (uint32_t i = 0; has_nodes && i < job.n_nodes; i++)
        if (job.node[i][0])
            dp_run_forget_peer(run->daemon, job.node[i]);
}

void dp_run_coord_close(struct dp_run *run, bool has_ended)
{
    if (has_ended && run->coord)
        dp_history_save(run);
    dp_helper_cancel(run->shrinker);
    dp_helper_cancel(run->requeuer);
    dp_helper_cancel(run->memorer);
    dp_helper_cancel(run->planner);
    run->shrinker = run->requeuer = run->memorer = run->planner = NULL;
    forget_nodes(run);
    dp_journal_destroy(run->journal);
    run->journal = NULL;
    memset(run->rank_node, 0, sizeof run->rank_node);
    dp_newcomers_forget(run);
}

/* ---- what workers say ---- */

void dp_run_coord_hello(struct dp_run *run, const char *from, uint32_t pid, const struct dp_msg_hello *m,
                        struct dp_msg_welcome *welcome)
{
    struct dp_err err = {0};

    memset(welcome, 0, sizeof *welcome);
    if (run->coord && run->step_ended_ns && m->step_id != run->step_id && !dp_coord_goes_on(run->coord, true)) {
        dp_coord_end(run->coord, dp_now_ns(), "the step ended"); /* the next one need not wait for goodbyes */
        dp_run_coord_close(run, true);
    }
    if (!run->coord) {
        dp_step_take_options(run, m);
        if (dp_run_coord_open(run, DP_RUN_OPEN_STEP, &err) < 0) {
            DP_RUN_LOG(run, dp_error, "job=%u: %s", run->job_id, err.text);
            welcome->verdict = DP_VERDICT_UNKNOWN;
            snprintf(welcome->text, sizeof welcome->text, "it cannot begin: %.200s", err.text);
            return;
        }
        run->step_id = m->step_id;
    }
    dp_coord_hello(run->coord, dp_now_ns(), from, pid, m, welcome);
    if (welcome->verdict != DP_VERDICT_OK)
        return;
    run->step_id = m->step_id;
    if (run->rank_pid[m->rank] != pid || strcmp(run->rank_node[m->rank], from))
        dp_newcomers_drop(run, m->rank);
    snprintf(run->rank_node[m->rank], sizeof run->rank_node[0], "%s", from);
    run->rank_pid[m->rank] = pid;
}

/* A message that names a rank must name its sender's. */
#define FEED(name, fn)                                                                             \
    do {                                                                                           \
        struct dp_msg_##name m;                                                                    \
        if (dp_msg_##name##_decode(&r, &m, err) < 0)                                               \
            return -1;                                                                             \
        if (m.rank != rank)                                                                        \
            return dp_err_set(err, DP_EAUTH, #name ": rank %u speaks for rank %u", rank, m.rank);  \
        fn(run->coord, dp_now_ns(), &m);                                                           \
        return 0;                                                                                  \
    } while (0)

static int feed_event(struct dp_run *run, uint32_t rank, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_event m;

    if (dp_msg_event_decode(r, &m, err) < 0)
        return -1;
    dp_coord_event(run->coord, dp_now_ns(), rank, &m);
    return 0;
}

int dp_run_coord_frame(struct dp_run *run, const char *from, uint32_t rank, enum dp_msg_type type,
                       const uint8_t *body, size_t bytes, struct dp_err *err)
{
    struct dp_reader r;

    if (rank >= DP_MAX_WORKERS || strcmp(run->rank_node[rank], from))
        return dp_err_set(err, DP_EAUTH, "rank %u is not a worker of node %s", rank, from);
    if (!run->coord || !dp_run_takes(run, rank, type))
        return 0; /* over: nobody cares any more; or said too often */
    dp_reader_init(&r, body, bytes);
    switch (type) {
    case DP_MSG_REPORT:
        FEED(report, dp_coord_report);
    case DP_MSG_VOTE:
        FEED(vote, dp_coord_vote);
    case DP_MSG_DECISION_ACK:
        FEED(decision_ack, dp_coord_decision_ack);
    case DP_MSG_GOODBYE:
        FEED(goodbye, dp_coord_goodbye);
    case DP_MSG_EXPECT:
        FEED(expect, dp_coord_expect);
    case DP_MSG_PONG:
        FEED(pong, dp_coord_pong);
    case DP_MSG_EVENT:
        return feed_event(run, rank, &r, err);
    default:
        return dp_err_set(err, DP_EPROTO, "a worker may not send %s", dp_msg_name((uint16_t)type));
    }
}

void dp_run_coord_lost(struct dp_run *run, const char *from, const struct dp_msg_worker_lost *m)
{
    uint32_t pid = 0;
    const char *node = run->coord ? dp_coord_worker_at(run->coord, m->rank, &pid) : NULL;

    if (node && !strcmp(node, from) && pid == m->pid)
        dp_coord_worker_lost(run->coord, dp_now_ns(), m);
}

void dp_run_coord_node_lost(struct dp_run *run, const char *node)
{
    for (uint32_t rank = 0; run->coord && rank < DP_MAX_WORKERS; rank++)
        if (!strcmp(run->rank_node[rank], node)) {
            struct dp_msg_worker_lost lost = {run->job_id, rank, run->rank_pid[rank], 0};

            dp_coord_worker_lost(run->coord, dp_now_ns(), &lost);
        }
}
