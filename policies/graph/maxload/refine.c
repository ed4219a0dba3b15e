/* SPDX-License-Identifier: BSD-3-Clause */
/* See refine.h. What is made small is the sum over all stages of (load / slowest load)^8: the slowest one counts most,
 * and others that are nearly as slow count, too, without whose fall the slowest could not fall either. Threshold accepting
 * (Dueck and Scheuer 1990, J. Comput. Phys. 90): a move may make it worse by less than a threshold that falls to 0. In whole
 * numbers, so that every machine takes the same moves. */
#include "policies/graph/maxload/refine.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/closure.h"
#include "policies/graph/search/draw.h"

#define MOST_CELLS (1u << 24) /* of the table of nets and stages */
#define MOST_MOVED 12u /* more are seldom of use, and cost time */
#define ONE 4096u        /* the weight of the slowest stage */

struct stage {
    uint64_t accel_ns, traffic_ns, bytes, kept_bytes;
    uint32_t n_units;
};

struct refine {
    const struct dp_refine *q;
    struct dp_closure closure;
    uint32_t n_stages;
    struct stage *at;    /* [n_stages] */
    uint32_t *held;      /* [nets][n_stages] units of the net */
    uint32_t *stage, *best; /* [units] */
    uint64_t best_ns, unit_ns; /* of the slowest stage; and of 1 / ONE of it */
    uint64_t steps, draws;
};

static uint64_t load_of(const struct refine *r, uint32_t s)
{
    return r->at[s].accel_ns + r->at[s].traffic_ns;
}

static bool is_allowed(const struct refine *r, uint32_t s)
{
    const struct stage *t = &r->at[s];
    uint64_t kept;

    return t->n_units && !__builtin_mul_overflow(t->kept_bytes, (uint64_t)(r->n_stages - s), &kept) &&
           kept <= r->q->accel_bytes && t->bytes <= r->q->accel_bytes - kept;
}

/* What the stage has of a net changes from `before` to `after` units. */
static void pay(struct stage *t, uint64_t net_ns, uint32_t size, uint32_t before, uint32_t after)
{
    if (before && before < size)
        t->traffic_ns -= net_ns;
    if (after && after < size)
        t->traffic_ns += net_ns;
}

static void add_sums(const struct refine *r, uint32_t unit, uint32_t s)
{
    const struct dp_units *u = r->q->units;
    struct stage *t = &r->at[s];

    t->accel_ns += u->accel_ns[unit];
    t->bytes += u->bytes[unit];
    t->kept_bytes += u->kept_bytes[unit];
    t->n_units++;
}

static void move(struct refine *r, uint32_t unit, uint32_t to)
{
    const struct dp_units *u = r->q->units;
    uint32_t from = r->stage[unit];
    struct stage *f = &r->at[from];

    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++) {
        uint32_t net = u->net_of[i], *held = r->held + (size_t)net * r->n_stages;

        pay(f, u->net_ns[net], u->net_size[net], held[from], held[from] - 1);
        pay(&r->at[to], u->net_ns[net], u->net_size[net], held[to], held[to] + 1);
        held[from]--;
        held[to]++;
    }
    f->accel_ns -= u->accel_ns[unit];
    f->bytes -= u->bytes[unit];
    f->kept_bytes -= u->kept_bytes[unit];
    f->n_units--;
    add_sums(r, unit, to);
    r->stage[unit] = to;
    r->steps += 2 * (u->net_of_at[unit + 1] - u->net_of_at[unit]) + 1;
}

/* (load / slowest)^8, in 1 / ONE. */
static uint64_t weight(const struct refine *r, uint32_t s)
{
    uint64_t x = load_of(r, s) / r->unit_ns;

    x = x < 4 * ONE ? x : 4 * ONE;
    x = x * x / ONE;
    x = x * x / ONE;
    return x * x / ONE;
}

static uint64_t slowest(const struct refine *r)
{
    uint64_t most = 0;

    for (uint32_t s = 0; s < r->n_stages; s++)
        most = load_of(r, s) > most ? load_of(r, s) : most;
    return most;
}

static void keep_best(struct refine *r)
{
    uint64_t load = slowest(r);

    r->steps += r->n_stages / 4;
    if (load >= r->best_ns)
        return;
    r->best_ns = load;
    r->unit_ns = load / ONE + 1;
    memcpy(r->best, r->stage, r->q->units->n * sizeof *r->best);
    r->steps += r->q->units->n / 8;
}

static void try_move(struct refine *r, uint64_t threshold)
{
    uint32_t unit = dp_draw_below(&r->draws, r->q->units->n), from = r->stage[unit], to;
    bool is_later = dp_draw(&r->draws) >> 63;
    uint64_t before, after;

    is_later = from == 0 || (is_later && from + 1 < r->n_stages);
    to = is_later ? from + 1 : from - 1;
    r->steps += 2;
    if (!dp_closure_find(&r->closure, r->stage, unit, is_later))
        return;
    before = weight(r, from) + weight(r, to);
    for (uint32_t i = 0; i < r->closure.n; i++)
        move(r, r->closure.unit[i], to);
    after = weight(r, from) + weight(r, to);
    if (is_allowed(r, from) && is_allowed(r, to) && after <= before + threshold) {
        keep_best(r);
        return;
    }
    for (uint32_t i = 0; i < r->closure.n; i++)
        move(r, r->closure.unit[i], from);
}

static void fill(struct refine *r)
{
    const struct dp_units *u = r->q->units;
    uint32_t n = r->n_stages;

    for (uint32_t v = 0; v < u->n; v++) {
        add_sums(r, v, r->stage[v]);
        for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++)
            r->held[(size_t)u->net_of[i] * n + r->stage[v]]++;
    }
    for (uint32_t net = 0; net < u->n_nets; net++)
        for (uint32_t s = 0; s < n; s++)
            pay(&r->at[s], u->net_ns[net], u->net_size[net], 0, r->held[(size_t)net * n + s]);
    r->best_ns = slowest(r);
    r->unit_ns = r->best_ns / ONE + 1;
    r->steps += ((uint64_t)u->n_nets * n + u->n) / 4;
}

static void search(struct refine *r)
{
    const struct dp_plan_watch *watch = r->q->watch;
    uint64_t before = r->steps, all = r->q->max_steps;

    for (uint64_t i = 1; r->steps < all && r->best_ns > r->q->lower_ns; i++) {
        uint64_t done = (r->steps - before) * 1024 / (all - before + 1); /* steps are far below 2^54 */

        try_move(r, (uint64_t)r->q->heat * (1024 - done) / 1024);
        r->steps += r->closure.steps;
        r->closure.steps = 0;
        if (watch && i % 4096 == 0 && !watch->go_on(watch->arg, (double)done / 1024, r->best_ns, r->q->lower_ns))
            break;
    }
}

int dp_refine_run(const struct dp_refine *q, uint32_t *stage, uint64_t *steps, struct dp_err *err)
{
    const struct dp_units *u = q->units;
    struct refine r = {.q = q, .stage = stage, .draws = q->seed};
    uint64_t cells;
    int rc = -1;

    for (uint32_t v = 0; v < u->n; v++)
        r.n_stages = stage[v] + 1 > r.n_stages ? stage[v] + 1 : r.n_stages;
    cells = (uint64_t)u->n_nets * r.n_stages;
    if (cells > MOST_CELLS || r.n_stages < 2)
        return 0;
    r.at = calloc(r.n_stages, sizeof *r.at);
    r.held = calloc((size_t)cells + 1, sizeof *r.held);
    r.best = malloc(((size_t)u->n + 1) * sizeof *r.best);
    if (!r.at || !r.held || !r.best)
        dp_err_set(err, DP_ENOMEM, "moves between stages: out of memory");
    else if (dp_closure_create(&r.closure, u, MOST_MOVED, err) == 0) {
        memcpy(r.best, stage, u->n * sizeof *r.best);
        fill(&r);
        search(&r);
        memcpy(stage, r.best, u->n * sizeof *r.best);
        rc = 0;
    }
    *steps += r.steps;
    free(r.at);
    free(r.held);
    free(r.best);
    dp_closure_release(&r.closure);
    return rc;
}
