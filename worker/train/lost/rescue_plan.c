/* SPDX-License-Identifier: BSD-3-Clause */
/* See rescue_plan.h. */
#include "worker/train/lost/rescue_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool dp_layer_set_has(const uint8_t set[DP_LAYER_SET_BYTES], uint32_t layer)
{
    return set[layer / 8] >> layer % 8 & 1;
}

void dp_layer_set_add(uint8_t set[DP_LAYER_SET_BYTES], uint32_t layer)
{
    set[layer / 8] |= (uint8_t)(1u << layer % 8);
}

static void __attribute__((format(printf, 2, 3))) refuse(struct dp_rescue_plan *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->why_not, sizeof p->why_not, format, args);
    va_end(args);
    p->is_possible = false;
}

static bool takes_part(const struct dp_rescue_offer *offers, const struct dp_layout *l, uint32_t rank)
{
    return !l->gone[rank] && !offers[rank].is_new;
}

static bool is_empty(const uint8_t set[DP_LAYER_SET_BYTES])
{
    for (uint32_t i = 0; i < DP_LAYER_SET_BYTES; i++)
        if (set[i])
            return false;
    return true;
}

/* The newest step that anybody has done, or may do. */
static void find_step(const struct dp_rescue_offer *offers, const struct dp_layout *l, struct dp_rescue_plan *p)
{
    for (uint32_t r = 0; r < l->n_workers; r++) {
        const struct dp_standing *s = &offers[r].standing;

        if (!takes_part(offers, l, r))
            continue;
        p->step = s->step > p->step ? s->step : p->step;
        p->step = s->order.step > p->step ? s->order.step : p->step;
    }
    for (uint32_t r = 0; r < l->n_workers && p->order.step == 0; r++)
        if (takes_part(offers, l, r) && offers[r].standing.order.step == p->step) {
            p->order = offers[r].standing.order;
            p->reached = offers[r].standing.reached;
        }
}

/* Can this worker's layers do that step? */
static bool comes_along(const struct dp_standing *s, const struct dp_rescue_plan *p)
{
    return s->step == p->step || (s->step + 1 == p->step && s->given == p->step && p->order.step > 0);
}

/* Can its copies? Those that cannot are not counted. */
static bool copies_come_along(const struct dp_rescue_offer *o, const struct dp_rescue_plan *p)
{
    return o->copies_step == p->step || (o->copies_step + 1 == p->step && o->can_copies_step && p->order.step > 0);
}

static bool has_any(const struct dp_rescue_offer *o, const struct dp_rescue_plan *p)
{
    return !is_empty(o->layers) || (!is_empty(o->copies) && copies_come_along(o, p));
}

static bool has_copy(const struct dp_rescue_offer *o, uint32_t layer, const struct dp_rescue_plan *p)
{
    return dp_layer_set_has(o->copies, layer) && copies_come_along(o, p);
}

static void check_standing(const struct dp_rescue_offer *offers, const struct dp_layout *l, struct dp_rescue_plan *p)
{
    for (uint32_t r = 0; r < l->n_workers && p->is_possible; r++)
        if (takes_part(offers, l, r) && !is_empty(offers[r].layers) && !comes_along(&offers[r].standing, p))
            refuse(p, "worker %u has done %llu steps, and others %llu", r, (unsigned long long)offers[r].standing.step,
                   (unsigned long long)p->step);
}

/* Who is to have it, if it has it or a copy, else the first that has, else the first with a copy. returns n_workers: nobody. */
static uint32_t find_provider(const struct dp_rescue_offer *offers, const struct dp_layout *l, uint32_t layer,
                              const struct dp_rescue_plan *p)
{
    uint32_t owner = dp_layout_owner(l, layer), own = l->n_workers, copy = l->n_workers;

    if (takes_part(offers, l, owner) && (dp_layer_set_has(offers[owner].layers, layer) || has_copy(&offers[owner], layer, p)))
        return owner;
    for (uint32_t r = l->n_workers; r-- > 0;) {
        if (!takes_part(offers, l, r))
            continue;
        own = dp_layer_set_has(offers[r].layers, layer) ? r : own;
        copy = has_copy(&offers[r], layer, p) ? r : copy;
    }
    return own < l->n_workers ? own : copy;
}

static void find_providers(const struct dp_rescue_offer *offers, const struct dp_layout *l, struct dp_rescue_plan *p)
{
    uint32_t n_missing = 0, first = 0;

    for (uint32_t i = 0; i < l->n_layers; i++) {
        uint32_t r = find_provider(offers, l, i, p);

        p->provider[i] = (uint16_t)r;
        p->n_copies += r < l->n_workers && !dp_layer_set_has(offers[r].layers, i);
        if (r == l->n_workers && n_missing++ == 0)
            first = i;
    }
    if (n_missing == 1)
        refuse(p, "layer %u is lost: no other worker has it, or a whole copy", first);
    else if (n_missing)
        refuse(p, "%u layers are lost, layer %u is the first: no other worker has them, or whole copies", n_missing, first);
}

/* Of one scheme that the order has: have all applied it, or none, or can those who have not do it alone? */
static void look_at_scheme(const struct dp_rescue_offer *offers, const struct dp_layout *l, uint32_t id, struct dp_rescue_plan *p)
{
    const struct dp_scheme *s = dp_scheme_at((enum dp_scheme_id)id);
    uint32_t n_done = 0, n = 0;

    for (uint32_t r = 0; r < l->n_workers; r++) {
        const struct dp_standing *at = &offers[r].standing;

        if (!takes_part(offers, l, r) || !has_any(&offers[r], p))
            continue;
        n++;
        n_done += at->order.step == p->step && at->schemes_done >> id & 1;
    }
    if (n_done == n)
        return;
    if (n_done == 0)
        p->schemes_missing |= 1u << id;
    else if (s->catch_up)
        p->schemes_catch_up |= 1u << id;
    else
        refuse(p, "%s was under way at step %llu: some layers are changed, and others not", s->name, (unsigned long long)p->step);
}

/* What the boundary of that step asks, and who has done it. An evaluation counts when it is in the log, a checkpoint when anybody knows
 * that it is there. */
static void find_done(const struct dp_rescue_offer *offers, const struct dp_layout *l, struct dp_rescue_plan *p)
{
    for (uint32_t r = 0; r < l->n_workers; r++) {
        const struct dp_standing *s = &offers[r].standing;

        if (!takes_part(offers, l, r) || s->order.step != p->step)
            continue;
        p->told |= s->told;
        p->done |= (s->done & DP_ORDER_SAVE) | (s->told & DP_ORDER_EVAL);
        p->schemes_told |= s->schemes_told;
    }
    for (uint32_t i = 0; i < DP_N_SCHEMES && p->is_possible; i++)
        if (p->order.flags & DP_ORDER_SCHEME && p->order.scheme[i].is_due)
            look_at_scheme(offers, l, i, p);
}

void dp_rescue_plan_make(const struct dp_rescue_offer *offers, const struct dp_layout *l, struct dp_rescue_plan *p)
{
    const uint32_t leader = dp_layout_leader(l);

    *p = (struct dp_rescue_plan){.is_possible = true};
    for (uint32_t r = 0; r < l->n_workers; r++)
        p->has_new |= !l->gone[r] && offers[r].is_new;
    if (offers[leader].is_new) {
        refuse(p, "worker %u, which leads now, has only just come", leader);
        return;
    }
    find_step(offers, l, p);
    find_providers(offers, l, p);
    if (p->is_possible)
        check_standing(offers, l, p);
    if (p->is_possible)
        find_done(offers, l, p);
}
