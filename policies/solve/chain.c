/* SPDX-License-Identifier: BSD-3-Clause */
/* See chain.h. */
#include "policies/solve/chain.h"

#include <stdlib.h>

static uint64_t *sums(const uint64_t *value, uint32_t n)
{
    uint64_t *sum = calloc((size_t)n + 1, sizeof *sum);

    for (uint32_t i = 0; sum && value && i < n; i++)
        sum[i + 1] = sum[i] + value[i];
    return sum;
}

int dp_chain_init(struct dp_chain *c, const struct dp_partition *q, struct dp_err *err)
{
    *c = (struct dp_chain){.q = q};
    if (q->n < 1 || q->p < 1)
        return dp_err_set(err, DP_EINVAL, "partition of %u layers over %u devices", q->n, q->p);
    c->weight = sums(q->weight, q->n);
    c->fixed = sums(q->fixed_bytes, q->n);
    c->multi = sums(q->multi_bytes, q->n);
    if (c->weight && c->fixed && c->multi)
        return 0;
    dp_chain_release(c);
    return dp_err_set(err, DP_ENOMEM, "partition: out of memory");
}

void dp_chain_release(struct dp_chain *c)
{
    free(c->weight);
    free(c->fixed);
    free(c->multi);
    c->weight = c->fixed = c->multi = NULL;
}

uint64_t dp_chain_weight(const struct dp_chain *c, uint32_t from, uint32_t to)
{
    return c->weight[to] - c->weight[from];
}

uint64_t dp_chain_load(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to)
{
    uint32_t neighbours = (from > 0) + (to < c->q->n);
    uint64_t load, between;

    if (from == to)
        return 0;
    load = dp_partition_load(c->q, bin, dp_chain_weight(c, from, to));
    return __builtin_mul_overflow(c->q->between, neighbours, &between) || __builtin_add_overflow(load, between, &load) ? UINT64_MAX
                                                                                                                       : load;
}

uint64_t dp_chain_bytes(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to)
{
    uint64_t copies = c->q->copies ? c->q->copies[bin] : 1, bytes;

    if (__builtin_mul_overflow(c->multi[to] - c->multi[from], copies, &bytes) ||
        __builtin_add_overflow(c->fixed[to] - c->fixed[from], bytes, &bytes))
        return UINT64_MAX;
    return bytes;
}

bool dp_chain_fits(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to)
{
    uint64_t cap = c->q->cap_bytes ? c->q->cap_bytes[bin] : 0;

    return !cap || !c->q->fixed_bytes || dp_chain_bytes(c, bin, from, to) <= cap;
}

void dp_chain_uniform(uint32_t n, uint32_t p, uint32_t *cut)
{
    cut[0] = 0;
    for (uint32_t b = 0; b < p; b++)
        cut[b + 1] = cut[b] + n / p + (b < n % p);
}

void dp_chain_start(const struct dp_partition *q, uint32_t *cut)
{
    dp_chain_uniform(q->n, q->p, cut);
    for (uint32_t b = 1; q->prefer && b < q->p; b++) {
        uint32_t now = q->prefer[q->device ? q->device[b - 1] + 1 : b];

        cut[b] = now < cut[b - 1] ? cut[b - 1] : now;
        if (cut[b] > q->n)
            cut[b] = q->n;
    }
}
