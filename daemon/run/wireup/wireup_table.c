/* SPDX-License-Identifier: BSD-3-Clause */
/* See wireup.h: who gets the table, and when it is given up. A table may have megabytes and hundreds of takers, so it goes
 * out in pieces, some in a turn of the loop, each when its taker has taken what it was sent before.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/newcomers.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/wireup/wireup.h"

#define PIECES_PER_TURN 16 /* then other nodes get their turn */
#define TABLES_MAX 8u           /* of a run */
#define AGAIN_NS (1000 * DP_MS_NS)    /* a node that asks for what it was sent gets it again, not sooner than this */
#define WARN_NS (90000 * DP_MS_NS) /* likewise in worker/net/pmix_rendezvous.c */
#define SILENT_NAMED 3u /* nodes that a text names */

struct dp_roster *dp_wireup_find(const struct dp_run *run, uint32_t step_id)
{
    struct dp_roster *r = run->wiring ? run->wiring->rosters : NULL;

    while (r && r->step_id != step_id)
        r = r->next;
    return r;
}

static bool has_wirers(const struct dp_run *run, uint32_t step_id)
{
    for (const struct dp_wirer *w = run->wiring->wirers; w; w = w->next)
        if (w->step_id == step_id)
            return true;
    return false;
}

static void drop(struct dp_run *run, const struct dp_roster *which)
{
    for (struct dp_roster **at = &run->wiring->rosters; *at; at = &(*at)->next)
        if (*at == which) {
            struct dp_roster *r = *at;

            *at = r->next;
            dp_roster_destroy(r);
            return;
        }
}

/* Room for one more: the oldest that nobody waits for goes. */
static bool make_room(struct dp_run *run)
{
    const struct dp_roster *idle = NULL;
    uint32_t n = 0;

    for (const struct dp_roster *r = run->wiring->rosters; r; r = r->next, n++)
        if (r->state == DP_ROSTER_GO || r->state == DP_ROSTER_FAILED || (!r->began_ns && !has_wirers(run, r->step_id)))
            idle = r;
    if (n < TABLES_MAX)
        return true;
    if (idle)
        drop(run, idle);
    return idle != NULL;
}

struct dp_roster *dp_wireup_table(struct dp_run *run, uint32_t step_id, uint32_t n_workers)
{
    struct dp_roster *r = dp_wireup_find(run, step_id);

    if (r && r->n_workers != n_workers && !r->began_ns && !r->n_taken) {
        drop(run, r); /* told of tasks of another life, or not at all */
        r = NULL;
    }
    if (r)
        return r;
    if (!run->wiring)
        run->wiring = calloc(1, sizeof *run->wiring);
    if (!run->wiring || !make_room(run) || !(r = dp_roster_create(step_id, n_workers)))
        return NULL;
    for (uint32_t i = 0; i < n_workers; i++)
        r->entry[i].is_empty = dp_slices_is_empty(run, i);
    r->next = run->wiring->rosters;
    run->wiring->rosters = r;
    return r;
}

/* ---- on the batch host ---- */

/* Of one that comes later the table is whole with its own card: the others' are known. Another process makes a new one. */
static struct dp_roster *late_table(struct dp_run *run, const char *node, uint32_t pid, const struct dp_msg_card *m, struct dp_err *err)
{
    struct dp_roster *r = dp_wireup_find(run, m->step_id);
    struct dp_roster_entry *e = r && m->rank < r->n_workers ? &r->entry[m->rank] : NULL;

    if (m->step_id != (DP_LATE_STEPS | m->rank) || !run->coord || !dp_coord_is_newcomer(run->coord, m->rank)) {
        dp_err_set(err, DP_EAUTH, "worker %u has no seat in the run", m->rank);
        return NULL;
    }
    if (e && e->is_there && e->pid == pid && !strcmp(e->node, node))
        return r;
    if (r)
        drop(run, r);
    r = dp_wireup_table(run, m->step_id, m->n_workers);
    if (r && dp_newcomers_fill(run, r, m->rank, err) == 0)
        return r;
    if (r)
        drop(run, r);
    else
        dp_err_set(err, DP_EGONE, "others join just now");
    return NULL;
}

int dp_wireup_put(struct dp_run *run, const char *node, uint32_t pid, const struct dp_msg_card *m, struct dp_err *err)
{
    bool is_late = m->step_id >= DP_LATE_STEPS && m->step_id < DP_LATE_STEPS + DP_MAX_WORKERS;
    struct dp_roster *r = is_late ? late_table(run, node, pid, m, err) : dp_wireup_table(run, m->step_id, m->n_workers);
    enum dp_roster_state before;
    struct dp_outlet *o;

    if (!r && is_late)
        return -1;
    if (!r)
        return dp_err_set(err, DP_ENOMEM, "too many steps of this job are wiring up at once");
    before = r->state;
    if (dp_roster_put(r, node, pid, m, dp_now_ns(), err) < 0)
        return -1;
    if (strcmp(node, run->daemon->node) && (o = dp_roster_outlet(r, node)) && o->sent == (int)r->state &&
        dp_now_ns() - o->sent_ns > AGAIN_NS) {
        o->sent = -1; /* it has not, or it would not ask */
        o->cursor = 0;
    }
    if (r->state != before && r->state == DP_ROSTER_WHOLE && !is_late)
        DP_RUN_LOG(run, dp_info, "job=%u step=%u all %u workers have arrived to wire up, the last in %.1f s", run->job_id, r->step_id,
                   r->n_workers, (double)(dp_now_ns() - r->began_ns) / 1e9);
    if (r->state != before && r->state == DP_ROSTER_FAILED)
        DP_RUN_LOG(run, dp_warn, "job=%u step=%u wire-up: %s", run->job_id, r->step_id, r->text);
    return 0;
}

static void refuse_down(struct dp_conn *c, const struct dp_run *run, const struct dp_msg_card *m, const char *why)
{
    struct dp_msg_wireup no = {.job_id = run->job_id, .step_id = m->step_id, .restarts = run->job.restart_count,
                               .state = DP_WIREUP_DENIED, .speaker = m->rank};
    uint8_t body[2048];
    struct dp_msg_relay relay = {.job_id = run->job_id, .rank = m->rank, .restarts = run->job.restart_count,
                                 .inner_type = DP_MSG_WIREUP, .inner = body};
    struct dp_writer w;

    snprintf(no.text, sizeof no.text, "%s", why);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_wireup_encode(&w, &no);
    relay.inner_len = (uint32_t)dp_writer_used(&w);
    DP_CONN_SEND(c, relay, DP_MSG_RELAY, &relay);
}

void dp_wireup_relayed(struct dp_conn *c, struct dp_run *run, const struct dp_msg_relay *relay)
{
    uint32_t of[DP_SEAL_OF] = {run->job_id, 0, run->job.restart_count};
    uint8_t key[DP_KEY_BYTES];
    struct dp_msg_card m;
    struct dp_err err = {0};
    struct dp_reader r;

    dp_reader_init(&r, relay->inner, relay->inner_len);
    if (dp_msg_card_decode(&r, &m, &err) < 0 || m.job_id != relay->job_id || m.rank != relay->rank ||
        (m.key_len && m.key_len != DP_SEALED_KEY_BYTES) || m.kind == DP_CARD_SLICE ||
        (dp_slices_are(run) && !dp_slices_have(run, m.rank, c->node, 0))) {
        DP_RUN_LOG(run, dp_warn, "job=%u node=%s: bad CARD in a relay %s", run->job_id, c->node, err.text);
        return;
    }
    of[1] = m.step_id;
    if (m.key_len && dp_session_unseal(&c->session, m.key, of, key, &err) < 0) {
        DP_RUN_LOG(run, dp_warn, "job=%u node=%s: %s", run->job_id, c->node, err.text);
        return;
    }
    if (m.key_len) {
        m.key = key;
        m.key_len = DP_KEY_BYTES;
    }
    if (!dp_run_takes(run, m.rank, DP_MSG_CARD)) {
        explicit_bzero(key, sizeof key);
        return;
    }
    if (m.kind == DP_CARD_AGAIN) {
        if (!strcmp(run->rank_node[m.rank], c->node) && run->rank_pid[m.rank] == relay->pid)
            dp_newcomers_put(run, &m);
    } else if (dp_wireup_put(run, c->node, relay->pid, &m, &err) < 0 && err.code != DP_EGONE) {
        DP_RUN_LOG(run, dp_warn, "job=%u step=%u rank=%u on %s is refused: %s", run->job_id, m.step_id, m.rank, c->node, err.text);
        refuse_down(c, run, &m, err.text);
    }
    explicit_bzero(key, sizeof key);
    dp_wireup_pump(run);
}

/* ---- the time is over ---- */

static bool is_heard(const struct dp_roster *r, const char *node)
{
    for (uint32_t i = 0; i < r->n_workers; i++)
        if (!strcmp(r->entry[i].told, node) || (r->entry[i].is_there && !strcmp(r->entry[i].node, node)))
            return true;
    return false;
}

/* Nodes of the job from which nothing came of this step: it may have tasks there, or none. */
static void name_silent(const struct dp_run *run, const struct dp_roster *r, char *out, size_t cap)
{
    uint32_t n = 0;
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < run->job.n_nodes; i++) {
        const char *node = run->job.node[i], *why = dp_peer_trouble(run->daemon, node);

        if (is_heard(r, node) || n++ >= SILENT_NAMED || used >= cap)
            continue;
        used += (size_t)snprintf(out + used, cap - used, "%s%s", used ? ", " : "; nothing was heard of ", node);
        if (strcmp(node, run->daemon->node) && (*why || !dp_peer_find(run->daemon, node)) && used < cap)
            used += (size_t)snprintf(out + used, cap - used, " (its daemon cannot be reached%s%.120s)", *why ? ": " : "", why);
    }
    if (n > SILENT_NAMED && used < cap)
        snprintf(out + used, cap - used, " and %u more nodes", n - SILENT_NAMED);
}

static bool is_all_told(const struct dp_roster *r)
{
    for (uint32_t i = 0; i < r->n_workers; i++)
        if (!r->entry[i].is_there && !r->entry[i].told[0] && !r->entry[i].is_empty)
            return false;
    return true;
}

static uint32_t n_absent_from(const struct dp_roster *r, const char *node)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_workers; i++)
        n += !r->entry[i].is_there && !strcmp(r->entry[i].told, node);
    return n;
}

/* From which nodes somebody is missing, and why, as far as this daemon knows. */
static json_t *missing_nodes(const struct dp_run *run, const struct dp_roster *r)
{
    bool is_known = is_all_told(r);
    json_t *list = json_array();
    char text[320];

    for (uint32_t i = 0; i < run->job.n_nodes; i++) {
        const char *node = run->job.node[i], *why = dp_peer_trouble(run->daemon, node);
        uint32_t n = n_absent_from(r, node);

        if (n == 0 && (is_known || is_heard(r, node)))
            continue;
        if (*why)
            snprintf(text, sizeof text, "its daemon cannot be reached: %s", why);
        else if (n)
            snprintf(text, sizeof text, "workers that began there and say nothing: %u", n);
        else
            snprintf(text, sizeof text, "no worker has come from there: does slurmd there load spank_dynpipe.so? "
                                        "`dynpipe check -j %u` looks", run->job_id);
        json_array_append_new(list, json_pack("{s:s, s:s}", "node", node, "text", text));
    }
    return list;
}

json_t *dp_wireup_waiting(const struct dp_run *run)
{
    const struct dp_roster *r = run->wiring ? run->wiring->rosters : NULL;
    char who[512], silent[512] = "", text[1100];
    uint32_t missing;

    while (r && (r->state != DP_ROSTER_GATHERING || !r->deadline_ns))
        r = r->next;
    if (!r || run->role != DP_RUN_COORD)
        return NULL;
    missing = dp_roster_missing(r, who, sizeof who);
    if (!is_all_told(r))
        name_silent(run, r, silent, sizeof silent);
    snprintf(text, sizeof text, "%u of %u workers have arrived; nothing heard from %s in %.0f s%s", r->n_workers - missing, r->n_workers,
             who, (double)(dp_now_ns() - r->began_ns) / 1e9, silent);
    return json_pack("{s:s, s:o}", "state_text", text, "missing", missing_nodes(run, r));
}

static void warn(struct dp_run *run, const struct dp_roster *r, const char *text)
{
    uint32_t speaker = dp_roster_speaker(r);

    for (const struct dp_outlet *o = r->outlets; o; o = o->next) {
        struct dp_conn *c = dp_peer_find(run->daemon, o->node);

        if (c)
            dp_wireup_send(c, run, r->step_id, DP_WIREUP_WAIT, speaker, text, NULL, 0);
    }
    for (const struct dp_wirer *w = run->wiring->wirers; w; w = w->next)
        if (w->conn && w->step_id == r->step_id)
            dp_wireup_send(w->conn, run, r->step_id, DP_WIREUP_WAIT, speaker, text, NULL, 0);
}

static void gather_tick(struct dp_run *run, struct dp_roster *r, uint64_t now_ns)
{
    char who[512], silent[512] = "", text[1100];

    if (r->state != DP_ROSTER_GATHERING || !r->deadline_ns)
        return;
    for (uint32_t i = 0; i < run->job.n_nodes && now_ns - r->began_ns > 2 * AGAIN_NS && !is_all_told(r); i++)
        if (!is_heard(r, run->job.node[i]) && strcmp(run->job.node[i], run->daemon->node))
            dp_peer_want(run->daemon, run->job.node[i]); /* one that may only be called */
    if (now_ns < r->deadline_ns && (r->has_warned || now_ns - r->began_ns < WARN_NS))
        return;
    dp_roster_missing(r, who, sizeof who);
    if (!is_all_told(r))
        name_silent(run, r, silent, sizeof silent);
    if (now_ns < r->deadline_ns) {
        r->has_warned = true;
        snprintf(text, sizeof text, "nothing heard from %s in %.0f s%s, waiting %.0f s more", who, (double)(now_ns - r->began_ns) / 1e9,
                 silent, (double)(r->deadline_ns - now_ns) / 1e9);
        warn(run, r, text);
        return;
    }
    if (!dp_roster_fail_refused(r))
        dp_roster_fail(r, "nothing heard from %s in %.0f s%s: the run cannot begin; see what that task printed, and that dynpipe-worker "
                       "starts there (DYNPIPE_WIREUP_S: seconds to wait)", who, (double)(now_ns - r->began_ns) / 1e9, silent);
    DP_RUN_LOG(run, dp_warn, "job=%u step=%u wire-up: %s", run->job_id, r->step_id, r->text);
}

void dp_wireup_table_tick(struct dp_run *run)
{
    uint64_t now_ns = dp_now_ns(); /* cards were put since the tick began */

    for (struct dp_roster *r = run->wiring ? run->wiring->rosters : NULL; r && run->role == DP_RUN_COORD; r = r->next)
        gather_tick(run, r, now_ns);
}

void dp_wireup_step_end(struct dp_run *run, uint32_t step_id)
{
    struct dp_roster *r = dp_wireup_find(run, step_id);

    dp_tasks_end(&run->tasks, step_id);
    if (r && !has_wirers(run, step_id) && r->state != DP_ROSTER_GATHERING)
        drop(run, r);
}

/* ---- on the other nodes ---- */

/* The run of a frame from its batch host, in the same life of the job; else NULL. */
static struct dp_run *run_of(struct dp_conn *c, uint32_t job_id, uint32_t restarts)
{
    struct dp_run *run = dp_run_find(c->owner, job_id);

    if (!run || dp_run_is_asking(run) || run->role != DP_RUN_RELAY || strcmp(run->job.batch_host, c->node) ||
        !dp_run_is_same_life(run, restarts))
        return NULL;
    return run;
}

void dp_wireup_roster(struct dp_conn *c, const struct dp_msg_roster *m)
{
    struct dp_run *run = run_of(c, m->job_id, m->restarts);
    struct dp_err err = {0};
    struct dp_roster *r;

    if (!run || !run->wiring || !has_wirers(run, m->step_id))
        return; /* nobody here waits for it */
    r = dp_wireup_table(run, m->step_id, m->n_workers);
    if (!r || dp_roster_take(r, m, &err) < 0)
        DP_RUN_LOG(run, dp_warn, "job=%u step=%u roster: %s", run->job_id, m->step_id, r ? err.text : "too many steps");
}

static void take_whole(struct dp_conn *c, struct dp_run *run, struct dp_roster *r, const struct dp_msg_wireup *m)
{
    const uint32_t of[DP_SEAL_OF] = {run->job_id, m->step_id, run->job.restart_count};
    struct dp_err err = {0};

    if (r->n_taken != r->n_workers)
        return; /* some of it was lost; it is asked for again */
    if (m->key_len != DP_SEALED_KEY_BYTES || dp_session_unseal(&c->session, m->key, of, r->key, &err) < 0) {
        DP_RUN_LOG(run, dp_warn, "job=%u step=%u node=%s: %s", run->job_id, m->step_id, c->node, err.text);
        return;
    }
    r->state = DP_ROSTER_WHOLE;
}

void dp_wireup_take_state(struct dp_conn *c, const struct dp_msg_wireup *m)
{
    struct dp_run *run = run_of(c, m->job_id, m->restarts);
    struct dp_roster *r = run && run->wiring ? dp_wireup_find(run, m->step_id) : NULL;
    const struct dp_wirer *w = run && run->wiring ? run->wiring->wirers : NULL;

    if (m->state == DP_WIREUP_WAIT) {
        for (; w; w = w->next)
            if (w->conn && w->step_id == m->step_id)
                dp_wireup_send(w->conn, run, m->step_id, DP_WIREUP_WAIT, m->speaker, m->text, NULL, 0);
        return;
    }
    while (w && w->step_id != m->step_id)
        w = w->next;
    if (w && !r)
        r = dp_wireup_table(run, m->step_id, w->n_workers);
    if (!w || !r)
        return;
    if (m->state == DP_WIREUP_WHOLE) {
        take_whole(c, run, r, m);
    } else if (m->state == DP_WIREUP_GO) {
        r->state = DP_ROSTER_GO;
        dp_roster_forget_cards(r);
    } else if (m->state == DP_WIREUP_FAILED) {
        r->state = DP_ROSTER_FAILED;
        r->speaker = m->speaker;
        memcpy(r->text, m->text, sizeof r->text);
        dp_roster_forget_cards(r);
    }
    dp_wireup_pump(run);
}

/* ---- out ---- */

static void send_piece(struct dp_conn *c, const struct dp_run *run, const struct dp_roster *r, uint32_t *cursor)
{
    static uint8_t cards[DP_ROSTER_CHUNK];
    struct dp_msg_roster m = {.job_id = run->job_id, .step_id = r->step_id, .restarts = run->job.restart_count};

    *cursor = dp_roster_piece(r, *cursor, cards, &m);
    DP_CONN_SEND(c, roster, DP_MSG_ROSTER, &m);
}

static enum dp_wireup_state as_state(const struct dp_roster *r)
{
    return r->state == DP_ROSTER_WHOLE ? DP_WIREUP_WHOLE : r->state == DP_ROSTER_GO ? DP_WIREUP_GO : DP_WIREUP_FAILED;
}

/* Bring one taker nearer to what the table is. has_seal: it is a daemon. returns: was a piece sent? */
static bool bring(struct dp_conn *c, const struct dp_run *run, const struct dp_roster *r, uint32_t *cursor, int *sent, bool has_seal)
{
    const uint32_t of[DP_SEAL_OF] = {run->job_id, r->step_id, run->job.restart_count};
    bool is_whole = r->state == DP_ROSTER_WHOLE;
    uint8_t sealed[DP_SEALED_KEY_BYTES];
    bool has_key = is_whole;

    if (!c || r->state == DP_ROSTER_GATHERING || *sent == (int)r->state)
        return false;
    if (is_whole && *cursor < r->n_workers) {
        if (dp_conn_unsent(c) > 0)
            return false;
        send_piece(c, run, r, cursor);
        if (*cursor < r->n_workers)
            return true;
    }
    if (is_whole && has_seal && dp_session_seal(&c->session, r->key, of, sealed, NULL) < 0)
        has_key = false;
    dp_wireup_send(c, run, r->step_id, as_state(r), r->speaker, r->state == DP_ROSTER_FAILED ? r->text : "",
                   has_seal ? sealed : r->key, !has_key ? 0 : has_seal ? DP_SEALED_KEY_BYTES : DP_KEY_BYTES);
    *sent = (int)r->state;
    return is_whole;
}

static int pump_out(struct dp_run *run, struct dp_roster *r, int n_left)
{
    for (struct dp_outlet *o = r->outlets; o && n_left > 0; o = o->next) {
        int before = o->sent;

        n_left -= bring(dp_peer_find(run->daemon, o->node), run, r, &o->cursor, &o->sent, true);
        if (o->sent != before)
            o->sent_ns = dp_now_ns();
    }
    return n_left;
}

void dp_wireup_pump(struct dp_run *run)
{
    int n_left = PIECES_PER_TURN;

    if (!run->wiring || dp_run_is_asking(run))
        return;
    for (struct dp_roster *r = run->wiring->rosters; r && run->role == DP_RUN_COORD; r = r->next)
        n_left = pump_out(run, r, n_left);
    for (struct dp_wirer *w = run->wiring->wirers; w && n_left > 0; w = w->next) {
        const struct dp_roster *r = dp_wireup_find(run, w->step_id);

        if (r && w->is_served)
            n_left -= bring(w->conn, run, r, &w->cursor, &w->sent, false);
    }
}

void dp_wireup_drained(struct dp_conn *c)
{
    struct dp_daemon *d = c->owner;
    const struct dp_wirer *w = c->role == DP_ROLE_WIRER ? c->data : NULL;

    if (w)
        dp_wireup_pump(w->run);
    for (struct dp_run *run = c->role == DP_ROLE_PEER ? d->runs : NULL; run; run = run->next)
        dp_wireup_pump(run);
}
