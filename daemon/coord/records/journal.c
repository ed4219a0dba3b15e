/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator's records: what is written before anything depends on it (replay.c: what a restart
 * makes of them; rewrite.c: a journal written anew). Payloads are the business of these files only;
 * numbers are big-endian, cuts and slots are u16, so that the largest record (WORKERS, 512 of them) has
 * 3 KiB of the 4 KiB that a record may hold.
 *
 * A record that could not be written is absent or, seldom, doubtful: on the disk or not. Whoever wanted it
 * acts as if it were not there, and may: what a restart does with any record but COMMIT is right whether it
 * was told or not, and before the journal takes another record it is written anew without the doubtful
 * one. Only after a doubtful COMMIT nobody is told anything until that has happened (migrate.c).
 */
#include "daemon/coord/internal.h"

#include <stdio.h>

#define RECORD_MAX 4096 /* see above */
#define NODES_PER_RECORD 48 /* names of up to 63 bytes: 48 * 65 fit into RECORD_MAX */
#define LINKS_PER_RECORD 500 /* what is left out is measured again where workers are neighbours */
#define ROOM_BYTES 8192 /* kept by START and INTENT: for a hand-over's records, for those of the next restart */

struct record {
    uint8_t bytes[RECORD_MAX];
    struct dp_writer w;
};

static struct dp_writer *record_init(struct record *r)
{
    dp_writer_init(&r->w, r->bytes, sizeof r->bytes);
    return &r->w;
}

static void note_failure(struct dp_coord *c, const struct dp_err *err)
{
    c->journal.n_errors++;
    c->journal.is_failing = true;
    snprintf(c->journal.error, sizeof c->journal.error, "%.255s", err->text);
}

static enum dp_journal_fate append(struct dp_coord *c, int type, struct record *r)
{
    enum dp_journal_fate fate = DP_JOURNAL_ABSENT;
    struct dp_err err = {0};

    if (r->w.bad)
        dp_err_set(&err, DP_EINVAL, "record %d is too long", type);
    else
        fate = c->ops.journal(c->arg, (enum dp_record)type, r->bytes, dp_writer_used(&r->w), &err);
    if (fate == DP_JOURNAL_DURABLE)
        c->journal.is_failing = false;
    else
        note_failure(c, &err);
    return fate;
}

int coord_journal_settle(struct dp_coord *c)
{
    struct dp_err err = {0};

    if (c->ops.settle(c->arg, &err) == 0)
        return 0;
    note_failure(c, &err);
    return -1;
}

static void wr_layout(struct dp_writer *w, const struct dp_layout *l)
{
    dp_wr_u64(w, l->epoch);
    dp_wr_u32(w, l->n_workers);
    dp_wr_u32(w, l->n_layers);
    for (uint32_t s = 0; s < l->n_workers; s++)
        dp_wr_u16(w, (uint16_t)l->cut[s + 1]);
    for (uint32_t s = 0; s < l->n_workers; s++)
        dp_wr_u8(w, l->gone[s]);
}

/* Before NODES: a crash between the two leaves no slots, and both are written again. */
static int journal_slices(struct dp_coord *c)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, c->n_slots);
    for (uint32_t s = 0; s < c->n_slots; s++)
        dp_wr_u32(w, c->slot[s].slice);
    for (uint32_t s = 0; s < c->n_slots; s++)
        dp_wr_u16(w, (uint16_t)c->job.slice_restarts[s]);
    return append(c, DP_REC_SLICES, &r);
}

static int journal_nodes(struct dp_coord *c)
{
    if (c->slot[0].slice && journal_slices(c) < 0)
        return -1;
    for (uint32_t first = 0; first < c->n_slots; first += NODES_PER_RECORD) {
        uint32_t n = c->n_slots - first < NODES_PER_RECORD ? c->n_slots - first : NODES_PER_RECORD;
        struct record r;
        struct dp_writer *w = record_init(&r);

        dp_wr_u32(w, c->n_slots);
        dp_wr_u32(w, c->batch_slot);
        dp_wr_u32(w, first);
        dp_wr_u32(w, n);
        for (uint32_t i = 0; i < n; i++)
            dp_wr_str(w, c->slot[first + i].name);
        if (append(c, DP_REC_NODES, &r) < 0)
            return -1;
    }
    c->replay.has_nodes = true;
    return 0;
}

static int journal_workers(struct dp_coord *c)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, c->train.n_workers);
    for (uint32_t s = 0; s < c->train.n_workers; s++) {
        dp_wr_u16(w, (uint16_t)c->worker[s].slot);
        dp_wr_u32(w, c->worker[s].pid);
    }
    return append(c, DP_REC_WORKERS, &r);
}

/* Written at each begin, and again (same incarnation) when the layout of a step is first known. */
int coord_journal_start(struct dp_coord *c, uint64_t now_ns)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    (void)now_ns;
    if (!c->replay.has_nodes && journal_nodes(c) < 0)
        return -1;
    if (c->train.has_layout && journal_workers(c) < 0)
        return -1;
    dp_wr_u32(w, c->life.incarnation);
    dp_wr_u32(w, c->job.job_id);
    dp_wr_u32(w, c->job.restart_count);
    dp_wr_u64(w, c->life.first_ns);
    dp_wr_u64(w, c->mig.id);
    dp_wr_u32(w, c->train.step_id);
    dp_wr_u8(w, c->train.has_layout);
    if (c->train.has_layout)
        wr_layout(w, &c->layout);
    (void)c->ops.reserve(c->arg, ROOM_BYTES, NULL);
    return append(c, DP_REC_START, &r);
}

int coord_journal_intent(struct dp_coord *c, const struct coord_migration *m)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, m->id);
    dp_wr_u64(w, m->started_ns);
    wr_layout(w, &m->next);
    dp_wr_u32(w, m->moved_layers);
    dp_wr_u64(w, m->moved_bytes);
    dp_wr_str(w, m->reason);
    return append(c, DP_REC_INTENT, &r);
}

enum dp_journal_fate coord_journal_regroup(struct dp_coord *c, const struct coord_migration *m)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, m->id);
    dp_wr_u64(w, m->decided_ns);
    wr_layout(w, &m->next);
    dp_wr_u32(w, m->moved_layers);
    dp_wr_u64(w, m->moved_bytes);
    dp_wr_str(w, m->reason);
    return append(c, DP_REC_REGROUP, &r);
}

int coord_journal_room(struct dp_coord *c)
{
    struct dp_err err = {0};

    if (c->ops.reserve(c->arg, ROOM_BYTES, &err) == 0)
        return 0;
    note_failure(c, &err);
    return -1;
}

enum dp_journal_fate coord_journal_commit(struct dp_coord *c, uint64_t now_ns)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, c->mig.id);
    dp_wr_u64(w, now_ns);
    dp_wr_u64(w, c->mig.next.epoch);
    dp_wr_u64(w, c->mig.boundary);
    return append(c, DP_REC_COMMIT, &r);
}

int coord_journal_abort(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, c->mig.id);
    dp_wr_u64(w, now_ns);
    dp_wr_str(w, why);
    return append(c, DP_REC_ABORT, &r);
}

int coord_journal_done(struct dp_coord *c, const struct coord_handover *h)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, h->id);
    dp_wr_u64(w, h->done_ns);
    dp_wr_u64(w, h->pause_max_ns);
    dp_wr_u64(w, h->pause_median_ns);
    dp_wr_u64(w, h->transfer_max_ns);
    dp_wr_u64(w, h->copying_max_ns);
    return append(c, DP_REC_DONE, &r);
}

/* DRAIN(now), GONE(now, took, proof), RELEASED(freed, now), HELD(now, why). */
int coord_journal_slot(struct dp_coord *c, enum dp_record type, uint32_t slot, uint64_t a, uint64_t b,
                       const char *text)
{
    struct record r;
    struct dp_writer *w = record_init(&r);
    char kept[sizeof c->slot[0].text]; /* what can be read back: a node's daemon says up to 1023 bytes */

    snprintf(kept, sizeof kept, "%s", text);
    dp_wr_u32(w, slot);
    dp_wr_u64(w, a);
    dp_wr_u64(w, b);
    dp_wr_str(w, kept);
    return append(c, type, &r);
}

int coord_journal_relintent(struct dp_coord *c, uint64_t now_ns, const uint8_t *is_set)
{
    struct record r;
    struct dp_writer *w = record_init(&r);
    uint32_t n = 0;

    for (uint32_t s = 0; s < c->n_slots; s++)
        n += is_set[s];
    dp_wr_u64(w, now_ns);
    dp_wr_u32(w, n);
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (is_set[s])
            dp_wr_u16(w, (uint16_t)s);
    return append(c, DP_REC_RELINTENT, &r);
}

int coord_journal_reference(struct dp_coord *c)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, c->reference.ns);
    dp_wr_u64(w, c->reference.step_ns);
    dp_wr_u8(w, c->reference.is_final);
    dp_wr_u32(w, c->train.n_workers);
    for (uint32_t s = 0; s < c->train.n_workers; s++)
        dp_wr_u32(w, (uint32_t)(c->worker[s].speed * 1000.0));
    return append(c, DP_REC_REFERENCE, &r);
}

int coord_journal_saving(struct dp_coord *c)
{
    const struct coord_saving *s = &c->saving;
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, s->step);
    dp_wr_u64(w, s->since_ns);
    dp_wr_u64(w, s->sums.steps);
    dp_wr_u64(w, s->sums.unknown_steps);
    for (int way = 0; way < DP_N_WAYS; way++)
        dp_wr_f64(w, s->sums.time_s[way]);
    dp_wr_f64(w, s->sums.dense_s);
    dp_wr_f64(w, s->sums.pruned_s);
    dp_wr_f64(w, s->sums.miss);
    dp_wr_u32(w, s->sums.n_miss);
    return append(c, DP_REC_SAVING, &r);
}

/* What no other record says: how many hand-overs there ever were, and one of those that are remembered. */
int coord_journal_handover(struct dp_coord *c, uint32_t number)
{
    const struct coord_handover *h = &c->history.handover[number % COORD_HANDOVERS];
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, number);
    dp_wr_u64(w, h->id);
    dp_wr_u64(w, h->epoch);
    dp_wr_u64(w, h->boundary);
    dp_wr_u64(w, h->started_ns);
    dp_wr_u64(w, h->decided_ns);
    dp_wr_u64(w, h->done_ns);
    dp_wr_u8(w, h->is_regroup ? HANDOVER_REGROUP : h->is_committed);
    dp_wr_u32(w, h->moved_layers);
    dp_wr_u32(w, h->n_leavers);
    dp_wr_u64(w, h->moved_bytes);
    dp_wr_u64(w, h->pause_max_ns);
    dp_wr_u64(w, h->pause_median_ns);
    dp_wr_u64(w, h->transfer_max_ns);
    dp_wr_str(w, h->layout);
    dp_wr_str(w, h->reason);
    dp_wr_u64(w, h->copying_max_ns);
    return append(c, DP_REC_HANDOVER, &r);
}

int coord_journal_counts(struct dp_coord *c)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, c->last_commit_id);
    dp_wr_u32(w, c->rel.shrinks_used);
    return append(c, DP_REC_COUNTS, &r);
}

int coord_journal_promise(struct dp_coord *c, uint64_t now_ns)
{
    const struct coord_promise *p = &c->promise;
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, now_ns);
    dp_wr_u8(w, p->is_stopped);
    dp_wr_u32(w, p->n_missed);
    dp_wr_u64(w, p->until_ns);
    dp_wr_str(w, p->why);
    return append(c, DP_REC_PROMISE, &r);
}

/* A factor in thousandths, as far as they go. */
static void wr_correction(struct dp_writer *w, const struct dp_correction *k, bool is_there, uint32_t n_slots)
{
    dp_wr_u32(w, is_there ? n_slots : 0);
    if (!is_there)
        return;
    for (uint32_t s = 0; s < n_slots; s++)
        dp_wr_u16(w, k->slot[s] < 65.0 ? (uint16_t)(k->slot[s] * 1000.0 + 0.5) : 65000);
    dp_wr_u64(w, k->link_ns);
    dp_wr_u64(w, k->rest_ns);
    dp_wr_f64(w, k->scale);
}

static int journal_links(struct dp_coord *c)
{
    uint32_t n = 0;
    struct record r;
    struct dp_writer *w = record_init(&r);

    for (uint32_t i = 0; i < c->links.n; i++)
        n += c->links.pair[i].n >= COORD_MEDIAN;
    n = n < LINKS_PER_RECORD ? n : LINKS_PER_RECORD;
    dp_wr_u64(w, coord_recent_step_ns(c));
    dp_wr_u32(w, n);
    for (uint32_t i = 0; i < c->links.n && n > 0; i++) {
        const struct coord_pair *p = &c->links.pair[i];

        if (p->n < COORD_MEDIAN)
            continue;
        dp_wr_u16(w, p->a);
        dp_wr_u16(w, p->b);
        dp_wr_u32(w, coord_link_median_ns(p));
        n--;
    }
    return append(c, DP_REC_LINKS, &r);
}

int coord_journal_balance(struct dp_coord *c)
{
    const struct coord_balance *b = &c->balance;
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, b->n);
    dp_wr_u64(w, b->until_ns);
    dp_wr_u64(w, b->quiet_ns);
    dp_wr_u8(w, b->now.is_corrected);
    dp_wr_u8(w, b->now.is_balancing);
    dp_wr_u8(w, b->now.is_counted);
    dp_wr_u64(w, b->now.weights_left);
    dp_wr_u32(w, b->before.n_workers);
    for (uint32_t s = 0; s < b->before.n_workers; s++)
        dp_wr_u16(w, (uint16_t)b->before.cut[s + 1]);
    dp_wr_u8(w, c->promise.is_corrected);
    wr_correction(w, &b->now.correction, b->now.is_corrected, c->n_slots);
    wr_correction(w, &c->promise.correction, c->promise.is_corrected, c->n_slots);
    return append(c, DP_REC_BALANCE, &r) < 0 || journal_links(c) < 0 ? -1 : 0;
}

int coord_journal_memory(struct dp_coord *c)
{
    const struct coord_memory *k = &c->memory;
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, k->start_mb);
    dp_wr_u32(w, k->given_mb);
    dp_wr_u32(w, k->target_mb);
    dp_wr_u32(w, k->n_given);
    dp_wr_u64(w, k->given_ns);
    dp_wr_u64(w, k->given_step);
    return append(c, DP_REC_MEMORY, &r);
}

int coord_journal_seat(struct dp_coord *c, const struct coord_seat *seat)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, seat->rank);
    dp_wr_u32(w, seat->slice);
    dp_wr_u32(w, seat->restarts);
    dp_wr_u32(w, seat->pid);
    dp_wr_u64(w, seat->since_ns);
    dp_wr_str(w, seat->node);
    return append(c, DP_REC_SEAT, &r);
}

int coord_journal_wanted(struct dp_coord *c)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u32(w, c->join.wanted);
    return append(c, DP_REC_WANTED, &r);
}

int coord_journal_grow(struct dp_coord *c, const struct coord_grow *g, uint32_t wanted)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u8(w, (uint8_t)g->state);
    dp_wr_u8(w, (uint8_t)g->why);
    dp_wr_u32(w, wanted);
    dp_wr_u32(w, g->held);
    dp_wr_u32(w, g->asked);
    dp_wr_u64(w, g->asked_ns);
    dp_wr_u64(w, g->ended_ns);
    dp_wr_u64(w, g->since_s);
    dp_wr_u32(w, g->n);
    dp_wr_u32(w, g->n_vain);
    dp_wr_u32(w, g->n_back);
    dp_wr_u32(w, g->back_of);
    dp_wr_u64(w, g->next_ns);
    dp_wr_u64(w, g->given_load);
    dp_wr_str(w, g->reason);
    dp_wr_str(w, g->text);
    return append(c, DP_REC_GROW, &r);
}

int coord_journal_past(struct dp_coord *c, const struct coord_past *p)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, p->from_ns);
    dp_wr_u64(w, p->freed_ns);
    return append(c, DP_REC_PAST, &r);
}

int coord_journal_end(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    struct record r;
    struct dp_writer *w = record_init(&r);

    dp_wr_u64(w, now_ns);
    dp_wr_str(w, why);
    return append(c, DP_REC_END, &r);
}
