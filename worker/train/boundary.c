/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: what happens between two optimizer steps, the same on all workers: apply schemes, hand over,
 * evaluate and save, in this order. The order came with the sums of the step (step_order.h). */
#include "worker/train/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/train/start/memory_limit.h"

struct dp_scheme_site dp_trainer_site(struct dp_trainer *t)
{
    return (struct dp_scheme_site){.config = t->config, .stage = t->stage, .sum = dp_collectives_allreduce, .arg = &t->collectives,
                                   .reached = &t->reached};
}

void dp_trainer_tell_reached(struct dp_trainer *t, enum dp_scheme_id id)
{
    static const struct {
        enum dp_event kind;
        const char *name;
    } done[DP_N_SCHEMES] = {[DP_SCHEME_PRUNE] = {DP_EV_PRUNED, "pruned"}, [DP_SCHEME_FREEZE] = {DP_EV_FROZEN, "frozen"}};
    char text[64];
    double value = dp_scheme_at(id)->tell(&t->reached, text, sizeof text);

    dp_trainer_event(t, done[id].kind, done[id].name, value, text);
}

/* Of a scheme that one worker cannot apply alone nobody goes on before all have: whoever is lost later then leaves no worker behind. */
static int apply(struct dp_trainer *t, int id, const struct dp_scheme_site *site, double target, struct dp_err *err)
{
    const struct dp_scheme *s = dp_scheme_at((enum dp_scheme_id)id);

    if (s->apply(site, target, err) < 0)
        return -1;
    t->standing.schemes_done |= 1u << id;
    return s->catch_up ? 0 : dp_collectives_barrier(&t->collectives, err);
}

static int apply_schemes(struct dp_trainer *t, const struct dp_scheme_order *o, struct dp_err *err)
{
    struct dp_scheme_site site = dp_trainer_site(t);

    if (t->shadowing) {
        if (dp_shadowing_before_change(t->shadowing, err) < 0)
            return -1;
        site.copies.chosen = dp_shadowing_chosen;
        site.copies.arg = t->shadowing;
    }
    for (int i = 0; i < DP_N_SCHEMES; i++) {
        if (!o[i].is_due)
            continue;
        site.copies.n = dp_copies_list(t->copies, &site.copies.layer);
        if (!(t->standing.schemes_done >> i & 1) && apply(t, i, &site, o[i].target, err) < 0)
            return dp_err_prefix(err, "%s: at step %llu", dp_scheme_at((enum dp_scheme_id)i)->name, (unsigned long long)t->step);
        if (!(t->standing.schemes_told >> i & 1))
            dp_trainer_tell_reached(t, (enum dp_scheme_id)i);
        t->standing.schemes_told |= dp_trainer_leads(t) << i;
    }
    return t->shadowing ? dp_shadowing_changed(t->shadowing, t->step, err) : 0;
}

static void forget_leavers(struct dp_trainer *t, const struct dp_layout *before)
{
    for (uint32_t r = 0; r < t->layout.n_workers; r++)
        if (t->layout.gone[r] && !before->gone[r] && r != t->rank && !t->is_leaving)
            dp_transport_remove(t->args->transport, r);
}

/* Their count of the rounds begins with the layout; so does everybody's. */
static void welcome_newcomers(struct dp_trainer *t, const struct dp_layout *before)
{
    bool is_any = false;

    for (uint32_t r = 0; r < t->layout.n_workers; r++)
        is_any |= before->gone[r] && !t->layout.gone[r];
    if (!is_any)
        return;
    t->collectives.epoch = t->layout.epoch;
    t->collectives.round = 0;
    if (t->is_joining)
        dp_control_joined(t->control);
    t->is_joining = false;
}

static void tell_handover(struct dp_trainer *t, uint64_t migration, const struct dp_handover_outcome *o, const struct dp_shadowing_sums *s)
{
    char layout[1024], text[1400], before[96] = "", changes[48] = "";

    if (!dp_trainer_leads(t))
        return;
    dp_layout_format(&t->layout, layout, sizeof layout);
    if (s->n_changes)
        snprintf(changes, sizeof changes, ", %u changes of layers among them", s->n_changes);
    if (s->n_steps)
        snprintf(before, sizeof before, ", copied during %u steps before%s", s->n_steps, changes);
    if (o->is_committed)
        snprintf(text, sizeof text, "migration %llu, layout %s, pause %.1f ms%s", (unsigned long long)migration, layout,
                 (double)o->pause_ns / 1e6, before);
    else
        snprintf(text, sizeof text, "migration %llu: %s; layout stays %s", (unsigned long long)migration, o->text,
                 layout);
    dp_steplog_event(t->log, o->is_committed ? "handover" : "aborted", t->step, (double)o->pause_ns / 1e6, text);
}

/* Memory that was given back to Slurm (daemon/coord/carry_out/memory.c) is missing in the cgroup at once. */
uint64_t dp_trainer_memory_limit(const struct dp_trainer *t)
{
    uint64_t held = dp_stage_bytes(t->stage, NULL) + dp_stocking_left(t->stocking); /* the latter is for layers, too */
    uint64_t now = dp_memory_limit(t->be, t->config->pipeline.memory_mb, held);
    uint64_t copies = t->config->pipeline.memory_mb > 0 ? dp_copies_info(t->copies).held_bytes : 0; /* else they are missing in it */

    if (copies)
        now = now > copies ? now - copies : 1; /* 1: no room at all, which 0 would not say */
    return now && (!t->mem_limit_bytes || now < t->mem_limit_bytes) ? now : t->mem_limit_bytes;
}

/* The next leader may hear that it is committed long before this one: log and lock are free before the vote. */
static void stop_leading_if_leaving(struct dp_trainer *t, uint64_t migration)
{
    const struct dp_msg_prepare *p = dp_control_prepare(t->control);

    if (dp_trainer_leads(t) && p && p->migration == migration && p->gone[t->rank])
        dp_trainer_stop_leading(t);
}

static int hand_over(struct dp_trainer *t, uint64_t migration, struct dp_err *err)
{
    struct dp_layout before = t->layout;
    struct dp_handover_outcome outcome;
    struct dp_shadowing_sums sums = {0};
    int rc;
    struct dp_handover_args args = {
        .transport = t->args->transport,
        .rank = t->rank,
        .layout = &t->layout,
        .stage = &t->stage,
        .config = t->config,
        .backend = t->be,
        .tune = &t->start.tune,
        .frozen = t->reached.frozen,
        .step = t->step,
        .mem_most_bytes = t->mem_limit_bytes,
        .meet = dp_trainer_meet,
        .invite = dp_trainer_invite,
        .arg = t,
        .shadowing = t->shadowing,
        .copies = t->copies,
    };

    if (t->shadowing && dp_shadowing_follow(t->shadowing, err) < 0)
        return dp_err_prefix(err, "copying for hand-over %llu", (unsigned long long)migration);
    stop_leading_if_leaving(t, migration);
    if (t->stocking)
        dp_stocking_stop(t->stocking);
    args.mem_limit_bytes = dp_trainer_memory_limit(t);
    rc = dp_handover_run(t->handover, &args, migration, &outcome, err);
    dp_trainer_stock_end(t);
    if (t->shadowing)
        sums = dp_shadowing_total(t->shadowing);
    dp_trainer_shadow_end(t, true);
    t->shadow = (struct dp_step_shadow){0};
    if (rc < 0)
        return dp_err_prefix(err, "hand-over %llu at step %llu", (unsigned long long)migration,
                             (unsigned long long)t->step);
    t->is_leaving = outcome.is_leaving;
    if (outcome.is_committed)
        welcome_newcomers(t, &before);
    if (outcome.is_committed && dp_pipeline_part(t->pipeline, err) < 0)
        return -1;
    if (outcome.is_committed)
        forget_leavers(t, &before);
    if (dp_trainer_lead(t, err) < 0)
        return -1;
    tell_handover(t, migration, &outcome, &sums);
    return 0;
}

/* The head's owner has the sum; the leader tells. */
static int evaluate(struct dp_trainer *t, struct dp_err *err)
{
    uint32_t n = (uint32_t)t->config->data.eval_batches, head = dp_layout_owner(&t->layout, t->layout.n_layers - 1);
    double mine = 0, all[DP_MAX_WORKERS], loss, bits;
    size_t offset[DP_MAX_WORKERS + 1];
    char text[96], rate[32] = "";

    if (n == 0)
        return 0;
    if (dp_pipeline_eval(t->pipeline, &t->layout, t->stage, t->step, n, &mine, &t->wait_ns, err) < 0)
        return dp_err_prefix(err, "evaluation at step %llu", (unsigned long long)t->step);
    for (uint32_t r = 0; r <= t->layout.n_workers; r++)
        offset[r] = r * sizeof *all;
    if (dp_collectives_gather(&t->collectives, &mine, sizeof mine, all, offset, err) < 0)
        return -1;
    if (!dp_trainer_leads(t))
        return 0;
    loss = all[head] / ((double)n * (double)(t->config->train.batch * t->config->model.context));
    bits = dp_steplog_bits(t->log, loss);
    if (isfinite(bits))
        snprintf(rate, sizeof rate, "%.4f bits/byte", bits);
    snprintf(text, sizeof text, "validation loss %.4f%s%s", loss, rate[0] ? ", " : "", rate);
    dp_trainer_tell(t, DP_EV_EVAL, loss, rate);
    dp_steplog_event(t->log, "eval", t->step, loss, text);
    return 0;
}

/* A checkpoint that fails at an interval is a warning; the last one must succeed. */
static int save(struct dp_trainer *t, bool must, struct dp_err *err)
{
    if (dp_distributed_save(&t->collectives, t->config, t->be, &t->start.tune, t->stage, t->step, &t->saved, err) == 0) {
        dp_trainer_event(t, DP_EV_SAVED, "saved", NAN, t->saved.path);
        return 0;
    }
    dp_err_prefix(err, "checkpoint at step %llu", (unsigned long long)t->step);
    if (must || err->code == DP_EGONE)
        return -1;
    if (dp_trainer_leads(t))
        dp_warn("%s", err->text);
    return 0;
}

/* At the end of a job's time Slurm kills it after KillWait, in an evaluation, too: what can be saved is saved before.
 * Else a checkpoint comes last, so that a run which goes on from it has no evaluation to make up for. */
static int evaluate_and_save(struct dp_trainer *t, uint32_t flags, struct dp_save_clock_took *took, struct dp_err *err)
{
    bool stops = flags & DP_ORDER_STOP;

    for (int turn = 0; turn < 2; turn++) {
        bool is_save = (turn == 0) == stops;
        uint32_t what = is_save ? DP_ORDER_SAVE : DP_ORDER_EVAL;
        uint64_t start_ns = dp_now_ns();

        if (!(flags & ~t->standing.done & what))
            continue;
        if ((is_save ? save(t, stops, err) : evaluate(t, err)) < 0)
            return -1;
        t->standing.done |= what;
        t->standing.told |= dp_trainer_leads(t) ? what : 0;
        *(is_save ? &took->save_ns : &took->eval_ns) = dp_now_ns() - start_ns;
    }
    return 0;
}

static int do_work(struct dp_trainer *t, const struct dp_step_order *o, uint32_t work, struct dp_save_clock_took *took,
                   struct dp_err *err)
{
    dp_trainer_trace(t);
    dp_memory_need_begin(&t->need);
    if (dp_tied_head_settle(&t->tied, &t->wait_ns, err) < 0)
        return -1;
    if (work & DP_ORDER_SCHEME && !t->is_joining && apply_schemes(t, o->scheme, err) < 0)
        return -1;
    if (work & DP_ORDER_HANDOVER && hand_over(t, o->migration, err) < 0)
        return -1;
    if (!t->is_leaving && !t->is_joining && evaluate_and_save(t, o->flags, took, err) < 0)
        return -1;
    dp_metrics_reset(t->metrics, t->stage);
    dp_memory_need_end(&t->need, work);
    if (work & (DP_ORDER_SCHEME | DP_ORDER_HANDOVER))
        dp_memory_trim();
    return 0;
}

/* What a hand-over moved away is kept until all have acknowledged it. */
static int drop_copies(struct dp_trainer *t, struct dp_err *err)
{
    int state = dp_handover_poll(t->handover, err);
    bool had_copies = t->has_copies;

    if (state < 0)
        return -1;
    t->has_copies = state == DP_MEMBER_KEEPING;
    if (had_copies && !t->has_copies)
        dp_memory_trim();
    return 0;
}

int dp_trainer_boundary(struct dp_trainer *t, const struct dp_step_order *o, struct dp_err *err)
{
    uint32_t work = o->flags & ~(uint32_t)(DP_ORDER_STOP | DP_ORDER_COPIES);
    struct dp_save_clock_took took = {0};
    uint64_t start_ns = dp_now_ns();

    t->order = o;
    if (drop_copies(t, err) < 0 || dp_trainer_shadow_boundary(t, o, err) < 0 || dp_trainer_copies_settle(t, o, err) < 0 ||
        (work && do_work(t, o, work, &took, err) < 0) || dp_trainer_shadow_begin(t, o, err) < 0 ||
        dp_trainer_copies_boundary(t, o, err) < 0)
        return -1;
    t->order = NULL;
    if (work)
        t->boundary_ns += dp_now_ns() - start_ns;
    dp_save_clock_boundary(&t->save_clock, dp_now_ns(), &took);
    return 0;
}
