/* SPDX-License-Identifier: BSD-3-Clause */
/* See partition_near.h. From the last bin to the first, for every place x of the cut before bin b and every number k of
 * bins from b on that hold anything:
 *
 *   far(b, x, k) = own(b, x) + min of far(b + 1, x, k)      bin b is empty
 *                              and    far(b + 1, y, k - 1)  over all y with [x, y) within the bound of bin b
 *
 * own(b, x) is how far that cut is from those in force. The ends y of a run that fits are a window that moves with x,
 * whose least value a queue has ready; a run from item 0 or to the last one, which have fewer neighbours, are asked
 * apart. Where nothing depends on k there is one level of it. Memory with copies that depend on k is looked at when
 * the answer without any memory does not fit. */
#include "policies/solve/partition_near.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "policies/solve/chain.h"
#include "policies/solve/partition_depth.h"

#define NONE UINT32_MAX

enum memory { MEMORY_OF_COPIES, MEMORY_NOT, MEMORY_OF_DEPTH };

struct near {
    const struct dp_partition *q;
    struct dp_chain chain;
    enum memory memory;
    uint64_t bound;
    uint64_t *room;       /* [p][3] for that many neighbours: see dp_partition_room() */
    uint32_t *low, *high; /* [p+1] places that a cut can have, none left out */
    size_t *row;          /* [p+1] first cell of a cut */
    size_t cells;
    uint32_t levels;      /* of k: 1 where it does not matter */
    uint32_t *own, *far;  /* [cells], [levels][cells]; far NONE: no way */
    uint32_t *queue;      /* [widest row] */
};

/* First and last border between devices at which this cut lies. */
static void borders(const struct dp_partition *q, uint32_t cut, uint32_t *first, uint32_t *last)
{
    *first = q->device ? q->device[cut - 1] + 1 : cut;
    *last = q->device ? q->device[cut] : cut;
}

static uint64_t distance_at(const struct dp_partition *q, uint32_t cut, uint32_t x)
{
    uint32_t first, last;
    uint64_t sum = 0;

    borders(q, cut, &first, &last);
    for (uint32_t d = first; d <= last; d++)
        sum += x > q->prefer[d] ? x - q->prefer[d] : q->prefer[d] - x;
    return sum;
}

/* The place nearest to the borders in force, if it were free. */
static uint32_t wish(const struct dp_partition *q, uint32_t cut)
{
    uint32_t first, last;

    borders(q, cut, &first, &last);
    return q->prefer[first + (last - first) / 2]; /* they rise: the median */
}

static uint32_t clamp(uint32_t x, uint32_t low, uint32_t high)
{
    return x < low ? low : x > high ? high : x;
}

static uint64_t copies_of(const struct near *t, uint32_t bin, uint32_t k)
{
    if (t->memory == MEMORY_OF_DEPTH)
        return k < t->q->depth ? k : t->q->depth;
    return t->q->copies ? t->q->copies[bin] : 1;
}

static bool has_memory(const struct near *t, uint32_t bin, uint32_t from, uint32_t to, uint32_t k)
{
    uint64_t cap = t->q->cap_bytes && t->q->fixed_bytes ? t->q->cap_bytes[bin] : 0, bytes;

    if (!cap || t->memory == MEMORY_NOT)
        return true;
    return !__builtin_mul_overflow(t->chain.multi[to] - t->chain.multi[from], copies_of(t, bin, k), &bytes) &&
           !__builtin_add_overflow(t->chain.fixed[to] - t->chain.fixed[from], bytes, &bytes) && bytes <= cap;
}

/* k: bins from this one on that hold anything. */
static bool fits(const struct near *t, uint32_t bin, uint32_t from, uint32_t to, uint32_t k)
{
    uint32_t neighbours = (from > 0) + (to < t->q->n);

    return from == to || (t->chain.weight[to] - t->chain.weight[from] < t->room[3 * (size_t)bin + neighbours] &&
                          has_memory(t, bin, from, to, k));
}

/* With no neighbours and the fewest copies: whatever fits does so here, too. */
static bool may_fit(const struct near *t, uint32_t bin, uint32_t from, uint32_t to)
{
    return from == to ||
           (t->chain.weight[to] - t->chain.weight[from] < t->room[3 * (size_t)bin] && has_memory(t, bin, from, to, 1));
}

static void find_ranges(struct near *t)
{
    uint32_t p = t->q->p, n = t->q->n;

    t->low[p] = n;
    for (uint32_t bin = p; bin-- > 0;) {
        t->low[bin] = t->low[bin + 1];
        while (t->low[bin] > 0 && may_fit(t, bin, t->low[bin] - 1, t->low[bin + 1]))
            t->low[bin]--;
    }
    t->high[0] = 0;
    for (uint32_t bin = 0; bin < p; bin++) {
        t->high[bin + 1] = t->high[bin];
        while (t->high[bin + 1] < n && may_fit(t, bin, t->high[bin], t->high[bin + 1] + 1))
            t->high[bin + 1]++;
    }
    t->low[0] = 0;
    t->high[p] = n;
    t->cells = 0;
    for (uint32_t b = 0; b <= p; b++) {
        t->row[b] = t->cells;
        t->cells += t->high[b] - t->low[b] + 1;
    }
}

static uint32_t *far_of(const struct near *t, uint32_t k, uint32_t cut, uint32_t x)
{
    return &t->far[(t->levels > 1 ? k : 0) * t->cells + t->row[cut] + x - t->low[cut]];
}

/* The distance of a cut, place by place: each border in force that it passes comes nearer no more. */
static void find_own(struct near *t, uint32_t cut)
{
    uint32_t first, last, *own = &t->own[t->row[cut]];
    uint64_t d;

    memset(own, 0, ((size_t)t->high[cut] - t->low[cut] + 1) * sizeof *own);
    if (cut == 0 || cut == t->q->p)
        return;
    borders(t->q, cut, &first, &last);
    d = distance_at(t->q, cut, t->low[cut]);
    for (uint32_t x = t->low[cut], passed = first;; x++) {
        own[x - t->low[cut]] = (uint32_t)d;
        if (x == t->high[cut])
            return;
        while (passed <= last && t->q->prefer[passed] <= x)
            passed++;
        d += passed - first;
        d -= last + 1 - passed;
    }
}

/* Runs of this bin that begin with item 0. */
static uint32_t least_from_front(const struct near *t, uint32_t bin, uint32_t k, uint32_t first)
{
    uint32_t least = NONE, rest = k ? k - 1 : 0;
    uint32_t y = t->low[bin + 1] > first ? t->low[bin + 1] : first;

    for (; y <= t->high[bin + 1] && y < t->q->n && fits(t, bin, 0, y, k); y++)
        least = dp_least_u32(least, *far_of(t, rest, bin + 1, y));
    return least;
}

/* All places of the cut before `bin`, where k bins from it on hold anything. */
static void find_far(struct near *t, uint32_t bin, uint32_t k)
{
    uint32_t shortest = t->levels > 1, next = t->low[bin + 1], head = 0, tail = 0, rest = k ? k - 1 : 0;
    bool has_end = t->high[bin + 1] == t->q->n;

    for (uint32_t x = t->low[bin]; x <= t->high[bin]; x++) {
        uint32_t least = NONE, own = t->own[t->row[bin] + x - t->low[bin]];

        if (x == 0) {
            least = least_from_front(t, bin, k, shortest);
        } else {
            next = next < x ? x : next;
            for (; next <= t->high[bin + 1] && next < t->q->n && fits(t, bin, x, next, k); next++) {
                while (tail > head && *far_of(t, rest, bin + 1, t->queue[tail - 1]) >= *far_of(t, rest, bin + 1, next))
                    tail--;
                t->queue[tail++] = next;
            }
            while (head < tail && t->queue[head] < x + shortest)
                head++;
            if (head < tail)
                least = *far_of(t, rest, bin + 1, t->queue[head]);
        }
        if (has_end && x + shortest <= t->q->n && fits(t, bin, x, t->q->n, k))
            least = dp_least_u32(least, *far_of(t, rest, bin + 1, t->q->n));
        if (t->levels > 1 && x >= t->low[bin + 1] && x <= t->high[bin + 1])
            least = dp_least_u32(least, *far_of(t, k, bin + 1, x));
        *far_of(t, k, bin, x) = least == NONE ? NONE : least + own;
    }
}

/* Nothing is left for the bins from this one on. */
static void find_far_of_none(struct near *t, uint32_t bin)
{
    for (uint32_t x = t->low[bin]; x <= t->high[bin]; x++)
        *far_of(t, 0, bin, x) = NONE;
    if (t->high[bin] == t->q->n && *far_of(t, 0, bin + 1, t->q->n) != NONE)
        *far_of(t, 0, bin, t->q->n) = *far_of(t, 0, bin + 1, t->q->n) + t->own[t->row[bin] + t->q->n - t->low[bin]];
}

/* The cut behind `bin`, one that keeps `rest` for what follows; of several the one that is nearest itself. */
static uint32_t follow(const struct near *t, uint32_t bin, uint32_t from, uint32_t k, uint32_t rest)
{
    const uint32_t *own = &t->own[t->row[bin + 1]];
    uint32_t best = NONE;

    for (uint32_t y = t->low[bin + 1] > from ? t->low[bin + 1] : from; y <= t->high[bin + 1]; y++) {
        if ((t->levels > 1 && y == from) || *far_of(t, k ? k - 1 : 0, bin + 1, y) != rest || !fits(t, bin, from, y, k))
            continue;
        if (best == NONE || own[y - t->low[bin + 1]] < own[best - t->low[bin + 1]])
            best = y;
    }
    return best;
}

static void trace(const struct near *t, uint32_t *cut)
{
    uint32_t k = 0;

    for (uint32_t i = 1; i < t->levels; i++)
        if (*far_of(t, i, 0, 0) < *far_of(t, k, 0, 0))
            k = i;
    for (uint32_t bin = 0; bin < t->q->p; bin++) {
        uint32_t x = cut[bin], rest = *far_of(t, k, bin, x) - t->own[t->row[bin] + x - t->low[bin]];

        cut[bin + 1] = x;
        if (t->levels > 1 && x >= t->low[bin + 1] && x <= t->high[bin + 1] && *far_of(t, k, bin + 1, x) == rest)
            continue; /* it is empty */
        cut[bin + 1] = follow(t, bin, x, k, rest);
        k -= t->levels > 1;
    }
}

static int solve(struct near *t, uint32_t *cut)
{
    uint32_t p = t->q->p, widest = 0;

    for (uint32_t b = 0; b <= p; b++)
        if (t->high[b] - t->low[b] >= widest)
            widest = t->high[b] - t->low[b] + 1;
    t->own = malloc(t->cells * sizeof *t->own);
    t->far = malloc(t->levels * t->cells * sizeof *t->far);
    t->queue = malloc(widest * sizeof *t->queue);
    if (!t->own || !t->far || !t->queue)
        return -1;
    for (uint32_t b = 0; b <= p; b++)
        find_own(t, b);
    for (uint32_t k = 0; k < t->levels; k++)
        *far_of(t, k, p, t->q->n) = k ? NONE : 0;
    for (uint32_t bin = p; bin-- > 0;) {
        if (t->levels > 1)
            find_far_of_none(t, bin);
        for (uint32_t k = t->levels > 1; k < t->levels; k++)
            find_far(t, bin, k);
    }
    trace(t, cut);
    free(t->own);
    free(t->far);
    free(t->queue);
    t->own = t->far = t->queue = NULL;
    return 0;
}

/* The longest run from `from` that ends at `most` or before. */
static uint32_t reach(const struct near *t, uint32_t bin, uint32_t from, uint32_t most)
{
    uint32_t good = from, bad = most + 1;

    while (bad - good > 1) {
        uint32_t at = good + (bad - good) / 2;

        if (fits(t, bin, from, at, 1))
            good = at;
        else
            bad = at;
    }
    return good;
}

/* Each cut on its own, as near as the one before it and the ranges allow: right where neither neighbours nor the
 * number of bins behind count. returns: is no answer nearer? */
static bool place(const struct near *t, uint32_t *cut)
{
    const struct dp_partition *q = t->q;
    uint64_t sum = 0, least = 0;

    cut[0] = 0;
    cut[q->p] = q->n;
    for (uint32_t b = 1; b < q->p; b++) {
        uint32_t low = t->low[b] > cut[b - 1] ? t->low[b] : cut[b - 1], free = clamp(wish(q, b), t->low[b], t->high[b]);

        cut[b] = reach(t, b - 1, cut[b - 1], free > low ? free : low);
        least += distance_at(q, b, free);
        sum += distance_at(q, b, cut[b]);
    }
    return sum == least;
}

/* Within the memory of t->memory. cut: = where it has_answer. */
static int nearest(struct near *t, uint32_t *cut, bool *has_answer)
{
    find_ranges(t);
    *has_answer = t->levels == 1 && !t->q->between;
    if (*has_answer && place(t, cut))
        return 0;
    if (t->cells > DP_PARTITION_NEAR_CELLS / t->levels)
        return 0;
    *has_answer = true;
    return solve(t, cut);
}

static bool has_memory_of_depth(struct near *t, const uint32_t *cut)
{
    bool has = true;

    t->memory = MEMORY_OF_DEPTH;
    for (uint32_t bin = t->q->p, k = 0; bin-- > 0 && has;) {
        k += cut[bin + 1] > cut[bin];
        has = has_memory(t, bin, cut[bin], cut[bin + 1], k);
    }
    return has;
}

static int search(struct near *t, uint32_t *cut, uint32_t *trial)
{
    bool has_depth = dp_partition_has_depth(t->q), has_answer;

    t->levels = 1;
    t->memory = has_depth ? MEMORY_NOT : MEMORY_OF_COPIES;
    if (nearest(t, trial, &has_answer) < 0)
        return -1;
    if (has_depth && !(has_answer && has_memory_of_depth(t, trial))) {
        t->levels = t->q->p + 1;
        t->memory = MEMORY_OF_DEPTH;
        if (nearest(t, trial, &has_answer) < 0)
            return -1;
    }
    if (has_answer)
        memcpy(cut, trial, ((size_t)t->q->p + 1) * sizeof *cut);
    return 0;
}

static void find_room(struct near *t)
{
    for (uint32_t bin = 0; bin < t->q->p; bin++)
        for (uint32_t neighbours = 0; neighbours < 3; neighbours++) {
            uint64_t cost;
            bool is_dear = __builtin_mul_overflow(t->q->between, neighbours, &cost) || cost > t->bound;

            t->room[3 * (size_t)bin + neighbours] = is_dear ? 0 : dp_partition_room(t->q, bin, t->bound - cost);
        }
}

int dp_partition_near(const struct dp_partition *q, uint64_t bound, uint32_t *cut, struct dp_err *err)
{
    struct near t = {.q = q, .bound = bound};
    size_t p = q->p;
    uint32_t *trial = calloc(p + 1, sizeof *trial);
    uint64_t n_devices = q->device ? q->device[p - 1] + UINT64_C(1) : p;
    int rc = -1;

    t.room = calloc(3 * p, sizeof *t.room);
    t.low = calloc(p + 1, sizeof *t.low);
    t.high = calloc(p + 1, sizeof *t.high);
    t.row = calloc(p + 1, sizeof *t.row);
    if (trial && t.room && t.low && t.high && t.row && dp_chain_init(&t.chain, q, err) == 0) {
        find_room(&t);
        rc = q->n * n_devices >= NONE ? 0 : search(&t, cut, trial);
    }
    dp_chain_release(&t.chain);
    free(t.room);
    free(t.low);
    free(t.high);
    free(t.row);
    free(t.own);
    free(t.far);
    free(t.queue);
    free(trial);
    return rc < 0 ? dp_err_set(err, DP_ENOMEM, "partition: out of memory") : 0;
}
