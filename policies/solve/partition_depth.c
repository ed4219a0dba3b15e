/* SPDX-License-Identifier: BSD-3-Clause */
/* See partition_depth.h. For a bound b let start(d, k) be the least item from which bins d, d+1, ... can hold all
 * to the end, at most k of them with anything in them. A bin that is one of k to the end has k copies:
 *
 *   start(d, k) = min of  start(d + 1, k)                                     bin d is empty
 *                 and     the least i: [i, start(d + 1, k - 1)) fits into bin d within b with k copies
 *                 and     start(d, k - 1)
 *
 * Less in a bin always fits, so the least start is the best one. b is enough when start(0, p) is 0. With `between`
 * a bin that begins with the first item has one neighbour less: where it may hold more than one that begins with the
 * second, it is asked apart.
 */
#include "policies/solve/partition_depth.h"

#include <stdlib.h>

#include "policies/solve/bisect.h"
#include "policies/solve/chain.h"
#include "policies/solve/partition_links.h"

struct depths {
    struct dp_chain chain;
    struct dp_partition q; /* the question, with the copies below */
    uint32_t depth;
    uint32_t *copies; /* [p] */
    uint32_t *start;  /* [p+1][p+1] of bins and k */
};

static uint32_t *start_of(const struct depths *t, uint32_t bin, uint32_t k)
{
    return &t->start[(size_t)bin * (t->q.p + 1) + k];
}

static bool fits(const struct depths *t, uint32_t bin, uint32_t from, uint32_t to, uint64_t bound)
{
    return from == to ||
           (dp_chain_load(&t->chain, bin, from, to) <= bound && dp_chain_fits(&t->chain, bin, from, to));
}

static uint32_t least_from(struct depths *t, uint32_t bin, uint32_t k, uint32_t to, uint64_t bound)
{
    uint32_t low = 1, good = to;

    t->copies[bin] = k < t->depth ? k : t->depth;
    if (to == 0 || fits(t, bin, 0, to, bound))
        return 0;
    while (low < good) {
        uint32_t at = low + (good - low) / 2;

        if (fits(t, bin, at, to, bound))
            good = at;
        else
            low = at + 1;
    }
    return good;
}

static bool is_enough(struct depths *t, uint64_t bound)
{
    uint32_t p = t->q.p;

    for (uint32_t k = 0; k <= p; k++)
        *start_of(t, p, k) = t->q.n;
    for (uint32_t bin = p; bin-- > 0;) {
        *start_of(t, bin, 0) = t->q.n;
        for (uint32_t k = 1; k <= p; k++) {
            uint32_t empty = *start_of(t, bin + 1, k), used = least_from(t, bin, k, *start_of(t, bin + 1, k - 1), bound);
            uint32_t fewer = *start_of(t, bin, k - 1), least = used < empty ? used : empty;

            *start_of(t, bin, k) = fewer < least ? fewer : least;
        }
    }
    return *start_of(t, 0, p) == 0;
}

/* The cuts of the last probe, which was enough. */
static void place(const struct depths *t, uint32_t *cut)
{
    uint32_t k = t->q.p;

    cut[0] = 0;
    for (uint32_t bin = 0; bin < t->q.p; bin++) {
        while (k > 0 && *start_of(t, bin, k - 1) <= cut[bin])
            k--;
        cut[bin + 1] = cut[bin];
        if (*start_of(t, bin + 1, k) > cut[bin]) /* then it is not empty */
            cut[bin + 1] = *start_of(t, bin + 1, --k);
    }
}

/* The least bound from low on that is enough; high is. */
static uint64_t bisect(struct depths *t, uint64_t low, uint64_t high)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (is_enough(t, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

bool dp_partition_has_depth(const struct dp_partition *q)
{
    return q->depth && q->fixed_bytes && q->multi_bytes && q->cap_bytes && q->p <= DP_PARTITION_DEPTH_BINS && q->n >= 1 && q->p >= 1;
}

int dp_partition_depth(const struct dp_partition *q, bool has_answer, uint32_t *cut, uint64_t *largest,
                       struct dp_err *err)
{
    struct depths t = {.q = *q, .depth = q->depth};
    uint32_t *any = calloc((size_t)q->p + 1, sizeof *any);
    uint64_t low, high = has_answer ? *largest : UINT64_MAX >> 1;
    int rc = -1;

    t.q.depth = 0;
    t.q.prefer = NULL; /* the caller looks for the nearest */
    t.q.copies = NULL; /* no bin has less than one */
    t.copies = calloc(q->p, sizeof *t.copies);
    t.start = calloc(((size_t)q->p + 1) * ((size_t)q->p + 1), sizeof *t.start);
    if (!any || !t.copies || !t.start) {
        dp_err_set(err, DP_ENOMEM, "partition: out of memory");
        goto out;
    }
    if (dp_partition_bisect(&t.q, any, &low, err) < 0 || (t.q.between && dp_partition_links(&t.q, any, &low, err) < 0))
        goto out;
    if (has_answer && low == *largest) {
        rc = 0;
        goto out;
    }
    t.q.copies = t.copies;
    if (dp_chain_init(&t.chain, &t.q, err) < 0)
        goto out;
    if (!has_answer && !is_enough(&t, high)) {
        dp_err_set(err, DP_ENOMEM, "%u layers do not fit into the memory of %u devices", q->n, q->p);
        goto out;
    }
    low = bisect(&t, low, high);
    if (!has_answer || low < *largest) {
        *largest = low;
        (void)is_enough(&t, low);
        place(&t, cut);
    }
    rc = 0;
out:
    dp_chain_release(&t.chain);
    free(any);
    free(t.copies);
    free(t.start);
    return rc;
}
