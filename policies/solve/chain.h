/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of a chain: weight, load and memory of the items that one bin of a dp_partition holds, for the
 * balancers that weigh runs one by one. Prefix sums, so that each costs O(1). */
#ifndef DP_POLICIES_SOLVE_CHAIN_H
#define DP_POLICIES_SOLVE_CHAIN_H

#include "common/err.h"
#include "policies/solve/bins.h"

struct dp_chain {
    const struct dp_partition *q; /* borrowed */
    uint64_t *weight, *fixed, *multi; /* [n+1] sums; fixed and multi are 0 where q has none */
};

/* returns 0, or -1: no items, no bins (DP_EINVAL) or out of memory (DP_ENOMEM). */
int dp_chain_init(struct dp_chain *c, const struct dp_partition *q, struct dp_err *err);
void dp_chain_release(struct dp_chain *c);

/* Of items [from, to) in bin: */
uint64_t dp_chain_weight(const struct dp_chain *c, uint32_t from, uint32_t to);
/* as dp_partition_minmax() has it: time at the bin's speed, and its costs where it holds anything */
uint64_t dp_chain_load(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to);
/* UINT64_MAX where it does not fit into 64 bits */
uint64_t dp_chain_bytes(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to);
bool dp_chain_fits(const struct dp_chain *c, uint32_t bin, uint32_t from, uint32_t to);

/* The cuts that the balancers start from: q->prefer, made to rise from 0 to n, or equal numbers. */
void dp_chain_start(const struct dp_partition *q, uint32_t *cut);
/* Equal numbers of items, the first bins one more. */
void dp_chain_uniform(uint32_t n, uint32_t p, uint32_t *cut);

#endif
