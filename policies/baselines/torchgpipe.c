/* SPDX-License-Identifier: BSD-3-Clause */
/* torchgpipe's balance (torchgpipe/balance/blockpartition.py; written anew): Barany and Grinberg's
 * algorithm, in which the smallest block takes an end item from its neighbour on the way to the
 * largest one until the two differ by no more than the largest item.
 *
 * Its defect is kept: items are first made (w - min) / (max - min). Blocks have different numbers of
 * items, so taking the same amount from every item changes which block is large: light items count as
 * nothing, and the bound that it ends with says nothing about the real sums. One thing is different:
 * of blocks that are equally small the first one is taken, and where its neighbour is empty the original
 * moves a cut past the next one; here the item comes from the nearest block that has one. It knows
 * neither speeds nor memory.
 */
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"

struct blocks {
    uint32_t p;
    uint32_t *cut;
    uint64_t *sum;  /* [n+1] of the items as it sees them: less the lightest one */
    uint64_t range; /* the heaviest as it sees it: 1 in the original, which divides by it */
    /* Winners of a knock-out among the blocks, [2 * leaves] each, the last round first: the largest block (of equal ones the last),
     * and the smallest (the first). The original looks at all blocks for every item. */
    uint32_t leaves, *largest, *smallest;
};

static uint64_t size(const struct blocks *t, uint32_t b)
{
    return t->sum[t->cut[b + 1]] - t->sum[t->cut[b]];
}

static void play(struct blocks *t, uint32_t match)
{
    const uint32_t *l = &t->largest[2 * match], *s = &t->smallest[2 * match]; /* the lower numbers on the left */

    t->largest[match] = l[1] < t->p && size(t, l[1]) >= size(t, l[0]) ? l[1] : l[0];
    t->smallest[match] = s[1] < t->p && size(t, s[1]) < size(t, s[0]) ? s[1] : s[0];
}

/* Block b has another size. */
static void replay(struct blocks *t, uint32_t b)
{
    for (uint32_t match = (t->leaves + b) / 2; match; match /= 2)
        play(t, match);
}

static int begin(struct blocks *t)
{
    for (t->leaves = 1; t->leaves < t->p;)
        t->leaves *= 2;
    t->largest = calloc(2 * (size_t)t->leaves, sizeof *t->largest);
    t->smallest = calloc(2 * (size_t)t->leaves, sizeof *t->smallest);
    if (!t->largest || !t->smallest)
        return -1;
    for (uint32_t b = 0; b < t->leaves; b++)
        t->largest[t->leaves + b] = t->smallest[t->leaves + b] = b; /* from p on: nobody */
    for (uint32_t match = t->leaves; match-- > 1;)
        play(t, match);
    return 0;
}

/* Give block q an end item of the nearest block towards p; those between are empty and stay so. returns that block. */
static uint32_t take(struct blocks *t, uint32_t q, uint32_t p)
{
    uint32_t h = q;

    if (p < q) {
        do
            t->cut[h--]--;
        while (h != p && t->cut[h + 1] < t->cut[h]);
    } else {
        do
            t->cut[++h]++;
        while (h != p && t->cut[h] > t->cut[h + 1]);
    }
    return h;
}

/* Each step moves an item away from p, and a block never becomes as large as p was: it ends. */
static void solve(struct blocks *t)
{
    for (;;) {
        uint32_t p = t->largest[1], q = t->smallest[1], giver;
        uint64_t most = size(t, p);

        do {
            if (most <= size(t, q) + t->range)
                return;
            giver = take(t, q, p);
            replay(t, q);
            replay(t, giver);
            q = t->smallest[1];
        } while (giver != p);
    }
}

static void normalise(const struct dp_partition *q, struct blocks *t)
{
    uint64_t low = UINT64_MAX, high = 0;

    for (uint32_t i = 0; i < q->n; i++) {
        low = q->weight[i] < low ? q->weight[i] : low;
        high = q->weight[i] > high ? q->weight[i] : high;
    }
    for (uint32_t i = 0; i < q->n; i++)
        t->sum[i + 1] = t->sum[i] + q->weight[i] - low;
    t->range = high - low;
}

int dp_balancer_torchgpipe(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                           struct dp_err *err)
{
    struct blocks t = {.p = q->p, .cut = cut};
    int rc = 0;

    (void)note;
    if (q->n < 1 || q->p < 1)
        return dp_err_set(err, DP_EINVAL, "partition of %u layers over %u devices", q->n, q->p);
    if (q->n < q->p)
        return dp_err_set(err, DP_EINVAL, "%u layers are fewer than %u devices: torchgpipe refuses that", q->n, q->p);
    cut[0] = 0;
    for (uint32_t b = 1; b < q->p; b++)
        cut[b] = q->n / q->p * b;
    cut[q->p] = q->n;
    t.sum = calloc((size_t)q->n + 1, sizeof *t.sum);
    if (t.sum)
        normalise(q, &t);
    if (t.sum && begin(&t) == 0)
        solve(&t);
    else
        rc = dp_err_set(err, DP_ENOMEM, "out of memory");
    free(t.sum);
    free(t.largest);
    free(t.smallest);
    return rc;
}

DP_BALANCER_POLICY(torchgpipe_param, "torchgpipe-param", DP_BY_PARAM, dp_balancer_torchgpipe,
                   "torchgpipe's block partition, by remaining parameters");
DP_BALANCER_POLICY(torchgpipe_time, "torchgpipe-time", DP_BY_TIME, dp_balancer_torchgpipe,
                   "torchgpipe's block partition, by measured time");
