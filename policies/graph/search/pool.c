/* SPDX-License-Identifier: BSD-3-Clause */
/* See pool.h. */
#include "policies/graph/search/pool.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/draw.h"

#define MOST_MOVED 64u /* units that move at a time */

int dp_pool_create(struct dp_pool *p, struct dp_search *s, struct dp_err *err)
{
    size_t n = (size_t)s->units->n + 1;
    bool has_room;

    *p = (struct dp_pool){.s = s, .draws = dp_draw_stream(s->seed, UINT64_MAX)};
    p->order = calloc(n, sizeof *p->order);
    p->stage = calloc(n, sizeof *p->stage);
    p->count = calloc(n, sizeof *p->count);
    has_room = p->order && p->stage && p->count;
    for (int i = 0; i < DP_POOL_SIZE; i++) {
        p->plan[i] = (struct dp_pool_plan){.load_ns = DP_SEARCH_NONE, .stage = calloc(n, sizeof *p->plan[i].stage)};
        has_room = has_room && p->plan[i].stage;
    }
    if (!has_room)
        return dp_err_set(err, DP_ENOMEM, "orders: out of memory");
    if (s->best_ns != DP_SEARCH_NONE) {
        p->plan[0].load_ns = s->best_ns;
        memcpy(p->plan[0].stage, s->stage, s->units->n * sizeof *s->stage);
    }
    if (s->source && s->source->begin(s->source->arg, s->units, s->n_devices, &p->walk, err) < 0)
        return -1;
    return dp_rule_facts_create(&p->facts, s->units, s->n_devices, err) < 0 ||
                   dp_closure_create(&p->closure, s->units, MOST_MOVED, err) < 0
               ? -1
               : 0;
}

void dp_pool_release(struct dp_pool *p)
{
    for (int i = 0; i < DP_POOL_SIZE; i++)
        free(p->plan[i].stage);
    if (p->s->source)
        p->s->source->end(p->walk);
    free(p->order);
    free(p->stage);
    free(p->count);
    dp_rule_facts_release(&p->facts);
    dp_closure_release(&p->closure);
}

bool dp_pool_goes_on(struct dp_pool *p)
{
    struct dp_search *s = p->s;
    const struct dp_plan_watch *watch = s->watch;

    s->searched = p->end_steps == UINT64_MAX ? 0 : (double)s->steps / (double)p->end_steps;
    if (s->was_ended || s->best_ns <= s->bound_ns || s->steps >= p->end_steps)
        return false;
    s->was_ended = watch && !watch->go_on(watch->arg, s->searched, s->best_ns == DP_SEARCH_NONE ? 0 : s->best_ns, s->bound_ns);
    return !s->was_ended;
}

/* p->stage into the pool. */
static void keep(struct dp_pool *p, uint64_t load_ns)
{
    struct dp_pool_plan last = p->plan[DP_POOL_SIZE - 1];
    int at = 0;

    while (at < DP_POOL_SIZE && p->plan[at].load_ns < load_ns)
        at++;
    if (at == DP_POOL_SIZE)
        return;
    if (p->plan[at].load_ns != load_ns) {
        memmove(&p->plan[at + 1], &p->plan[at], (size_t)(DP_POOL_SIZE - 1 - at) * sizeof *p->plan);
        p->plan[at] = (struct dp_pool_plan){load_ns, last.stage};
    }
    memcpy(p->plan[at].stage, p->stage, p->s->units->n * sizeof *p->stage);
}

int dp_pool_try(struct dp_pool *p, uint64_t limit_ns, uint64_t *load_ns, struct dp_err *err)
{
    struct dp_search *s = p->s;

    *load_ns = DP_SEARCH_NONE;
    s->n_orders++;
    s->steps += s->units->n;
    if (s->cut(s->arg, p->order, limit_ns, p->stage, load_ns, &s->steps, err) < 0)
        return -1;
    if (*load_ns == DP_SEARCH_NONE)
        return 0;
    keep(p, *load_ns);
    if (*load_ns < s->best_ns) {
        s->best_ns = *load_ns;
        memcpy(s->stage, p->stage, s->units->n * sizeof *s->stage);
    }
    return 0;
}

int dp_pool_order(struct dp_pool *p, const struct dp_rule *rule, struct dp_err *err)
{
    struct dp_search *s = p->s;

    return dp_rule_order(&p->facts, rule, p->end_steps - s->steps, p->order, &s->steps, err);
}

int dp_pool_order_learned(struct dp_pool *p, struct dp_err *err)
{
    struct dp_search *s = p->s;

    return s->source->order(p->walk, s->seed, p->n_asked++, p->end_steps - s->steps, p->order, &s->steps, err);
}

/* A counting sort; units are numbered in an order that no edge contradicts. */
void dp_pool_order_stages(struct dp_pool *p, const uint32_t *stage)
{
    uint32_t n = p->s->units->n, at = 0;

    memset(p->count, 0, ((size_t)n + 1) * sizeof *p->count);
    for (uint32_t v = 0; v < n; v++)
        p->count[stage[v]]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size = p->count[i];

        p->count[i] = at;
        at += size;
    }
    for (uint32_t v = 0; v < n; v++)
        p->order[p->count[stage[v]]++] = v;
}

/* p->order = that of the stages, but with the closure at the end (or at the beginning) of its stage. */
static void order_moved(struct dp_pool *p, const uint32_t *stage, bool is_later)
{
    const struct dp_closure *c = &p->closure;
    uint32_t of = stage[c->unit[0]], from = 0, to, at = 0, n_moved = 0;

    dp_pool_order_stages(p, stage); /* count[i] is where stage i ends, now */
    from = of ? p->count[of - 1] : 0;
    to = p->count[of];
    for (uint32_t i = from; i < to; i++) { /* p->stage is free here: it takes the part that comes second */
        bool is_moved = c->mark[p->order[i]] == c->number;

        if (is_moved == is_later)
            p->stage[n_moved++] = p->order[i];
        else
            p->order[from + at++] = p->order[i];
    }
    memcpy(p->order + from + at, p->stage, n_moved * sizeof *p->order);
}

static int climb(struct dp_pool *p, uint32_t which, uint64_t until_steps, struct dp_err *err)
{
    uint32_t n = p->s->units->n, *stage = malloc(((size_t)n + 1) * sizeof *stage), missed = 0;
    uint64_t now = p->plan[which].load_ns, load_ns;
    int rc = stage ? 0 : dp_err_set(err, DP_ENOMEM, "orders: out of memory");

    if (rc == 0)
        memcpy(stage, p->plan[which].stage, n * sizeof *stage);
    while (rc == 0 && missed < 4 * n && p->s->steps < until_steps && dp_pool_goes_on(p)) {
        uint32_t unit = dp_draw_below(&p->draws, n);
        bool is_later = dp_draw(&p->draws) & 1;

        missed++;
        p->s->steps++;
        if (!dp_closure_find(&p->closure, stage, unit, is_later))
            continue;
        order_moved(p, stage, is_later);
        rc = dp_pool_try(p, now, &load_ns, err);
        if (rc < 0 || load_ns == DP_SEARCH_NONE)
            continue;
        missed = load_ns < now ? 0 : missed;
        now = load_ns;
        memcpy(stage, p->stage, n * sizeof *stage);
    }
    free(stage);
    return rc;
}

static int refine(struct dp_pool *p, uint32_t which, uint32_t heat, uint64_t until_steps, struct dp_err *err)
{
    struct dp_search *s = p->s;
    uint64_t limit_ns = p->plan[which].load_ns, load_ns;

    memcpy(p->stage, p->plan[which].stage, s->units->n * sizeof *p->stage);
    if (s->refine(s->arg, p->stage, dp_draw(&p->draws), heat, until_steps - s->steps, &s->steps, err) < 0)
        return -1;
    dp_pool_order_stages(p, p->stage);
    return dp_pool_try(p, limit_ns, &load_ns, err);
}

int dp_pool_order_again(struct dp_pool *p, uint32_t which, const struct dp_rule *rule, struct dp_err *err)
{
    struct dp_rule within = *rule;
    uint64_t limit_ns = p->plan[which].load_ns, load_ns;
    int rc;

    if (limit_ns == DP_SEARCH_NONE)
        return 0;
    within.stage = p->plan[which].stage;
    rc = dp_pool_order(p, &within, err);
    return rc <= 0 ? rc : dp_pool_try(p, limit_ns, &load_ns, err);
}

int dp_pool_improve(struct dp_pool *p, uint32_t which, uint32_t heat, uint64_t until_steps, struct dp_err *err)
{
    if (p->plan[which].load_ns == DP_SEARCH_NONE || p->s->steps >= until_steps || !dp_pool_goes_on(p))
        return 0;
    return p->s->refine ? refine(p, which, heat, until_steps, err) : climb(p, which, until_steps, err);
}
