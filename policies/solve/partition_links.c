/* SPDX-License-Identifier: BSD-3-Clause */
/* See partition_links.h. For a bound let reach(d) be the most items from the front that bins 0 .. d can hold, the next
 * item in another bin:
 *
 *   reach(d) = max of  reach(d - 1)                             bin d is empty
 *              and     the farthest run into d from reach(d - 1)
 *              and     the farthest run into d from item 0      all before d are empty
 *
 * A run that begins later never fits worse, except that one from item 0 has a neighbour less: hence the third. A run
 * to the end has one less, too, and is tried first. */
#include "policies/solve/partition_links.h"

#include <stdlib.h>

#include "policies/solve/chain.h"

struct links {
    struct dp_chain chain;
    uint32_t *reach; /* [p+1] of the bins before; */
    uint32_t *from;  /* [p] where the run of a bin begins; UINT32_MAX: it is empty */
};

static bool fits(const struct links *t, uint32_t bin, uint32_t from, uint32_t to, uint64_t bound)
{
    return from == to || (dp_chain_load(&t->chain, bin, from, to) <= bound && dp_chain_fits(&t->chain, bin, from, to));
}

static uint32_t farthest(const struct links *t, uint32_t bin, uint32_t from, uint64_t bound)
{
    uint32_t n = t->chain.q->n, good = from, bad = n;

    if (fits(t, bin, from, n, bound))
        return n;
    while (bad - good > 1) {
        uint32_t at = good + (bad - good) / 2;

        if (fits(t, bin, from, at, bound))
            good = at;
        else
            bad = at;
    }
    return good;
}

static void cuts_of(const struct links *t, uint32_t *cut)
{
    uint32_t at = t->chain.q->n;

    for (uint32_t bin = t->chain.q->p; bin-- > 0;) {
        cut[bin + 1] = at;
        if (t->from[bin] != UINT32_MAX && t->reach[bin + 1] == at && at > t->from[bin])
            at = t->from[bin];
    }
    cut[0] = 0;
}

static bool is_enough(struct links *t, uint64_t bound, uint32_t *cut)
{
    const struct dp_partition *q = t->chain.q;

    t->reach[0] = 0;
    for (uint32_t bin = 0; bin < q->p; bin++) {
        uint32_t on = farthest(t, bin, t->reach[bin], bound), anew = t->reach[bin] ? farthest(t, bin, 0, bound) : 0;

        t->from[bin] = UINT32_MAX;
        t->reach[bin + 1] = t->reach[bin];
        if (on > t->reach[bin] || anew > t->reach[bin]) {
            t->from[bin] = on >= anew ? t->reach[bin] : 0;
            t->reach[bin + 1] = on >= anew ? on : anew;
        }
    }
    if (t->reach[q->p] < q->n)
        return false;
    cuts_of(t, cut);
    return true;
}

static uint64_t largest_of(const struct links *t, const uint32_t *cut)
{
    uint64_t largest = 0;

    for (uint32_t bin = 0; bin < t->chain.q->p; bin++) {
        uint64_t load = dp_chain_load(&t->chain, bin, cut[bin], cut[bin + 1]);

        largest = load > largest ? load : largest;
    }
    return largest;
}

int dp_partition_links(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err)
{
    struct links t = {.reach = calloc((size_t)q->p + 1, sizeof *t.reach), .from = calloc(q->p, sizeof *t.from)};
    uint32_t *trial = calloc((size_t)q->p + 1, sizeof *trial);
    uint64_t low = *largest, high;
    int rc = -1;

    if (!t.reach || !t.from || !trial) {
        dp_err_set(err, DP_ENOMEM, "partition: out of memory");
        goto out;
    }
    if (dp_chain_init(&t.chain, q, err) < 0)
        goto out;
    high = largest_of(&t, cut); /* of the best cuts without links: they fit */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (is_enough(&t, middle, trial)) {
            for (uint32_t b = 0; b <= q->p; b++)
                cut[b] = trial[b];
            high = largest_of(&t, cut);
        } else {
            low = middle + 1;
        }
    }
    *largest = high;
    rc = 0;
out:
    dp_chain_release(&t.chain);
    free(t.reach);
    free(t.from);
    free(trial);
    return rc;
}
