/* SPDX-License-Identifier: BSD-3-Clause */
/* See take_over.h. */
#include "config.h"

#include "daemon/run/slices/take_over.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/group.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slices/slicing.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/worker.h"

#define AWAY_NS (10 * DP_SECOND_NS)  /* a daemon that is only restarted is back by then */
#define LOOK_NS (3 * DP_SECOND_NS)   /* so old what Slurm shows may be */
#define TRY_NS (30 * DP_SECOND_NS)   /* for one to begin; then all look to another one */
#define FRESH_NS (10 * DP_SECOND_NS) /* a worker that waits says HELLO every 2 s */
#define ASK_NS DP_SECOND_NS
#define LOST_NODE "-" /* of home, in a coordinator that does not know where that was */
#define ALONE_NS (10 * DP_SECOND_NS) /* a coordinator to which no worker comes asks whether it still is one */
#define UNSERVED_NS (5 * DP_SECOND_NS) /* a worker that is not welcomed for so long has its daemon ask whether the run is still there */

struct came {
    struct dp_msg_hello *hello; /* NULL: nobody of this rank has */
    uint64_t sworn_ns;          /* its daemon looks to nobody else, as it answered a question of then */
    char node[64];
    uint32_t pid;
    uint64_t at_ns;
};

struct dp_take_over {
    uint64_t lost_ns;   /* since when the coordinator's daemon is away; 0: it is not */
    uint64_t tried_ns;  /* another one is looked to since; 0: none */
    char before[64];    /* the node of the newest that coordinated */
    bool is_proved;     /* that one has welcomed a worker of this node */
    bool is_here;       /* it is this daemon */
    bool is_promised;   /* it may begin at any time, because it was told that this daemon looks to it */
    uint64_t unserved_ns; /* since when a worker here waits for the coordinator, and none was welcomed; 0: none does */
    uint64_t none_ns, said_ns; /* its daemon is there, and says that it does not have the run: since when, and last; 0: it does not */
    uint64_t asked_ns;
    char told[200];     /* why it cannot, as was logged last */
    struct came rank[DP_MAX_WORKERS];
    uint32_t n_none, none[DP_MAX_SLOTS]; /* slices that are in no layout, as their daemons say */
};

static struct dp_take_over *state_of(struct dp_run *run)
{
    if (!run->take_over)
        run->take_over = calloc(1, sizeof *run->take_over);
    return run->take_over;
}

static void forget_came(struct dp_take_over *t)
{
    for (uint32_t r = 0; r < DP_MAX_WORKERS; r++)
        free(t->rank[r].hello);
    memset(t->rank, 0, sizeof t->rank);
    t->n_none = 0;
}

void dp_take_over_destroy(struct dp_run *run)
{
    if (!run->take_over)
        return;
    forget_came(run->take_over);
    free(run->take_over);
    run->take_over = NULL;
}

void dp_take_over_proved(struct dp_run *run)
{
    struct dp_take_over *t = run->take_over;

    if (!t)
        return;
    t->unserved_ns = t->none_ns = 0;
    if (t->is_proved)
        return;
    t->is_proved = true;
    if (strcmp(t->before, run->job.batch_host))
        dp_run_forget_peer(run->daemon, t->before);
}

void dp_take_over_promise(struct dp_run *run, const char *node)
{
    if (run->take_over && run->take_over->tried_ns && !strcmp(run->job.batch_host, node))
        run->take_over->is_promised = true;
}

/* ---- to whom all look ---- */

/* It runs, and is not home in a later life, or one of that life's companions, which have no part in the run. */
static bool may_be_in(const struct dp_run *run, const struct dp_slices_result *seen, const struct dp_slice *s)
{
    return s->is_running && (s->job_id != run->job_id || s->restart_count == run->job.restart_count) &&
           slicing_is_of_life(seen, s, run->job.restart_count);
}

/* May its daemon coordinate? One that does not have the run any more, though it coordinated it, is not asked to. */
static bool is_eligible(const struct dp_run *run, const struct dp_slices_result *seen, const struct dp_slice *s, bool has_marked)
{
    return may_be_in(run, seen, s) && (s->slice_of || !has_marked) && (!run->take_over->none_ns || strcmp(s->node, run->take_over->before));
}

/* The nth of those that run, and are slices by their comments where any is, from the one that began first; *n_all: how many. NULL: none
 * does. */
static const struct dp_slice *pick(const struct dp_run *run, const struct dp_slices_result *seen, uint32_t nth, uint32_t *n_all)
{
    const struct dp_slice *best = NULL, *last = NULL;
    bool has_marked = false;

    *n_all = 0;
    for (uint32_t i = 0; i < seen->n; i++)
        has_marked |= may_be_in(run, seen, &seen->slice[i]) && seen->slice[i].slice_of;
    for (uint32_t i = 0; i < seen->n; i++)
        *n_all += is_eligible(run, seen, &seen->slice[i], has_marked);
    for (uint32_t k = 0; *n_all && k <= nth % *n_all; k++, last = best) {
        best = NULL;
        for (uint32_t i = 0; i < seen->n; i++) {
            const struct dp_slice *s = &seen->slice[i];

            if (is_eligible(run, seen, s, has_marked) && (!last || dp_group_began_before(last, s)) &&
                (!best || dp_group_began_before(s, best)))
                best = s;
        }
    }
    return best;
}

static bool has_slice_on(const struct dp_run *run, const struct dp_slices_result *seen, const char *node)
{
    for (uint32_t i = 0; i < seen->n; i++)
        if (may_be_in(run, seen, &seen->slice[i]) && !strcmp(seen->slice[i].node, node))
            return true;
    return false;
}

static void look_to(struct dp_run *run, const char *node, uint64_t now_ns)
{
    struct dp_take_over *t = run->take_over;
    struct dp_daemon *d = run->daemon;
    char last[sizeof run->job.batch_host];

    memcpy(last, run->job.batch_host, sizeof last);
    if (!t->tried_ns || t->is_proved)
        memcpy(t->before, last, sizeof t->before);
    t->tried_ns = now_ns;
    t->is_proved = t->is_promised = false;
    t->is_here = !strcmp(node, d->node);
    forget_came(t);
    run->is_home_over = true;
    run->is_unsure = false;
    snprintf(run->job.batch_host, sizeof run->job.batch_host, "%s", node);
    dp_slices_move(run, node);
    if (!t->is_here)
        dp_peer_want(d, node);
    if (strcmp(last, node) && strcmp(last, t->before))
        dp_run_forget_peer(d, last);
    DP_RUN_LOG(run, dp_warn, "job=%u the daemon of %s %s: %s is to coordinate it", run->job_id, t->before,
               t->none_ns ? "does not have the run" : "is away, and Slurm shows no slice of the run there",
               t->is_here ? "this one" : node);
    dp_workers_hang_up(run, "the coordinator's daemon is away");
}

/* It was only away from here, and nobody has begun to coordinate instead of it. */
static bool is_back(const struct dp_run *run)
{
    const struct dp_take_over *t = run->take_over;

    return t && t->tried_ns && !t->is_proved && !t->is_promised && !t->none_ns && dp_peer_find(run->daemon, t->before);
}

static void look_back(struct dp_run *run)
{
    struct dp_take_over *t = run->take_over;

    DP_RUN_LOG(run, dp_info, "job=%u the daemon of %s is back, and goes on coordinating it", run->job_id, t->before);
    if (!t->is_here)
        dp_run_forget_peer(run->daemon, run->job.batch_host);
    memcpy(run->job.batch_host, t->before, sizeof run->job.batch_host);
    dp_slices_move(run, t->before);
    forget_came(t);
    t->is_here = false;
    t->tried_ns = t->lost_ns = 0;
    dp_workers_hang_up(run, "the coordinator's daemon is back");
}

/* All daemons change at the same time, by the controller's clock, so that those which saw it at different times meet. */
static uint32_t turn(const struct dp_take_over *t, const struct dp_slices_result *seen)
{
    return t->tried_ns ? (uint32_t)(seen->read_s / (TRY_NS / DP_SECOND_NS)) : 0;
}

static bool is_time_to_ask(struct dp_take_over *t, uint64_t now_ns)
{
    if (now_ns - t->asked_ns < ASK_NS)
        return false;
    t->asked_ns = now_ns;
    return true;
}

static bool waits_here(const struct dp_run *run)
{
    const struct dp_worker *w = run->workers;

    while (w && !(w->conn && w->is_waiting))
        w = w->next;
    return w != NULL;
}

/* Its daemon is there, and lost what it knew of the run: a node that boots without its files, or where home's next life was taken for
 * the run. It says so when it is asked, and while it finds out what it has it says nothing. */
static bool has_forgotten(struct dp_run *run, struct dp_take_over *t, uint64_t now_ns)
{
    struct dp_msg_slice m = {.job_id = run->job_id, .slice = run->job_id, .restarts = run->job.restart_count, .where = DP_WHERE_STILL};

    if (!t->unserved_ns && waits_here(run))
        t->unserved_ns = now_ns;
    if (!t->unserved_ns || now_ns - t->unserved_ns < UNSERVED_NS)
        return false;
    if (t->none_ns && now_ns - t->said_ns > LOOK_NS)
        t->none_ns = 0;
    if (is_time_to_ask(t, now_ns))
        (void)DP_PEER_SEND(run->daemon, run->job.batch_host, slice, DP_MSG_SLICE, &m);
    return t->none_ns && now_ns - t->none_ns > AWAY_NS;
}

static bool is_away(struct dp_run *run, uint64_t now_ns)
{
    struct dp_take_over *t = state_of(run);

    if (!t)
        return false;
    if (t->tried_ns && !t->is_proved)
        return now_ns - t->tried_ns > TRY_NS;
    if (dp_peer_find(run->daemon, run->job.batch_host)) {
        t->lost_ns = t->tried_ns = 0;
        return has_forgotten(run, t, now_ns);
    }
    t->none_ns = 0;
    if (!t->lost_ns)
        t->lost_ns = now_ns;
    return now_ns - t->lost_ns > AWAY_NS;
}

/* What Slurm said of the run's slices when it was asked at since_ns or later. NULL: it is asked, or no slice is here. */
static const struct dp_slices_result *seen_since(const struct dp_run *run, uint64_t since_ns)
{
    struct dp_run *here = dp_slices_here(run, NULL);

    return here ? dp_slices_seen(here, since_ns) : NULL;
}

static void seek(struct dp_run *run, uint64_t now_ns)
{
    const struct dp_slices_result *seen;
    const struct dp_slice *next;
    uint32_t n;

    if (is_back(run)) {
        look_back(run);
        return;
    }
    if (!dp_slices_here(run, NULL) || !is_away(run, now_ns) || !(seen = seen_since(run, now_ns - LOOK_NS)))
        return;
    if (!run->take_over->tried_ns && !run->take_over->none_ns && has_slice_on(run, seen, run->job.batch_host))
        return; /* its daemon comes back, or Slurm finds the node lost */
    if (!run->take_over->tried_ns)
        memcpy(run->take_over->before, run->job.batch_host, sizeof run->take_over->before);
    next = pick(run, seen, turn(run->take_over, seen), &n);
    if (next)
        look_to(run, next->node, now_ns);
}

/* ---- who has come ---- */

static const struct dp_slice *find_running(const struct dp_slices_result *seen, uint32_t slice, const char *node)
{
    const struct dp_slice *s = dp_group_find_slice(seen->slice, seen->n, slice);

    return s && s->is_running && !strcmp(s->node, node) ? s : NULL;
}

/* Of what Slurm said last, however old: does it show this slice on that node? Who is not shown yet comes again. */
static bool is_shown(const struct dp_run *run, uint32_t slice, const char *node)
{
    const struct dp_slices_result *seen = seen_since(run, 0);

    return seen && find_running(seen, slice, node);
}

/* It is in no layout: nobody waits for it. */
static void count_out(struct dp_run *run, uint32_t slice, const char *node)
{
    struct dp_take_over *t = run->take_over;

    for (uint32_t i = 0; i < t->n_none; i++)
        if (t->none[i] == slice)
            return;
    if (t->n_none < DP_MAX_SLOTS && is_shown(run, slice, node))
        t->none[t->n_none++] = slice;
}

bool dp_take_over_hello(struct dp_run *run, const char *node, uint32_t pid, const struct dp_msg_hello *m)
{
    struct dp_take_over *t = run->take_over;
    struct came *k;

    if (!t || !t->is_here)
        return false;
    if (m->joins) {
        count_out(run, m->job_id, node);
        return true;
    }
    if (!is_shown(run, m->job_id, node) || m->n_workers < 1 || m->n_workers > DP_MAX_WORKERS || m->rank >= m->n_workers ||
        (m->rank == 0) != (m->job_id == run->job_id)) /* the first rank is home's, for ever */
        return true;
    k = &t->rank[m->rank];
    if (k->hello && k->hello->job_id != m->job_id && dp_now_ns() - k->at_ns < FRESH_NS)
        return true; /* somebody has this rank */
    if (!k->hello && !(k->hello = malloc(sizeof *k->hello)))
        return true;
    *k->hello = *m;
    k->pid = pid;
    k->at_ns = dp_now_ns();
    snprintf(k->node, sizeof k->node, "%s", node);
    return true;
}

static struct came *find_came(struct dp_take_over *t, const struct dp_slice *s, uint64_t now_ns)
{
    for (uint32_t r = 0; r < DP_MAX_WORKERS; r++)
        if (t->rank[r].hello && t->rank[r].hello->job_id == s->job_id && !strcmp(t->rank[r].node, s->node) &&
            now_ns - t->rank[r].at_ns < FRESH_NS)
            return &t->rank[r];
    return NULL;
}

static bool is_none(const struct dp_run *run, const struct dp_slice *s)
{
    const struct dp_run *slice = !strcmp(s->node, run->daemon->node) ? dp_run_find(run->daemon, s->job_id) : NULL;

    for (uint32_t i = 0; i < run->take_over->n_none; i++)
        if (run->take_over->none[i] == s->job_id)
            return true;
    return slice && dp_slice_part_in(slice) == DP_PART_NONE;
}

static void ask_where(struct dp_run *run, const struct dp_slice *s)
{
    struct dp_msg_slice m = {.job_id = s->job_id, .slice = run->job_id, .where = 1};

    if (!strcmp(s->node, run->daemon->node))
        return;
    dp_peer_want(run->daemon, s->node);
    (void)DP_PEER_SEND(run->daemon, s->node, slice, DP_MSG_SLICE, &m);
}

/* Whoever says HELLO may have turned back to the one before since; whose daemon has promised does not. */
static bool is_sworn(const struct dp_run *run, const struct came *k, uint64_t now_ns)
{
    return !strcmp(k->node, run->daemon->node) || now_ns - k->sworn_ns < LOOK_NS;
}

static bool are_all_there(struct dp_run *run, const struct dp_slices_result *seen, uint64_t now_ns)
{
    bool may_ask = is_time_to_ask(run->take_over, now_ns);
    uint32_t n = 0, n_missing = 0;

    for (uint32_t i = 0; i < seen->n; i++) {
        const struct dp_slice *s = &seen->slice[i];
        const struct came *k = find_came(run->take_over, s, now_ns);

        if (!may_be_in(run, seen, s))
            continue;
        if (k && is_sworn(run, k, now_ns)) {
            n++;
        } else if (!is_none(run, s)) {
            n_missing++;
            if (may_ask)
                ask_where(run, s);
        }
    }
    return n && !n_missing;
}

/* ---- it coordinates ---- */

static void seat_all(const struct dp_run *run, const struct dp_slices_result *seen, uint32_t n, uint64_t now_ns, struct dp_group *g,
                     struct dp_survivor *survivor)
{
    g->home_job = run->job_id;
    g->state = DP_GROUP_CLOSED;
    g->wanted = g->least = g->n = n;
    for (uint32_t r = 0; r < n; r++) {
        const struct came *k = &run->take_over->rank[r];
        const struct dp_slice *s = k->hello && now_ns - k->at_ns < FRESH_NS ? find_running(seen, k->hello->job_id, k->node) : NULL;

        if (!s)
            continue;
        g->member[r] = (struct dp_group_member){.job_id = s->job_id, .restart_count = s->restart_count, .step_id = k->hello->step_id,
                                                .pid = k->pid};
        memcpy(g->member[r].node, k->node, sizeof g->member[r].node);
        g->has_step = true;
        g->step_id = k->hello->step_id;
        g->n_there++;
        survivor[r] = (struct dp_survivor){k->hello, k->pid};
    }
}

/* Seats by rank; the first one always has a slice: home, which is over, where nobody else has it. */
static void name_slots(const struct dp_run *run, const struct dp_group *g, struct dp_job_info *job)
{
    dp_group_job(g, &run->job, job);
    job->n_nodes = g->n;
    for (uint32_t r = 0; r < g->n; r++) {
        const struct dp_group_member *m = &g->member[r];

        job->slice[r] = m->job_id || r ? m->job_id : run->job_id;
        job->slice_restarts[r] = m->job_id || r ? m->restart_count : run->job.restart_count;
        snprintf(job->node[r], sizeof job->node[r], "%s", m->job_id || r ? m->node : LOST_NODE);
    }
}

/* The worker's seats; 0: they do not say the same. */
static uint32_t count_seats(const struct dp_take_over *t)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < DP_MAX_WORKERS; r++)
        if (t->rank[r].hello) {
            if (n && t->rank[r].hello->n_workers != n)
                return 0;
            n = t->rank[r].hello->n_workers;
        }
    return n;
}

static int take_over(struct dp_run *run, const struct dp_slices_result *seen, uint64_t now_ns, struct dp_err *err)
{
    static struct dp_survivor survivor[DP_MAX_WORKERS];
    static struct dp_job_info job;
    static struct dp_group g;
    uint32_t n = count_seats(run->take_over);

    if (!n)
        return dp_err_set(err, DP_EINVAL, "its workers do not agree how many they are");
    memset(survivor, 0, sizeof survivor);
    memset(&g, 0, sizeof g);
    seat_all(run, seen, n, now_ns, &g, survivor);
    name_slots(run, &g, &job);
    run->start = dp_slices_here(run, NULL)->start;
    run->start.job_id = run->job_id;
    if (dp_node_journal_adopt(run->daemon->log, &run->start, err) < 0 || dp_run_coord_take_over(run, &job, survivor, n, err) < 0)
        return -1;
    if (dp_slices_adopt(run, &g) < 0) {
        dp_run_coord_close(run, false);
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    }
    return 0;
}

static void gather(struct dp_run *run, uint64_t now_ns)
{
    const struct dp_slices_result *seen = seen_since(run, now_ns - LOOK_NS);
    char before[sizeof run->take_over->before];
    struct dp_err err = {0};

    if (!seen || !are_all_there(run, seen, now_ns))
        return;
    memcpy(before, run->take_over->before, sizeof before);
    if (take_over(run, seen, now_ns, &err) < 0) {
        if (strncmp(run->take_over->told, err.text, sizeof run->take_over->told - 1))
            DP_RUN_LOG(run, dp_error, "job=%u cannot be coordinated here: %s", run->job_id, err.text);
        snprintf(run->take_over->told, sizeof run->take_over->told, "%.199s", err.text);
        forget_came(run->take_over); /* they come again, and so does their turn */
        return;
    }
    run->role = DP_RUN_COORD;
    run->is_for_slices = false;
    dp_take_over_destroy(run);
    dp_run_forget_peer(run->daemon, before);
    for (uint32_t i = 0; i < seen->n; i++)
        dp_run_forget_peer(run->daemon, seen->slice[i].node);
    DP_RUN_LOG(run, dp_info, "job=%u is coordinated here from now on", run->job_id);
    dp_workers_serve(run);
}

/* ---- does another one, by now? ---- */

/* This daemon was away, and has taken the run up from its journal; nobody comes. */
static void ask_around(struct dp_run *run, uint64_t now_ns)
{
    struct dp_take_over *t = state_of(run);
    const struct dp_slices_result *seen;

    if (!t || dp_coord_goes_on(run->coord, true)) {
        if (t)
            t->lost_ns = 0;
        return;
    }
    if (!t->lost_ns)
        t->lost_ns = now_ns;
    if (now_ns - t->lost_ns < ALONE_NS || !(seen = dp_slices_seen(run, now_ns - LOOK_NS)) || !is_time_to_ask(t, now_ns))
        return;
    for (uint32_t i = 0; i < seen->n; i++)
        if (seen->slice[i].is_running)
            ask_where(run, &seen->slice[i]);
}

static void stand_down(struct dp_run *run, const char *node)
{
    DP_RUN_LOG(run, dp_warn, "job=%u is coordinated on %s since this daemon was away", run->job_id, node);
    dp_run_coord_close(run, false);
    dp_run_drop(run);
}

static void swear(struct dp_run *run, const char *node, const struct dp_msg_slice_rank *m)
{
    struct dp_take_over *t = run->take_over;

    for (uint32_t r = 0; r < DP_MAX_WORKERS; r++)
        if (t->rank[r].hello && t->rank[r].hello->job_id == m->job_id && !strcmp(t->rank[r].node, node) &&
            m->home_job == run->job_id && !strcmp(m->home_node, run->daemon->node))
            t->rank[r].sworn_ns = t->asked_ns;
}

/* It was asked whether it has the run still. */
static void hear_of_none(struct dp_run *run, const char *node)
{
    struct dp_take_over *t = run->take_over;

    if (run->role != DP_RUN_RELAY || strcmp(node, run->job.batch_host) || (t->tried_ns && !t->is_proved))
        return;
    t->said_ns = dp_now_ns();
    if (!t->none_ns)
        t->none_ns = t->said_ns;
}

bool dp_take_over_answered(struct dp_run *run, const char *node, const struct dp_msg_slice_rank *m)
{
    struct dp_take_over *t = run->take_over;
    bool is_elsewhere = m->home_job == run->job_id && m->home_restarts == run->job.restart_count && m->home_node[0] &&
                        strcmp(m->home_node, run->daemon->node);

    if (!t || m->slice != run->job_id || m->pid)
        return false;
    if (run->role == DP_RUN_COORD) {
        if (is_elsewhere && m->state == DP_SLICE_RANKED && run->coord && !dp_coord_goes_on(run->coord, true) &&
            dp_run_has_member(run, node))
            stand_down(run, m->home_node);
    } else if (m->state == DP_SLICE_REFUSED) {
        hear_of_none(run, node);
    } else if (t->is_here && m->state == DP_SLICE_RANKED) {
        swear(run, node, m);
    } else if (t->is_here) {
        count_out(run, m->job_id, node);
    }
    return true;
}

void dp_take_over_tick(struct dp_run *run, uint64_t now_ns)
{
    if (run->role == DP_RUN_COORD && run->is_home_over && run->coord) {
        ask_around(run, now_ns);
    } else if (run->role == DP_RUN_RELAY) {
        seek(run, now_ns);
        if (run->take_over && run->take_over->is_here)
            gather(run, now_ns);
    }
}
