/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices that Slurm ends, and says so before: scancel of one, preemption, the end of its time (doc/protocol.md, "Slices"). SIGTERM
 * comes to its worker, which asks to be let go, and has Slurm's grace time (KillWait, GraceTime) for it. Its layers go to the others
 * by a hand-over like any other, and the others train on.
 *
 * Where that cannot be, all save and stop: when the whole array is cancelled, when home is among them, when fewer would be left
 * than the user asks for. Nothing of it is journalled: who is not let go asks again, and in the end stops all by itself
 * (worker/train/trainer.c).
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

#define GATHER_NS DP_SECOND_NS     /* for others: Slurm signals the tasks of an array one after the other */
#define AGAIN_NS (2 * DP_SECOND_NS) /* a hand-over that could not begin, a SAVE that was lost */

void coord_leave_asked(struct dp_coord *c, uint64_t now_ns, uint32_t rank)
{
    struct coord_worker *w = rank < c->train.n_workers ? &c->worker[rank] : NULL;

    if (!w || !coord_is_sliced(c) || !c->train.has_layout || !coord_is_live(c, rank)) {
        c->reports.n_ignored++;
        return;
    }
    if (w->asked_ns)
        return;
    w->asked_ns = now_ns;
    coord_note(c, now_ns, "Slurm ends %s: worker %u asks to be let go", c->slot[w->slot].label, rank);
}

/* returns: when the last one has asked; 0: nobody has. */
static uint64_t newest_ns(const struct dp_coord *c)
{
    uint64_t ns = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_live(c, r) && c->worker[r].asked_ns > ns)
            ns = c->worker[r].asked_ns;
    return ns;
}

/* returns: why they are not let go, NULL: they are, in `next`. */
static const char *why_not(const struct dp_coord *c, struct dp_layout *next)
{
    uint32_t n_stay = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        if (!coord_is_live(c, r))
            continue;
        if (c->worker[r].asked_ns && c->worker[r].slot == c->batch_slot)
            return "the run's own job is ended";
        n_stay += !c->worker[r].asked_ns;
    }
    if (c->limits.mode < DP_MODE_BALANCE)
        return "layers may not move in this mode";
    if (n_stay < c->limits.pack.min_devices)
        return "fewer slices would be left than the user, or the site, asks for";
    return coord_regroup_lay_out(c, COORD_STAYING, next) < 0 ? "the model does not fit into the memory of the others" : NULL;
}

static bool is_leaver(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_live(c, rank) && c->worker[rank].asked_ns;
}

/* Of several the first one, and how many more. */
static void say_leavers(const struct dp_coord *c, char *out, size_t cap)
{
    uint32_t first = 0, n = coord_count(c, is_leaver, &first);

    snprintf(out, cap, "Slurm ends %s", c->slot[c->worker[first].slot].label);
    if (n > 1)
        snprintf(out + strlen(out), cap - strlen(out), ", and %u more", n - 1);
}

void coord_leave_tick(struct dp_coord *c, uint64_t now_ns)
{
    uint64_t asked_ns = newest_ns(c);
    struct dp_layout next;
    struct dp_err err;
    const char *why;
    char reason[160];

    if (!asked_ns || now_ns - asked_ns < GATHER_NS || c->life.failed[0] || c->train.is_completed || !coord_migrate_is_idle(c) ||
        (c->leave.tried_ns && now_ns - c->leave.tried_ns < AGAIN_NS))
        return;
    why = why_not(c, &next);
    if (!why) {
        say_leavers(c, reason, sizeof reason);
        if (coord_migrate_begin(c, now_ns, &next, reason, &err) == 0)
            return;
    } else {
        if (c->worker[dp_layout_leader(&c->layout)].is_connected)
            coord_ask_save(c, true);
        if (!c->leave.tried_ns)
            coord_note(c, now_ns, "all save and stop: %s", why);
    }
    c->leave.tried_ns = now_ns;
}
