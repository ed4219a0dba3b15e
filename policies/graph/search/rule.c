/* SPDX-License-Identifier: BSD-3-Clause */
/* See rule.h. A feature is about -256..256, and never more than 64 times that: sums fit by far. */
#include "policies/graph/search/rule.h"

#include <stdlib.h>

#include "policies/graph/search/draw.h"

#define ONE 256    /* a feature of size one */
#define MOST 16384 /* none is larger */

struct walk {
    const struct dp_rule_facts *f;
    const struct dp_rule *rule;
    uint32_t *missing;  /* [units] predecessors that did not come yet */
    uint32_t *ready;    /* [n_ready] those without, by the time when they became so */
    uint32_t *since;    /* [units] when that was */
    uint32_t *held;     /* [nets] units of it that came */
    uint32_t n_ready, now;
    uint64_t done_ns;   /* compute of what came */
};

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
        f->depth[v] = (int32_t)((int64_t)f->depth[v] * ONE / longest);
        f->height[v] = (int32_t)((int64_t)f->height[v] * ONE / longest);
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

/* -size..size */
static int32_t draw_weight(uint64_t *state, int32_t size)
{
    return (int32_t)dp_draw_below(state, (uint32_t)(2 * size + 1)) - size;
}

void dp_rule_draw(struct dp_rule *rule, uint64_t seed, uint64_t number)
{
    uint64_t state = dp_draw_stream(seed, number);

    *rule = (struct dp_rule){.seed = dp_draw(&state)};
    for (int late = 0; late < 2; late++) {
        int32_t *w = rule->weight[late];

        switch (number % 4) {
        case 0: /* many features, with a liking for little traffic and for what is new */
        case 2:
            for (int i = 0; i < DP_RULE_FEATURES; i++)
                w[i] = dp_draw_below(&state, 2) ? draw_weight(&state, 512) : 0;
            w[DP_RULE_TRAFFIC] = -(int32_t)dp_draw_below(&state, 1024);
            w[DP_RULE_RECENT] = draw_weight(&state, 512) + 256;
            w[DP_RULE_KEY] /= 4;
            break;
        case 1: /* the least traffic, with noise */
            w[DP_RULE_TRAFFIC] = -512;
            w[DP_RULE_RECENT] = 64;
            w[DP_RULE_KEY] = (int32_t)dp_draw_below(&state, 512);
            break;
        default: /* depth first, or any order */
            w[DP_RULE_RECENT] = number % 16 == 15 ? 0 : 1024;
            w[DP_RULE_KEY] = 32;
            break;
        }
    }
}

static void make_ready(struct walk *w, uint32_t unit)
{
    if (--w->missing[unit] == 0) {
        w->since[unit] = w->now;
        w->ready[w->n_ready++] = unit;
    }
}

/* ns in parts of a mean, as a feature. */
static int32_t in_means(int64_t ns, uint64_t mean)
{
    int64_t v = ns / (int64_t)(mean / ONE + 1);

    return (int32_t)(v > MOST ? MOST : v < -MOST ? -MOST : v);
}

static int32_t key_of(const struct walk *w, uint32_t unit)
{
    uint64_t state = w->rule->seed + unit;

    return (int32_t)((w->rule->key ? w->rule->key[unit] : dp_draw(&state) >> 48) >> 7) - ONE; /* of 16 bits */
}

static void look_at_nets(const struct walk *w, uint32_t unit, int32_t *value)
{
    const struct dp_units *u = w->f->units;
    int64_t more = 0, open = 0;

    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++) {
        uint32_t net = u->net_of[i];
        bool closes = w->held[net] + 1 == u->net_size[net];

        if (w->held[net] == 0)
            more += (int64_t)u->net_ns[net];
        else
            open += (int64_t)(u->net_ns[net] / u->net_size[net]);
        if (closes)
            more -= (int64_t)u->net_ns[net];
        if (closes && value[DP_RULE_CLOSES] < 8 * ONE)
            value[DP_RULE_CLOSES] += ONE;
    }
    value[DP_RULE_TRAFFIC] = in_means(more, w->f->mean_net_ns);
    value[DP_RULE_OPEN] = in_means(open, w->f->mean_net_ns);
}

static int64_t score(const struct walk *w, uint32_t unit)
{
    const struct dp_units *u = w->f->units;
    bool is_late = w->done_ns % w->f->share_ns >= w->f->share_ns / 4 * 3;
    const int32_t *weight = w->rule->weight[is_late];
    uint32_t age = w->now - w->since[unit];
    int32_t value[DP_RULE_FEATURES] = {0};
    int64_t sum = 0;

    if (weight[DP_RULE_TRAFFIC] || weight[DP_RULE_CLOSES] || weight[DP_RULE_OPEN])
        look_at_nets(w, unit, value);
    value[DP_RULE_RECENT] = -(int32_t)(age < 256 ? age : 256) * 4;
    value[DP_RULE_DEPTH] = w->f->depth[unit];
    value[DP_RULE_HEIGHT] = w->f->height[unit];
    value[DP_RULE_WORK] = in_means((int64_t)u->accel_ns[unit], w->f->mean_ns);
    for (uint32_t i = u->succ_at[unit]; weight[DP_RULE_FREES] && i < u->succ_at[unit + 1]; i++)
        if (w->missing[u->succ[i]] == 1 && value[DP_RULE_FREES] < 8 * ONE)
            value[DP_RULE_FREES] += ONE;
    value[DP_RULE_PLACE] = (int32_t)((uint64_t)unit * ONE / u->n);
    value[DP_RULE_KEY] = key_of(w, unit);
    for (int i = 0; i < DP_RULE_FEATURES; i++)
        sum += (int64_t)weight[i] * value[i];
    return sum;
}

/* Of equals the one that became ready last; the others keep their order. */
static uint32_t take_best(struct walk *w)
{
    const struct dp_units *u = w->f->units;
    uint32_t best = w->n_ready - 1, unit;
    int64_t most = w->n_ready > 1 ? score(w, w->ready[best]) : 0;

    for (uint32_t i = best; i-- > 0;) {
        int64_t s = score(w, w->ready[i]);

        if (s > most) {
            most = s;
            best = i;
        }
    }
    unit = w->ready[best];
    w->n_ready--;
    for (uint32_t i = best; i < w->n_ready; i++)
        w->ready[i] = w->ready[i + 1];
    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++)
        w->held[u->net_of[i]]++;
    w->done_ns += u->accel_ns[unit];
    w->now++;
    return unit;
}

int dp_rule_order(const struct dp_rule_facts *f, const struct dp_rule *rule, uint64_t max_steps, uint32_t *order, uint64_t *steps,
                  struct dp_err *err)
{
    const struct dp_units *u = f->units;
    size_t n = (size_t)u->n + 1;
    struct walk w = {.f = f,
                     .rule = rule,
                     .missing = calloc(n, sizeof *w.missing),
                     .ready = calloc(n, sizeof *w.ready),
                     .since = calloc(n, sizeof *w.since),
                     .held = calloc((size_t)u->n_nets + 1, sizeof *w.held)};
    uint64_t made = 0;
    uint32_t i = 0;
    int rc = -1;

    if (!w.missing || !w.ready || !w.since || !w.held) {
        dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", u->n);
        goto out;
    }
    for (uint32_t v = 0; v < u->n; v++) {
        w.missing[v] = u->pred_at[v + 1] - u->pred_at[v] + 1;
        make_ready(&w, v);
    }
    for (; i < u->n && made <= max_steps; i++) {
        made += w.n_ready;
        order[i] = take_best(&w);
        for (uint32_t k = u->succ_at[order[i]]; k < u->succ_at[order[i] + 1]; k++)
            make_ready(&w, u->succ[k]);
    }
    *steps += made;
    rc = i == u->n;
out:
    free(w.missing);
    free(w.ready);
    free(w.since);
    free(w.held);
    return rc;
}
