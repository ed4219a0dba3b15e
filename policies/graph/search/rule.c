/* SPDX-License-Identifier: BSD-3-Clause */
/* See rule.h. */
#include "policies/graph/search/rule.h"

#include "policies/graph/search/draw.h"

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

static int64_t score(const struct dp_ready *r, const struct dp_rule *rule, uint32_t unit)
{
    const int32_t *weight = rule->weight[dp_ready_is_late(r)];
    int32_t value[DP_RULE_FEATURES];
    int64_t sum = 0;

    dp_ready_look(r, unit, weight, value);
    for (int i = 0; i < DP_RULE_FEATURES; i++)
        sum += (int64_t)weight[i] * value[i];
    return sum;
}

/* Of equals the one that became ready last; the others keep their order. */
static uint32_t take_best(struct dp_ready *r, const struct dp_rule *rule)
{
    uint32_t best = r->n - 1;
    int64_t most = r->n > 1 ? score(r, rule, r->unit[best]) : 0;

    for (uint32_t i = best; i-- > 0;) {
        uint32_t now = rule->stage ? rule->stage[r->unit[i]] : 0, known = rule->stage ? rule->stage[r->unit[best]] : 0;
        int64_t s;

        if (now > known)
            continue;
        s = score(r, rule, r->unit[i]);
        if (now < known || s > most) {
            most = s;
            best = i;
        }
    }
    return dp_ready_take(r, best);
}

int dp_rule_order(const struct dp_rule_facts *f, const struct dp_rule *rule, uint64_t max_steps, uint32_t *order, uint64_t *steps,
                  struct dp_err *err)
{
    struct dp_ready r;
    uint64_t made = 0;
    uint32_t i = 0;
    int rc = dp_ready_create(&r, f, err);

    r.seed = rule->seed;
    r.key = rule->key;
    for (; rc == 0 && i < f->units->n && made <= max_steps; i++) {
        made += r.n;
        order[i] = take_best(&r, rule);
    }
    *steps += made;
    dp_ready_release(&r);
    return rc < 0 ? -1 : i == f->units->n;
}
