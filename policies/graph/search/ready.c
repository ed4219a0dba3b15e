/* SPDX-License-Identifier: BSD-3-Clause */
/* See ready.h. Sums of features and weights fit by far. */
#include "policies/graph/search/ready.h"

#include <stdlib.h>

#include "policies/graph/search/draw.h"

#define MOST (64 * DP_READY_ONE) /* no feature is larger */

void dp_rule_facts_release(struct dp_rule_facts *f)
{
    free(f->depth);
    free(f->height);
    f->depth = f->height = NULL;
}

static void set_paths(struct dp_rule_facts *f)
{
    const struct dp_units *u = f->units;
    int32_t longest = 1;

    for (uint32_t v = 0; v < u->n; v++)
        for (uint32_t i = u->pred_at[v]; i < u->pred_at[v + 1]; i++)
            f->depth[v] = f->depth[u->pred[i]] + 1 > f->depth[v] ? f->depth[u->pred[i]] + 1 : f->depth[v];
    for (uint32_t v = u->n; v-- > 0;)
        for (uint32_t i = u->succ_at[v]; i < u->succ_at[v + 1]; i++)
            f->height[v] = f->height[u->succ[i]] + 1 > f->height[v] ? f->height[u->succ[i]] + 1 : f->height[v];
    for (uint32_t v = 0; v < u->n; v++)
        longest = f->depth[v] > longest ? f->depth[v] : longest;
    for (uint32_t v = 0; v < u->n; v++) {
        f->depth[v] = (int32_t)((int64_t)f->depth[v] * DP_READY_ONE / longest);
        f->height[v] = (int32_t)((int64_t)f->height[v] * DP_READY_ONE / longest);
    }
}

int dp_rule_facts_create(struct dp_rule_facts *f, const struct dp_units *u, uint32_t n_devices, struct dp_err *err)
{
    uint64_t total = 0, nets = 0;

    *f = (struct dp_rule_facts){.units = u,
                                .depth = calloc((size_t)u->n + 1, sizeof *f->depth),
                                .height = calloc((size_t)u->n + 1, sizeof *f->height)};
    if (!f->depth || !f->height)
        return dp_err_set(err, DP_ENOMEM, "rules for %u units: out of memory", u->n);
    for (uint32_t v = 0; v < u->n; v++)
        total += u->accel_ns[v];
    for (uint32_t i = 0; i < u->n_nets; i++)
        nets += u->net_ns[i];
    f->share_ns = total / n_devices + 1;
    f->mean_ns = total / (u->n ? u->n : 1) + 1;
    f->mean_net_ns = nets / (u->n_nets ? u->n_nets : 1) + 1;
    set_paths(f);
    return 0;
}

static void make_ready(struct dp_ready *r, uint32_t unit)
{
    if (--r->missing[unit] == 0) {
        r->since[unit] = r->now;
        r->unit[r->n++] = unit;
    }
}

/* ns in parts of a mean, as a feature. */
static int32_t in_means(int64_t ns, uint64_t mean)
{
    int64_t v = ns / (int64_t)(mean / DP_READY_ONE + 1);

    return (int32_t)(v > MOST ? MOST : v < -MOST ? -MOST : v);
}

static int32_t key_of(const struct dp_ready *r, uint32_t unit)
{
    uint64_t state = r->seed + unit;

    return (int32_t)((r->key ? r->key[unit] : dp_draw(&state) >> 48) >> 7) - DP_READY_ONE; /* of 16 bits */
}

static void look_at_nets(const struct dp_ready *r, uint32_t unit, int32_t *value)
{
    const struct dp_units *u = r->facts->units;
    int64_t more = 0, open = 0;

    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++) {
        uint32_t net = u->net_of[i];
        bool closes = r->held[net] + 1 == u->net_size[net];

        if (r->held[net] == 0)
            more += (int64_t)u->net_ns[net];
        else
            open += (int64_t)(u->net_ns[net] / u->net_size[net]);
        if (closes)
            more -= (int64_t)u->net_ns[net];
        if (closes && value[DP_RULE_CLOSES] < 8 * DP_READY_ONE)
            value[DP_RULE_CLOSES] += DP_READY_ONE;
    }
    value[DP_RULE_TRAFFIC] = in_means(more, r->facts->mean_net_ns);
    value[DP_RULE_OPEN] = in_means(open, r->facts->mean_net_ns);
}

bool dp_ready_is_late(const struct dp_ready *r)
{
    return r->done_ns % r->facts->share_ns >= r->facts->share_ns / 4 * 3;
}

void dp_ready_look(const struct dp_ready *r, uint32_t unit, const int32_t *weight, int32_t *value)
{
    const struct dp_units *u = r->facts->units;
    uint32_t age = r->now - r->since[unit];

    for (int i = 0; i < DP_RULE_FEATURES; i++)
        value[i] = 0;
    if (!weight || weight[DP_RULE_TRAFFIC] || weight[DP_RULE_CLOSES] || weight[DP_RULE_OPEN])
        look_at_nets(r, unit, value);
    value[DP_RULE_RECENT] = -(int32_t)(age < 256 ? age : 256) * 4;
    value[DP_RULE_DEPTH] = r->facts->depth[unit];
    value[DP_RULE_HEIGHT] = r->facts->height[unit];
    value[DP_RULE_WORK] = in_means((int64_t)u->accel_ns[unit], r->facts->mean_ns);
    for (uint32_t i = u->succ_at[unit]; (!weight || weight[DP_RULE_FREES]) && i < u->succ_at[unit + 1]; i++)
        if (r->missing[u->succ[i]] == 1 && value[DP_RULE_FREES] < 8 * DP_READY_ONE)
            value[DP_RULE_FREES] += DP_READY_ONE;
    value[DP_RULE_PLACE] = (int32_t)((uint64_t)unit * DP_READY_ONE / u->n);
    value[DP_RULE_KEY] = key_of(r, unit);
}

uint32_t dp_ready_take(struct dp_ready *r, uint32_t which)
{
    const struct dp_units *u = r->facts->units;
    uint32_t unit = r->unit[which];

    r->n--;
    for (uint32_t i = which; i < r->n; i++)
        r->unit[i] = r->unit[i + 1];
    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++)
        r->held[u->net_of[i]]++;
    r->done_ns += u->accel_ns[unit];
    r->now++;
    for (uint32_t i = u->succ_at[unit]; i < u->succ_at[unit + 1]; i++)
        make_ready(r, u->succ[i]);
    return unit;
}

int dp_ready_create(struct dp_ready *r, const struct dp_rule_facts *f, struct dp_err *err)
{
    const struct dp_units *u = f->units;
    size_t n = (size_t)u->n + 1;

    *r = (struct dp_ready){.facts = f,
                           .missing = calloc(n, sizeof *r->missing),
                           .unit = calloc(n, sizeof *r->unit),
                           .since = calloc(n, sizeof *r->since),
                           .held = calloc((size_t)u->n_nets + 1, sizeof *r->held)};
    if (!r->missing || !r->unit || !r->since || !r->held)
        return dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", u->n);
    for (uint32_t v = 0; v < u->n; v++) {
        r->missing[v] = u->pred_at[v + 1] - u->pred_at[v] + 1;
        make_ready(r, v);
    }
    return 0;
}

void dp_ready_release(struct dp_ready *r)
{
    free(r->missing);
    free(r->unit);
    free(r->since);
    free(r->held);
    r->missing = r->unit = r->since = r->held = NULL;
}
