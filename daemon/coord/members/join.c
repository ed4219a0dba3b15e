/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices that come when the run trains already (doc/protocol.md, "Slices that come later"). Who has a seat (seat.c), said HELLO and
 * is known to the others by its address is taken in by a hand-over like any other: its layout has the newcomers, they receive
 * layers, vote like everybody, and train from the next step on. Where it is aborted they wait, and the others train on as before.
 *
 * Those who cannot be taken in, or for whom the run is over, are told so, and leave.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>

#define GATHER_NS DP_SECOND_NS        /* for others: several slices most often begin at once */
#define AGAIN_NS (2 * DP_SECOND_NS)   /* after a hand-over that failed; twice as long after each more */
#define FAILURES_MAX 5u               /* in a row: more than one lost message or restart explains */
#define PING_NS (2 * DP_SECOND_NS)    /* an answer to an older one says nothing of now */
#define OTHERS_NS (DP_SECOND_NS / 2)  /* for the answers of others, where one has come */
#define REFUSE_NS DP_SECOND_NS        /* between two times that one hears that it is not taken in */

static void send_away(struct dp_coord *c, uint64_t now_ns, uint32_t below, const char *why)
{
    if (now_ns - c->join.refused_ns < REFUSE_NS)
        return;
    c->join.refused_ns = now_ns;
    for (uint32_t r = 0; r < below; r++)
        if (coord_is_newcomer(c, r) && c->worker[r].is_connected)
            coord_migrate_send_regroup(c, r, false, why);
}

/* Is somebody there who is not ready yet, or has only just become so? */
static bool is_more_to_come(const struct dp_coord *c, uint64_t now_ns)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_newcomer(c, r) && now_ns - c->worker[r].seated_ns < GATHER_NS)
            return true;
    return false;
}

/* Of several the first one, and how many more. */
static void say_newcomers(const struct dp_coord *c, char *out, size_t cap)
{
    uint32_t first = 0, n = coord_count(c, coord_is_ready, &first);

    if (n > 1)
        snprintf(out, cap, "%s and %u more join", c->slot[first].label, n - 1);
    else
        snprintf(out, cap, "%s joins", c->slot[first].label);
}

static void introduce(struct dp_coord *c)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_ready(c, r))
            (void)c->ops.introduce(c->arg, r, true);
}

/* The newest try ended without them. */
static void count_failure(struct dp_coord *c, uint64_t now_ns)
{
    c->join.id = 0;
    c->join.next_ns = now_ns + (AGAIN_NS << c->join.n_failed);
    if (++c->join.n_failed < FAILURES_MAX)
        return;
    snprintf(c->join.refusal, sizeof c->join.refusal, "it could not be taken in: %.150s", c->mig.why);
    coord_note(c, now_ns, "no slice is taken in any more, after %u tries: %.150s", FAILURES_MAX, c->mig.why);
}

/* Everybody stands still for a hand-over until the last one has voted: one that hangs, or is frozen, is not asked to take part. */
static bool are_awake(struct dp_coord *c, uint64_t now_ns)
{
    uint32_t n = coord_count(c, coord_is_ready, NULL);

    if (!coord_count(c, coord_is_candidate, NULL) || c->stall.is_asking)
        return false;
    if (!c->join.ping || now_ns - c->join.ping_ns >= PING_NS) {
        c->join.ping = ++c->stall.ping;
        c->join.ping_ns = now_ns;
        for (uint32_t r = 0; r < c->train.n_workers; r++)
            if (coord_is_candidate(c, r))
                coord_stall_ping(c, r);
        return false;
    }
    return n > 0 && (n == coord_count(c, coord_is_candidate, NULL) || now_ns - c->join.ping_ns >= OTHERS_NS);
}

static void take_in(struct dp_coord *c, uint64_t now_ns)
{
    struct dp_layout next;
    struct dp_err err;
    char reason[160];

    if (coord_regroup_lay_out(c, COORD_WITH_NEWCOMERS, &next) < 0) {
        snprintf(c->join.refusal, sizeof c->join.refusal, "the layers do not fit into the memory of all");
        return;
    }
    say_newcomers(c, reason, sizeof reason);
    introduce(c);
    if (coord_migrate_begin(c, now_ns, &next, reason, &err) < 0)
        c->join.next_ns = now_ns + AGAIN_NS;
    else
        c->join.id = c->mig.id;
}

void coord_join_tick(struct dp_coord *c, uint64_t now_ns)
{
    if (!c->train.has_layout || !coord_is_sliced(c))
        return;
    if (c->join.id && coord_migrate_is_idle(c))
        count_failure(c, now_ns);
    if (!coord_count(c, coord_is_newcomer, NULL)) {
        c->join.refusal[0] = '\0';
        c->join.n_failed = 0;
        return;
    }
    if (c->train.is_completed || c->life.failed[0]) {
        send_away(c, now_ns, c->train.n_workers, c->life.failed[0] ? c->life.failed : "the training is completed");
        return;
    }
    if (c->join.refusal[0]) {
        send_away(c, now_ns, c->train.n_workers, c->join.refusal);
        return;
    }
    /* The leader was lost since it got its seat. It would lead at once, and whoever invites it is the leader of the layout in force,
     * which it takes to be the lowest rank of the next one. */
    send_away(c, now_ns, dp_layout_leader(&c->layout), "the run is led by a higher rank by now");
    if (c->life.is_paused || !coord_migrate_is_idle(c) || coord_promise_is_deciding(c) || now_ns < c->join.next_ns ||
        is_more_to_come(c, now_ns))
        return;
    if (are_awake(c, now_ns))
        take_in(c, now_ns);
}
