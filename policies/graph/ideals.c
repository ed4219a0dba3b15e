/* SPDX-License-Identifier: BSD-3-Clause */
/* See ideals.h. Level by level: the ideals with one unit more are those of this level plus each unit
 * whose predecessors they hold: its ready ones, which follow from those of the ideal that it was made from. A hash table over
 * the sets (each unit has a random word, a set the xor of its units') says which are known; equal words are compared bit by
 * bit. */
#include "policies/graph/ideals.h"

#include <stdlib.h>
#include <string.h>

struct growth {
    const struct dp_units *u;
    struct dp_ideals *out;
    uint32_t room, cap;
    uint64_t *hash;             /* [room] */
    uint64_t *ready;            /* [room * words] units that may be added, as bits */
    uint32_t *table;            /* [slots] ideal + 1 */
    uint32_t slots;             /* a power of two, at least twice the ideals */
    struct dp_ideal_step *step; /* [n_steps] (id: the smaller one), with `whole` */
    uint32_t *whole;            /* [n_steps] the larger one */
    uint32_t n_steps, room_steps;
};

static uint64_t unit_word(uint64_t unit)
{
    uint64_t z = (unit + 1) * 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t *bits_of(const struct dp_ideals *d, uint32_t id)
{
    return d->bits + (size_t)id * d->words;
}

bool dp_ideal_has(const struct dp_ideals *d, uint32_t id, uint32_t unit)
{
    if (!d->bits)
        return d->rank[unit] < id;
    return bits_of(d, id)[unit / 64] >> unit % 64 & 1;
}

bool dp_ideal_is_within(const struct dp_ideals *d, uint32_t a, uint32_t b)
{
    if (!d->bits)
        return a <= b;
    for (uint32_t w = 0; w < d->words; w++) {
        if (bits_of(d, a)[w] & ~bits_of(d, b)[w])
            return false;
    }
    return true;
}

static uint64_t *ready_of(const struct growth *w, uint32_t id)
{
    return w->ready + (size_t)id * w->out->words;
}

static int make_room(struct growth *w)
{
    uint32_t room = w->room ? 2 * w->room : 256;
    uint64_t *bits = realloc(w->out->bits, (size_t)room * w->out->words * sizeof *bits), *ready, *hash;
    uint32_t *table;

    if (bits)
        w->out->bits = bits;
    ready = bits ? realloc(w->ready, (size_t)room * w->out->words * sizeof *ready) : NULL;
    if (ready)
        w->ready = ready;
    hash = ready ? realloc(w->hash, room * sizeof *hash) : NULL;
    if (hash)
        w->hash = hash;
    table = hash ? calloc((size_t)room * 2, sizeof *table) : NULL;
    if (!table)
        return -1;
    free(w->table);
    w->table = table;
    w->slots = room * 2;
    w->room = room;
    for (uint32_t i = 0; i < w->out->n; i++) {
        uint32_t at = (uint32_t)w->hash[i] & (w->slots - 1);

        while (table[at])
            at = (at + 1) & (w->slots - 1);
        table[at] = i + 1;
    }
    return 0;
}

/* Is ideal a = ideal b plus `unit`? */
static bool is_one_more(const struct dp_ideals *d, uint32_t a, uint32_t b, uint32_t unit)
{
    const uint64_t *x = bits_of(d, a), *y = bits_of(d, b);

    for (uint32_t w = 0; w < d->words; w++) {
        if (x[w] != (y[w] | (w == unit / 64 ? UINT64_C(1) << unit % 64 : 0)))
            return false;
    }
    return true;
}

static bool holds_preds(const struct growth *w, uint32_t id, uint32_t unit)
{
    for (uint32_t p = w->u->pred_at[unit]; p < w->u->pred_at[unit + 1]; p++)
        if (!dp_ideal_has(w->out, id, w->u->pred[p]))
            return false;
    return true;
}

/* Of the newest ideal, which is `from` with `unit`. */
static void make_ready(struct growth *w, uint32_t from, uint32_t unit)
{
    uint32_t id = w->out->n - 1;
    uint64_t *ready = ready_of(w, id);

    memcpy(ready, ready_of(w, from), w->out->words * sizeof *ready);
    ready[unit / 64] &= ~(UINT64_C(1) << unit % 64);
    for (uint32_t s = w->u->succ_at[unit]; s < w->u->succ_at[unit + 1]; s++) {
        uint32_t v = w->u->succ[s];

        if (holds_preds(w, id, v))
            ready[v / 64] |= UINT64_C(1) << v % 64;
    }
}

/* The number of ideal `from` with `unit`, made when it is new. returns: -1 without memory, -2 when the
 * cap is reached. */
static int64_t find_or_add(struct growth *w, uint32_t from, uint32_t unit)
{
    struct dp_ideals *d = w->out;
    uint64_t hash = w->hash[from] ^ unit_word(unit);
    uint32_t at;

    if (d->n == w->room && make_room(w) < 0)
        return -1;
    for (at = (uint32_t)hash & (w->slots - 1); w->table[at]; at = (at + 1) & (w->slots - 1)) {
        if (w->hash[w->table[at] - 1] == hash && is_one_more(d, w->table[at] - 1, from, unit))
            return w->table[at] - 1;
    }
    if (d->n == w->cap)
        return -2;
    memcpy(bits_of(d, d->n), bits_of(d, from), d->words * sizeof *d->bits);
    bits_of(d, d->n)[unit / 64] |= UINT64_C(1) << unit % 64;
    w->hash[d->n] = hash;
    w->table[at] = ++d->n;
    make_ready(w, from, unit);
    return d->n - 1;
}

static int note_step(struct growth *w, uint32_t whole, uint32_t part, uint32_t unit)
{
    if (w->n_steps == w->room_steps) {
        uint32_t room = w->room_steps ? 2 * w->room_steps : 1024;
        struct dp_ideal_step *s = realloc(w->step, (size_t)room * sizeof *s);
        uint32_t *l = s ? realloc(w->whole, (size_t)room * sizeof *l) : NULL;

        if (s)
            w->step = s;
        if (l)
            w->whole = l;
        if (!s || !l)
            return -1;
        w->room_steps = room;
    }
    w->whole[w->n_steps] = whole;
    w->step[w->n_steps++] = (struct dp_ideal_step){part, unit};
    return 0;
}

/* returns: 0, or what find_or_add() says. */
static int grow_from(struct growth *w, uint32_t id)
{
    for (uint32_t word = 0; word < w->out->words; word++)
        for (uint64_t left = ready_of(w, id)[word]; left; left &= left - 1) { /* ascending */
            uint32_t v = word * 64 + (uint32_t)__builtin_ctzll(left);
            int64_t whole = find_or_add(w, id, v);

            if (whole < 0)
                return (int)whole;
            if (note_step(w, (uint32_t)whole, id, v) < 0)
                return -1;
        }
    return 0;
}

/* The steps into rows by their larger ideal. */
static int index_steps(struct growth *w)
{
    struct dp_ideals *d = w->out;
    uint32_t *at = calloc((size_t)d->n + 2, sizeof *at);

    d->sub_at = at;
    d->sub = malloc(((size_t)w->n_steps + 1) * sizeof *d->sub);
    if (!at || !d->sub)
        return -1;
    for (uint32_t i = 0; i < w->n_steps; i++)
        at[w->whole[i] + 2]++;
    for (uint32_t i = 0; i < d->n; i++)
        at[i + 2] += at[i + 1];
    for (uint32_t i = 0; i < w->n_steps; i++)
        d->sub[at[w->whole[i] + 1]++] = w->step[i];
    return 0;
}

static int init(struct growth *w, struct dp_ideals *out, const struct dp_units *u)
{
    *out = (struct dp_ideals){.words = u->n / 64 + 1};
    w->u = u;
    w->out = out;
    if (make_room(w) < 0)
        return -1;
    memset(out->bits, 0, out->words * sizeof *out->bits);
    memset(w->ready, 0, out->words * sizeof *w->ready);
    for (uint32_t v = 0; v < u->n; v++)
        if (u->pred_at[v] == u->pred_at[v + 1])
            w->ready[v / 64] |= UINT64_C(1) << v % 64;
    w->hash[0] = 0;
    w->table[0] = 1;
    out->n = 1;
    return 0;
}

static void release(struct growth *w)
{
    free(w->hash);
    free(w->ready);
    free(w->table);
    free(w->step);
    free(w->whole);
}

int dp_ideals_create(struct dp_ideals *out, const struct dp_units *u, uint32_t cap, bool *is_too_many,
                     struct dp_err *err)
{
    struct growth w = {.cap = cap};
    int rc = init(&w, out, u);

    for (uint32_t id = 0; rc == 0 && id < out->n; id++)
        rc = grow_from(&w, id);
    if (rc == 0)
        rc = index_steps(&w);
    release(&w);
    *is_too_many = rc == -2;
    if (rc == 0)
        return 0;
    dp_ideals_release(out);
    if (rc == -2)
        return dp_err_set(err, DP_ENOMEM, "the graph has more than %u ideals", cap);
    return dp_err_set(err, DP_ENOMEM, "ideals of %u units: out of memory", u->n);
}

int dp_ideals_create_chain(struct dp_ideals *out, const struct dp_units *u, const uint32_t *order,
                           struct dp_err *err)
{
    *out = (struct dp_ideals){.n = u->n + 1};
    out->sub_at = calloc((size_t)u->n + 2, sizeof *out->sub_at);
    out->sub = calloc((size_t)u->n + 1, sizeof *out->sub);
    out->rank = calloc((size_t)u->n + 1, sizeof *out->rank);
    if (!out->sub_at || !out->sub || !out->rank) {
        dp_ideals_release(out);
        return dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", u->n);
    }
    for (uint32_t i = 0; i < u->n; i++) {
        out->sub[i] = (struct dp_ideal_step){i, order[i]};
        out->sub_at[i + 2] = i + 1;
        out->rank[order[i]] = i;
    }
    return 0;
}

void dp_ideals_release(struct dp_ideals *d)
{
    free(d->bits);
    free(d->rank);
    free(d->sub_at);
    free(d->sub);
    *d = (struct dp_ideals){0};
}
