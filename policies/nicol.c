/* See nicol.h. Policy nicol is policy time by this algorithm. */
#include "policies/nicol.h"

#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/chain.h"

static bool fits(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to, uint64_t bound)
{
    return from == to || (dp_chain_fits(c, bin, from, to) && dp_chain_load(c, bin, from, to) <= bound);
}

/* End of the longest run from `from` that fits into bin within the bound. */
static uint32_t longest(const struct dp_chain *c, uint32_t bin, uint32_t from, uint64_t bound)
{
    uint32_t low = from, high = c->q->n;

    while (low < high) {
        uint32_t middle = high - (high - low) / 2;

        if (fits(c, bin, from, middle, bound))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Do items [from, n) fit into the bins from `bin` on? cut: NULL, or where they are cut. */
static bool rest_fits(const struct dp_chain *c, uint32_t bin, uint32_t from, uint64_t bound, uint32_t *cut)
{
    for (; bin < c->q->p; bin++) {
        from = longest(c, bin, from, bound);
        if (cut)
            cut[bin + 1] = from;
    }
    return from == c->q->n;
}

/* The shortest run from `from` whose load lets the rest fit behind it; n+1: none that memory takes. */
static uint32_t shortest(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t most)
{
    uint32_t low = from, high = most + 1;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (rest_fits(c, bin + 1, middle, dp_chain_load(c, bin, from, middle), NULL))
            high = middle;
        else
            low = middle + 1;
    }
    return low > most ? c->q->n + 1 : low;
}

int dp_partition_nicol(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err)
{
    struct dp_chain c;
    uint64_t best = UINT64_MAX;
    uint32_t from = 0;

    if (dp_chain_init(&c, q, err) < 0)
        return -1;
    for (uint32_t bin = 0; bin < q->p; bin++) {
        uint32_t most = longest(&c, bin, from, UINT64_MAX), end = shortest(&c, bin, from, most);
        uint64_t load = end <= q->n ? dp_chain_load(&c, bin, from, end) : UINT64_MAX;

        best = load < best ? load : best;
        if (end == from)
            break; /* nothing in this bin, and yet the rest fits: it cannot get less */
        from = end <= q->n ? end - 1 : most;
    }
    cut[0] = 0;
    if (best == UINT64_MAX || !rest_fits(&c, 0, 0, best, cut)) {
        dp_chain_release(&c);
        return dp_err_set(err, DP_ENOMEM, "%u layers do not fit into the memory of %u devices", q->n, q->p);
    }
    dp_chain_release(&c);
    *largest = best;
    return 0;
}

static int nicol(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note, struct dp_err *err)
{
    uint64_t largest;

    (void)note;
    return dp_partition_nicol(q, cut, &largest, err);
}

DP_BALANCER_POLICY(nicol, "nicol", DP_BY_TIME, nicol, "as time, by Nicol's algorithm instead of bisection");
