/* SPDX-License-Identifier: BSD-3-Clause */
/* A journal written anew: the records that say what counts of a run now, in an order that replay accepts.
 * They are made by the same functions as the ones that they replace, on a copy of the coordinator whose
 * journal is the caller's: for each record the copy is brought to what it was when that was written.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

struct sink {
    dp_coord_put_fn put;
    void *arg;
};

static enum dp_journal_fate into_sink(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                      struct dp_err *err)
{
    const struct sink *s = arg;

    return s->put(s->arg, type, payload, bytes, err);
}

static int no_room_needed(void *arg, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)bytes, (void)err;
    return 0;
}

/* The layout that this step began with, then the one that the newest hand-over began with. */
static int put_layouts(struct dp_coord *k)
{
    const struct dp_layout now = k->mig.state == MIG_COMMITTED ? k->mig.before : k->layout;

    k->replay.has_nodes = false;
    if (k->train.has_layout && k->start_layout.n_workers)
        k->layout = k->start_layout;
    if (coord_journal_start(k, 0) < 0)
        return -1;
    if (!k->train.has_layout || !memcmp(&k->layout, &now, sizeof now))
        return 0;
    k->layout = now;
    return coord_journal_start(k, 0);
}

static int put_handovers(struct dp_coord *k)
{
    uint32_t n = k->history.n_handovers < COORD_HANDOVERS ? k->history.n_handovers : COORD_HANDOVERS;

    for (uint32_t i = k->history.n_handovers - n; i < k->history.n_handovers; i++)
        if (coord_journal_handover(k, i) < 0)
            return -1;
    return 0;
}

static int put_migration(struct dp_coord *k)
{
    const struct coord_migration *m = &k->mig;

    if (m->state == MIG_COMMITTED && m->is_regroup)
        return coord_journal_regroup(k, m);
    if (m->state != MIG_NONE && coord_journal_intent(k, m) < 0)
        return -1;
    if (m->state == MIG_COMMITTED)
        return coord_journal_commit(k, m->decided_ns);
    return m->state == MIG_ABORTED ? coord_journal_abort(k, m->decided_ns, m->why) : 0;
}

/* Slices that came later, and what was held before. */
static int put_seats(struct dp_coord *k)
{
    for (uint32_t i = 0; i < k->n_past; i++)
        if (coord_journal_past(k, &k->past[i]) < 0)
            return -1;
    for (uint32_t s = 0; s < k->n_slots && k->train.has_layout; s++) {
        const struct coord_seat seat = coord_seat_of(k, s);

        if (seat.since_ns && coord_journal_seat(k, &seat) < 0)
            return -1;
    }
    if (k->join.wanted != k->n_slots && coord_journal_wanted(k) < 0)
        return -1;
    return k->train.has_layout && (k->grow.n || k->grow.given_load) ? coord_journal_grow(k, &k->grow, k->join.wanted) : 0;
}

/* Slots whose end was intended by one record. */
static int put_intents(struct dp_coord *k)
{
    uint8_t is_done[DP_MAX_SLOTS] = {0}, is_set[DP_MAX_SLOTS];

    for (uint32_t s = 0; s < k->n_slots; s++) {
        const uint64_t when = k->slot[s].intent_ns;

        if (is_done[s] || (k->slot[s].state != SLOT_RELEASING && k->slot[s].state != SLOT_RELEASED))
            continue;
        for (uint32_t i = 0; i < k->n_slots; i++) {
            is_set[i] = (k->slot[i].state == SLOT_RELEASING || k->slot[i].state == SLOT_RELEASED) &&
                        k->slot[i].intent_ns == when;
            is_done[i] |= is_set[i];
        }
        if (coord_journal_relintent(k, when, is_set) < 0)
            return -1;
    }
    return 0;
}

static int put_slots(struct dp_coord *k)
{
    for (uint32_t i = 0; i < k->n_slots; i++) {
        const struct coord_slot *s = &k->slot[i];

        if (s->state == SLOT_ACTIVE || s->state == SLOT_EMPTY)
            continue;
        if (coord_journal_slot(k, DP_REC_DRAIN, i, s->drained_ns, 0, "") < 0)
            return -1;
        if (s->state == SLOT_HELD && coord_journal_slot(k, DP_REC_HELD, i, 0, 0, s->text) < 0)
            return -1;
        if (s->state >= SLOT_GONE && s->state != SLOT_HELD &&
            coord_journal_slot(k, DP_REC_GONE, i, s->gone_ns, s->proof_took_ns, s->text) < 0)
            return -1;
    }
    if (put_intents(k) < 0)
        return -1;
    for (uint32_t i = 0; i < k->n_slots; i++) {
        const struct coord_slot *s = &k->slot[i];

        if (s->state == SLOT_RELEASED &&
            coord_journal_slot(k, DP_REC_RELEASED, i, s->freed_ns, s->released_ns, s->text) < 0)
            return -1;
    }
    return 0;
}

/* Is there anything in BALANCE and LINKS? */
static bool has_learned(const struct dp_coord *k)
{
    return k->balance.n || k->balance.until_ns || k->balance.before.n_workers || k->promise.is_corrected || k->links.n;
}

static int put_all(struct dp_coord *k)
{
    if (put_layouts(k) < 0 || put_seats(k) < 0 || (k->train.has_layout && k->reference.ns && coord_journal_reference(k) < 0) ||
        (k->saving.since_ns && coord_journal_saving(k) < 0) ||
        ((k->promise.is_stopped || k->promise.n_missed) && coord_journal_promise(k, 0) < 0) ||
        (k->train.has_layout && has_learned(k) && coord_journal_balance(k) < 0) ||
        (k->memory.start_mb && coord_journal_memory(k) < 0) || put_handovers(k) < 0 || put_migration(k) < 0 ||
        put_slots(k) < 0 || coord_journal_counts(k) < 0)
        return -1;
    return k->life.is_over ? coord_journal_end(k, k->life.over_ns, k->life.over_why) : 0;
}

int dp_coord_snapshot(const struct dp_coord *c, dp_coord_put_fn put, void *arg, struct dp_err *err)
{
    struct dp_coord *k = malloc(sizeof *k);
    struct sink sink = {put, arg};
    int rc;

    if (!k)
        return dp_err_set(err, DP_ENOMEM, "journal of job %u: out of memory", c->job.job_id);
    memcpy(k, c, sizeof *k);
    k->ops = (struct dp_coord_ops){.journal = into_sink, .reserve = no_room_needed};
    k->arg = &sink;
    rc = put_all(k);
    if (rc < 0)
        dp_err_set(err, DP_EIO, "%s", k->journal.error);
    free(k);
    return rc < 0 ? -1 : 0;
}
