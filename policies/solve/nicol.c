/* SPDX-License-Identifier: BSD-3-Clause */
/* See nicol.h. */
#include "policies/solve/nicol.h"

#include <stdlib.h>

#include "policies/solve/chain.h"

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

/* What is known of the answer: no bound below `low` is enough, and `high` is (UINT64_MAX: not known). */
struct known {
    uint64_t low, high;
};

/* The shortest run from `from` whose load lets the rest fit behind it, or is no less than what is known to be enough; n+1:
 * none that memory takes. A bin before this one holds less than some bound that was not enough: so a run whose load is no
 * more than such a bound does not let the rest fit, and is not tried. */
static uint32_t shortest(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t most, const struct known *k)
{
    uint32_t low = k->low ? longest(c, bin, from, k->low - 1) + 1 : from, high = most + 1;

    if (k->high != UINT64_MAX) {
        uint32_t enough = longest(c, bin, from, k->high - 1) + 1;

        high = enough < high ? enough : high;
    }
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
    struct known known = {0, UINT64_MAX};
    uint32_t from = 0;

    if (dp_chain_init(&c, q, err) < 0)
        return -1;
    for (uint32_t bin = 0; bin < q->p && known.low < known.high; bin++) {
        uint32_t most = longest(&c, bin, from, UINT64_MAX), end = shortest(&c, bin, from, most, &known);
        uint64_t load = end <= q->n ? dp_chain_load(&c, bin, from, end) : UINT64_MAX, less;

        known.high = load < known.high ? load : known.high;
        if (end == from)
            break; /* nothing in this bin, and yet the rest fits: it cannot get less */
        less = dp_chain_load(&c, bin, from, end <= q->n ? end - 1 : most);
        known.low = less + 1 > known.low ? less + 1 : known.low;
        from = end <= q->n ? end - 1 : most;
    }
    cut[0] = 0;
    if (known.high == UINT64_MAX || !rest_fits(&c, 0, 0, known.high, cut)) {
        dp_chain_release(&c);
        return dp_err_set(err, DP_ENOMEM, "%u layers do not fit into the memory of %u devices", q->n, q->p);
    }
    dp_chain_release(&c);
    *largest = known.high;
    return 0;
}
