/* SPDX-License-Identifier: BSD-3-Clause */
/* See refine.h. What is made small is the sum over all stages of (load / slowest load)^8: the slowest one counts most,
 * and others that are nearly as slow count, too, without whose fall the slowest could not fall either. Threshold accepting
 * (Dueck and Scheuer 1990, J. Comput. Phys. 90): a move may make it worse by less than a threshold that falls to 0. In whole
 * numbers, so that every machine takes the same moves.
 *
 * Cheap cuts lie between a network's cells, and in a cell every cut is dear, so that single moves do not come across. Hence passes
 * (Fiduccia and Mattheyses 1982, DAC): unit after unit goes to the neighbour, each time the one with the least traffic, however
 * bad that is, and then back to where it was best on the way. A stage may run empty, and empty ones are brought to where
 * a pass can part another: the number of stages is found, too. */
#include "policies/graph/maxload/refine.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/closure.h"
#include "policies/graph/search/draw.h"

#define MOST_CELLS (1u << 24) /* of the table of nets and stages */
#define MOST_MOVED 12u /* more are seldom of use, and cost time */
#define ONE 4096u        /* the weight of the slowest stage */
#define PASSES 600u      /* of 1024 attempts: as it was best on published graphs; so are those below */
#define MOST_PASSED 100u /* units of a pass */
#define NOISE 32u        /* of 64: the largest share of a pass's units that come by chance */

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
    uint32_t *missing;               /* [units] of the stage that goes: neighbours that have to go before */
    uint32_t *ready, n_ready;        /* [units] that may go next, the latest at the end */
    uint32_t *passed, n_passed;      /* [units] that went */
};

static uint64_t load_of(const struct refine *r, uint32_t s)
{
    return r->at[s].accel_ns + r->at[s].traffic_ns;
}

static bool is_allowed(const struct refine *r, uint32_t s)
{
    const struct stage *t = &r->at[s];
    uint64_t kept;

    return !__builtin_mul_overflow(t->kept_bytes, (uint64_t)(r->n_stages - s), &kept) &&
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

/* The next stage or the one before, by chance where there are both. */
static bool draw_later(struct refine *r, uint32_t from)
{
    bool is_later = dp_draw(&r->draws) >> 63;

    return from == 0 || (is_later && from + 1 < r->n_stages);
}

static void try_move(struct refine *r, uint64_t threshold)
{
    uint32_t unit = dp_draw_below(&r->draws, r->q->units->n), from = r->stage[unit], to;
    bool is_later = draw_later(r, from);
    uint64_t before, after;

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

/* ---- passes ---- */

/* row[from] becomes row[to]; what lies between moves by one. */
static void rotate(uint32_t *row, uint32_t from, uint32_t to)
{
    uint32_t one = row[from];

    if (from < to)
        memmove(row + from, row + from + 1, (to - from) * sizeof *row);
    else
        memmove(row + to + 1, row + to, (from - to) * sizeof *row);
    row[to] = one;
}

/* The empty stage `empty` gets the number `to`. */
static void renumber(struct refine *r, uint32_t empty, uint32_t to)
{
    const struct dp_units *u = r->q->units;
    uint32_t low = empty < to ? empty : to, high = empty < to ? to : empty;
    struct stage t = r->at[empty];

    if (empty < to)
        memmove(r->at + low, r->at + low + 1, (high - low) * sizeof t);
    else
        memmove(r->at + low + 1, r->at + low, (high - low) * sizeof t);
    r->at[to] = t;
    for (uint32_t net = 0; net < u->n_nets; net++)
        rotate(r->held + (size_t)net * r->n_stages, empty, to);
    for (uint32_t v = 0; v < u->n; v++)
        if (r->stage[v] >= low && r->stage[v] <= high)
            r->stage[v] = empty < to ? r->stage[v] - 1 : r->stage[v] + 1;
    r->steps += (uint64_t)u->n_nets * (high - low) / 8 + u->n / 8;
}

/* An empty stage, where there is one, comes next to `from`, behind or before it. returns: from's number then. */
static uint32_t bring_empty(struct refine *r, uint32_t from, bool is_behind)
{
    uint32_t n_empty = 0, which, empty = 0, to;

    for (uint32_t s = 0; s < r->n_stages; s++)
        n_empty += !r->at[s].n_units;
    if (!n_empty)
        return from;
    which = dp_draw_below(&r->draws, n_empty);
    while (r->at[empty].n_units || which-- > 0)
        empty++;
    to = is_behind == (empty < from) ? from : is_behind ? from + 1 : from - 1;
    if (to != empty)
        renumber(r, empty, to);
    if (empty < from)
        return is_behind ? from - 1 : from;
    return is_behind ? from : from + 1;
}

/* By how much the traffic of both stages grows when the unit moves. */
static int64_t growth(struct refine *r, uint32_t unit, uint32_t from, uint32_t to)
{
    const struct dp_units *u = r->q->units;
    int64_t sum = 0;

    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++) {
        uint32_t net = u->net_of[i], size = u->net_size[net];
        const uint32_t *held = r->held + (size_t)net * r->n_stages;
        int before = (held[from] < size) + (held[to] > 0), after = (held[from] > 1) + (held[to] + 1 < size);

        sum += (int64_t)u->net_ns[net] * (after - before);
    }
    r->steps += (u->net_of_at[unit + 1] - u->net_of_at[unit]) / 2 + 1;
    return sum;
}

/* Which of the ready ones goes next: the one with the least traffic, of equals the latest; or by chance. */
static uint32_t choose(struct refine *r, uint32_t from, uint32_t to, uint32_t noise)
{
    uint32_t best = r->n_ready - 1;
    int64_t least = INT64_MAX;

    if (noise && dp_draw_below(&r->draws, 64) < noise)
        return dp_draw_below(&r->draws, r->n_ready);
    for (uint32_t i = r->n_ready; i-- > 0;) {
        int64_t g = growth(r, r->ready[i], from, to);

        if (g < least) {
            least = g;
            best = i;
        }
    }
    return best;
}

/* Units of a stage that no other one of it has to precede. */
static void find_ready(struct refine *r, uint32_t from, const uint32_t *at, const uint32_t *before)
{
    r->n_ready = 0;
    for (uint32_t v = 0; v < r->q->units->n; v++) {
        if (r->stage[v] != from)
            continue;
        r->missing[v] = 0;
        for (uint32_t k = at[v]; k < at[v + 1]; k++)
            r->missing[v] += r->stage[before[k]] == from;
        if (!r->missing[v])
            r->ready[r->n_ready++] = v;
        r->steps += (at[v + 1] - at[v]) / 4;
    }
    r->steps += r->q->units->n / 8;
}

static void take(struct refine *r, uint32_t which, uint32_t from, uint32_t to, const uint32_t *at, const uint32_t *behind)
{
    uint32_t unit = r->ready[which];

    memmove(r->ready + which, r->ready + which + 1, (--r->n_ready - which) * sizeof *r->ready);
    move(r, unit, to);
    r->passed[r->n_passed++] = unit;
    for (uint32_t k = at[unit]; k < at[unit + 1]; k++)
        if (r->stage[behind[k]] == from && --r->missing[behind[k]] == 0)
            r->ready[r->n_ready++] = behind[k];
}

static void pass(struct refine *r, uint64_t threshold)
{
    const struct dp_units *u = r->q->units;
    uint32_t from = r->stage[dp_draw_below(&r->draws, u->n)], n_best = 0, noise, to;
    uint64_t before, least = UINT64_MAX;
    bool is_later;

    noise = dp_draw(&r->draws) >> 63 ? 0 : dp_draw_below(&r->draws, NOISE);
    if (dp_draw(&r->draws) >> 63)
        from = bring_empty(r, from, dp_draw(&r->draws) >> 63);
    is_later = draw_later(r, from);
    to = is_later ? from + 1 : from - 1;
    before = weight(r, from) + weight(r, to);
    r->n_passed = 0;
    find_ready(r, from, is_later ? u->succ_at : u->pred_at, is_later ? u->succ : u->pred);
    while (r->n_ready && r->n_passed < MOST_PASSED && r->at[to].accel_ns < r->best_ns) {
        uint64_t now;

        take(r, choose(r, from, to, noise), from, to, is_later ? u->pred_at : u->succ_at, is_later ? u->pred : u->succ);
        now = weight(r, from) + weight(r, to);
        if (now < least && is_allowed(r, from) && is_allowed(r, to)) {
            least = now;
            n_best = r->n_passed;
        }
    }
    if (least > before + threshold)
        n_best = 0;
    while (r->n_passed > n_best)
        move(r, r->passed[--r->n_passed], from);
    if (n_best)
        keep_best(r);
}

/* ---- all of it ---- */

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
        uint64_t done = (r->steps - before) * 1024 / (all - before + 1), threshold; /* steps are far below 2^54 */

        threshold = (uint64_t)r->q->heat * (1024 - done) / 1024;
        if (dp_draw_below(&r->draws, 1024) < PASSES)
            pass(r, threshold);
        else
            try_move(r, threshold);
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
    r.n_stages = q->n_stages > r.n_stages ? q->n_stages : r.n_stages;
    cells = (uint64_t)u->n_nets * r.n_stages;
    if (cells > MOST_CELLS || r.n_stages < 2)
        return 0;
    r.at = calloc(r.n_stages, sizeof *r.at);
    r.held = calloc((size_t)cells + 1, sizeof *r.held);
    r.best = malloc(((size_t)u->n + 1) * sizeof *r.best);
    r.missing = calloc((size_t)u->n + 1, sizeof *r.missing);
    r.ready = calloc((size_t)u->n + 1, sizeof *r.ready);
    r.passed = calloc((size_t)u->n + 1, sizeof *r.passed);
    if (!r.at || !r.held || !r.best || !r.missing || !r.ready || !r.passed)
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
    free(r.missing);
    free(r.ready);
    free(r.passed);
    dp_closure_release(&r.closure);
    return rc;
}
