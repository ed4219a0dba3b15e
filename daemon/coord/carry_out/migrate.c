/* SPDX-License-Identifier: BSD-3-Clause */
/* The hand-over (doc/protocol.md, "Hand-over"): two phases, decided by one durable record.
 *
 * INTENT is journalled, with room kept for what follows, then PREPARE goes to every worker until all have
 * voted. All yes, with the same boundary and digest: COMMIT is journalled, and only then told. Anything
 * else, a timeout, a lost voter or a restart without COMMIT: ABORT. It may be told as soon as the disk is
 * known to hold no COMMIT of this migration, since that is what a restart would make of it; its record is for
 * reports, and does not hold workers up that stand still. Decisions are repeated until every worker that lives
 * has acknowledged (or shows by HELLO or a report that it has the layout in force). Then DONE, and
 * FINISH: only now sources free their copies and leavers leave.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

/* Largest of these bodies is PREPARE: 512 workers with 5 bytes each, and a few fields. */
#define BODY_MAX 4096

/* What the layers take that come to this worker. One whose layer has reported nothing yet is not counted. */
static uint64_t coming_bytes(const struct dp_coord *c, uint32_t rank)
{
    struct dp_moves moves;
    uint64_t bytes = 0;

    dp_layout_moves(&c->layout, &c->mig.next, &moves);
    for (uint32_t i = 0; i < moves.n; i++)
        if (moves.move[i].to == rank)
            bytes += c->layer[moves.move[i].layer].load.state_bytes;
    return bytes;
}

static void send_prepare(struct dp_coord *c, uint32_t rank)
{
    struct dp_msg_prepare *p = calloc(1, sizeof *p);
    uint8_t body[BODY_MAX];
    struct dp_writer w;

    if (!p)
        return; /* it is sent again */
    p->incarnation = c->life.incarnation;
    p->migration = c->mig.id;
    p->epoch = c->layout.epoch;
    p->n_workers = c->train.n_workers;
    p->n_layers = c->train.n_layers;
    memcpy(p->cut, c->mig.next.cut, sizeof p->cut);
    memcpy(p->gone, c->mig.next.gone, sizeof p->gone);
    p->coming_bytes = coming_bytes(c, rank);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_prepare_encode(&w, p);
    free(p);
    if (!w.bad)
        c->ops.to_worker(c->arg, rank, DP_MSG_PREPARE, body, dp_writer_used(&w));
}

void coord_migrate_send_regroup(struct dp_coord *c, uint32_t rank, bool go, const char *why)
{
    struct dp_msg_regroup *m = calloc(1, sizeof *m);
    uint8_t body[BODY_MAX];
    struct dp_writer w;

    if (!m)
        return; /* it is sent again */
    m->incarnation = c->life.incarnation;
    m->migration = go ? c->last_regroup_id : c->mig.id;
    m->go = go;
    m->epoch = c->layout.epoch;
    m->n_workers = c->train.n_workers;
    m->n_layers = c->train.n_layers;
    snprintf(m->text, sizeof m->text, "%.255s", why);
    memcpy(m->cut, c->layout.cut, sizeof m->cut);
    memcpy(m->gone, c->layout.gone, sizeof m->gone);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_regroup_encode(&w, m);
    free(m);
    if (!w.bad)
        c->ops.to_worker(c->arg, rank, DP_MSG_REGROUP, body, dp_writer_used(&w));
}

static void send_decision(struct dp_coord *c, uint32_t rank, uint64_t id, bool is_commit, const char *why)
{
    struct dp_msg_decision d = {.incarnation = c->life.incarnation, .migration = id, .commit = is_commit,
                                .epoch = c->layout.epoch};
    uint8_t body[1024];
    struct dp_writer w;

    snprintf(d.text, sizeof d.text, "%s", why);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_decision_encode(&w, &d);
    c->ops.to_worker(c->arg, rank, DP_MSG_DECISION, body, dp_writer_used(&w));
}

void coord_migrate_finish(struct dp_coord *c, uint64_t now_ns, uint32_t rank)
{
    struct dp_msg_finish f = {.migration = c->last_commit_id};
    uint8_t body[64];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_finish_encode(&w, &f);
    c->worker[rank].finish_sent_ns = now_ns;
    c->ops.to_worker(c->arg, rank, DP_MSG_FINISH, body, dp_writer_used(&w));
}

bool coord_migrate_is_idle(const struct dp_coord *c)
{
    return c->mig.state == MIG_NONE;
}

/* Nobody may ask for it to be given back; Slurm may take it. */
static bool is_kept(const struct dp_coord *c, uint32_t rank)
{
    uint32_t slot = c->worker[rank].slot;

    return coord_is_fixed(c, slot) || (slot == coord_kept_slot(c) && !coord_is_to_leave(c, rank, true));
}

/* Can it be asked for at all? */
static int check_next(const struct dp_coord *c, const struct dp_layout *next, struct dp_err *err)
{
    if (!c->train.has_layout || c->life.is_over || c->life.failed[0] || c->train.is_completed)
        return dp_err_set(err, DP_EINVAL, "the run is not training");
    if (c->stall.is_stalled)
        return dp_err_set(err, DP_EINVAL, "%s", c->stall.text);
    if (!coord_migrate_is_idle(c))
        return dp_err_set(err, DP_EINVAL, "hand-over %llu is under way", (unsigned long long)c->mig.id);
    if (next->n_workers != c->train.n_workers || next->n_layers != c->train.n_layers)
        return dp_err_set(err, DP_EINVAL, "layout of %u layers on %u workers", next->n_layers, next->n_workers);
    if (dp_layout_check(next, err) < 0)
        return -1;
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        if (c->layout.gone[r] && !next->gone[r] && !coord_is_ready(c, r))
            return dp_err_set(err, DP_EINVAL, "worker %u is not in the run", r);
        if (next->gone[r] && !c->layout.gone[r] && is_kept(c, r))
            return dp_err_set(err, DP_EINVAL, "worker %u is on the batch host, which cannot be given back", r);
        if (next->gone[r] && !c->layout.gone[r] && c->worker[r].stays && !c->worker[r].asked_ns)
            return dp_err_set(err, DP_EINVAL, "worker %u does not leave before the run ends", r);
        if (!c->layout.gone[r] && !(coord_is_live(c, r) && c->worker[r].is_connected))
            return dp_err_set(err, DP_EINVAL, "worker %u is not connected", r);
    }
    return 0;
}

static void reset(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason)
{
    struct coord_migration *m = &c->mig;
    struct dp_moves moves;
    uint64_t id = m->id;

    memset(m, 0, sizeof *m);
    m->id = id + 1; /* ids are never used twice, not even that of an INTENT that was not confirmed */
    m->before = c->layout;
    m->next = *next;
    m->next.epoch = c->layout.epoch + 1;
    m->started_ns = now_ns;
    m->moved_layers = dp_layout_moves(&c->layout, next, &moves);
    for (uint32_t i = 0; i < moves.n; i++)
        m->moved_bytes += c->layer[moves.move[i].layer].load.state_bytes;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        m->is_member[r] = !c->layout.gone[r] || !next->gone[r];
    snprintf(m->reason, sizeof m->reason, "%.255s", reason);
}

int coord_migrate_begin(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason,
                        struct dp_err *err)
{
    if (check_next(c, next, err) < 0)
        return -1;
    if (coord_journal_room(c) < 0)
        return dp_err_set(err, DP_EIO, "journal: %s", c->journal.error);
    reset(c, now_ns, next, reason);
    if (coord_journal_intent(c, &c->mig) < 0)
        return dp_err_set(err, DP_EIO, "journal: %s", c->journal.error);
    c->mig.state = MIG_PREPARING;
    c->mig.sent_ns = 0;
    coord_migrate_tick(c, now_ns);
    return 0;
}

static struct coord_handover *record_outcome(struct dp_coord *c, uint64_t now_ns, bool is_commit)
{
    struct coord_handover *h = &c->history.handover[c->history.n_handovers++ % COORD_HANDOVERS];
    const struct coord_migration *m = &c->mig;

    memset(h, 0, sizeof *h);
    h->id = m->id;
    h->epoch = c->layout.epoch;
    h->boundary = m->boundary;
    h->started_ns = m->started_ns;
    h->decided_ns = now_ns;
    h->is_committed = is_commit;
    h->is_regroup = m->is_regroup;
    h->moved_layers = m->moved_layers;
    h->moved_bytes = m->moved_bytes;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        h->n_leavers += m->next.gone[r] && !m->before.gone[r];
    dp_layout_format(&c->layout, h->layout, sizeof h->layout);
    snprintf(h->reason, sizeof h->reason, "%s", is_commit ? m->reason : m->why);
    return h;
}

void coord_migrate_abort(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    struct coord_migration *m = &c->mig;

    if (m->state != MIG_PREPARING && m->state != MIG_ABORTING)
        return;
    if (m->state == MIG_PREPARING)
        snprintf(m->why, sizeof m->why, "%.255s", why);
    m->state = MIG_ABORTING;
    if (m->is_doubtful && coord_journal_settle(c) < 0)
        return; /* tried again at the next tick; until then nobody is told anything */
    m->is_doubtful = false;
    (void)coord_journal_abort(c, now_ns, m->why);
    m->state = MIG_ABORTED;
    m->decided_ns = now_ns;
    m->sent_ns = 0;
    memset(m->has_ack, 0, sizeof m->has_ack);
    c->last_change_ns = now_ns;
    record_outcome(c, now_ns, false);
    coord_note(c, now_ns, "hand-over %llu aborted: %.180s", (unsigned long long)m->id, m->why);
}

/* The decision is durable. */
static void put_in_force(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_migration *m = &c->mig;

    m->state = MIG_COMMITTED;
    m->decided_ns = now_ns;
    m->sent_ns = 0;
    c->layout = m->next;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (m->before.gone[r] && !c->layout.gone[r])
            coord_seat_joined(c, r);
    coord_saving_moved(c);
    c->last_commit_id = m->id;
    if (m->is_regroup)
        c->last_regroup_id = m->id;
    c->last_change_ns = now_ns;
    coord_promise_committed(c, now_ns, record_outcome(c, now_ns, true));
    coord_loads_reset(c);
    coord_seat_left(c, now_ns, &m->before); /* writes a record: the last, a journal may be written anew for it */
}

/* The decision point. */
static void commit(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_migration *m = &c->mig;
    enum dp_journal_fate fate = coord_journal_commit(c, now_ns);
    char why[256];

    if (fate != DP_JOURNAL_DURABLE) {
        m->is_doubtful = fate == DP_JOURNAL_DOUBTFUL;
        snprintf(why, sizeof why, "the journal could not be written: %.200s", c->journal.error);
        coord_migrate_abort(c, now_ns, why);
        return;
    }
    put_in_force(c, now_ns);
    coord_note(c, now_ns, "hand-over %llu committed at step %llu: %.180s", (unsigned long long)m->id,
               (unsigned long long)m->boundary, m->reason);
}

void coord_migrate_tell(struct dp_coord *c, uint32_t rank, uint64_t id)
{
    if (id == c->mig.id && (c->mig.state == MIG_PREPARING || c->mig.state == MIG_ABORTING))
        return; /* undecided */
    if (id <= c->last_regroup_id && c->last_regroup_id) { /* also behind its DONE, which does not wait for leavers */
        coord_migrate_send_regroup(c, rank, true, id == c->mig.id ? c->mig.reason : "the run has regrouped");
        return;
    }
    if (id && id == c->last_commit_id)
        send_decision(c, rank, id, true, "");
    else if (id > c->last_commit_id && id <= c->mig.id)
        send_decision(c, rank, id, false, id == c->mig.id ? c->mig.why : "aborted");
    else if (id && id < c->last_commit_id && coord_is_newcomer(c, rank)) /* it had no vote in that: it may be in doubt of one before */
        send_decision(c, rank, id, false, "aborted");
    else
        c->reports.n_ignored++; /* never heard of; or older than a commit that the asker has voted for, so not in doubt */
}

static bool all_voted(const struct dp_coord *c)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->mig.is_member[r] && !c->mig.has_vote[r])
            return false;
    return true;
}

static void count_vote(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_vote *v)
{
    struct coord_migration *m = &c->mig;
    char why[256];

    if (!v->yes) {
        snprintf(why, sizeof why, "worker %u: %.200s", v->rank, v->text[0] ? v->text : "no");
        coord_migrate_abort(c, now_ns, why);
        return;
    }
    if (m->has_boundary &&
        (v->boundary != m->boundary || memcmp(v->digest, m->digest, sizeof m->digest) != 0)) {
        snprintf(why, sizeof why, "worker %u disagrees: boundary %llu, the others %llu%s", v->rank,
                 (unsigned long long)v->boundary, (unsigned long long)m->boundary,
                 v->boundary == m->boundary ? ", another digest" : "");
        coord_migrate_abort(c, now_ns, why);
        return;
    }
    m->has_boundary = true;
    m->boundary = v->boundary;
    memcpy(m->digest, v->digest, sizeof m->digest);
    if (!m->has_vote[v->rank])
        m->sent_bytes += v->sent_bytes;
    m->has_vote[v->rank] = 1;
    if (all_voted(c))
        commit(c, now_ns);
}

static void resend(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_migration *m = &c->mig;

    if (m->sent_ns && now_ns - m->sent_ns < RESEND_NS)
        return;
    m->sent_ns = now_ns;
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        if ((!m->is_member[r] && !m->is_regroup) || c->worker[r].has_left || c->worker[r].is_lost)
            continue;
        if (m->is_regroup) { /* leavers, too: one may be in doubt about what let it leave */
            if (!m->has_ack[r])
                coord_migrate_send_regroup(c, r, true, m->reason);
            continue;
        }
        if (m->state == MIG_PREPARING && !m->has_vote[r])
            send_prepare(c, r);
        else if (m->state != MIG_PREPARING && !m->has_ack[r])
            send_decision(c, r, m->id, m->state == MIG_COMMITTED, m->state == MIG_ABORTED ? m->why : "");
    }
}

void dp_coord_vote(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_vote *v)
{
    if (c->life.is_over || !c->train.has_layout || v->rank >= c->train.n_workers || !c->worker[v->rank].is_known) {
        c->reports.n_ignored++;
        return;
    }
    coord_stall_heard(c, now_ns);
    if (v->migration == c->mig.id && c->mig.state == MIG_PREPARING) {
        if (v->incarnation == c->life.incarnation && c->mig.is_member[v->rank] &&
            (coord_is_live(c, v->rank) || coord_is_newcomer(c, v->rank)))
            count_vote(c, now_ns, v);
        else
            c->reports.n_ignored++;
        if (c->mig.state == MIG_COMMITTED || c->mig.state == MIG_ABORTED)
            resend(c, now_ns); /* decided: all workers stand still until they hear it */
        return;
    }
    coord_migrate_tell(c, v->rank, v->migration); /* decided: whoever still votes has not heard */
}

static void make_regroup(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason)
{
    reset(c, now_ns, next, reason);
    c->mig.is_regroup = true;
    c->mig.decided_ns = now_ns;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        c->mig.is_member[r] = !next->gone[r];
}

void coord_migrate_take_over(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason)
{
    make_regroup(c, now_ns, next, reason);
    put_in_force(c, now_ns);
    coord_note(c, now_ns, "regroup %llu: %.200s", (unsigned long long)c->mig.id, reason);
}

int coord_migrate_regroup(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason)
{
    struct coord_migration *before = malloc(sizeof *before), *fresh = malloc(sizeof *fresh);
    bool is_written = before && fresh && coord_journal_room(c) == 0;

    if (is_written) {
        *before = c->mig;
        make_regroup(c, now_ns, next, reason);
        *fresh = c->mig;
        c->mig = *before; /* until it is durable: the journal may be written anew for it, with what is under way */
        is_written = coord_journal_regroup(c, fresh) == DP_JOURNAL_DURABLE;
        if (is_written)
            c->mig = *fresh;
    }
    free(before);
    free(fresh);
    if (!is_written)
        return -1;
    put_in_force(c, now_ns);
    coord_note(c, now_ns, "regroup %llu: %.200s", (unsigned long long)c->mig.id, reason);
    return 0;
}

/* Pauses of all workers that stopped: largest and median. */
static void measure(const struct dp_coord *c, struct coord_handover *h)
{
    uint64_t pause[DP_MAX_WORKERS];
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        if (c->mig.pause_ns[r])
            pause[n++] = c->mig.pause_ns[r];
        if (c->mig.transfer_ns[r] > h->transfer_max_ns)
            h->transfer_max_ns = c->mig.transfer_ns[r];
        if (c->mig.copied_ns[r] > h->copying_max_ns)
            h->copying_max_ns = c->mig.copied_ns[r];
    }
    qsort(pause, n, sizeof pause[0], dp_by_u64);
    h->pause_max_ns = n ? pause[n - 1] : 0;
    h->pause_median_ns = n ? pause[n / 2] : 0;
    if (c->mig.sent_bytes)
        h->moved_bytes = c->mig.sent_bytes;
}

static bool all_know(const struct dp_coord *c)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->mig.is_member[r] && !c->mig.has_ack[r] && !c->worker[r].has_left && !c->worker[r].is_lost)
            return false;
    return true;
}

static void end_if_all_know(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_handover *h = &c->history.handover[(c->history.n_handovers - 1) % COORD_HANDOVERS];

    if ((c->mig.state != MIG_COMMITTED && c->mig.state != MIG_ABORTED) || !all_know(c))
        return;
    if (c->mig.state == MIG_COMMITTED) {
        measure(c, h);
        h->done_ns = now_ns;
        if (coord_journal_done(c, h) < 0)
            return; /* next tick */
        coord_saving_paused(c, h->pause_max_ns);
        for (uint32_t r = 0; r < c->train.n_workers; r++)
            if (c->mig.is_member[r] && !c->worker[r].has_left && !c->worker[r].is_lost)
                coord_migrate_finish(c, now_ns, r);
    }
    h->done_ns = now_ns;
    c->mig.state = MIG_NONE;
}

void dp_coord_decision_ack(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_decision_ack *m)
{
    /* A newcomer that was not taken in may know of no layout. */
    bool has_epoch = m->epoch == c->layout.epoch ||
                     (c->mig.state == MIG_ABORTED && m->rank < c->train.n_workers && coord_is_newcomer(c, m->rank));

    if (c->life.is_over || m->rank >= c->train.n_workers || m->migration != c->mig.id ||
        (c->mig.state != MIG_COMMITTED && c->mig.state != MIG_ABORTED) || !has_epoch) {
        c->reports.n_ignored++;
        return;
    }
    if (!c->mig.has_ack[m->rank]) {
        c->mig.pause_ns[m->rank] = m->pause_ns;
        c->mig.transfer_ns[m->rank] = m->transfer_ns;
        c->mig.copied_ns[m->rank] = m->copying_ns;
    }
    c->mig.has_ack[m->rank] = 1;
    end_if_all_know(c, now_ns);
}

/* An acknowledgement can be lost between two daemons, and a worker sends it once. What a worker does
 * says the same: it has the new epoch in force; or, after an abort, it goes on training for a while
 * (whoever is in doubt stands still, and asks again when it votes). */
void coord_migrate_seen(struct dp_coord *c, uint64_t now_ns, uint32_t rank, uint64_t epoch)
{
    bool is_committed = c->mig.state == MIG_COMMITTED;
    bool is_aborted = c->mig.state == MIG_ABORTED && now_ns - c->mig.decided_ns > ABORT_KNOWN_NS;

    if (epoch != c->layout.epoch || c->mig.has_ack[rank] || !(is_committed || is_aborted))
        return;
    c->mig.has_ack[rank] = 1;
    end_if_all_know(c, now_ns);
}

/* FINISH has no acknowledgement: leavers hear it until they leave. */
static void repeat_finish(struct dp_coord *c, uint64_t now_ns)
{
    if (c->mig.state == MIG_COMMITTED || !c->last_commit_id)
        return;
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const struct coord_worker *w = &c->worker[r];

        if (c->layout.gone[r] && w->is_known && !w->has_left && !w->is_lost &&
            c->slot[w->slot].state < SLOT_GONE && now_ns - w->finish_sent_ns >= RESEND_NS)
            coord_migrate_finish(c, now_ns, r);
    }
}

/* When something was heard of the hand-over's votes: that it began, or that its layers are copied, which is believed for so many times
 * the usual patience. */
#define COPYING_PATIENCE 30.0

static uint64_t heard_of(const struct coord_migration *m, double patience_s)
{
    bool is_copying = m->copying_ns > m->started_ns && (double)(m->copying_ns - m->started_ns) / 1e9 < COPYING_PATIENCE * patience_s;

    return is_copying ? m->copying_ns : m->started_ns;
}

void coord_migrate_tick(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_migration *m = &c->mig;
    double patience_s = coord_patience_s(c, c->limits.vote_timeout_s); /* a boundary may be a step away */
    uint64_t heard_ns = heard_of(m, patience_s);
    char why[256];

    if (m->state == MIG_ABORTING)
        coord_migrate_abort(c, now_ns, m->why);
    if (m->state == MIG_PREPARING && (double)(now_ns - heard_ns) / 1e9 > patience_s) {
        uint32_t missing = 0;

        while (missing < c->train.n_workers && (!m->is_member[missing] || m->has_vote[missing]))
            missing++;
        snprintf(why, sizeof why, "no vote of worker %u within %.0f s", missing, patience_s);
        coord_migrate_abort(c, now_ns, why);
    }
    if (m->state == MIG_PREPARING || m->state == MIG_COMMITTED || m->state == MIG_ABORTED) {
        end_if_all_know(c, now_ns);
        if (m->state != MIG_NONE)
            resend(c, now_ns);
    }
    repeat_finish(c, now_ns);
}
