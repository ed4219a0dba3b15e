/* SPDX-License-Identifier: BSD-3-Clause */
/* From loads to a decision: what plan.c is asked, reference, verdict on its answer, log.
 *
 * Runs when every worker that holds layers has reported often enough since the last change, and again
 * with each new set of reports. Whatever takes longer the more workers, layers or microbatches a run says
 * that it has is worked out in the child: here are counters and one pass over the workers. A policy that
 * fails or does not answer leaves the layout in force and is asked again later and later. All predictions
 * come from one model (policies/predict/predict.h), so the reference is a prediction, too: of the start layout
 * with the loads before the first change. What it misses (overheads, shared cores) it misses on both sides of the
 * comparison.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECIDE_EVERY_NS (DP_SECOND_NS / 2) /* reports come at most every 250 ms (member.c), and a decision takes a child */
#define REFERENCE_MAX 16             /* snapshots, in a run of which no change is known to come */
#define PLAN_S 30.0                  /* for packing and its predictions, besides the policy's own time */
#define RETRY_MAX_S 300u             /* longest wait after failures of the policy */
#define REST_FACTOR 3                /* so many times as long as the last plan took, before the next one */

static bool is_wanted(const struct dp_coord *c, uint64_t now_ns)
{
    if (coord_mode(c) == DP_MODE_OFF || !c->train.has_layout || c->life.failed[0] || c->train.is_completed || c->stall.is_stalled)
        return false;
    if (c->planning || now_ns < c->next_decision_ns || !coord_migrate_is_idle(c) || coord_promise_is_deciding(c))
        return false;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->layout.gone[r] && !(coord_is_live(c, r) && c->worker[r].is_known))
            return false;
    return coord_loads_ready(c);
}

/* --- the reference: iteration and device speeds before anything was pruned or frozen --- */

static void keep_early(struct dp_coord *c)
{
    c->reference.early.is_set = true;
    c->reference.early.is_unmoved = !c->last_commit_id;
    c->reference.early.layout = c->layout;
    for (uint32_t l = 0; l < c->train.n_layers; l++) {
        c->reference.early.load[l] = c->layer[l].load;
        c->reference.early.opt_ns[l] = c->layer[l].opt_ns;
    }
}

/* Follows the run until its first change (first reports are slow), then stays. */
static void plan_reference(struct dp_coord *c, struct coord_planning *q)
{
    uint64_t first = coord_first_change(c);
    bool is_early = !coord_is_changed(c) && (first < UINT64_MAX ? c->train.step < first : c->reference.n_snapshots < REFERENCE_MAX);

    if (c->reference.is_final)
        return;
    if (c->reference.ns && !is_early) {
        c->reference.step_ns = coord_steady_step_ns(c);
        c->reference.is_final = coord_journal_reference(c) == 0;
        return;
    }
    q->wants_reference = true;
    if (is_early)
        keep_early(c);
}

static void take_reference(struct dp_coord *c, const struct coord_plan *t)
{
    c->reference.ns = t->reference_ns;
    if (!c->last_commit_id || !c->reference.n_snapshots)
        c->reference.step_ns = coord_steady_step_ns(c) ? coord_steady_step_ns(c) : c->step_ns;
    if (!c->reference.n_snapshots++)
        (void)coord_journal_reference(c); /* again, with better numbers, at the first change */
}

/* What the child worked out whatever came of the proposal. */
static void take_predictions(struct dp_coord *c, struct coord_planning *q, const struct coord_plan *t)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        c->worker[r].speed = t->speed[r];
        c->worker[r].predicted_busy_ns = t->stage_ns[r];
    }
    if (q->wants_reference && t->reference_ns)
        take_reference(c, t);
    c->trend = t->trend;
    q->d.noise = t->noise;
    if (q->n_changed == c->n_changed) /* else that was of other layers */
        c->noise = t->noise;
    c->predicted.ns = t->current_ns;
    c->predicted.start_ns = t->start_ns;
    c->predicted.balanced_ns = t->balanced_ns;
    c->predicted.epoch = q->epoch;
    c->predicted.beside_ns = q->beside_ns;
    c->predicted.left_mean = t->left_mean;
    c->trade = t->trade;
    q->d.current_ns = t->basis_ns;
    q->d.is_corrected = t->is_corrected;
    q->d.measured_ns = t->measured.ns;
    q->d.expected_ns = t->most_ns;
    q->d.allowed_ns = t->allowed_ns;
}

/* --- the proposal --- */

static uint32_t slots_in_use(const struct dp_coord *c)
{
    uint8_t is_used[DP_MAX_SLOTS] = {0};
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->layout.gone[r] && !is_used[c->worker[r].slot]) {
            is_used[c->worker[r].slot] = 1;
            n++;
        }
    return n;
}

static double imbalance_now(const struct dp_coord *c)
{
    double min = 0.0, max = 0.0, sum = 0.0;
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        double busy = (double)c->worker[r].busy_ns;

        if (c->layout.cut[r + 1] == c->layout.cut[r])
            continue;
        min = !n || busy < min ? busy : min;
        max = busy > max ? busy : max;
        sum += busy;
        n++;
    }
    return sum > 0.0 ? (max - min) / (sum / n) : 0.0;
}

/* By the hand-overs of this run: where layers are copied while it trains, its pause is that of the switch alone. */
static struct dp_move_cost move_cost(const struct dp_coord *c)
{
    struct dp_moved moved[COORD_HANDOVERS];
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->history.n_handovers && i < COORD_HANDOVERS; i++) {
        const struct coord_handover *h = &c->history.handover[(c->history.n_handovers - 1 - i) % COORD_HANDOVERS];

        if (h->is_committed && !h->is_regroup)
            moved[n++] = (struct dp_moved){h->pause_max_ns, h->transfer_max_ns, h->copying_max_ns, h->moved_bytes};
    }
    return dp_next_move_cost(moved, n, c->limits.link_bytes_per_s);
}

static uint64_t cooldown_left_ns(const struct dp_coord *c, uint64_t now_ns)
{
    uint64_t cooldown = (uint64_t)(c->limits.cooldown_s * 1e9), since = now_ns - c->last_change_ns;

    return c->history.n_handovers && since < cooldown ? cooldown - since : 0;
}

static void choose_move(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, struct coord_decision *d)
{
    const struct dp_policy_out *out = &t->out;
    struct dp_decide_in in = {.current_ns = d->current_ns, .proposed_ns = out->iteration_ns,
                              .is_corrected = d->is_corrected,
                              .limit_ns = d->limit_ns, .slots_now = d->slots_now,
                              .slots_after = d->slots_after,
                              .is_sliced = coord_is_sliced(c),
                              .moved_layers = t->moved_layers,
                              .moved_bytes = t->moved_bytes,
                              .move = move_cost(c),
                              .steps_left = c->train.steps_total > c->train.step ? c->train.steps_total - c->train.step : 0,
                              .hysteresis = c->limits.hysteresis,
                              .cooldown_left_ns = cooldown_left_ns(c, now_ns),
                              .noise = t->noise,
                              .n_wins = c->n_wins + 1};

    if (d->slots_after >= d->slots_now)
        in.pause_left_ns = coord_balance_pause_ns(c, now_ns, t);
    dp_decide(&in, &d->out);
    c->n_wins = d->out.is_better ? in.n_wins : 0; /* begins anew with another layout */
    if (d->slots_after >= d->slots_now && in.moved_layers && d->out.gain_percent >= in.hysteresis)
        coord_balance_wished(c, now_ns);
    d->proposed_ns = in.proposed_ns;
    d->moved_layers = in.moved_layers;
    d->moved_bytes = in.moved_bytes;
    d->devices_after = dp_layout_active(&out->layout);
    /* A policy says "ms", and does not know of what. */
    snprintf(d->policy_reason, sizeof d->policy_reason, "%s time: %.230s", t->is_corrected ? "corrected" : "device", out->reason);
    dp_layout_format(&out->layout, d->layout, sizeof d->layout);
}

/* Two answers "stay" for the same reason are one line in the log, with the newest numbers. */
static bool is_repetition(const struct coord_decision *a, const struct coord_decision *b)
{
    size_t n = strcspn(a->out.reason, "0123456789");

    return a->out.verdict == DP_STAY && b->out.verdict == DP_STAY && !strncmp(a->out.reason, b->out.reason, n) &&
           n == strcspn(b->out.reason, "0123456789");
}

static void log_decision(struct dp_coord *c, const struct coord_decision *d)
{
    struct coord_decision *last = c->history.n_decisions ? &c->history.decision[(c->history.n_decisions - 1) % COORD_DECISIONS] : NULL;

    if (last && is_repetition(last, d)) {
        uint64_t first = last->first_ns;
        uint32_t count = last->count;

        *last = *d;
        last->first_ns = first;
        last->count = count + 1;
        return;
    }
    c->history.decision[c->history.n_decisions++ % COORD_DECISIONS] = *d;
}

/* What came of a decision to move, at the end of its reason. */
static void remark(struct coord_decision *d, const char *text)
{
    size_t n = strlen(d->out.reason);

    snprintf(d->out.reason + n, sizeof d->out.reason - n, " [%.150s]", text);
}

static void move(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, struct coord_decision *d)
{
    enum coord_way way;
    struct dp_layout first;
    struct dp_err err;
    char why[160];

    way = coord_promise_plan(c, now_ns, &t->out.layout, t, &first, why, sizeof why);
    if (way == WAY_WAIT) {
        remark(d, why);
        return;
    }
    if (way == WAY_TRIAL)
        remark(d, "first measured, then they leave");
    if (coord_migrate_begin(c, now_ns, &first, d->out.reason, &err) < 0) {
        snprintf(why, sizeof why, "not done: %.100s", err.text);
        remark(d, why);
        return;
    }
    coord_promise_begun(c);
    d->is_applied = true;
}

static void apply(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, struct coord_decision *d)
{

    if (d->out.verdict != DP_MOVE)
        return;
    if (coord_why_observed(c))
        remark(d, coord_why_observed(c));
    else if (coord_mode(c) == DP_MODE_OBSERVE)
        remark(d, "observed only");
    else if (c->life.is_paused)
        remark(d, "paused");
    else
        move(c, now_ns, t, d);
}

static void stay(struct dp_coord *c, struct coord_decision *d, const char *why)
{
    snprintf(d->out.reason, sizeof d->out.reason, "stay: %.240s", why);
    log_decision(c, d);
}

/* Asked again after 1, 2, 4 ... s, so that a policy that hangs does not keep a core busy. */
static void policy_failed(struct dp_coord *c, uint64_t now_ns, struct coord_decision *d, const char *why)
{
    uint64_t wait_s = c->n_policy_failures < 9 ? 1ull << c->n_policy_failures : RETRY_MAX_S;

    c->next_decision_ns = now_ns + (wait_s < RETRY_MAX_S ? wait_s : RETRY_MAX_S) * DP_SECOND_NS;
    if (!c->n_policy_failures++)
        coord_note(c, now_ns, "the layout stays, no decision: %.200s", why);
    stay(c, d, why);
}

/* Is what was asked about still so? */
static bool still_holds(const struct dp_coord *c, const struct coord_planning *q)
{
    if (c->life.is_over || !c->train.has_layout || c->life.failed[0] || c->train.is_completed || c->stall.is_stalled)
        return false;
    if (c->train.step_id != q->step_id || c->layout.epoch != q->epoch || !coord_migrate_is_idle(c) ||
        coord_memory_kept_mb(c) != q->memory_mb)
        return false;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->layout.gone[r] && !coord_is_live(c, r))
            return false;
    return true;
}

/* A proposal: it passed dp_policy_run() in the child, and is looked at again before anybody moves. */
static void conclude(struct dp_coord *c, uint64_t now_ns, struct coord_planning *q, const struct coord_plan *t)
{
    struct coord_decision *d = &q->d;
    struct dp_err err;

    if (dp_layout_check(&t->out.layout, &err) < 0 || t->out.layout.epoch != q->epoch ||
        t->out.layout.n_workers != c->train.n_workers || t->out.layout.n_layers != c->train.n_layers) {
        policy_failed(c, now_ns, d, "the proposal is not a layout of this run");
        return;
    }
    if (c->n_policy_failures)
        coord_note(c, now_ns, "policy %s answers again", c->policy->name);
    c->n_policy_failures = 0;
    d->limit_ns = t->limit_ns;
    d->fastest_ns = t->fastest_ns;
    d->slots_after = t->slots_after;
    memcpy(d->pack_reason, t->pack_reason, sizeof d->pack_reason);
    memcpy(d->release_reason, t->release_reason, sizeof d->release_reason);
    choose_move(c, now_ns, t, d);
    if (coord_mode(c) == DP_MODE_OBSERVE)
        coord_proposal_made(c, now_ns, t, d->out.verdict == DP_MOVE ? &t->out.layout : &c->layout);
    /* Before a layer moves: where noise moves layers as often as there are measurements, growth would wait for ever. */
    if (d->slots_after >= d->slots_now)
        coord_grow_planned(c, now_ns, t, d->slots_now, d->out.cost_s);
    apply(c, now_ns, t, d);
    log_decision(c, d);
}

/* A run that needs long plans gets them seldom: no user keeps a core of this node busy with his numbers. */
static void rest(struct dp_coord *c, uint64_t now_ns, const struct coord_planning *q)
{
    uint64_t earliest_ns = now_ns + REST_FACTOR * (now_ns - q->d.first_ns);

    if (earliest_ns > c->next_decision_ns)
        c->next_decision_ns = earliest_ns;
}

void dp_coord_planned(struct dp_coord *c, uint64_t now_ns, const uint8_t *result, size_t bytes, const char *why)
{
    struct coord_planning *q = c->planning;
    struct coord_plan t;
    char text[256];

    c->planning = NULL;
    if (q)
        rest(c, now_ns, q);
    if (q && still_holds(c, q)) {
        q->d.last_ns = now_ns;
        q->d.current_ns = c->predicted.ns; /* until the answer knows better */
        if (!result || bytes != sizeof t) {
            snprintf(text, sizeof text, "policy %s: %.160s", c->policy->name, result ? "answer of a wrong size" : why);
            policy_failed(c, now_ns, &q->d, text);
        } else {
            memcpy(&t, result, sizeof t);
            take_predictions(c, q, &t);
            coord_promise_planned(c, now_ns, &t);
            if (t.rc == 0)
                conclude(c, now_ns, q, &t);
            else if (dp_policy_is_broken(&(struct dp_err){.code = t.code}))
                policy_failed(c, now_ns, &q->d, t.why);
            else
                stay(c, &q->d, t.why);
        }
    }
    free(q);
}

/* returns -1 when nobody can be asked. */
static int ask(struct dp_coord *c, uint64_t now_ns, struct coord_planning *q)
{
    struct coord_decision *d = &q->d;
    struct dp_err err;
    int rc;

    *d = (struct coord_decision){.first_ns = now_ns, .last_ns = now_ns, .step = c->train.step, .count = 1};
    plan_reference(c, q);
    d->slots_now = slots_in_use(c);
    d->imbalance = imbalance_now(c);
    q->epoch = c->layout.epoch;
    q->beside_ns = coord_step_beside_loads_ns(c);
    q->n_changed = c->n_changed;
    q->step_id = c->train.step_id;
    q->memory_mb = coord_memory_kept_mb(c);
    c->planning = q;
    rc = c->ops.plan(c->arg, PLAN_S + (c->site ? c->site->timeout_s : 0.0), &err);
    if (rc == 0)
        return 0;
    c->planning = NULL;
    if (rc < 0)
        stay(c, d, err.text);
    return -1;
}

void coord_decide_tick(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_planning *q;

    if (!is_wanted(c, now_ns))
        return;
    q = calloc(1, sizeof *q);
    if (!q)
        return; /* no decision is a decision to stay */
    c->next_decision_ns = now_ns + DECIDE_EVERY_NS * (1 + c->train.n_workers / 64); /* large runs: a second of CPU */
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        c->worker[r].is_fresh = false;
    if (ask(c, now_ns, q) < 0)
        free(q);
}
