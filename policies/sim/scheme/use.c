/* SPDX-License-Identifier: BSD-3-Clause */
/* See scheme.h: a choice into a case. The case's events are gone through once, with the costs that it would have without the
 * scheme; the scheme's own changes come between them. */
#include "policies/sim/scheme/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COSTS (1u << 22) /* layers x events with costs: about 400 MB */

struct work {
    const struct dp_sim_scheme_choice *choice;
    struct dp_sim_scheme_in in;
    struct dp_sim_case *c;
    struct dp_sim_layer *base; /* [n_layers] costs without the scheme */
    double *density;           /* [n_layers] */
    struct dp_sim_event *event; /* the new ones */
    uint32_t n;
};

void dp_sim_scheme_scale_times(struct dp_sim_layer *l, double factor)
{
    l->fwd_ns = dp_sim_scheme_scale(l->fwd_ns, factor);
    l->bwd_input_ns = dp_sim_scheme_scale(l->bwd_input_ns, factor);
    l->bwd_weight_ns = dp_sim_scheme_scale(l->bwd_weight_ns, factor);
}

uint64_t dp_sim_scheme_scale(uint64_t n, double factor)
{
    double v = round((double)n * factor);

    return v < DP_SIM_LONGEST_NS ? (uint64_t)v : (uint64_t)DP_SIM_LONGEST_NS;
}

uint64_t dp_sim_scheme_iteration(const struct dp_sim_scheme_in *in, double share)
{
    double at = ceil((double)in->iterations * share - 1e-9) + 1.0; /* exact shares are whole iterations */

    return at >= 2.0 && at <= (double)in->iterations ? (uint64_t)at : 0;
}

/* Is layer i the only one of its kind? */
static bool is_single(const struct dp_sim_case *c, uint32_t i)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < c->n_layers && n < 2; k++)
        n += c->kind_of[k] == c->kind_of[i];
    return n == 1;
}

void dp_sim_scheme_blocks(const struct dp_sim_case *c, uint32_t *first, uint32_t *end)
{
    *first = 0;
    *end = c->n_layers;
    while (c->kind_of && *first < *end && is_single(c, *first))
        ++*first;
    while (c->kind_of && *end > *first && is_single(c, *end - 1))
        --*end;
    if (c->kind_of && *first < *end)
        return;
    *first = c->n_layers > 2 ? 1 : 0;
    *end = c->n_layers > 2 ? c->n_layers - 1 : c->n_layers;
}

/* Does an event of the case's change costs? */
static bool has_costs(const struct dp_sim_event *e)
{
    return e->has_density || e->layer;
}

/* Costs without the scheme, from an event on; NULL: to begin with. */
static int take_base(struct work *u, const struct dp_sim_event *e, struct dp_err *err)
{
    const struct dp_sim_case *c = u->c;

    if (e && e->layer)
        memcpy(u->base, e->layer, c->n_layers * sizeof *u->base);
    for (uint32_t i = 0; e && e->has_density && i < c->n_layers; i++)
        u->density[i] = e->densities ? e->densities[i] : e->density;
    if (!c->kind_of || (e && !e->has_density))
        return 0;
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (dp_sim_cost_at(&c->kind[c->kind_of[i]], u->density[i], &u->base[i], err) < 0)
            return dp_err_prefix(err, "layer %u", i);
    return 0;
}

static int set_costs(struct work *u, struct dp_sim_event *e, struct dp_err *err)
{
    struct dp_sim_layer *layer = malloc(u->in.n_layers * sizeof *layer);

    if (!layer)
        return dp_err_set(err, DP_ENOMEM, "costs of %u layers: out of memory", u->in.n_layers);
    memcpy(layer, u->base, u->in.n_layers * sizeof *layer);
    u->choice->scheme->rule->apply(&u->in, e->iteration, layer);
    free(e->layer);
    free(e->densities);
    e->layer = layer;
    e->densities = NULL;
    e->has_density = false;
    e->measured_ns = 0;
    e->lost = 0;
    return 0;
}

/* The case's next event goes over to the new ones; its costs are those of the scheme if they change there. */
static int take_event(struct work *u, uint32_t i, bool changes, struct dp_err *err)
{
    struct dp_sim_event *e = &u->event[u->n++];

    *e = u->c->event[i];
    memset(&u->c->event[i], 0, sizeof u->c->event[i]);
    e->measured_ns = 0;
    if (has_costs(e)) {
        if (take_base(u, e, err) < 0)
            return dp_err_prefix(err, "event %u", i);
        changes = true;
    }
    return changes ? set_costs(u, e, err) : 0;
}

/* Everything in the order of iterations. at: [n_at] those at which the scheme changes costs, the first one is 1. */
static int merge(struct work *u, const uint64_t *at, uint32_t n_at, struct dp_err *err)
{
    struct dp_sim_case *c = u->c;
    uint32_t i = 0;

    for (uint32_t k = 0; k <= n_at; k++) {
        uint64_t now = k < n_at ? at[k] : UINT64_MAX;

        for (; i < c->n_events && c->event[i].iteration < now; i++)
            if (take_event(u, i, false, err) < 0)
                return -1;
        if (k == n_at)
            break;
        if (i < c->n_events && c->event[i].iteration == now) {
            if (take_event(u, i++, true, err) < 0)
                return -1;
        } else {
            u->event[u->n++] = (struct dp_sim_event){.iteration = now};
            if (set_costs(u, &u->event[u->n - 1], err) < 0)
                return -1;
        }
    }
    return 0;
}

static int check_size(const struct work *u, uint32_t n_at, struct dp_err *err)
{
    uint64_t all = n_at;

    for (uint32_t i = 0; i < u->c->n_events; i++)
        all += has_costs(&u->c->event[i]);
    if (all * u->c->n_layers > MOST_COSTS)
        return dp_err_set(err, DP_EINVAL, "%u layers whose costs change %llu times; at most %u costs can be simulated", u->c->n_layers,
                          (unsigned long long)all, MOST_COSTS);
    return 0;
}

static void name_source(const struct dp_sim_scheme_choice *choice, struct dp_sim_case *c)
{
    size_t n = strlen(c->source);
    char text[256];

    dp_sim_scheme_format(choice, text, sizeof text);
    snprintf(c->source + n, sizeof c->source - n, "; scheme %s: %s", text, choice->scheme->rule->source);
}

static int use(struct work *u, struct dp_err *err)
{
    const struct dp_sim_scheme_rule *rule = u->choice->scheme->rule;
    uint64_t at[1 + DP_SIM_SCHEME_CHANGES] = {1};
    uint32_t n_at;

    if (rule->check && rule->check(&u->in, err) < 0)
        return -1;
    n_at = 1 + (rule->changes ? rule->changes(&u->in, at + 1) : 0);
    if (check_size(u, n_at, err) < 0 || take_base(u, NULL, err) < 0)
        return -1;
    u->event = calloc((size_t)u->c->n_events + n_at, sizeof *u->event);
    if (!u->event)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    return merge(u, at, n_at, err);
}

/* What is left of the case's own events is empty, or was not reached. */
static void drop_events(struct dp_sim_event *event, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(event[i].densities);
        free(event[i].layer);
        free(event[i].count);
    }
    free(event);
}

int dp_sim_scheme_use(const struct dp_sim_scheme_choice *choice, struct dp_sim_case *c, struct dp_err *err)
{
    struct work u = {.choice = choice, .c = c, .in = {.value = choice->value, .n_layers = c->n_layers, .iterations = c->iterations}};
    int rc = -1;

    dp_sim_scheme_blocks(c, &u.in.first, &u.in.end);
    u.base = calloc(c->n_layers, sizeof *u.base);
    u.density = calloc(c->n_layers, sizeof *u.density);
    for (uint32_t i = 0; u.density && i < c->n_layers; i++)
        u.density[i] = 1.0;
    if (!u.base || !u.density)
        dp_err_set(err, DP_ENOMEM, "costs of %u layers: out of memory", c->n_layers);
    else
        rc = use(&u, err);
    if (rc == 0) {
        struct dp_sim_event *before = c->event;
        uint32_t n_before = c->n_events;

        c->event = u.event;
        c->n_events = u.n;
        u.event = before;
        u.n = n_before;
        name_source(choice, c);
    }
    drop_events(u.event, u.n);
    free(u.base);
    free(u.density);
    return rc < 0 ? dp_err_prefix(err, "scheme %s", choice->scheme->name) : 0;
}
