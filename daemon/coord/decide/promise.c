/* SPDX-License-Identifier: BSD-3-Clause */
/* What was promised of a layout, and what came of it.
 *
 * Before a slot is given up, its layers leave it and nobody else does: an ordinary hand-over, which another
 * one can take back. Only when the step that is measured then is what the reference allows do the workers
 * leave, by a second hand-over that moves nothing. So a prediction that was wrong costs seconds and no node.
 * After every other move the step is measured, too, and as long as nodes are gone it is watched.
 *
 * A miss stops packing; balancing goes on, or pauses (balance.c). A miss counts as understood when
 * corrected predictions explain what is measured, in two windows of measurements that they were not made from,
 * and when a pause is over that doubles with every miss of packing in a row. `dynpipe resume` lifts it at once. That
 * packing is stopped is journalled, and what predictions are corrected by (balance.c); what is measured is measured
 * again after a restart, so a trial that a restart interrupts is judged anew.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

#define PAUSE_S 10u /* doubled with every promise of packing that is missed in a row */
#define PAUSE_DOUBLINGS 8u    /* 43 minutes */
#define RETRY_NS (2 * DP_SECOND_NS) /* of a hand-over that could not begin, or was aborted */
#define EXPLAINED 2           /* windows */
#define MS(ns) ((double)(ns) / 1e6)

/* --- a miss --- */

static void missed(struct dp_coord *c, uint64_t now_ns, const char *what, bool is_of_packing)
{
    struct coord_promise *p = &c->promise;
    uint32_t doublings = p->n_missed < PAUSE_DOUBLINGS ? p->n_missed : PAUSE_DOUBLINGS;
    uint64_t until_ns = now_ns + (uint64_t)(PAUSE_S << (is_of_packing ? doublings : 0)) * DP_SECOND_NS;

    p->is_stopped = true;
    p->n_missed += is_of_packing;
    p->until_ns = until_ns > p->until_ns ? until_ns : p->until_ns;
    p->n_learned = p->n_explained = 0;
    snprintf(p->why, sizeof p->why, "%.160s: %.80s", what, p->out.text);
    coord_note(c, now_ns, "promise missed, packing stops: %s", p->why);
    (void)coord_journal_promise(c, now_ns); /* without it a restart packs, and measures again */
}

static void lift(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    c->promise.is_stopped = false;
    coord_note(c, now_ns, "packing may go on: %.200s", why);
    (void)coord_journal_promise(c, now_ns); /* without it a restart stops until all is understood */
}

void coord_promise_resume(struct dp_coord *c, uint64_t now_ns)
{
    coord_balance_resume(c);
    c->promise.n_missed = 0;
    c->promise.until_ns = 0;
    if (!c->promise.is_stopped)
        return;
    lift(c, now_ns, "requested on the command line");
}

/* --- a move is planned, begun, committed --- */

static void keep_usual(struct coord_promise *p, const struct dp_correction *k)
{
    p->has_usual = true;
    p->usual = *k;
}

static void pledge(struct dp_coord *c, const struct coord_plan *t)
{
    struct coord_pledge *p = &c->promise.next;
    struct dp_measured now;

    coord_measured(c, &now);
    memset(p, 0, sizeof *p);
    p->predicted_ns = t->out.iteration_ns;
    p->expected_ns = t->most_ns;
    p->allowed_ns = t->allowed_ns;
    p->before_ns = now.ns;
    p->back = c->layout;
    if (!c->promise.is_stopped && !c->promise.is_corrected && t->measured.n)
        keep_usual(&c->promise, &t->learned);
}

/* The slots that it gives up have no layers, so the step without them is measured already. */
static enum coord_way plan_leave(struct dp_coord *c, uint64_t now_ns, char *why, size_t cap)
{
    struct coord_promise *p = &c->promise;
    struct dp_promise_in in = {.allowed_ns = p->next.allowed_ns};
    struct dp_promise_out out;

    coord_measured(c, &in.now);
    dp_promise_judge(&in, &out);
    p->next.expected_ns = in.now.ns;
    if (out.verdict == DP_PROMISE_KEPT)
        return WAY_GO;
    snprintf(why, cap, "%.150s", out.text);
    if (out.verdict == DP_PROMISE_MISSED) {
        p->out = out;
        missed(c, now_ns, coord_is_sliced(c) ? "no slice is given up" : "no node is given up", true);
    }
    return WAY_WAIT;
}

/* One move after the other: who moves again before it is known what came of it never knows. And a move that goes
 * back rests on predictions that have proved right since, not on those that were just refuted. */
static enum coord_way plan_balance(const struct dp_coord *c, const struct dp_layout *next, const struct coord_plan *t,
                                   char *why, size_t cap)
{
    const struct coord_promise *p = &c->promise;

    if (c->balance.before.n_workers && p->verdict == DP_PROMISE_OPEN && t->measured.n < DP_PROMISE_WINDOW) {
        snprintf(why, cap, "hand-over %llu is not judged yet: %u of %d measurements are there",
                 (unsigned long long)c->last_commit_id, t->measured.n, DP_PROMISE_WINDOW);
        return WAY_WAIT;
    }
    if (c->balance.n && c->balance.next.is_counted && p->n_explained < EXPLAINED && coord_balance_takes_back(c, next)) {
        snprintf(why, cap, "it takes back what hand-over %llu moved: predictions were right %u times of %d since",
                 (unsigned long long)c->last_commit_id, p->n_explained, EXPLAINED);
        return WAY_WAIT;
    }
    return WAY_GO;
}

enum coord_way coord_promise_plan(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next,
                                  const struct coord_plan *t, struct dp_layout *first, char *why, size_t cap)
{
    struct coord_promise *p = &c->promise;

    *first = *next;
    pledge(c, t);
    coord_balance_plan(c, t, !memcmp(next->gone, c->layout.gone, c->train.n_workers));
    if (c->balance.next.is_balancing)
        return plan_balance(c, next, t, why, cap);
    if (p->is_stopped) {
        snprintf(why, cap, "packing is stopped");
        return WAY_WAIT;
    }
    if (!dp_layout_moves(&c->layout, next, NULL))
        return plan_leave(c, now_ns, why, cap);
    if (t->measured.n < DP_PROMISE_WINDOW) { /* what is expected and allowed rests on them */
        snprintf(why, cap, "%u of %d measurements are there", t->measured.n, DP_PROMISE_WINDOW);
        return WAY_WAIT;
    }
    p->next.is_trial = true;
    memcpy(p->next.leave, next->gone, sizeof p->next.leave);
    memcpy(first->gone, c->layout.gone, sizeof first->gone);
    return WAY_TRIAL;
}

void coord_promise_begun(struct dp_coord *c)
{
    c->promise.next.id = c->mig.id;
}

void coord_promise_committed(struct dp_coord *c, uint64_t now_ns, struct coord_handover *h)
{
    struct coord_promise *p = &c->promise;

    if (p->next.id == c->mig.id) {
        p->now = p->next;
    } else { /* by hand: nothing was promised but what holds for all layouts */
        memset(&p->now, 0, sizeof p->now);
        coord_balance_keep(c);
    }
    coord_balance_committed(c, now_ns);
    p->verdict = DP_PROMISE_OPEN;
    memset(&p->out, 0, sizeof p->out);
    p->is_backing = false;
    p->n_watched = p->n_learned = p->n_explained = 0;
    p->tried_ns = 0;
    h->predicted_ns = p->now.predicted_ns;
    h->expected_ns = p->now.expected_ns;
    h->allowed_ns = p->now.allowed_ns;
}

bool coord_promise_is_deciding(const struct dp_coord *c)
{
    return c->promise.now.is_trial || c->promise.is_backing;
}

/* --- what came of it --- */

static bool has_gone(const struct dp_coord *c)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->layout.gone[r])
            return true;
    return false;
}

static void tell_handover(struct dp_coord *c, uint64_t measured_ns)
{
    for (uint32_t i = 0; i < c->history.n_handovers && i < COORD_HANDOVERS; i++) {
        struct coord_handover *h = &c->history.handover[(c->history.n_handovers - 1 - i) % COORD_HANDOVERS];

        if (h->is_committed && h->id == c->last_commit_id) {
            h->measured_ns = measured_ns;
            h->promise = c->promise.verdict;
            return;
        }
    }
}

static bool is_longer_than_before(const struct coord_promise *p, const struct dp_measured *now)
{
    return p->now.before_ns && now->ns > p->now.before_ns && !dp_promise_explains(now, p->now.before_ns);
}

static void move_missed(struct dp_coord *c, uint64_t now_ns)
{
    char what[64];

    snprintf(what, sizeof what, "hand-over %llu%s", (unsigned long long)c->last_commit_id,
             c->promise.now.is_trial ? ", a trial" : "");
    missed(c, now_ns, what, !c->balance.now.is_balancing);
}

static void end_trial(struct dp_coord *c, const struct dp_measured *now)
{
    c->promise.now.is_trial = false;
    c->promise.is_backing = is_longer_than_before(&c->promise, now);
}

/* The first verdict after a move. */
static void judge_move(struct dp_coord *c, uint64_t now_ns, const struct dp_measured *now)
{
    struct coord_promise *p = &c->promise;
    struct dp_promise_in in = {*now, p->now.expected_ns, p->now.allowed_ns};

    if (!p->now.id)
        in.allowed_ns = has_gone(c) ? p->allowed_ns : 0;
    if (!in.expected_ns && !in.allowed_ns && !p->now.is_trial)
        return;
    dp_promise_judge(&in, &p->out);
    if (p->out.verdict == DP_PROMISE_OPEN)
        return;
    p->verdict = p->out.verdict;
    p->n_watched = c->recent.n;
    tell_handover(c, now->ns);
    if (p->verdict == DP_PROMISE_MISSED)
        move_missed(c, now_ns);
    if (p->out.is_unexpected)
        coord_balance_missed(c, now_ns);
    if (!p->now.is_trial)
        return;
    if (!p->out.is_too_slow) {
        p->n_missed = p->verdict == DP_PROMISE_KEPT ? 0 : p->n_missed;
        return; /* leave() */
    }
    end_trial(c, now);
}

/* It was kept, and still is? A pause, or a hand-over that could not begin, may lie between that and leaving. */
static bool is_still_allowed(struct dp_coord *c, uint64_t now_ns, const struct dp_measured *now)
{
    struct coord_promise *p = &c->promise;
    struct dp_promise_in in = {*now, p->now.expected_ns, p->now.allowed_ns};
    struct dp_promise_out out;

    dp_promise_judge(&in, &out);
    if (!out.is_too_slow)
        return true;
    p->out = out;
    p->verdict = out.verdict;
    tell_handover(c, now->ns);
    move_missed(c, now_ns);
    end_trial(c, now);
    return false;
}

/* Later, for as long as nodes are gone: a neighbour may come at any time. */
static void watch(struct dp_coord *c, uint64_t now_ns, const struct dp_measured *now)
{
    struct coord_promise *p = &c->promise;
    struct dp_promise_in in = {*now, 0, p->allowed_ns};
    bool was_too_slow = p->out.is_too_slow;
    struct dp_promise_out out;

    if (!in.allowed_ns || c->recent.n - p->n_watched < COORD_RECENT || !has_gone(c))
        return;
    p->n_watched = c->recent.n;
    dp_promise_judge(&in, &out);
    if (out.verdict == DP_PROMISE_KEPT && !p->is_stopped && !p->is_corrected)
        keep_usual(p, &p->newest);
    if (out.verdict == DP_PROMISE_KEPT && !was_too_slow)
        return; /* what was said of the move stays */
    p->out = out;
    p->verdict = out.verdict;
    if (out.verdict == DP_PROMISE_MISSED && !was_too_slow)
        missed(c, now_ns, coord_is_sliced(c) ? "slices were given back" : "nodes were given back", true);
    else if (out.verdict == DP_PROMISE_KEPT)
        coord_note(c, now_ns, "promise kept again: %s", out.text);
}

/* --- a trial goes on, or back --- */

static void begin(struct dp_coord *c, uint64_t now_ns, const struct dp_layout *next, const char *reason)
{
    struct dp_err err;

    c->promise.tried_ns = now_ns;
    coord_balance_keep(c);
    if (coord_migrate_begin(c, now_ns, next, reason, &err) == 0)
        coord_promise_begun(c);
}

static void leave(struct dp_coord *c, uint64_t now_ns, const struct dp_measured *now)
{
    struct coord_promise *p = &c->promise;
    struct dp_layout next = c->layout;
    char reason[256];
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (p->now.leave[r] && !next.gone[r] && next.cut[r + 1] == next.cut[r] &&
            c->slot[c->worker[r].slot].state == SLOT_ACTIVE) {
            next.gone[r] = 1;
            n++;
        }
    if (!n || !coord_shrinks_left(c)) { /* slots that left before may have used up the last one meanwhile */
        p->now.is_trial = false;
        return;
    }
    p->next = p->now;
    p->next.is_trial = false;
    p->next.expected_ns = now->ns;
    if (n == 1)
        snprintf(reason, sizeof reason, "move: 1 worker without layers leaves; measured without it, %.150s", p->out.text);
    else
        snprintf(reason, sizeof reason, "move: %u workers without layers leave; measured without them, %.150s", n, p->out.text);
    begin(c, now_ns, &next, reason);
}

static void go_back(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_promise *p = &c->promise;
    struct dp_layout next = c->layout;
    char reason[256];

    memcpy(next.cut, p->now.back.cut, sizeof next.cut);
    memset(&p->next, 0, sizeof p->next);
    snprintf(reason, sizeof reason, "move: back to the layout before the trial; %.180s", p->out.text);
    begin(c, now_ns, &next, reason);
}

void coord_promise_tick(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_promise *p = &c->promise;
    struct dp_measured now;

    if (!c->train.has_layout || !c->last_commit_id || !coord_migrate_is_idle(c) || c->life.failed[0] || c->train.is_completed)
        return;
    coord_balance_tick(c, now_ns);
    coord_measured(c, &now);
    if (p->verdict == DP_PROMISE_OPEN)
        judge_move(c, now_ns, &now);
    else
        watch(c, now_ns, &now);
    if (c->life.is_paused || now_ns - p->tried_ns < RETRY_NS)
        return;
    if (p->is_backing)
        go_back(c, now_ns);
    else if (p->now.is_trial && p->verdict != DP_PROMISE_OPEN && is_still_allowed(c, now_ns, &now))
        leave(c, now_ns, &now);
}

/* --- what is learned --- */

static void describe(const struct dp_coord *c, const struct dp_correction *k, char *out, size_t cap)
{
    const struct dp_link_time *slow = NULL;
    uint32_t n = 0, worst = 0;
    size_t used;

    for (uint32_t i = 0; i < k->links.n; i++)
        if (k->links.link[i].ns > (slow ? slow->ns : 0))
            slow = &k->links.link[i];
    for (uint32_t s = 0; s < c->n_slots; s++) {
        n += k->slot[s] > 1.0;
        worst = k->slot[s] > k->slot[worst] ? s : worst;
    }
    if (n)
        snprintf(out, cap, "others have cores of %u %ss, %s takes %.1f times its device time", n, coord_slot_word(c), c->slot[worst].label,
                 k->slot[worst]);
    else
        snprintf(out, cap, "no %s shares its cores", coord_slot_word(c));
    used = strlen(out);
    if (slow)
        used += (size_t)snprintf(out + used, cap - used, ", a message between %s and %s %.2f ms longer", c->slot[slow->a].label,
                                 c->slot[slow->b].label, MS(slow->ns));
    if (used < cap && k->link_ns)
        snprintf(out + used, cap - used, ", each message %.2f ms longer", MS(k->link_ns));
}

static void learn(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t)
{
    struct coord_promise *p = &c->promise;
    char text[320];

    p->correction = t->learned;
    p->n_explained = 0;
    p->is_corrected = p->is_stopped || c->balance.n || !dp_correction_is_neutral(&p->correction, c->n_slots);
    describe(c, &p->correction, text, sizeof text);
    coord_note(c, now_ns, "predictions are corrected: %s", text);
    (void)coord_journal_balance(c);
}

void coord_promise_planned(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t)
{
    struct coord_promise *p = &c->promise;

    p->allowed_ns = t->allowed_ns ? t->allowed_ns : p->allowed_ns;
    if (t->measured.n < DP_PROMISE_WINDOW)
        return;
    p->newest = t->learned;
    if (!p->is_stopped && !p->is_corrected)
        return;
    if (p->n_learned && c->recent.n - p->n_learned < COORD_RECENT)
        return;
    p->n_learned = c->recent.n;
    if (!p->is_corrected || !dp_promise_explains(&t->measured, t->believed_ns)) {
        learn(c, now_ns, t);
        return;
    }
    p->n_explained++;
    if (p->is_stopped && p->n_explained >= EXPLAINED && now_ns >= p->until_ns)
        lift(c, now_ns, "the corrected predictions explain what is measured");
}
