/* SPDX-License-Identifier: BSD-3-Clause */
/* Seats of a run of slices: rank and slot of a slice that comes when the run trains already, or comes again with another life of
 * its job (doc/protocol.md, "Slices that come later"). A seat is free when none has had it, or when Slurm has back what the slice
 * before had. It is journalled before it is told, and again with the process that took it; in a layout its worker is only by a
 * hand-over (join.c).
 *
 * Of a slot that has another slice by now only from when till when it was held is remembered, for what people are told.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

#define NEWCOMERS_AT_ONCE 4u /* that have a seat and said nothing yet: each has a table of addresses of its own */

/* ---- whose it is ---- */

void coord_seat_take(struct dp_coord *c, const struct coord_seat *seat)
{
    struct coord_slot *s = &c->slot[seat->rank];
    struct coord_worker *w = &c->worker[seat->rank];

    if (s->slice != seat->slice || s->state != SLOT_ACTIVE || !w->is_newcomer) {
        if (s->state == SLOT_RELEASED)
            coord_past_add(c, s->from_ns, s->freed_ns);
        memset(s, 0, sizeof *s);
        memset(w, 0, sizeof *w);
        s->from_ns = w->seated_ns = seat->since_ns;
        w->slot = seat->rank;
        w->speed = 1.0;
        w->is_newcomer = true;
    }
    coord_slot_set(c, seat->rank, seat->node, seat->slice, seat->restarts);
    w->pid = seat->pid;
}

struct coord_seat coord_seat_of(const struct dp_coord *c, uint32_t rank)
{
    struct coord_seat seat = {.rank = rank, .slice = c->slot[rank].slice, .restarts = c->job.slice_restarts[rank],
                              .pid = c->worker[rank].pid, .since_ns = c->slot[rank].from_ns};

    memcpy(seat.node, c->slot[rank].name, sizeof seat.node);
    return seat;
}

void coord_seat_over(struct dp_coord *c, uint64_t now_ns, uint32_t rank)
{
    c->worker[rank].has_left = true;
    if (c->mig.state == MIG_PREPARING && c->mig.is_member[rank])
        coord_migrate_abort(c, now_ns, "a newcomer left, or was lost");
}

void coord_seat_joined(struct dp_coord *c, uint32_t rank)
{
    c->worker[rank].is_newcomer = false;
    c->join.id = 0;
    c->join.n_failed = 0;
}

bool coord_is_newcomer(const struct dp_coord *c, uint32_t rank)
{
    const struct coord_worker *w = &c->worker[rank];

    return w->is_newcomer && !w->has_left && !w->is_lost;
}

bool dp_coord_is_in(const struct dp_coord *c, uint32_t rank)
{
    return c->train.has_layout && rank < c->train.n_workers && !c->layout.gone[rank];
}

bool dp_coord_is_newcomer(const struct dp_coord *c, uint32_t rank)
{
    return rank < c->train.n_workers && coord_is_newcomer(c, rank);
}

bool coord_is_ready(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_candidate(c, rank) && c->join.ping && c->worker[rank].answered_ping >= c->join.ping;
}

bool coord_is_candidate(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_newcomer(c, rank) && rank > dp_layout_leader(&c->layout) && c->worker[rank].is_known && c->worker[rank].is_connected &&
           c->ops.introduce && c->ops.introduce(c->arg, rank, false);
}

/* Slurm took them, or they died: others may come in their place. Else they were not needed, and others are not, either. */
void coord_seat_left(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *before)
{
    uint32_t n = dp_layout_members(&c->layout), n_left = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        n_left += c->layout.gone[r] && !before->gone[r] && !c->worker[r].asked_ns && !c->worker[r].drains_ns && !c->worker[r].is_lost;
    if (!coord_is_sliced(c) || !n_left || c->join.wanted == n)
        return;
    c->join.wanted = n;
    (void)coord_journal_wanted(c); /* without it one too many may come in after a restart, and is given back like any other */
    coord_grow_given(c, now_ns);
}

uint32_t coord_first_wanted(const struct dp_coord *c)
{
    uint32_t n = c->limits.growth.slices;

    return n && n < c->n_slots ? n : c->n_slots;
}

/* ---- which one is free ---- */

bool coord_seat_is_free(const struct dp_coord *c, uint32_t rank)
{
    enum coord_slot_state state = c->slot[rank].state;

    return rank > dp_layout_leader(&c->layout) && c->layout.gone[rank] && (state == SLOT_EMPTY || state == SLOT_RELEASED);
}

/* Neighbours in the pipeline are to be near each other: how far is the next worker of that node? */
static uint32_t distance(const struct dp_coord *c, uint32_t rank, const char *node)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        uint32_t far = r < rank ? rank - r : r - rank;

        if ((!c->layout.gone[r] || coord_is_newcomer(c, r)) && !strcmp(c->slot[r].name, node) && far < least)
            least = far;
    }
    return least;
}

/* returns: the free seat for it, n_workers: there is none. One that had this slice before is the only one that may have it. */
static uint32_t choose(const struct dp_coord *c, const char *node, uint32_t slice)
{
    uint32_t best = c->train.n_workers, least = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->slot[r].slice == slice)
            return coord_seat_is_free(c, r) ? r : c->train.n_workers;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_seat_is_free(c, r) && (best == c->train.n_workers || distance(c, r, node) < least)) {
            best = r;
            least = distance(c, r, node);
        }
    return best;
}

bool coord_is_counted(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_live(c, rank) || coord_is_newcomer(c, rank);
}

uint32_t coord_wanted(const struct dp_coord *c)
{
    return c->train.has_layout ? dp_least_u32(c->join.wanted, c->train.n_workers - dp_layout_leader(&c->layout)) : c->join.wanted;
}

uint32_t dp_coord_slices_wanted(const struct dp_coord *c, uint32_t *missing)
{
    uint32_t n = coord_count(c, coord_is_counted, NULL), wanted = coord_wanted(c);

    *missing = 0;
    if (!c->train.has_layout || c->life.is_over || c->life.failed[0] || c->train.is_completed || coord_mode(c) < DP_MODE_BALANCE)
        return 0;
    if (coord_migrate_is_idle(c) && !c->join.refusal[0] && !c->life.is_paused && !coord_count(c, coord_must_leave, NULL) &&
        n < wanted)
        *missing = wanted - n;
    return wanted;
}

static int may_come(const struct dp_coord *c, struct dp_err *err)
{
    uint32_t n = coord_count(c, coord_is_counted, NULL), n_silent = 0;

    if (c->life.is_over || c->life.failed[0] || c->train.is_completed)
        return dp_err_set(err, DP_EAUTH, "the run is over");
    if (coord_why_observed(c))
        return dp_err_set(err, DP_EAUTH, "the run is observed: %s, so nobody joins it", coord_why_observed(c));
    if (coord_mode(c) < DP_MODE_BALANCE)
        return dp_err_set(err, DP_EAUTH, "layers may not move in mode %s, so nobody joins a run", dp_mode_name(coord_mode(c)));
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        n_silent += coord_is_newcomer(c, r) && !c->worker[r].is_known;
    if (!c->train.has_layout)
        n = coord_slots_with(c, SLOT_ACTIVE);
    if (n >= c->join.wanted)
        return dp_err_set(err, DP_EAUTH, "the run has the %u slice%s that it needs", c->join.wanted,
                           dp_plural(c->join.wanted));
    if (!c->train.has_layout)
        return dp_err_set(err, DP_EGONE, "the run begins without it; it may join when that trains");
    if (n_silent >= NEWCOMERS_AT_ONCE || !coord_migrate_is_idle(c))
        return dp_err_set(err, DP_EGONE, "others are joining, or layers move");
    return 0;
}

int dp_coord_seat(struct dp_coord *c, uint64_t now_ns, const char *node, uint32_t slice, uint32_t restarts, uint32_t *rank,
                  struct dp_err *err)
{
    struct coord_seat seat = {.slice = slice, .restarts = restarts, .since_ns = now_ns};

    if (!coord_is_sliced(c))
        return dp_err_set(err, DP_EAUTH, "not a run of slices");
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->slot[r].slice == slice && c->job.slice_restarts[r] == restarts && c->slot[r].state == SLOT_ACTIVE &&
            coord_is_newcomer(c, r) && !strcmp(c->slot[r].name, node)) {
            *rank = r;
            return 0;
        }
    if (may_come(c, err) < 0)
        return -1;
    *rank = choose(c, node, slice);
    if (*rank == c->train.n_workers)
        return dp_err_set(err, DP_EGONE, "no seat in the run is free yet");
    seat.rank = *rank;
    snprintf(seat.node, sizeof seat.node, "%s", node);
    if (coord_journal_seat(c, &seat) < 0)
        return dp_err_set(err, DP_EGONE, "journal: %s", c->journal.error);
    coord_seat_take(c, &seat);
    coord_note(c, now_ns, "%s may join as worker %u", c->slot[*rank].label, *rank);
    return 0;
}

/* ---- what the run holds ---- */

void coord_past_add(struct dp_coord *c, uint64_t from_ns, uint64_t freed_ns)
{
    struct coord_past *p = c->past;

    if (c->n_past == COORD_PAST) {
        p[1].freed_ns += p[0].freed_ns - p[0].from_ns;
        memmove(p, p + 1, (COORD_PAST - 1) * sizeof *p);
        c->n_past--;
    }
    p[c->n_past++] = (struct coord_past){from_ns, freed_ns};
}

uint32_t coord_start_slots(const struct dp_coord *c)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < c->n_slots; s++)
        n += c->slot[s].state != SLOT_EMPTY && !c->slot[s].from_ns;
    for (uint32_t i = 0; i < c->n_past; i++)
        n += !c->past[i].from_ns;
    return n;
}

uint32_t coord_held_by_time(const struct dp_coord *c, uint64_t *t_ns, uint32_t *n)
{
    static uint64_t came[DP_MAX_SLOTS + COORD_PAST], went[DP_MAX_SLOTS + COORD_PAST];
    uint32_t n_came = 0, n_went = 0, n_times = 1;

    for (uint32_t s = 0; s < c->n_slots; s++) {
        if (c->slot[s].state == SLOT_EMPTY)
            continue;
        if (c->slot[s].from_ns)
            came[n_came++] = c->slot[s].from_ns;
        if (coord_slot_freed_ns(c, s))
            went[n_went++] = coord_slot_freed_ns(c, s);
    }
    for (uint32_t i = 0; i < c->n_past; i++) {
        if (c->past[i].from_ns)
            came[n_came++] = c->past[i].from_ns;
        went[n_went++] = c->past[i].freed_ns;
    }
    qsort(came, n_came, sizeof came[0], dp_by_u64);
    qsort(went, n_went, sizeof went[0], dp_by_u64);
    t_ns[0] = 0;
    n[0] = coord_start_slots(c);
    for (uint32_t i = 0, k = 0; i < n_came || k < n_went;) {
        bool is_more = i < n_came && (k == n_went || came[i] <= went[k]);
        uint64_t t = is_more ? came[i++] : went[k++];

        n[n_times] = is_more ? n[n_times - 1] + 1 : n[n_times - 1] - 1;
        t_ns[n_times++] = t;
        if (n_times > 2 && t_ns[n_times - 2] == t) { /* at once */
            n[n_times - 2] = n[n_times - 1];
            n_times--;
        }
    }
    return n_times;
}
