/* SPDX-License-Identifier: BSD-3-Clause */
/* See wireup.h: the workers of this node, and their way to the table. A card waits here until it is known whose it is, what
 * the job is, and until the batch host can be reached; it is said again every 2 s until the others have met, because the
 * daemon there may not have known the job, or may be another one by then.
 *
 * Who a worker is comes from the kernel (uid, pid), which task it is from Slurm's plugin (tasks.h). Where the plugin could
 * not tell, as when this daemon was not there yet, the owner's processes are believed, and the first one has the rank.
 */
#include "config.h"

#include "daemon/run/wireup/wireup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/job/seek.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/newcomers.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/wireup/missing.h"

#define AGAIN_NS (2000 * DP_MS_NS) /* messages between daemons may be lost with their connection */
#define TASKS_NS (2000 * DP_MS_NS)   /* for the plugin to tell of a step's tasks; one of a former release never does */
#define TELL_NS (5000 * DP_MS_NS)    /* a worker that waits learns why */
#define TELL_AGAIN_NS (30000 * DP_MS_NS) /* and learns it again */
#define WIRERS_MAX (2u * DP_MAX_WORKERS) /* those of two steps */

static struct dp_wiring *wiring(struct dp_run *run)
{
    if (!run->wiring)
        run->wiring = calloc(1, sizeof *run->wiring);
    return run->wiring;
}

static struct dp_wirer *first(const struct dp_run *run)
{
    return run->wiring ? run->wiring->wirers : NULL;
}

static void wirer_free(struct dp_wirer *w)
{
    struct dp_wirer **at = &w->run->wiring->wirers;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (w->conn)
        w->conn->data = NULL;
    explicit_bzero(w->key, sizeof w->key);
    free(w->card);
    free(w);
}

void dp_wireup_send(struct dp_conn *c, const struct dp_run *run, uint32_t step_id, enum dp_wireup_state state,
                    uint32_t speaker, const char *text, const uint8_t *key, size_t key_len)
{
    struct dp_msg_wireup m = {.job_id = run ? run->job_id : 0, .step_id = step_id, .restarts = run ? run->job.restart_count : 0,
                              .state = (uint8_t)state, .speaker = speaker, .key_len = (uint16_t)key_len, .key = key};

    snprintf(m.text, sizeof m.text, "%s", text);
    DP_CONN_SEND(c, wireup, DP_MSG_WIREUP, &m);
}

/* It tells that itself. */
static void turn_away(struct dp_conn *c, const struct dp_run *run, const struct dp_msg_card *m, enum dp_wireup_state state,
                      const char *text)
{
    dp_wireup_send(c, run, m->step_id, state, m->rank, text, NULL, 0);
    dp_conn_finish(c);
}

static void dismiss(struct dp_wirer *w, const char *text)
{
    struct dp_conn *c = w->conn;
    struct dp_run *run = w->run;
    uint32_t step_id = w->step_id, rank = w->rank;

    DP_RUN_LOG(run, dp_warn, "job=%u step=%u rank=%u pid=%u does not wire up: %s", run->job_id, step_id, rank, w->pid, text);
    wirer_free(w);
    if (!c)
        return;
    dp_wireup_send(c, run, step_id, DP_WIREUP_DENIED, rank, text, NULL, 0);
    dp_conn_finish(c);
}

/* ---- to the table ---- */

static struct dp_msg_card card_of(const struct dp_wirer *w)
{
    uint64_t now_ns = dp_now_ns();
    struct dp_msg_card m = {.job_id = w->run->job_id, .step_id = w->step_id, .rank = w->rank, .n_workers = w->n_workers,
                            .kind = w->kind, .card_len = w->card_len, .card = w->card};

    m.patience_ms = w->end_ns > now_ns ? (uint32_t)((w->end_ns - now_ns) / DP_MS_NS) : 0;
    if (w->kind == DP_CARD_READY) {
        m.key = w->key;
        m.key_len = DP_KEY_BYTES;
    }
    return m;
}

bool dp_wireup_send_up(struct dp_run *run, uint32_t pid, const struct dp_msg_card *card)
{
    struct dp_conn *c = dp_peer_find(run->daemon, run->job.batch_host);
    const uint32_t of[DP_SEAL_OF] = {run->job_id, card->step_id, run->job.restart_count};
    struct dp_msg_card m = *card;
    uint8_t sealed[DP_SEALED_KEY_BYTES], body[DP_CARD_MAX + 512];
    struct dp_msg_relay relay = {.job_id = run->job_id, .rank = m.rank, .pid = pid, .restarts = run->job.restart_count,
                                 .inner_type = DP_MSG_CARD, .inner = body};
    struct dp_writer writer;

    if (!c || !dp_run_takes(run, m.rank, DP_MSG_CARD) || (m.key_len && dp_session_seal(&c->session, m.key, of, sealed, NULL) < 0))
        return false;
    if (m.key_len) {
        m.key = sealed;
        m.key_len = DP_SEALED_KEY_BYTES;
    }
    dp_writer_init(&writer, body, sizeof body);
    dp_msg_card_encode(&writer, &m);
    relay.inner_len = (uint32_t)dp_writer_used(&writer);
    DP_CONN_SEND(c, relay, DP_MSG_RELAY, &relay);
    return true;
}

/* Which task is it? returns false: not known yet, or it is none, and was sent away. */
static bool check(struct dp_wirer *w)
{
    char why[160];
    enum dp_claim claim;

    if (w->is_checked)
        return true;
    claim = dp_tasks_check(w->run->tasks, w->step_id, w->rank, w->n_workers, w->pid, why);
    if (claim == DP_CLAIM_EARLY && dp_now_ns() - w->since_ns < TASKS_NS)
        return false;
    if (claim == DP_CLAIM_FALSE) {
        dismiss(w, why);
        return false;
    }
    if (claim != DP_CLAIM_TRUE)
        DP_RUN_LOG(w->run, dp_info, "job=%u step=%u rank=%u pid=%u is accepted unchecked: the plugin did not report its tasks here",
                   w->run->job_id, w->step_id, w->rank, w->pid);
    w->is_checked = true;
    return true;
}

/* Hand its card on, if it can be. */
static void serve(struct dp_wirer *w)
{
    struct dp_run *run = w->run;
    struct dp_err err = {0};
    struct dp_msg_card m;

    if (dp_run_is_asking(run) || !check(w))
        return;
    if (run->is_fenced) {
        dismiss(w, "this node was given back by the job");
        return;
    }
    w->served_ns = dp_now_ns();
    if (run->role == DP_RUN_RELAY) {
        w->is_served |= dp_peer_find(run->daemon, run->job.batch_host) != NULL;
        m = card_of(w);
        (void)dp_wireup_send_up(run, w->pid, &m);
        return;
    }
    m = card_of(w);
    if (dp_wireup_put(run, run->daemon->node, w->pid, &m, &err) < 0) {
        if (err.code != DP_EGONE)
            dismiss(w, err.text);
        return;
    }
    w->is_served = true;
}

/* ---- workers ---- */

static struct dp_wirer *find_wirer(const struct dp_run *run, uint32_t step_id, uint32_t rank)
{
    struct dp_wirer *w = first(run);

    while (w && (w->step_id != step_id || w->rank != rank))
        w = w->next;
    return w;
}

/* One that cannot be seen (hidepid) lives as long as its connection. */
static bool is_alive(const struct dp_wirer *w)
{
    return w->start_ticks ? dp_process_start(w->pid) == w->start_ticks : w->conn != NULL;
}

static int take_card(struct dp_wirer *w, const struct dp_msg_card *m)
{
    uint8_t *copy = malloc(m->card_len + 1u);

    if (!copy)
        return -1;
    if (m->card_len)
        memcpy(copy, m->card, m->card_len);
    free(w->card);
    w->card = copy;
    w->card_len = m->card_len;
    w->kind = m->kind;
    w->end_ns = dp_now_ns() + m->patience_ms * DP_MS_NS;
    if (m->kind == DP_CARD_READY && m->key_len == DP_KEY_BYTES)
        memcpy(w->key, m->key, sizeof w->key);
    return 0;
}

/* What was handed on of a table may be of another round. */
static void distrust_copy(const struct dp_run *run, uint32_t step_id)
{
    struct dp_roster *r = dp_wireup_find(run, step_id);

    if (!r || run->role == DP_RUN_COORD || r->state == DP_ROSTER_GATHERING)
        return;
    dp_roster_forget_cards(r);
    r->state = DP_ROSTER_GATHERING;
}

/* NULL: refused, text says why. */
static struct dp_wirer *seat(struct dp_run *run, struct dp_conn *c, const struct dp_msg_card *m, const char **text)
{
    struct dp_wirer *w = find_wirer(run, m->step_id, m->rank);
    uint32_t n = 0;

    *text = "another process has this rank";
    if (w && w->pid != (uint32_t)c->pid && is_alive(w))
        return NULL;
    if (w && w->conn) {
        struct dp_conn *old = w->conn;

        old->data = NULL;
        w->conn = NULL;
        dp_conn_close(old, "the worker connected again");
    }
    if (w && (w->pid != (uint32_t)c->pid || !is_alive(w))) {
        wirer_free(w);
        w = NULL;
    }
    if (!w) {
        for (const struct dp_wirer *o = first(run); o; o = o->next)
            n++;
        *text = n < WIRERS_MAX ? "out of memory" : "too many workers are wiring up at once";
        w = n < WIRERS_MAX && wiring(run) ? calloc(1, sizeof *w) : NULL;
        if (!w)
            return NULL;
        distrust_copy(run, m->step_id);
        *w = (struct dp_wirer){.next = run->wiring->wirers, .run = run, .step_id = m->step_id, .rank = m->rank,
                               .n_workers = m->n_workers, .pid = (uint32_t)c->pid,
                               .start_ticks = dp_process_start((uint32_t)c->pid), .since_ns = dp_now_ns()};
        run->wiring->wirers = w;
    }
    w->sent = -1;
    w->cursor = 0;
    w->conn = c;
    c->data = w;
    c->role = DP_ROLE_WIRER;
    return w;
}

/* The worker of a slice: it is told its rank, or its card becomes one of the run that it is of. returns that run; NULL: it
 * was answered. */
static struct dp_run *as_slice(struct dp_conn *c, struct dp_run *slice, struct dp_msg_card *m)
{
    struct dp_msg_wireup place = {.job_id = slice->job_id, .step_id = m->step_id, .state = DP_WIREUP_RANK};
    struct dp_place at;
    bool is_refused;
    const char *text;
    struct dp_run *run = dp_slice_run(slice, m->step_id, (uint32_t)c->pid, &text, &is_refused);

    if (!run) {
        turn_away(c, slice, m, is_refused ? DP_WIREUP_DENIED : DP_WIREUP_LATER, text);
        return NULL;
    }
    at = dp_slice_place(slice);
    place.speaker = at.rank;
    place.n_workers = at.n_workers;
    place.n_there = at.n_there;
    place.joins = at.joins;
    m->step_id = at.joins ? DP_LATE_STEPS | at.rank : at.step_id;
    if (m->kind == DP_CARD_SLICE) {
        DP_CONN_SEND(c, wireup, DP_MSG_WIREUP, &place);
        dp_conn_finish(c);
        return NULL;
    }
    if (m->rank != place.speaker || m->n_workers != place.n_workers) {
        turn_away(c, slice, m, DP_WIREUP_DENIED, "the slice has another rank");
        return NULL;
    }
    return run;
}

static void take_first(struct dp_conn *c, struct dp_run *run, const struct dp_msg_card *m, bool is_slice)
{
    const char *text;
    struct dp_wirer *w = seat(run, c, m, &text);

    if (!w) {
        turn_away(c, run, m, DP_WIREUP_DENIED, text);
        return;
    }
    w->is_checked |= is_slice;
    if (take_card(w, m) < 0)
        dp_conn_close(c, "out of memory");
    else
        serve(w);
}

void dp_wireup_card(struct dp_conn *c, const struct dp_msg_card *m)
{
    struct dp_msg_card as_run = *m;
    struct dp_msg_hello hello = {.job_id = m->job_id, .step_id = m->step_id};
    struct dp_daemon *d = c->owner;
    struct dp_run *run = dp_run_find(d, m->job_id);
    struct dp_wirer *w = c->role == DP_ROLE_WIRER ? c->data : NULL;
    bool is_slice = false;

    if (c->role == DP_ROLE_WORKER) {
        dp_newcomers_card(c, m);
        return;
    }
    if (m->kind >= DP_CARD_AGAIN || m->kind == DP_CARD_LOST || m->key_len == DP_SEALED_KEY_BYTES ||
        (m->kind == DP_CARD_READY) != (m->key_len > 0)) {
        dp_conn_refuse(c, "workers do not send this");
        return;
    }
    memcpy(hello.options, m->options, sizeof hello.options);
    if (!d->config->slurm) {
        turn_away(c, run, m, DP_WIREUP_DENIED, "the daemon of this node runs without Slurm (daemon.slurm = false): start the "
                  "workers with PMIx");
        return;
    }
    if (!run) {
        turn_away(c, run, m, DP_WIREUP_LATER, dp_seek_hello(d, c->uid, &hello));
        return;
    }
    if (run->uid != c->uid) {
        turn_away(c, NULL, m, DP_WIREUP_DENIED, "the job belongs to another user");
        return;
    }
    if (dp_slice_is(run)) {
        is_slice = true;
        run = as_slice(c, run, &as_run);
        if (!run)
            return;
    } else if (m->kind == DP_CARD_SLICE) {
        turn_away(c, run, m, DP_WIREUP_DENIED, run->is_home_over ? "a run that began in an earlier life of this job goes on without it"
                                                                 : "this job was not started with --dynpipe-slices");
        return;
    }
    if (c->role == DP_ROLE_WIRER &&
        (!w || w->rank != as_run.rank || w->step_id != as_run.step_id || w->n_workers != as_run.n_workers)) {
        dp_conn_refuse(c, "a card of another worker");
        return;
    }
    if (!w)
        take_first(c, run, &as_run, is_slice);
    else if (take_card(w, &as_run) < 0)
        dp_conn_close(c, "out of memory");
    else
        serve(w);
    dp_wireup_pump(run);
}

void dp_wireup_refused(struct dp_run *run, const struct dp_msg_relay *m)
{
    struct dp_msg_wireup why;
    struct dp_wirer *w;
    struct dp_reader r;

    dp_reader_init(&r, m->inner, m->inner_len);
    if (dp_msg_wireup_decode(&r, &why, NULL) < 0)
        return;
    w = find_wirer(run, why.step_id, m->rank);
    if (w)
        dismiss(w, why.text);
}

void dp_wireup_closed(struct dp_conn *c)
{
    struct dp_wirer *w = c->data;

    c->data = NULL;
    if (w)
        w->conn = NULL; /* it may come again */
}

/* ---- time ---- */

/* Of the workers here that wait, the lowest tells it. */
static uint32_t lowest(const struct dp_run *run, uint32_t step_id)
{
    uint32_t rank = DP_NOBODY;

    for (const struct dp_wirer *w = first(run); w; w = w->next)
        if (w->conn && w->step_id == step_id && w->rank < rank)
            rank = w->rank;
    return rank;
}

static void tell_why(struct dp_wirer *w, uint64_t now_ns)
{
    char text[sizeof w->told];

    if (!w->conn || w->is_served || now_ns - w->since_ns < TELL_NS || (w->told_ns && now_ns - w->told_ns < TELL_AGAIN_NS))
        return;
    dp_run_why_waiting(w->run, text, sizeof text);
    w->told_ns = now_ns;
    if (!strcmp(text, w->told))
        return;
    memcpy(w->told, text, sizeof text);
    dp_wireup_send(w->conn, w->run, w->step_id, DP_WIREUP_WAIT, lowest(w->run, w->step_id), text, NULL, 0);
}

/* returns false when it is gone. */
static bool bury(struct dp_wirer *w)
{
    const struct dp_roster *r = dp_wireup_find(w->run, w->step_id);

    if (w->conn)
        return true;
    if (w->sent == DP_ROSTER_GO || w->sent == DP_ROSTER_FAILED || (r && r->state == DP_ROSTER_FAILED) || !w->is_checked ||
        dp_now_ns() > w->end_ns + AGAIN_NS) {
        wirer_free(w);
        return false;
    }
    if (w->kind != DP_CARD_LOST && !is_alive(w)) {
        if (w->kind == DP_CARD_REFUSED) {
            wirer_free(w); /* said what it had to */
            return false;
        }
        w->kind = DP_CARD_LOST;
        w->served_ns = 0;
    }
    return true;
}

void dp_wireup_tick(struct dp_run *run, uint64_t now_ns)
{
    if (dp_run_is_asking(run))
        return;
    dp_wireup_tasks_tick(run, now_ns);
    for (struct dp_wirer *w = first(run), *next; w; w = next) {
        const struct dp_roster *r = dp_wireup_find(run, w->step_id);
        bool has_table = r && (r->state == DP_ROSTER_WHOLE || r->state == DP_ROSTER_GO) && w->kind != DP_CARD_READY;

        next = w->next;
        if (!bury(w))
            continue;
        tell_why(w, now_ns);
        if (!w->is_served || (run->role == DP_RUN_RELAY && !has_table && now_ns - w->served_ns >= AGAIN_NS) ||
            (w->kind == DP_CARD_LOST && !w->served_ns))
            serve(w);
    }
    dp_wireup_table_tick(run);
    dp_wireup_pump(run);
}

void dp_wireup_peer_up(struct dp_run *run, const char *node)
{
    if (run->role != DP_RUN_RELAY || strcmp(run->job.batch_host, node))
        return;
    for (struct dp_tasks *t = run->tasks; t; t = t->next)
        t->sent_ns = 0;
    dp_wireup_tick(run, dp_now_ns());
}

void dp_wireup_peer_down(struct dp_run *run, const char *node)
{
    for (struct dp_wirer *w = first(run); w && !strcmp(run->job.batch_host, node); w = w->next)
        w->is_served = false; /* to be said again, to whoever comes */
    for (struct dp_roster *r = run->wiring ? run->wiring->rosters : NULL; r; r = r->next)
        for (struct dp_outlet *o = r->outlets; o; o = o->next)
            if (!strcmp(o->node, node)) {
                o->sent = -1;
                o->cursor = 0;
            }
}

void dp_wireup_destroy(struct dp_run *run)
{
    struct dp_wiring *all = run->wiring;

    while (all && all->wirers) {
        struct dp_conn *c = all->wirers->conn;

        wirer_free(all->wirers);
        if (c)
            dp_conn_finish(c);
    }
    while (all && all->rosters) {
        struct dp_roster *r = all->rosters;

        all->rosters = r->next;
        dp_roster_destroy(r);
    }
    free(all);
    run->wiring = NULL;
    dp_tasks_destroy(&run->tasks);
}
