/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices that Slurm ends, and says so before: scancel of one, preemption, the end of its time (doc/protocol.md, "Slices"). SIGTERM
 * comes to its worker, which asks to be let go, and has Slurm's grace time (KillWait, GraceTime) for it. Its layers go to the others
 * by a hand-over like any other, and the others train on.
 *
 * Where that cannot be, all save and stop: when the whole array is cancelled, when fewer would be left than the user asks for. Home is
 * no exception: its coordinator lives on in the daemon beside it. But where it is one job that asked for companions, its user means
 * the run when he cancels it; and so he does when he cancels all tasks of an array that has companions. Nothing of it is journalled:
 * who is not let go asks again, and in the end stops all by itself (worker/train/trainer.c).
 *
 * Nor is of a node that is drained (daemon/run/slices/drain.c): Slurm ends nothing there, and the node's daemon says it again and
 * again. Its slices leave when the others can do without them, and else they stay. So do all workers there of a job of several nodes,
 * which then shrinks itself by the node as it does when it packs; where it could not, nobody leaves.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

#define GATHER_NS DP_SECOND_NS     /* for others: Slurm signals the tasks of an array one after the other */
#define WHY_NS (4 * DP_SECOND_NS)   /* for Slurm to say what it wants of home; KillWait is 30 s, and more time is needed to save */
#define AGAIN_NS (2 * DP_SECOND_NS) /* a hand-over that could not begin, a SAVE that was lost */
#define DRAIN_NS (15 * DP_SECOND_NS) /* a node of which nobody said for so long that it drains does not any more */

/* All workers there, though each one says it: a node goes back whole. */
static void node_drains(struct dp_coord *c, uint64_t now_ns, uint32_t slot)
{
    bool is_new = true;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->worker[r].slot == slot && coord_is_live(c, r)) {
            is_new = is_new && !c->worker[r].drains_ns;
            c->worker[r].drains_ns = now_ns;
        }
    if (!is_new)
        return;
    if (coord_is_fixed(c, slot))
        coord_note(c, now_ns, "Slurm drains %s, and the run stays there: it is coordinated there", c->slot[slot].label);
    else if (coord_slot_stays(c, slot))
        coord_note(c, now_ns, "Slurm drains %s, and its workers stay there: their trainer cannot leave", c->slot[slot].label);
    else
        coord_note(c, now_ns, "Slurm drains %s: its workers are to leave", c->slot[slot].label);
}

void coord_leave_asked(struct dp_coord *c, uint64_t now_ns, uint32_t rank, bool is_drained)
{
    struct coord_worker *w = rank < c->train.n_workers ? &c->worker[rank] : NULL;

    if (!w || (!coord_is_sliced(c) && !is_drained) || !c->train.has_layout || !coord_is_live(c, rank)) {
        c->reports.n_ignored++;
        return;
    }
    if (is_drained) {
        node_drains(c, now_ns, w->slot);
        return;
    }
    if (w->asked_ns)
        return;
    w->asked_ns = now_ns;
    coord_note(c, now_ns, "Slurm ends %s: worker %u asks to be let go", c->slot[w->slot].label, rank);
}

bool coord_is_to_leave(const struct dp_coord *c, uint32_t rank, bool can_wait)
{
    const struct coord_worker *w = &c->worker[rank];

    if (!coord_is_live(c, rank))
        return false;
    return w->asked_ns || (can_wait && w->drains_ns && !coord_is_fixed(c, w->slot) && !coord_slot_stays(c, w->slot));
}

bool coord_must_leave(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_to_leave(c, rank, false);
}

bool coord_should_leave(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_to_leave(c, rank, true);
}

/* returns: when the last one has asked; 0: nobody has. */
static uint64_t newest_ns(const struct dp_coord *c)
{
    uint64_t ns = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_must_leave(c, r) && c->worker[r].asked_ns > ns)
            ns = c->worker[r].asked_ns;
    return ns;
}

/* returns: why the job cannot give back the nodes that drain, NULL: it can. */
static const char *why_no_node(const struct dp_coord *c)
{
    static char text[256];

    if (coord_mode(c) != DP_MODE_RELEASE)
        return "nodes go back to Slurm in mode release only";
    if (c->job.has_stepmgr)
        return "the job has a stepmgr, and cannot shrink";
    if (!coord_shrinks_left(c))
        return "this Slurm lets a job shrink once, and it has";
    for (uint32_t r = 0; c->ops.is_outdated && r < c->train.n_workers; r++)
        if (coord_should_leave(c, r) && c->ops.is_outdated(c->arg, c->worker[r].slot, text, sizeof text))
            return text;
    return NULL;
}

/* returns: why those who are to leave are not let go, NULL: they are, in `next`. */
static const char *why_not(const struct dp_coord *c, bool can_wait, struct dp_layout *next)
{
    uint32_t n_stay = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        n_stay += coord_is_live(c, r) && !coord_is_to_leave(c, r, can_wait);
    if (coord_why_observed(c))
        return coord_why_observed(c);
    if (coord_mode(c) < DP_MODE_BALANCE)
        return "layers may not move in this mode";
    if (!coord_is_sliced(c) && why_no_node(c))
        return why_no_node(c);
    if (n_stay < c->limits.pack.min_devices)
        return coord_is_sliced(c) ? "fewer slices would be left than the user, or the site, asks for"
                                  : "fewer devices would be left than the user, or the site, asks for";
    return coord_regroup_lay_out(c, can_wait ? COORD_OFF_DRAINED : COORD_STAYING, next) < 0
               ? "the model does not fit into the memory of the others" : NULL;
}

/* Of several the first one, and how many more. */
static void say_leavers(const struct dp_coord *c, bool can_wait, char *out, size_t cap)
{
    uint32_t first = 0, n = coord_count(c, can_wait ? coord_should_leave : coord_must_leave, &first);
    const struct coord_worker *w = &c->worker[first];

    snprintf(out, cap, w->asked_ns ? "Slurm ends %s" : "Slurm drains %s", c->slot[w->slot].label);
    if (n > 1)
        snprintf(out + strlen(out), cap - strlen(out), ", and %u more", n - 1);
}

static int begin(struct dp_coord *c, uint64_t now_ns, bool can_wait, const struct dp_layout *next)
{
    struct dp_err err;
    char reason[200];

    say_leavers(c, can_wait, reason, sizeof reason);
    return coord_migrate_begin(c, now_ns, next, reason, &err);
}

static void forget_drains(struct dp_coord *c, uint64_t now_ns)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->worker[r].drains_ns && now_ns > c->worker[r].drains_ns + DRAIN_NS) /* it may be of this very turn, and later */
            c->worker[r].drains_ns = 0;
}

/* Where the others could not do without them, they stay for as long as they may. */
static void leave_drained(struct dp_coord *c, uint64_t now_ns)
{
    struct dp_layout next;
    const char *why;

    if (!coord_count(c, coord_should_leave, NULL)) {
        c->leave.why[0] = '\0';
        return;
    }
    if (coord_promise_is_deciding(c))
        return;
    why = c->life.is_paused ? "the run is paused" : why_not(c, true, &next);
    if (!why && begin(c, now_ns, true, &next) == 0)
        return;
    if (why && strncmp(c->leave.why, why, sizeof c->leave.why - 1))
        coord_note(c, now_ns, "%s stay on a node that Slurm drains: %s", coord_is_sliced(c) ? "slices" : "workers", why);
    snprintf(c->leave.why, sizeof c->leave.why, "%s", why ? why : "");
    c->leave.tried_ns = now_ns;
}

static void ask_stop(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    if (c->worker[dp_layout_leader(&c->layout)].is_connected)
        coord_ask_save(c, true);
    if (!c->leave.is_stop_noted)
        coord_note(c, now_ns, "all save and stop: %s", why);
    c->leave.is_stop_noted = true;
}

void dp_coord_stop(struct dp_coord *c, const char *why)
{
    snprintf(c->leave.stop_why, sizeof c->leave.stop_why, "%s", why);
}

static bool is_companion(const struct dp_job_info *job, uint32_t slice)
{
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (job->slice[i] == slice)
            return job->is_companion[i];
    return false;
}

void coord_leave_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    c->leave.read_ns = now_ns;
    c->leave.is_preempted = job->is_preempted;
    c->leave.n_tasks_stay = 0;
    for (uint32_t r = 0; r < c->train.n_workers && coord_is_sliced(c); r++)
        c->leave.n_tasks_stay += coord_is_live(c, r) && !coord_must_leave(c, r) && !is_companion(job, c->slot[c->worker[r].slot].slice);
}

/* When those asked whom its user submitted, who gets companions by that. One job: home. An array: all tasks, which are those that Slurm
 * does not show as companions. 0: they have not, or others that stay may be tasks of an array, too. */
static uint64_t own_asked_ns(const struct dp_coord *c)
{
    if (c->job.array_job_id)
        return c->limits.growth.max_gpus ? newest_ns(c) : 0;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_must_leave(c, r) && c->slot[c->worker[r].slot].slice == c->job.job_id)
            return c->worker[r].asked_ns;
    return 0;
}

/* Its user ends it, and means the run; or Slurm wants its place for another job, and the run can go on: Slurm is asked. returns 1: the
 * run is meant; 0: it is not; -1: not known yet. */
static int is_run_meant(struct dp_coord *c, uint64_t now_ns)
{
    uint64_t asked_ns = own_asked_ns(c);
    bool is_array = c->job.array_job_id;

    if (!asked_ns)
        return 0;
    if (c->leave.read_ns > asked_ns)
        return !c->leave.is_preempted && (!is_array || !c->leave.n_tasks_stay);
    if (!c->leave.ask_ns || now_ns - c->leave.ask_ns > GATHER_NS) {
        c->leave.ask_ns = now_ns;
        c->ops.read_job(c->arg);
    }
    return now_ns - asked_ns > WHY_NS ? !is_array : -1;
}

void coord_leave_tick(struct dp_coord *c, uint64_t now_ns)
{
    uint64_t asked_ns = newest_ns(c);
    struct dp_layout next;
    const char *why;
    int is_meant;

    if (!c->train.has_layout || c->life.failed[0] || c->train.is_completed || !coord_migrate_is_idle(c) ||
        (c->leave.tried_ns && now_ns - c->leave.tried_ns < AGAIN_NS))
        return;
    forget_drains(c, now_ns);
    if (c->leave.stop_why[0]) {
        ask_stop(c, now_ns, c->leave.stop_why);
        c->leave.tried_ns = now_ns;
        return;
    }
    if (!asked_ns) {
        leave_drained(c, now_ns);
        return;
    }
    is_meant = is_run_meant(c, now_ns);
    if (is_meant < 0 || now_ns < asked_ns + GATHER_NS)
        return;
    why = !is_meant ? why_not(c, false, &next) : c->job.array_job_id ? "all tasks of the array are to end"
                                                                      : "the job that asked for the slices is to end";
    if (!why) {
        if (begin(c, now_ns, false, &next) == 0)
            return;
    } else {
        ask_stop(c, now_ns, why);
    }
    c->leave.tried_ns = now_ns;
}

void coord_leave_tell(const struct dp_coord *c, uint32_t slot, char *out, size_t cap)
{
    bool drains = false;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        drains |= c->worker[r].slot == slot && c->worker[r].drains_ns && coord_is_live(c, r);
    if (drains && coord_is_fixed(c, slot))
        snprintf(out, cap, "Slurm drains it; the run stays: it is coordinated there");
    else if (drains && c->leave.why[0])
        snprintf(out, cap, "Slurm drains it; its workers stay: %s", c->leave.why);
    else if (drains)
        snprintf(out, cap, "Slurm drains it: its workers are to leave");
}
