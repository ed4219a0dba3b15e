/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: after a loss the others go on with the step that they are at, where every layer is with one of them
 * (rescue_plan.h). Nothing that a worker has is let go of before all have said that they have theirs: until then another loss makes them
 * begin again with what is left.
 */
#include "worker/train/trainer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/handover/transfer.h"
#include "worker/model/layer_parts.h"
#include "worker/train/lost/rescue_plan.h"

#define IDLE_NS (20 * DP_MS_NS)      /* asleep, unless a message comes */
#define STALL_NS (30 * DP_SECOND_NS) /* without any byte moving */

struct dp_rescue {
    struct dp_layout before; /* in force when the first of them was lost */
    struct dp_layer *layer[DP_MAX_LAYERS]; /* what this worker has, by index in the model; NULL: not that one */
    struct dp_rescue_plan plan;
};

int dp_trainer_rescue_begin(struct dp_trainer *t, struct dp_err *err)
{
    if (t->rescue)
        return 0;
    t->rescue = calloc(1, sizeof *t->rescue);
    if (!t->rescue)
        return dp_err_set(err, DP_ENOMEM, "no memory to regroup");
    t->rescue->before = t->layout;
    return 0;
}

void dp_trainer_rescue_end(struct dp_trainer *t)
{
    for (uint32_t i = 0; t->rescue && i < DP_MAX_LAYERS; i++)
        dp_layer_destroy(t->rescue->layer[i]);
    free(t->rescue);
    t->rescue = NULL;
}

/* ---- who has what ---- */

static void fill(const struct dp_trainer *t, struct dp_rescue_offer *o)
{
    o->standing = t->standing;
    o->is_new = t->is_new;
    o->copies_step = dp_copies_step(t->copies);
    o->can_copies_step = dp_copies_can_step(t->copies, o->copies_step);
    for (uint32_t i = 0; i < t->layout.n_layers; i++) {
        if (t->rescue->layer[i] || (t->stage && dp_stage_find(t->stage, i)))
            dp_layer_set_add(o->layers, i);
        if (dp_copies_has(t->copies, i))
            dp_layer_set_add(o->copies, i);
    }
}

/* The leader looks at what all have, and tells them. */
static int decide(struct dp_trainer *t, struct dp_err *err)
{
    const uint32_t n = t->layout.n_workers;
    struct dp_rescue_offer *mine = calloc(1, sizeof *mine), *all = dp_trainer_leads(t) ? calloc(n, sizeof *all) : NULL;
    size_t offset[DP_MAX_WORKERS + 1];
    int rc = -1;

    if (!mine || (dp_trainer_leads(t) && !all)) {
        dp_err_set(err, DP_ENOMEM, "no memory for the layers of %u workers", n);
        goto out;
    }
    fill(t, mine);
    for (uint32_t r = 0; r <= n; r++)
        offset[r] = r * sizeof *mine;
    if (dp_collectives_gather(&t->collectives, mine, sizeof *mine, all, offset, err) < 0)
        goto out;
    if (dp_trainer_leads(t))
        dp_rescue_plan_make(all, &t->layout, &t->rescue->plan);
    rc = dp_collectives_broadcast(&t->collectives, &t->rescue->plan, sizeof t->rescue->plan, err);
out:
    free(mine);
    free(all);
    return rc;
}

/* ---- the same step everywhere ---- */

/* Copies that cannot come along are none: the plan counts on none of them. */
static int step_copies(struct dp_trainer *t, const struct dp_rescue_plan *p, struct dp_err *err)
{
    if (dp_copies_step(t->copies) + 1 == p->step && p->order.step > 0 && dp_copies_can_step(t->copies, p->step - 1) &&
        dp_copies_step_again(t->copies, p->step - 1, dp_trainer_grad_scale(t, p->order.grad_norm), err) < 0)
        return dp_err_prefix(err, "copies of layers");
    if (dp_copies_step(t->copies) != p->step)
        dp_trainer_copies_end(t);
    return 0;
}

/* Whoever has not heard the newest order hears it of the plan; its gradients are whole. */
static int step_again(struct dp_trainer *t, const struct dp_rescue_plan *p, struct dp_err *err)
{
    if (p->order.step == 0)
        return 0;
    if (t->standing.order.step != p->step)
        dp_trainer_note_order(t, &p->order, &p->reached);
    if (t->standing.step == p->step || !t->stage || !dp_stage_n_layers(t->stage))
        return 0;
    if (dp_trainer_step_layers(t, &p->order, err) < 0)
        return dp_err_prefix(err, "step %llu", (unsigned long long)p->step);
    return t->be->ops->sync(t->be, err);
}

/* Out of the stage. Gradients of the step that nobody has ended are none. */
static int take_out(struct dp_trainer *t, struct dp_err *err)
{
    struct dp_layer **layers;
    uint32_t n = t->stage ? dp_stage_n_layers(t->stage) : 0;
    int rc = 0;

    layers = calloc(n + 1, sizeof *layers);
    if (!layers)
        return dp_err_set(err, DP_ENOMEM, "no memory to regroup");
    if (n)
        dp_stage_take_layers(t->stage, layers);
    dp_stage_destroy(t->stage);
    t->stage = NULL;
    for (uint32_t i = 0; i < n; i++) {
        t->rescue->layer[layers[i]->index] = layers[i];
        if (rc == 0)
            rc = dp_layer_clear_gradients(layers[i], err);
    }
    free(layers);
    return rc;
}

/* Copies become layers where others count on them; the rest may go on as copies. */
static int promote(struct dp_trainer *t, const struct dp_rescue_plan *p, struct dp_err *err)
{
    for (uint32_t i = 0; i < t->layout.n_layers; i++) {
        if (p->provider[i] != t->rank || t->rescue->layer[i])
            continue;
        t->rescue->layer[i] = dp_copies_take(t->copies, i, err);
        if (!t->rescue->layer[i])
            return -1;
    }
    return 0;
}

/* One scheme that other workers have applied already. */
static int catch_up_with(struct dp_trainer *t, const struct dp_scheme *s, double target, struct dp_err *err)
{
    struct dp_layer **copy;
    uint32_t n = dp_copies_list(t->copies, &copy);

    for (uint32_t i = 0; i < t->layout.n_layers; i++)
        if (t->rescue->layer[i] && s->catch_up(t->rescue->layer[i], target, err) < 0)
            return -1;
    for (uint32_t i = 0; i < n; i++)
        if (s->catch_up(copy[i], target, NULL) < 0)
            copy[i] = NULL; /* it is dropped */
    return 0;
}

static int catch_up(struct dp_trainer *t, const struct dp_rescue_plan *p, struct dp_err *err)
{
    for (uint32_t k = 0; k < DP_N_SCHEMES; k++)
        if (p->schemes_catch_up >> k & 1 && catch_up_with(t, dp_scheme_at((enum dp_scheme_id)k), p->order.scheme[k].target, err) < 0)
            return -1;
    t->standing.schemes_done |= p->schemes_catch_up;
    return 0;
}

static int make_even(struct dp_trainer *t, struct dp_err *err)
{
    const struct dp_rescue_plan *p = &t->rescue->plan;

    if (step_again(t, p, err) < 0 || step_copies(t, p, err) < 0 || take_out(t, err) < 0 || promote(t, p, err) < 0 ||
        catch_up(t, p, err) < 0)
        return -1;
    t->step = t->standing.step = t->standing.given = p->step;
    return 0;
}

/* ---- to whom they belong now ---- */

static void find_moves(const struct dp_trainer *t, struct dp_moves *out)
{
    out->n = 0;
    for (uint32_t i = 0; i < t->layout.n_layers; i++) {
        uint32_t from = t->rescue->plan.provider[i], to = dp_layout_owner(&t->layout, i);

        if (from != to)
            out->move[out->n++] = (struct dp_move){.layer = i, .from = from, .to = to};
    }
}

static int drive(struct dp_trainer *t, struct dp_transfer *s, struct dp_err *err)
{
    int rc;

    while ((rc = dp_transfer_step(s, err)) == 0) {
        if (dp_trainer_must_regroup(t))
            return dp_err_set(err, DP_EGONE, "another worker was lost meanwhile");
        if (dp_now_ns() - s->moved_ns > STALL_NS)
            return dp_err_set(err, DP_ETIMEOUT, "no byte of the layers moved for %.0f s", (double)STALL_NS / 1e9);
        dp_transport_idle(t->args->transport, s->is_busy ? 0 : IDLE_NS);
        dp_trainer_serve(t);
    }
    return rc < 0 ? -1 : t->be->ops->sync(t->be, err);
}

/* What has come whole is this worker's, whatever becomes of the rest, and steps may be done on it again. sums: [layers] to which its
 * sender adds a layer's digest, and its receiver takes that away. */
static int take_arrived(struct dp_trainer *t, struct dp_transfer *s, uint64_t *sums, struct dp_err *err)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct dp_transfer_layer *c = &s->layer[i];
        uint64_t digest;

        if (!c->is_done)
            continue;
        if (c->shadow && dp_layer_complete(c->shadow, err) < 0)
            return -1; /* it stays the transfer's */
        memcpy(&digest, c->digest, sizeof digest);
        sums[c->move.layer] += c->move.from == t->rank ? digest : 0 - digest;
        if (c->shadow)
            t->rescue->layer[c->move.layer] = c->shadow;
        c->shadow = NULL;
    }
    return 0;
}

static int transfer(struct dp_trainer *t, const struct dp_moves *moves, uint64_t *sums, struct dp_err *err)
{
    const struct dp_handover_args args = {
        .transport = t->args->transport,
        .rank = t->rank,
        .layout = &t->layout,
        .held = t->rescue->layer,
        .config = t->config,
        .backend = t->be,
        .tune = &t->start.tune,
        .frozen = t->reached.frozen,
        .step = t->step,
        .mem_limit_bytes = t->mem_limit_bytes,
    };
    struct dp_transfer *s = dp_transfer_create(&args, t->layout.epoch, moves, &t->layout, err);
    int rc = s ? drive(t, s, err) : -1;

    if (s && take_arrived(t, s, sums, rc < 0 ? NULL : err) < 0)
        rc = -1;
    dp_transfer_destroy(s, &t->stuck);
    return rc;
}

/* All or none. */
static int move_layers(struct dp_trainer *t, struct dp_err *err)
{
    struct dp_moves *moves = calloc(1, sizeof *moves);
    uint64_t *sums = calloc(t->layout.n_layers, sizeof *sums);
    int rc = -1;

    if (moves && sums) {
        find_moves(t, moves);
        rc = moves->n ? transfer(t, moves, sums, err) : 0;
    } else {
        dp_err_set(err, DP_ENOMEM, "no memory to move layers");
    }
    rc = dp_collectives_agree(&t->collectives, rc, err);
    if (rc == 0 && moves->n)
        rc = dp_collectives_allreduce(&t->collectives, sums, t->layout.n_layers, err);
    for (uint32_t i = 0; rc == 0 && i < t->layout.n_layers; i++)
        if (sums[i])
            rc = dp_err_set(err, DP_ECORRUPT, "layer %u came otherwise than it went", i);
    free(moves);
    free(sums);
    return rc;
}

static int make_stage(struct dp_trainer *t, struct dp_err *err)
{
    const uint32_t first = t->layout.cut[t->rank], n = t->layout.cut[t->rank + 1] - first;
    struct dp_layer **own = &t->rescue->layer[first];

    for (uint32_t i = 0; i < n; i++)
        if (!own[i])
            return dp_err_set(err, DP_EINVAL, "layer %u did not come", first + i);
    t->stage = dp_stage_create(t->config, t->be, own, n, dp_stage_in_flight(t->config, &t->layout, t->rank), err);
    if (!t->stage)
        return -1;
    memset(own, 0, n * sizeof *own); /* they are the stage's */
    return 0;
}

/* Its layers are a stage again, and the head has the embedding's weights. */
static int open_stage(struct dp_trainer *t, struct dp_err *err)
{
    int rc = make_stage(t, err);

    if (rc == 0)
        rc = dp_trainer_open_layout(t, err);
    if (dp_collectives_agree(&t->collectives, rc, err) < 0)
        return -1;
    rc = dp_tied_head_renew(&t->tied, &t->layout, t->stage, t->step, &t->wait_ns, err);
    if (rc == 0)
        rc = dp_tied_head_settle(&t->tied, &t->wait_ns, err);
    if (rc == 0)
        dp_metrics_reset(t->metrics, t->stage);
    return dp_collectives_agree(&t->collectives, rc, err);
}

/* ---- public ---- */

/* The leader may have died between its order and the log. */
static void log_step(struct dp_trainer *t, const struct dp_rescue_plan *p)
{
    if (!dp_trainer_leads(t) || p->order.step == 0 || dp_steplog_newest(t->log) == p->step)
        return;
    dp_steplog_step(t->log, &(struct dp_step_line){.step = p->step,
                                                   .loss = p->order.loss,
                                                   .grad_norm = p->order.grad_norm,
                                                   .lr = dp_train_lr(t->config, p->step - 1),
                                                   .sparsity = p->reached.sparsity,
                                                   .frozen = p->reached.frozen,
                                                   .step_ns = t->step_ns,
                                                   .layout = &t->rescue->before});
}

static void note_standing(struct dp_trainer *t, const struct dp_rescue_plan *p)
{
    const uint32_t all = (1u << DP_N_SCHEMES) - 1;

    t->standing = (struct dp_standing){.step = p->step, .given = p->step, .order = p->order, .reached = p->reached, .done = p->done,
                                       .told = p->told, .schemes_done = all & ~p->schemes_missing, .schemes_told = p->schemes_told};
    t->step = p->step;
    t->loss = p->order.step ? p->order.loss : t->loss;
    t->is_new = false;
}

static int try(struct dp_trainer *t, struct dp_err *err)
{
    struct dp_rescue_plan *p = &t->rescue->plan;

    if (decide(t, err) < 0)
        return -1;
    if (!p->is_possible)
        return dp_err_set(err, DP_EINVAL, "%s", p->why_not);
    if (p->has_new && dp_collectives_broadcast(&t->collectives, &t->start, sizeof t->start, err) < 0)
        return -1;
    if (dp_collectives_agree(&t->collectives, make_even(t, err), err) < 0 || move_layers(t, err) < 0 || open_stage(t, err) < 0)
        return -1;
    note_standing(t, p);
    return 0;
}

int dp_trainer_rescue(struct dp_trainer *t, uint32_t *n_copies, char *why, size_t cap, struct dp_err *err)
{
    if (try(t, err) < 0) {
        if (err->code == DP_EGONE || dp_trainer_must_regroup(t))
            return -1;
        snprintf(why, cap, "%s", err->text);
        return 0;
    }
    log_step(t, &t->rescue->plan);
    *n_copies = t->rescue->plan.n_copies;
    dp_trainer_rescue_end(t);
    if (dp_trainer_count_reached(t, err) < 0)
        return -1;
    t->is_rescued = true;
    return 1;
}

int dp_trainer_rest_of_boundary(struct dp_trainer *t, struct dp_err *err)
{
    struct dp_step_order o = t->standing.order;

    o.step = t->step; /* before the first order there is none */
    o.flags &= ~(uint32_t)DP_ORDER_HANDOVER; /* the regroup ended it */
    o.flags |= DP_ORDER_COPIES; /* layers have other owners */
    o.shadow = DP_SHADOW_NONE;
    return dp_trainer_boundary(t, &o, err);
}
