/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact contiguous min-max partition by bisection on the answer.
 *
 * A bound b is feasible when filling the bins from the left, each as far as b and its memory allow,
 * reaches the end. Filling greedily is exact because every part of a run that fits into a bin fits too, so
 * a longer prefix never hurts what follows; this holds for bins of different speed and memory as long as
 * their order is fixed, and for bins that cost something once they hold anything: with the bound given, a
 * bin that can afford its cost may as well be filled. The bisection is on integers and jumps: a feasible
 * probe lowers the bound to the load it really had, an infeasible one raises it to the least bound that
 * would change any decision of that probe. So it ends with the exact optimum (the usual eps is not
 * needed) after a few probes.
 */
#include "policies/solve/bisect.h"

#include <stdlib.h>

struct probe {
    const struct dp_partition *q;
    uint64_t *sum;   /* [n+1] prefix sums of weight */
    uint64_t *fixed; /* [n+1] of fixed_bytes, NULL: no memory limits */
    uint64_t *multi; /* [n+1] of multi_bytes, NULL: none */
    uint32_t *length; /* [p] of each bin in the last probe: the first guess of the next */
    uint64_t worst;  /* last feasible probe: load of the fullest bin */
    uint64_t next;   /* last infeasible probe: least bound that changes it, UINT64_MAX: none does */
    uint64_t left;   /* and the weight that found no place */
};

static double bin_speed(const struct probe *t, uint32_t bin)
{
    return t->q->speed ? t->q->speed[bin] : 1.0;
}

static uint64_t bin_room(const struct probe *t, uint32_t bin, uint64_t b)
{
    return dp_partition_room(t->q, bin, b);
}

/* Least bound that lets a bin take this weight. */
static uint64_t bin_load(const struct probe *t, uint32_t bin, uint64_t weight)
{
    return dp_partition_load(t->q, bin, weight);
}

static bool memory_fits(const struct probe *t, uint32_t bin, uint32_t from, uint32_t to)
{
    uint64_t cap, used, copies;

    if (!t->fixed || !t->q->cap_bytes || !(cap = t->q->cap_bytes[bin]))
        return true;
    used = t->fixed[to] - t->fixed[from];
    if (t->multi) {
        copies = t->q->copies ? t->q->copies[bin] : 1;
        if (__builtin_mul_overflow(t->multi[to] - t->multi[from], copies, &copies) ||
            __builtin_add_overflow(used, copies, &used))
            return false;
    }
    return used <= cap;
}

static bool run_fits(const struct probe *t, uint32_t bin, uint32_t from, uint32_t to, uint64_t room)
{
    return t->sum[to] - t->sum[from] < room && memory_fits(t, bin, from, to);
}

/* Largest end of a run that starts at `from` and fits: gallop from a guess, then halve. */
static uint32_t reach_right(const struct probe *t, uint32_t bin, uint32_t from, uint64_t room)
{
    uint32_t n = t->q->n, good = from, bad = n + 1, at = t->length[bin], jump = 1;

    if (from == n)
        return n;
    at = at < 1 ? from + 1 : at < n - from ? from + at : n;
    if (run_fits(t, bin, from, at, room)) {
        for (good = at; good < n; jump *= 2) {
            at = jump < n - good ? good + jump : n;
            if (!run_fits(t, bin, from, at, room)) {
                bad = at;
                break;
            }
            good = at;
        }
        if (good == n)
            return n;
    } else {
        for (bad = at; bad > from; jump *= 2) {
            at = jump < bad - from ? bad - jump : from;
            if (run_fits(t, bin, from, at, room)) {
                good = at;
                break;
            }
            bad = at;
        }
    }
    while (bad - good > 1) {
        at = good + (bad - good) / 2;
        if (run_fits(t, bin, from, at, room))
            good = at;
        else
            bad = at;
    }
    return good;
}

static bool probe_bound(struct probe *t, uint64_t b)
{
    uint32_t at = 0, n = t->q->n;

    t->worst = 0;
    t->next = UINT64_MAX;
    for (uint32_t bin = 0; bin < t->q->p && at < n; bin++) {
        uint32_t end = reach_right(t, bin, at, bin_room(t, bin, b));
        uint64_t weight = t->sum[end] - t->sum[at];

        /* is it a new extreme? Asked with what a bound has room for: loads cost more */
        if (end > at && weight >= bin_room(t, bin, t->worst))
            t->worst = bin_load(t, bin, weight);
        if (end < n && memory_fits(t, bin, at, end + 1)) {
            weight = t->sum[end + 1] - t->sum[at];
            if (weight < bin_room(t, bin, t->next - 1))
                t->next = bin_load(t, bin, weight);
        }
        t->length[bin] = end - at;
        at = end;
    }
    t->left = t->sum[n] - t->sum[at];
    return at == n;
}

/* Every bin as full as the bound and what is left allow. */
static void place(const struct probe *t, uint64_t b, uint32_t *cut)
{
    cut[0] = 0;
    for (uint32_t bin = 0; bin < t->q->p; bin++)
        cut[bin + 1] = reach_right(t, bin, cut[bin], bin_room(t, bin, b));
}

/* No answer can be below the heaviest item on the fastest bin or the average. */
static uint64_t lower_bound(const struct probe *t)
{
    const struct dp_partition *q = t->q;
    uint64_t heaviest = 0, average;
    double total = 0.0, fastest = 0.0;

    for (uint32_t i = 0; i < q->n; i++)
        heaviest = q->weight[i] > heaviest ? q->weight[i] : heaviest;
    for (uint32_t b = 0; b < q->p; b++) {
        total += bin_speed(t, b);
        fastest = bin_speed(t, b) > fastest ? bin_speed(t, b) : fastest;
    }
    heaviest = (uint64_t)((double)heaviest / fastest);
    average = (uint64_t)((double)t->sum[q->n] / total);
    heaviest = heaviest > average ? heaviest : average;
    return heaviest > 2 ? heaviest - heaviest / 1000000 - 2 : 0; /* room for rounding of the doubles */
}

static void expect_equal_lengths(struct probe *t)
{
    for (uint32_t bin = 0; bin < t->q->p; bin++)
        t->length[bin] = t->q->n / t->q->p + 1;
}

static int bisect(struct probe *t, uint64_t *best, struct dp_err *err)
{
    uint64_t low = lower_bound(t), high, guess;
    bool is_enough, by_rest = false;
    double speed = 0.0;

    for (uint32_t bin = 0; bin < t->q->p; bin++)
        speed += bin_speed(t, bin);
    if (!probe_bound(t, UINT64_MAX >> 1))
        return dp_err_set(err, DP_ENOMEM, "%u layers do not fit into the memory of %u devices", t->q->n,
                          t->q->p);
    high = t->worst;
    expect_equal_lengths(t); /* that probe was no usual one */
    guess = low + t->sum[t->q->n] / t->q->p / 16 + 1; /* close to even is the usual answer */
    while (low < high) {
        if (guess >= high)
            guess = low + (high - low) / 2;
        is_enough = probe_bound(t, guess);
        if (is_enough)
            high = t->worst;
        else
            low = t->next < high ? t->next : high;
        /* what is left, spread over all bins, is what the bound lacked, about: but not twice running */
        by_rest = !is_enough && !by_rest;
        guess = by_rest ? low + (uint64_t)((double)t->left / speed) : low + (high - low) / 2;
    }
    *best = high;
    return 0;
}

static uint64_t *prefix_sums(const uint64_t *value, uint32_t n)
{
    uint64_t *sum = calloc((size_t)n + 1, sizeof *sum);

    if (sum)
        for (uint32_t i = 0; i < n; i++)
            sum[i + 1] = sum[i] + value[i];
    return sum;
}

int dp_partition_bisect(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err)
{
    struct probe t = {.q = q};
    uint64_t best = 0;
    int rc = -1;

    if (q->n < 1 || q->p < 1)
        return dp_err_set(err, DP_EINVAL, "partition of %u layers over %u devices", q->n, q->p);
    t.length = calloc(q->p, sizeof *t.length);
    t.sum = prefix_sums(q->weight, q->n);
    if (q->fixed_bytes)
        t.fixed = prefix_sums(q->fixed_bytes, q->n);
    if (q->multi_bytes)
        t.multi = prefix_sums(q->multi_bytes, q->n);
    if (!t.sum || !t.length || (q->fixed_bytes && !t.fixed) || (q->multi_bytes && !t.multi)) {
        dp_err_set(err, DP_ENOMEM, "partition: out of memory");
        goto out;
    }
    if (bisect(&t, &best, err) < 0)
        goto out;
    place(&t, best, cut);
    *largest = best;
    rc = 0;
out:
    free(t.sum);
    free(t.length);
    free(t.fixed);
    free(t.multi);
    return rc;
}
