/* SPDX-License-Identifier: BSD-3-Clause */
/* What people and programs see of a run: the documents behind `dynpipe status`, `explain`, `report`.
 *
 * Keys are stable; a number that is not known is null. Times end in _s (seconds since the coordinator
 * first began, or a duration), _ms or _ns.
 */
#include "daemon/coord/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/schedule/schedule.h"
#include "policies/saving/saving_json.h"

/* json_real() refuses NaN and infinity. */
static json_t *num(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *coord_ms(uint64_t ns)
{
    return ns && ns != UINT64_MAX ? json_real((double)ns / 1e6) : json_null();
}

static json_t *at(const struct dp_coord *c, uint64_t t_ns)
{
    return t_ns ? json_real(coord_seconds(c, t_ns)) : json_null();
}

static json_t *u64(uint64_t v)
{
    return json_integer((json_int_t)v);
}

static void set(json_t *o, const char *key, json_t *value)
{
    json_object_set_new(o, key, value);
}

static void set_text(json_t *o, const char *key, const char *text)
{
    json_t *s = json_string(text);

    set(o, key, s ? s : json_string("(not UTF-8)"));
}

static const char *state_name(const struct dp_coord *c)
{
    if (c->life.failed[0])
        return "failed";
    if (c->train.is_completed)
        return "completed";
    if (c->life.is_over)
        return "over";
    if (dp_coord_all_left(c))
        return "ended";
    if (!c->train.has_layout)
        return "waiting";
    if (c->stall.is_stalled)
        return "stalled";
    if (!coord_migrate_is_idle(c))
        return "migrating";
    return c->life.is_paused ? "paused" : "training";
}

static void state_text(const struct dp_coord *c, uint64_t now_ns, char *out, size_t cap)
{
    char missing[400];
    uint32_t n = 0;

    coord_missing_text(c, now_ns, missing, sizeof missing);
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        n += c->worker[r].is_known;
    if (c->life.failed[0])
        snprintf(out, cap, "failed: %s", c->life.failed);
    else if (c->train.is_completed)
        snprintf(out, cap, "completed at step %llu", (unsigned long long)c->train.step);
    else if (c->life.is_over)
        snprintf(out, cap, "over: %s", c->life.over_why);
    else if (dp_coord_all_left(c))
        snprintf(out, cap, "ended: all workers have left at step %llu", (unsigned long long)c->train.step);
    else if (!c->train.has_layout)
        snprintf(out, cap, "waiting for workers (%u of %u are there)%s%s", n, c->train.n_workers, missing[0] ? ": " : "",
                 missing);
    else if (c->stall.is_stalled)
        snprintf(out, cap, "%s", c->stall.text);
    else if (c->mig.state == MIG_ABORTING)
        snprintf(out, cap, "the workers wait for a decision that cannot be written to the journal: %s", c->journal.error);
    else if (!coord_migrate_is_idle(c) && c->mig.is_regroup)
        snprintf(out, cap, "regrouping: %s", c->mig.reason);
    else if (!coord_migrate_is_idle(c))
        snprintf(out, cap, "hand-over %llu: %s", (unsigned long long)c->mig.id, c->mig.reason);
    else if (missing[0])
        snprintf(out, cap, "%s with the layout in force; %s", state_name(c), missing);
    else if (c->life.is_paused)
        snprintf(out, cap, "%s", state_name(c));
    else if (coord_why_observed(c))
        snprintf(out, cap, "%s; observed: %s", state_name(c), coord_why_observed(c));
    else
        coord_promise_state(c, out, cap);
}

static json_t *job_json(const struct dp_coord *c)
{
    json_t *o = json_object(), *nodes = json_array();

    set(o, "id", u64(c->job.job_id));
    set(o, "uid", u64(c->job.uid));
    set(o, "restart_count", u64(c->job.restart_count));
    set_text(o, "name", c->job.name);
    set_text(o, "partition", c->job.partition);
    set_text(o, "batch_host", c->job.batch_host);
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (c->slot[s].state != SLOT_EMPTY)
            json_array_append_new(nodes, json_string(c->slot[s].name));
    set(o, "nodes", nodes);
    set(o, "gpus_per_node", u64(c->job.gpus_per_node));
    set(o, "start_s", u64(c->job.start_s));
    set(o, "end_s", c->job.end_s ? u64(c->job.end_s) : json_null());
    set(o, "shrinks_allowed", u64(c->job.shrinks_allowed));
    set(o, "stepmgr", json_boolean(c->job.has_stepmgr));
    set(o, "shrinks_used", u64(c->rel.shrinks_used));
    return o;
}

static json_t *limits_json(const struct dp_coord *c)
{
    json_t *o = json_object();

    set_text(o, "reference", dp_reference_name(c->limits.pack.reference));
    set_text(o, "objective", c->limits.pack.objective == DP_OBJ_EFFICIENCY ? "efficiency" : "devices");
    set_text(o, "packing", c->limits.pack.packing == DP_PACKING_FIRST_FIT ? "first-fit" : "best");
    set(o, "min_devices", u64(c->limits.pack.min_devices));
    set(o, "max_slowdown_percent", num(c->limits.pack.max_slowdown));
    set(o, "hysteresis_percent", num(c->limits.hysteresis));
    set(o, "cooldown_s", num(c->limits.cooldown_s));
    set(o, "stall_end_s", c->limits.stall_end_s > 0.0 ? num(c->limits.stall_end_s) : json_null());
    set(o, "warmup_reports", u64(c->limits.warmup_reports));
    return o;
}

static json_t *layout_json(const struct dp_layout *l)
{
    char text[8 * DP_MAX_WORKERS];
    json_t *o = json_object(), *cuts = json_array();

    dp_layout_format(l, text, sizeof text);
    set(o, "epoch", u64(l->epoch));
    set_text(o, "text", text);
    for (uint32_t s = 0; s <= l->n_workers; s++)
        json_array_append_new(cuts, u64(l->cut[s]));
    set(o, "cuts", cuts);
    set(o, "stages", u64(dp_layout_active(l)));
    return o;
}

static const char *worker_state(const struct dp_coord *c, uint32_t r)
{
    const struct coord_worker *w = &c->worker[r];

    if (w->is_lost)
        return "lost";
    if (w->has_left)
        return "left";
    if (w->is_newcomer)
        return "joining";
    if (c->train.has_layout && c->layout.gone[r])
        return "leaving";
    if (!w->is_known)
        return "unknown";
    return w->is_connected ? "connected" : "disconnected";
}

static json_t *worker_json(const struct dp_coord *c, uint64_t now_ns, uint32_t r, uint64_t busiest)
{
    const struct coord_worker *w = &c->worker[r];
    bool has_place = w->is_known || c->train.has_layout; /* said by its HELLO, or by the journal */
    uint32_t a = c->layout.cut[r], b = c->layout.cut[r + 1];
    uint64_t nnz = 0, params = 0;
    uint32_t frozen = 0;
    json_t *o = json_object(), *copies = coord_worker_copies_json(c, r);

    for (uint32_t l = a; l < b; l++) {
        nnz += c->layer[l].load.nnz;
        params += c->layer[l].load.params;
        frozen += dp_load_is_frozen(&c->layer[l].load);
    }
    set(o, "rank", u64(r));
    set(o, "node", has_place ? json_string(c->slot[w->slot].name) : json_null());
    set(o, "slot", has_place ? u64(w->slot) : json_null());
    set(o, "pid", has_place ? u64(w->pid) : json_null());
    set_text(o, "device", w->device);
    set_text(o, "state", worker_state(c, r));
    set(o, "connected", json_boolean(w->is_connected && !w->has_left && !w->is_lost));
    set(o, "first_layer", b > a ? u64(a) : json_null());
    set(o, "layers", u64(b - a));
    set(o, "step", u64(w->step));
    set(o, "step_ms", coord_ms(w->step_ns));
    set(o, "busy_ms", b > a ? coord_ms(w->busy_ns) : json_real(0.0));
    set(o, "wait_ms", coord_ms(w->wait_ns));
    set(o, "optimizer_ms", coord_ms(w->optimizer_ns));
    set(o, "overhead_ms", coord_ms(w->overhead_ns));
    set(o, "lost_ms", coord_ms(w->lost_ns));
    set(o, "overhead_percent", w->step_ns ? num(100.0 * (double)w->overhead_ns / (double)w->step_ns) : json_null());
    set(o, "load", busiest && b > a ? num((double)w->busy_ns / (double)busiest) : json_real(0.0));
    set(o, "mem_bytes", u64(w->mem_bytes));
    set(o, "rss_bytes", u64(w->rss_bytes));
    set(o, "params", u64(params));
    set(o, "nnz", u64(nnz));
    set(o, "frozen_layers", u64(frozen));
    if (copies)
        set(o, "copies", copies);
    set(o, "speed", num(w->speed));
    set(o, "report_age_s", w->report_ns ? num((double)(now_ns - w->report_ns) / 1e9) : json_null());
    return o;
}

static json_t *workers_json(const struct dp_coord *c, uint64_t now_ns)
{
    json_t *a = json_array();
    uint64_t busiest = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->layout.cut[r + 1] > c->layout.cut[r] && c->worker[r].busy_ns > busiest)
            busiest = c->worker[r].busy_ns;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!coord_is_sliced(c) || c->slot[r].state != SLOT_EMPTY)
            json_array_append_new(a, worker_json(c, now_ns, r, busiest));
    return a;
}

static json_t *layers_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t i = 0; c->train.has_layout && i < c->train.n_layers; i++) {
        const struct dp_layer_load *l = &c->layer[i].load;
        json_t *o = json_object();

        set(o, "layer", u64(i));
        set(o, "params", u64(l->params));
        set(o, "nnz", u64(l->nnz));
        set(o, "frozen", json_boolean(dp_load_is_frozen(l)));
        set(o, "forward_ms", coord_ms(l->fwd_ns));
        set(o, "backward_ms", coord_ms(l->bwd_input_ns + l->bwd_weight_ns));
        set(o, "scatter_percent", c->layer[i].n_totals >= DP_NOISE_LEAST ? num(100.0 * coord_noise_of_layer(c, i)) : json_null());
        set(o, "optimizer_ms", coord_ms(c->layer[i].opt_ns));
        set(o, "state_bytes", u64(l->state_bytes));
        set(o, "activation_bytes", u64(l->act_bytes));
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *slots_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < c->n_slots; i++) {
        const struct coord_slot *s = &c->slot[i];
        char text[300];
        json_t *o;

        if (s->state == SLOT_EMPTY)
            continue;
        o = json_object();
        set(o, "slot", u64(i));
        set_text(o, "node", s->name);
        if (s->slice)
            set(o, "job", u64(s->slice));
        set_text(o, "state", coord_slot_state_name(s->state));
        set(o, "batch_host", json_boolean(i == c->batch_slot));
        set(o, "drained_at_s", at(c, s->drained_ns));
        set(o, "gone_at_s", at(c, s->gone_ns));
        set(o, "intent_at_s", at(c, s->intent_ns));
        set(o, "freed_at_s", at(c, s->freed_ns));
        set(o, "confirmed_at_s", at(c, s->released_ns));
        snprintf(text, sizeof text, "%s", s->text);
        if (s->state == SLOT_ACTIVE)
            coord_leave_tell(c, i, text, sizeof text);
        set_text(o, "text", text);
        json_array_append_new(a, o);
    }
    return a;
}

/* [[t_s, slots]]: how many slots the job held from that time on. */
static json_t *held_json(const struct dp_coord *c)
{
    static uint64_t t_ns[COORD_HELD_MAX];
    static uint32_t n_slots[COORD_HELD_MAX];
    uint32_t n = coord_held_by_time(c, t_ns, n_slots);
    json_t *a = json_array();

    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(a, json_pack("[f,i]", coord_seconds(c, t_ns[i]), (int)n_slots[i]));
    return a;
}

static json_t *decision_json(const struct dp_coord *c, const struct coord_decision *d)
{
    json_t *o = json_object();

    set(o, "at_s", at(c, d->last_ns));
    set(o, "first_at_s", at(c, d->first_ns));
    set(o, "count", u64(d->count));
    set(o, "step", u64(d->step));
    set_text(o, "verdict", d->out.verdict == DP_MOVE ? "move" : "stay");
    set(o, "applied", json_boolean(d->is_applied));
    set_text(o, "reason", d->out.reason);
    set_text(o, "policy_reason", d->policy_reason);
    set_text(o, "pack_reason", d->pack_reason);
    set_text(o, "release_reason", d->release_reason);
    set(o, "current_ms", coord_ms(d->current_ns));
    set(o, "proposed_ms", coord_ms(d->proposed_ns));
    set(o, "corrected", json_boolean(d->is_corrected));
    set(o, "limit_ms", coord_ms(d->limit_ns));
    set(o, "fastest_ms", coord_ms(d->fastest_ns));
    set(o, "measured_ms", coord_ms(d->measured_ns));
    set(o, "expected_ms", coord_ms(d->expected_ns));
    set(o, "allowed_ms", coord_ms(d->allowed_ns));
    set(o, "gain_percent", num(d->out.gain_percent));
    set(o, "gain_s", num(d->out.gain_s));
    set(o, "cost_s", num(d->out.cost_s));
    set(o, "saved_slot_s", num(d->out.saved_slot_s));
    set(o, "imbalance", num(d->imbalance));
    set(o, "scatter_percent", d->noise.n >= DP_NOISE_LEAST ? num(100.0 * d->noise.scatter) : json_null());
    set(o, "lasting_steps", num(d->out.lasting_steps));
    set(o, "slots_now", u64(d->slots_now));
    set(o, "slots_after", u64(d->slots_after));
    set(o, "devices_after", u64(d->devices_after));
    set(o, "moved_layers", u64(d->moved_layers));
    set(o, "moved_bytes", u64(d->moved_bytes));
    set_text(o, "layout", d->layout);
    return o;
}

static json_t *decisions_json(const struct dp_coord *c)
{
    uint32_t n = c->history.n_decisions < COORD_DECISIONS ? c->history.n_decisions : COORD_DECISIONS;
    json_t *a = json_array();

    for (uint32_t i = c->history.n_decisions - n; i < c->history.n_decisions; i++)
        json_array_append_new(a, decision_json(c, &c->history.decision[i % COORD_DECISIONS]));
    return a;
}

static json_t *events_json(const struct dp_coord *c)
{
    uint32_t n = c->history.n_events < COORD_EVENTS ? c->history.n_events : COORD_EVENTS;
    json_t *a = json_array();

    for (uint32_t i = c->history.n_events - n; i < c->history.n_events; i++) {
        const struct coord_event *e = &c->history.event[i % COORD_EVENTS];
        json_t *o = json_object();

        set(o, "at_s", num(coord_seconds(c, e->t_ns)));
        set(o, "step", u64(e->step));
        set_text(o, "text", e->text);
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *handovers_json(const struct dp_coord *c)
{
    uint32_t n = c->history.n_handovers < COORD_HANDOVERS ? c->history.n_handovers : COORD_HANDOVERS;
    json_t *a = json_array();

    for (uint32_t i = c->history.n_handovers - n; i < c->history.n_handovers; i++) {
        const struct coord_handover *h = &c->history.handover[i % COORD_HANDOVERS];
        json_t *o = json_object();

        set(o, "id", u64(h->id));
        set_text(o, "outcome", h->is_regroup ? "regrouped" : h->is_committed ? "committed" : "aborted");
        set(o, "epoch", u64(h->epoch));
        set(o, "step", u64(h->boundary));
        set(o, "started_at_s", at(c, h->started_ns));
        set(o, "decided_at_s", at(c, h->decided_ns));
        set(o, "done_at_s", at(c, h->done_ns));
        set(o, "moved_layers", u64(h->moved_layers));
        set(o, "moved_bytes", u64(h->moved_bytes));
        set(o, "leavers", u64(h->n_leavers));
        set(o, "pause_max_ms", coord_ms(h->pause_max_ns));
        set(o, "pause_median_ms", coord_ms(h->pause_median_ns));
        set(o, "transfer_max_ms", coord_ms(h->transfer_max_ns));
        set(o, "copying_max_ms", coord_ms(h->copying_max_ns));
        set(o, "predicted_ms", coord_ms(h->predicted_ns));
        set(o, "expected_ms", coord_ms(h->expected_ns));
        set(o, "allowed_ms", coord_ms(h->allowed_ns));
        set(o, "measured_ms", coord_ms(h->measured_ns));
        set_text(o, "promise", h->is_committed ? dp_promise_name(h->promise) : "none");
        set_text(o, "layout", h->layout);
        set_text(o, "reason", h->reason);
        json_array_append_new(a, o);
    }
    return a;
}

#define LOSSES 8 /* the newest */

static json_t *losses_json(const struct dp_coord *c)
{
    uint32_t n = c->history.n_handovers < COORD_HANDOVERS ? c->history.n_handovers : COORD_HANDOVERS;
    json_t *a = json_array();

    for (uint32_t i = c->history.n_handovers - n; i < c->history.n_handovers; i++) {
        const struct coord_handover *h = &c->history.handover[i % COORD_HANDOVERS];
        json_t *o;

        if (!h->is_regroup)
            continue;
        o = json_object();
        set(o, "id", u64(h->id));
        set(o, "at_s", at(c, h->decided_ns));
        set(o, "step", u64(h->boundary));
        set(o, "workers", u64(h->n_leavers));
        set_text(o, "text", h->reason);
        json_array_append_new(a, o);
        if (json_array_size(a) > LOSSES)
            json_array_remove(a, 0);
    }
    return a;
}

static json_t *gap(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns >= from_ns ? json_real((double)(to_ns - from_ns) / 1e9) : json_null();
}

static json_t *releases_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < c->n_slots; i++) {
        const struct coord_slot *s = &c->slot[i];
        json_t *o;

        if (s->state == SLOT_ACTIVE || s->state == SLOT_EMPTY)
            continue;
        o = json_object();
        set_text(o, "node", s->name);
        if (s->slice)
            set(o, "job", u64(s->slice));
        set_text(o, "state", coord_slot_state_name(s->state));
        set(o, "drained_at_s", at(c, s->drained_ns));
        set(o, "freed_at_s", at(c, s->freed_ns));
        set(o, "confirmed_at_s", at(c, s->released_ns));
        set(o, "drain_to_gone_s", gap(s->drained_ns, s->gone_ns));
        set(o, "proof_s", s->proof_took_ns ? num((double)s->proof_took_ns / 1e9) : json_null());
        set(o, "gone_to_freed_s", gap(s->gone_ns, s->freed_ns));
        set(o, "freed_to_confirmed_s", gap(s->freed_ns, s->released_ns));
        set_text(o, "text", s->text);
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *samples_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < c->history.n_samples; i++) {
        const struct coord_sample *s = &c->history.sample[i];
        json_t *o = json_object();

        set(o, "step", u64(s->step));
        set(o, "at_s", at(c, s->t_ns));
        set(o, "loss", num(s->loss));
        set(o, "sparsity", num(s->sparsity));
        set(o, "frozen_layers", u64(s->n_frozen));
        set(o, "tokens_per_s", num(s->tokens_per_s));
        json_array_append_new(a, o);
    }
    return a;
}

static json_t *counters_json(const struct dp_coord *c)
{
    json_t *o = json_object();

    set(o, "reports", u64(c->reports.n));
    set(o, "reports_dropped", u64(c->reports.n_dropped));
    set_text(o, "last_dropped", c->reports.dropped_why);
    set(o, "messages_ignored", u64(c->reports.n_ignored));
    set(o, "events_not_taken", u64(c->events.n_lost));
    set(o, "journal_errors", u64(c->journal.n_errors));
    set_text(o, "last_journal_error", c->journal.error);
    set(o, "shrink_requests", u64(c->rel.attempts));
    set(o, "lost_updates", u64(c->rel.lost_updates));
    set_text(o, "last_slurm_answer", c->rel.answer);
    return o;
}

/* tokens/s in all and per device held; the run's devices are its workers. */
static json_t *speed_json(const struct dp_coord *c, uint64_t step_ns, uint32_t devices)
{
    double v = coord_tokens_per_s(c, step_ns);
    json_t *o = json_object();

    set(o, "tokens_per_s", step_ns ? num(v) : json_null());
    set(o, "tokens_per_s_per_device", step_ns && devices ? num(v / devices) : json_null());
    set(o, "step_ms", coord_ms(step_ns));
    set(o, "devices", u64(devices));
    return o;
}

static void set_common(const struct dp_coord *c, uint64_t now_ns, json_t *o)
{
    char text[600];
    json_t *growth, *copies;

    set(o, "job", job_json(c));
    set_text(o, "mode", dp_mode_name(coord_mode(c)));
    set(o, "trainer", coord_trait_json(c));
    set_text(o, "policy", c->policy->name);
    set_text(o, "state", state_name(c));
    state_text(c, now_ns, text, sizeof text);
    set_text(o, "state_text", text);
    set(o, "missing", coord_missing_json(c, now_ns));
    set(o, "losses", losses_json(c));
    if (c->journal.is_failing)
        set_text(o, "journal_error", c->journal.error);
    else
        set(o, "journal_error", json_null());
    set(o, "paused", json_boolean(c->life.is_paused));
    set(o, "now_s", num(coord_seconds(c, now_ns)));
    set(o, "incarnation", u64(c->life.incarnation));
    set(o, "step", u64(c->train.step));
    set(o, "steps_total", u64(c->train.steps_total));
    set(o, "loss", num(c->train.loss));
    set(o, "loss_step", isfinite(c->train.loss) ? u64(c->train.loss_step) : json_null());
    set(o, "eval_loss", num(c->train.eval_loss));
    set(o, "sparsity", num(c->train.sparsity));
    set(o, "frozen_layers", u64(c->train.n_frozen));
    set_text(o, "schedule", dp_schedule_name(c->train.schedule));
    set(o, "microbatches", u64(c->train.microbatches));
    set(o, "limits", limits_json(c));
    set(o, "layout", c->train.has_layout ? layout_json(&c->layout) : json_null());
    set(o, "promise", coord_promise_json(c, now_ns));
    set(o, "memory", coord_memory_json(c));
    growth = coord_grow_json(c, now_ns);
    if (growth)
        set(o, "growth", growth);
    copies = coord_copies_json(c);
    if (copies)
        set(o, "copies", copies);
}

static void set_status(const struct dp_coord *c, uint64_t now_ns, json_t *o)
{
    set(o, "tokens_per_s", c->step_ns ? num(coord_tokens_per_s(c, c->step_ns)) : json_null());
    set(o, "step_ms", coord_ms(c->step_ns));
    set(o, "predicted_ms", coord_ms(c->predicted.ns));
    set(o, "reference_ms", coord_ms(c->reference.ns));
    set(o, "saving", coord_saving_json(c, now_ns));
    set(o, "throughput_start",
        speed_json(c, coord_steady_step_ns(c), c->start_layout.n_workers ? dp_layout_members(&c->start_layout) : c->train.n_workers));
    set(o, "workers", workers_json(c, now_ns));
    set(o, "slots", slots_json(c));
    set(o, "slots_held_over_time", held_json(c));
    set(o, "last_decision",
        c->history.n_decisions ? decision_json(c, &c->history.decision[(c->history.n_decisions - 1) % COORD_DECISIONS]) : json_null());
    set_text(o, "checkpoint", c->train.checkpoint);
    set(o, "events", events_json(c));
    set(o, "counters", counters_json(c));
}

static void set_report(const struct dp_coord *c, uint64_t now_ns, json_t *o)
{
    uint32_t per_slot = c->job.gpus_per_node ? c->job.gpus_per_node : 1;
    double held = coord_slot_seconds_held(c, now_ns), fixed;
    struct dp_saving saving;

    coord_saving_so_far(c, now_ns, &saving);
    fixed = saving.time_s[DP_WAY_FIXED] * coord_start_slots(c);
    set(o, "slot_seconds_held", num(held));
    set(o, "slot_seconds_fixed", num(fixed));
    set(o, "device_seconds_held", num(held * per_slot));
    set(o, "device_seconds_fixed", num(fixed * per_slot));
    set(o, "throughput_now", speed_json(c, coord_recent_step_ns(c), dp_layout_members(&c->layout)));
    set(o, "start_layout", c->start_layout.n_workers ? layout_json(&c->start_layout) : json_null());
    set(o, "layers", layers_json(c));
    set(o, "handovers", handovers_json(c));
    set(o, "releases", releases_json(c));
    set(o, "samples", samples_json(c));
}

static void set_decisions(const struct dp_coord *c, json_t *o)
{
    set(o, "proposal", coord_proposal_json(c));
    set(o, "expected", coord_expect_json(c));
    set(o, "trade", dp_trade_json(&c->trade));
    set(o, "decisions", decisions_json(c));
}

json_t *dp_coord_json(const struct dp_coord *c, uint64_t now_ns, enum dp_query what)
{
    json_t *o = json_object(), *meta = json_object();

    if (c->life.is_over && c->life.over_ns)
        now_ns = c->life.over_ns; /* the clock of a run stops with it */
    set(meta, "plugin", json_pack("{s:s,s:s}", "type", "dynpipe", "name", "coordinator"));
    set(meta, "version", json_string("1"));
    set(o, "meta", meta);
    set_common(c, now_ns, o);
    if (what == DP_QUERY_STATUS || what == DP_QUERY_REPORT)
        set_status(c, now_ns, o);
    if (what == DP_QUERY_EXPLAIN || what == DP_QUERY_REPORT)
        set_decisions(c, o);
    if (what == DP_QUERY_REPORT)
        set_report(c, now_ns, o);
    return o;
}
