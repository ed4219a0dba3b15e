/* SPDX-License-Identifier: BSD-3-Clause */
/* See straight.h. */
#include "policies/graph/hierarchical/straight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CELLS (1u << 22) /* of a table that is small enough */

struct straight {
    const struct dp_ranges *h;
    double *over_s;   /* [ideals] of what crosses the cut behind an ideal, on a link */
    uint32_t *before; /* [ideals] the last ideal up to this one that may be cut at, within the bound */
    uint32_t *end, n_stages;
};

bool dp_straight_is_for(const struct dp_ranges *h, double n)
{
    bool is_large = n > DP_RANGES_MAX_CUTS || n * (h->ask->devices[0] + 1.0) > MOST_CELLS;

    return h->ask->is_straight && h->ask->n_levels == 1 && (is_large || h->ask->is_lean);
}

static double compute_s(const struct dp_ranges *h, uint32_t from, uint32_t to)
{
    return (double)(h->compute_ns[to] - h->compute_ns[from]) / 1e9;
}

/* Does device k, from 1, take from..to? */
static bool takes(const struct dp_ranges *h, uint32_t from, uint32_t to, uint32_t k, double bound_s)
{
    return compute_s(h, from, to) <= bound_s && dp_ranges_has_room(h, from, to, 1, k);
}

static uint32_t farthest(const struct straight *t, uint32_t from, uint32_t k, double bound_s)
{
    uint32_t low = from, high = t->h->ideals.n - 1;

    while (low < high) {
        uint32_t middle = high - (high - low) / 2;

        if (takes(t->h, from, middle, k, bound_s))
            low = middle;
        else
            high = middle - 1;
    }
    return t->before[low] > from ? t->before[low] : from;
}

/* returns: the seconds that it really takes, INFINITY: more than the bound. */
static double probe(struct straight *t, double bound_s)
{
    uint32_t n = t->h->ideals.n, at = 0;
    double worst = 0;

    for (uint32_t i = 1; i < n; i++)
        t->before[i] = t->over_s[i] <= bound_s ? i : t->before[i - 1];
    t->n_stages = 0;
    for (uint32_t k = 1; k <= t->h->ask->devices[0] && at + 1 < n; k++) {
        uint32_t to = farthest(t, at, k, bound_s);

        if (to == at) /* idle */
            continue;
        worst = fmax(worst, fmax(compute_s(t->h, at, to), t->over_s[to]));
        t->end[t->n_stages++] = at = to;
    }
    return at + 1 == n ? worst : INFINITY;
}

static uint64_t bits_of(double s)
{
    uint64_t bits;

    memcpy(&bits, &s, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double s;

    memcpy(&s, &bits, sizeof s);
    return s;
}

double dp_straight_solve(struct dp_ranges *h, uint32_t *end, uint32_t *n_stages)
{
    size_t n = h->ideals.n;
    struct straight t = {.h = h, .over_s = calloc(n, sizeof *t.over_s), .before = calloc(n, sizeof *t.before), .end = end};
    double best = -1;

    if (t.over_s && t.before) {
        uint64_t low = 0;

        for (uint32_t i = 1; i + 1 < n; i++)
            t.over_s[i] = dp_plan_transfer_s(h->ask, 0, (double)h->leaves[i], 1);
        best = probe(&t, INFINITY);
        while (best < INFINITY && low < bits_of(best)) { /* no double is negative: their bits rise with them */
            uint64_t middle = low + (bits_of(best) - low) / 2;
            double s = probe(&t, of_bits(middle));

            if (s < INFINITY)
                best = s;
            else
                low = middle + 1;
        }
        if (best < INFINITY)
            (void)probe(&t, best);
        *n_stages = t.n_stages;
        best = best < h->below_s ? best : INFINITY;
    }
    free(t.over_s);
    free(t.before);
    return best;
}
