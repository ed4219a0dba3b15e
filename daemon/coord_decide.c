/* From loads to a decision: snapshot, reference, policy and packing, verdict, log.
 *
 * Runs when every worker that holds layers has reported often enough since the last change, and again
 * with each new set of reports. All predictions come from one model (policies/sim/predict.h), so the
 * reference is a prediction, too: of the start layout with the loads before pruning. What it misses
 * (overheads, shared cores) it misses on both sides of the comparison.
 */
#include "daemon/coord_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECIDE_EVERY_NS (SECOND / 2)
#define FIXED_PAUSE_NS (SECOND / 2) /* of a hand-over, before one was measured */
#define REFERENCE_MAX 16             /* snapshots, in a run without pruning */
#define MANY_WORKERS 32
#define SAME_SPEED 1.4               /* closer devices count as equal: noise must not look like hardware */

struct snapshot {
    struct dp_layer_load layer[DP_MAX_LAYERS];
    uint64_t opt[DP_MAX_LAYERS];
    struct dp_device device[DP_MAX_WORKERS];
    struct dp_policy_in in;
    struct dp_pack pack;
    struct dp_policy_out out; /* the proposal */
};

uint32_t coord_shrinks_left(const struct dp_coord *c)
{
    return c->job.shrinks_allowed > c->rel.shrinks_used ? c->job.shrinks_allowed - c->rel.shrinks_used : 0;
}

static bool is_wanted(const struct dp_coord *c, uint64_t now_ns)
{
    if (c->limits.mode == DP_MODE_OFF || !c->has_layout || c->failed[0] || c->is_completed || c->stall.is_stalled)
        return false;
    if (now_ns < c->next_decision_ns || !coord_migrate_is_idle(c))
        return false;
    for (uint32_t r = 0; r < c->n_workers; r++)
        if (!c->layout.gone[r] && !(coord_is_live(c, r) && c->worker[r].is_known))
            return false;
    return coord_loads_ready(c);
}

static void fill(const struct dp_coord *c, struct snapshot *s)
{
    for (uint32_t d = 0; d < c->n_workers; d++) {
        const struct coord_worker *w = &c->worker[d];

        s->device[d] = (struct dp_device){w->speed > 0.0 ? w->speed : 1.0, w->mem_limit_bytes, w->slot,
                                          !c->layout.gone[d] && c->slot[w->slot].state == SLOT_ACTIVE};
        for (uint32_t l = c->layout.cut[d]; l < c->layout.cut[d + 1]; l++) {
            double v = s->device[d].speed;

            s->layer[l] = c->layer[l].load;
            s->layer[l].fwd_ns = (uint64_t)((double)s->layer[l].fwd_ns * v);
            s->layer[l].bwd_input_ns = (uint64_t)((double)s->layer[l].bwd_input_ns * v);
            s->layer[l].bwd_weight_ns = (uint64_t)((double)s->layer[l].bwd_weight_ns * v);
            s->opt[l] = (uint64_t)((double)c->layer[l].opt_ns * v);
        }
    }
    s->in = (struct dp_policy_in){.n_layers = c->n_layers, .n_devices = c->n_workers, .n_slots = c->n_slots,
                                  .layer = s->layer, .layer_opt_ns = s->opt, .current = &c->layout,
                                  .device = s->device, .batch_slot = c->batch_slot,
                                  .schedule = (enum dp_schedule_kind)c->schedule,
                                  .microbatches = c->microbatches, .boundary_bytes = c->boundary_bytes,
                                  .link_latency_s = c->limits.link_latency_s,
                                  .link_bytes_per_s = c->limits.link_bytes_per_s, .step = c->step,
                                  .steps_total = c->steps_total, .seed = c->job.job_id};
}

/* --- the reference: iteration and device speeds before anything was pruned --- */

static uint64_t most_common_params(const struct dp_coord *c)
{
    uint64_t best = 0;
    uint32_t most = 0;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        uint32_t n = 0;

        for (uint32_t k = 0; k < c->n_layers; k++)
            n += c->layer[k].load.params == c->layer[i].load.params;
        if (n > most) {
            most = n;
            best = c->layer[i].load.params;
        }
    }
    return best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Before pruning all blocks cost the same on the same device, so a device's speed is the usual time
 * of a block over its own. Only used while nothing has been pruned. */
static void measure_speeds(struct dp_coord *c)
{
    double block[DP_MAX_WORKERS], sorted[DP_MAX_WORKERS];
    uint64_t params = most_common_params(c);
    uint32_t n = 0;

    for (uint32_t d = 0; d < c->n_workers; d++) {
        uint32_t blocks = 0;

        block[d] = 0.0;
        for (uint32_t l = c->layout.cut[d]; l < c->layout.cut[d + 1]; l++) {
            const struct dp_layer_load *k = &c->layer[l].load;

            if (k->params != params)
                continue;
            block[d] += (double)(k->fwd_ns + k->bwd_input_ns + k->bwd_weight_ns);
            blocks++;
        }
        if (blocks)
            sorted[n++] = block[d] /= blocks;
    }
    if (n < 2)
        return;
    qsort(sorted, n, sizeof sorted[0], by_value);
    for (uint32_t d = 0; d < c->n_workers; d++) {
        double v = block[d] > 0.0 ? sorted[n / 2] / block[d] : 1.0;

        c->worker[d].speed = v > 1.0 / SAME_SPEED && v < SAME_SPEED ? 1.0 : v;
    }
}

/* Follows the run until pruning begins (first reports are slow), then stays. */
static void take_reference(struct dp_coord *c, struct snapshot *s)
{
    bool is_early = !c->is_pruned && (c->prune_end ? c->step < c->prune_begin : c->n_reference < REFERENCE_MAX);
    uint64_t ns;

    if (c->is_reference_final)
        return;
    if (c->reference_ns && !is_early) {
        c->reference_step_ns = coord_steady_step_ns(c);
        c->is_reference_final = coord_journal_reference(c) == 0;
        return;
    }
    if (is_early && !c->last_commit_id) {
        measure_speeds(c);
        fill(c, s);
    }
    if (dp_sim_layout(&s->in, &c->start_layout, NULL, &ns, NULL) < 0)
        return;
    c->reference_ns = ns;
    if (!c->last_commit_id || !c->n_reference)
        c->reference_step_ns = coord_steady_step_ns(c) ? coord_steady_step_ns(c) : c->step_ns;
    if (!c->n_reference++)
        (void)coord_journal_reference(c); /* again, with better numbers, when pruning begins */
}

/* --- the proposal --- */

static uint32_t slots_in_use(const struct dp_coord *c)
{
    uint8_t is_used[DP_MAX_SLOTS] = {0};
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->n_workers; r++)
        if (!c->layout.gone[r] && !is_used[c->worker[r].slot]) {
            is_used[c->worker[r].slot] = 1;
            n++;
        }
    return n;
}

/* Slots that packing is predicted to free at a sparsity to come; none when it cannot be told. */
static uint32_t free_at(const struct dp_coord *c, const struct snapshot *s, const struct dp_pack_rule *rule,
                        uint32_t slots_now, double sparsity)
{
    struct snapshot *f = calloc(1, sizeof *f);
    uint32_t n = 0;

    if (!f)
        return 0;
    f->in = s->in;
    dp_loads_at_sparsity(s->layer, s->opt, dp_prune_slope(&c->trend), c->n_layers, sparsity, f->layer, f->opt);
    f->in.layer = f->layer;
    f->in.layer_opt_ns = f->opt;
    if (dp_pack_choose(c->policy, NULL, &f->in, rule, &f->pack, NULL) == 0 && f->pack.slots < slots_now)
        n = slots_now - f->pack.slots;
    free(f);
    return n;
}

/* Steps at which more may be free, and how much: the end of pruning first, and when that is no more
 * than now, nothing else. A prediction for many workers takes long: those look at few steps. */
static void look_ahead(const struct dp_coord *c, const struct snapshot *s, const struct dp_pack_rule *rule,
                       uint32_t slots_now, struct dp_release_when_in *in)
{
    uint32_t n = c->n_workers > MANY_WORKERS ? 3 : DP_RELEASE_LATER;
    double sparsity = dp_prune_sparsity(s->layer, c->n_layers);

    if (in->step >= c->prune_end || !(c->final_sparsity > 0.0))
        return;
    for (uint32_t i = n; i > 0; i--) {
        struct dp_release_later *k = &in->later[in->n_later];

        k->step = in->step + ((c->prune_end - in->step) * i + n - 1) / n;
        k->free = free_at(c, s, rule, slots_now,
                          dp_prune_sparsity_at(k->step, in->step, c->prune_begin, c->prune_end, sparsity,
                                               c->final_sparsity));
        if (k->free <= in->free_now)
            return; /* nor does an earlier step free more */
        in->n_later++;
    }
}

/* May slots be freed now? Fills in the reason either way. */
static bool may_release(const struct dp_coord *c, const struct snapshot *s, const struct dp_pack_rule *rule,
                        struct coord_decision *d)
{
    struct dp_release_when_in in = {.shrinks_left = coord_shrinks_left(c), .step = c->step,
                                    .step_s = (double)coord_recent_step_ns(c) / 1e9,
                                    .steps_total = c->steps_total};
    struct dp_release_when_out out;

    in.free_now = s->pack.slots < d->slots_now ? d->slots_now - s->pack.slots : 0;
    if (in.free_now && in.shrinks_left == 1)
        look_ahead(c, s, rule, d->slots_now, &in);
    dp_release_when(&in, &out);
    snprintf(d->release_reason, sizeof d->release_reason, "%s", out.reason);
    return out.now;
}

static void leave_slots(const struct dp_coord *c, struct snapshot *s)
{
    for (uint32_t r = 0; r < c->n_workers; r++)
        if (!s->pack.keep_slot[c->worker[r].slot])
            s->out.layout.gone[r] = 1;
}

/* The layout to move to, packed where slots may be given back, else the fastest one. */
static int propose(struct dp_coord *c, struct snapshot *s, struct coord_decision *d, struct dp_err *err)
{
    struct dp_pack_rule rule = {(enum dp_reference)c->limits.reference, c->reference_ns,
                                c->limits.max_slowdown, c->limits.min_devices};
    struct dp_pack_rule fastest = {.reference = DP_REF_START};
    bool may_free = c->limits.mode == DP_MODE_RELEASE || c->limits.mode == DP_MODE_OBSERVE;

    d->slots_after = d->slots_now;
    if (may_free && dp_pack_choose(c->policy, NULL, &s->in, &rule, &s->pack, err) == 0) {
        d->limit_ns = s->pack.limit_ns;
        d->fastest_ns = s->pack.fastest_ns;
        snprintf(d->pack_reason, sizeof d->pack_reason, "%s", s->pack.reason);
        if (may_release(c, s, &rule, d)) {
            s->out = s->pack.best;
            d->slots_after = s->pack.slots;
            leave_slots(c, s);
            return 0;
        }
    }
    if (dp_pack_choose(c->policy, NULL, &s->in, &fastest, &s->pack, err) < 0)
        return -1;
    d->fastest_ns = s->pack.fastest_ns;
    s->out = s->pack.best;
    return 0;
}

static double imbalance_now(const struct dp_coord *c)
{
    double min = 0.0, max = 0.0, sum = 0.0;
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->n_workers; r++) {
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

static uint64_t fixed_cost_ns(const struct dp_coord *c)
{
    for (uint32_t i = 0; i < c->n_handovers && i < COORD_HANDOVERS; i++) {
        const struct coord_handover *h = &c->handover[(c->n_handovers - 1 - i) % COORD_HANDOVERS];

        if (h->is_committed && h->pause_max_ns)
            return h->pause_max_ns;
    }
    return FIXED_PAUSE_NS;
}

static uint64_t cooldown_left_ns(const struct dp_coord *c, uint64_t now_ns)
{
    uint64_t cooldown = (uint64_t)(c->limits.cooldown_s * 1e9), since = now_ns - c->last_change_ns;

    return c->n_handovers && since < cooldown ? cooldown - since : 0;
}

static void weigh(struct dp_coord *c, uint64_t now_ns, struct snapshot *s, struct coord_decision *d)
{
    struct dp_decide_in in = {.current_ns = d->current_ns, .proposed_ns = s->out.iteration_ns,
                              .limit_ns = d->limit_ns, .slots_now = d->slots_now,
                              .slots_after = d->slots_after,
                              .link_bytes_per_s = c->limits.link_bytes_per_s,
                              .fixed_ns = fixed_cost_ns(c),
                              .steps_left = c->steps_total > c->step ? c->steps_total - c->step : 0,
                              .hysteresis = c->limits.hysteresis,
                              .cooldown_left_ns = cooldown_left_ns(c, now_ns)};

    in.moved_layers = dp_moved_layers(&s->in, &s->out.layout, &in.moved_bytes);
    dp_decide(&in, &d->out);
    d->proposed_ns = in.proposed_ns;
    d->moved_layers = in.moved_layers;
    d->moved_bytes = in.moved_bytes;
    d->devices_after = dp_layout_active(&s->out.layout);
    snprintf(d->policy_reason, sizeof d->policy_reason, "%s", s->out.reason);
    dp_layout_format(&s->out.layout, d->layout, sizeof d->layout);
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
    struct coord_decision *last = c->n_decisions ? &c->decision[(c->n_decisions - 1) % COORD_DECISIONS] : NULL;

    if (last && is_repetition(last, d)) {
        uint64_t first = last->first_ns;
        uint32_t count = last->count;

        *last = *d;
        last->first_ns = first;
        last->count = count + 1;
        return;
    }
    c->decision[c->n_decisions++ % COORD_DECISIONS] = *d;
}

static void apply(struct dp_coord *c, uint64_t now_ns, const struct snapshot *s, struct coord_decision *d)
{
    struct dp_err err;
    size_t n = strlen(d->out.reason);

    if (d->out.verdict != DP_MOVE)
        return;
    if (c->limits.mode == DP_MODE_OBSERVE)
        snprintf(d->out.reason + n, sizeof d->out.reason - n, " [observed only]");
    else if (c->is_paused)
        snprintf(d->out.reason + n, sizeof d->out.reason - n, " [paused]");
    else if (coord_migrate_begin(c, now_ns, &s->out.layout, d->out.reason, &err) < 0)
        snprintf(d->out.reason + n, sizeof d->out.reason - n, " [not done: %.100s]", err.text);
    else
        d->is_applied = true;
}

static void decide(struct dp_coord *c, uint64_t now_ns, struct snapshot *s)
{
    struct coord_decision d = {.first_ns = now_ns, .last_ns = now_ns, .step = c->step, .count = 1};
    struct dp_err err;

    fill(c, s);
    if (dp_policy_in_check(&s->in, &err) < 0) {
        snprintf(d.out.reason, sizeof d.out.reason, "stay: %.240s", err.text);
        log_decision(c, &d);
        return;
    }
    take_reference(c, s);
    dp_prune_learn(&c->trend, s->layer, c->n_layers);
    d.slots_now = slots_in_use(c);
    d.imbalance = imbalance_now(c);
    if (dp_sim_layout(&s->in, &c->layout, NULL, &d.current_ns, &err) < 0 || propose(c, s, &d, &err) < 0) {
        snprintf(d.out.reason, sizeof d.out.reason, "stay: %.240s", err.text);
        log_decision(c, &d);
        return;
    }
    c->predicted_ns = d.current_ns;
    weigh(c, now_ns, s, &d);
    apply(c, now_ns, s, &d);
    log_decision(c, &d);
}

void coord_decide_tick(struct dp_coord *c, uint64_t now_ns)
{
    struct snapshot *s;

    if (!is_wanted(c, now_ns))
        return;
    s = calloc(1, sizeof *s);
    if (!s)
        return; /* no decision is a decision to stay */
    c->next_decision_ns = now_ns + DECIDE_EVERY_NS * (1 + c->n_workers / 64); /* large runs: a second of CPU */
    for (uint32_t r = 0; r < c->n_workers; r++)
        c->worker[r].is_fresh = false;
    decide(c, now_ns, s);
    free(s);
}
