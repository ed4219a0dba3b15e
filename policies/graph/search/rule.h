/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that make an order of a graph's units: of the units that are ready, whose predecessors all came, the one with
 * the largest weighted sum of features is next. Random topological orders, depth first by chance, the order with
 * least traffic and noise in it are rules with few weights; most have several. A rule has two sets of weights: within a
 * device's share of the work, and near its end, where a cut is likely.
 *
 * Whole numbers only: the same rule gives the same order on every machine. */
#ifndef DP_POLICIES_GRAPH_SEARCH_RULE_H
#define DP_POLICIES_GRAPH_SEARCH_RULE_H

#include "policies/graph/search/ready.h"

struct dp_rule {
    int32_t weight[2][DP_RULE_FEATURES]; /* within a share, and in its last quarter; -1024..1024 */
    uint64_t seed;                       /* of the keys by chance */
    const uint16_t *key;                 /* [units] borrowed; NULL: by chance */
    const uint32_t *stage; /* [units] of a plan, borrowed: units of lower stages come first; NULL: of no plan */
};

/* The rule with that number of a seed: four kinds in turn, all different. */
void dp_rule_draw(struct dp_rule *rule, uint64_t seed, uint64_t number);

/* order: [units] =, where there is one within max_steps (looks at a ready unit). steps: += those made.
 * returns: 1: there is; 0: it would take more steps; -1: DP_ENOMEM. */
int dp_rule_order(const struct dp_rule_facts *f, const struct dp_rule *rule, uint64_t max_steps, uint32_t *order, uint64_t *steps,
                  struct dp_err *err);

#endif
