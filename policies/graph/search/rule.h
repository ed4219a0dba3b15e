/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules that make an order of a graph's units: of the units that are ready, whose predecessors all came, the one with
 * the largest weighted sum of features is next. Random topological orders, depth first by chance, the order with
 * least traffic and noise in it are rules with few weights; most have several. A rule has two sets of weights: within a
 * device's share of the work, and near its end, where a cut is likely.
 *
 * Whole numbers only: the same rule gives the same order on every machine. */
#ifndef DP_POLICIES_GRAPH_SEARCH_RULE_H
#define DP_POLICIES_GRAPH_SEARCH_RULE_H

#include "policies/graph/units.h"

enum dp_rule_feature {
    DP_RULE_TRAFFIC, /* more traffic over the cut behind it, in mean nets */
    DP_RULE_CLOSES,  /* nets whose last unit it is */
    DP_RULE_RECENT,  /* how lately it became ready */
    DP_RULE_DEPTH,   /* longest path from a source, of the longest of all */
    DP_RULE_HEIGHT,  /* longest path to a sink */
    DP_RULE_WORK,    /* its compute, in mean units */
    DP_RULE_FREES,   /* units that become ready by it */
    DP_RULE_OPEN,    /* its part of nets that are open already */
    DP_RULE_PLACE,   /* its place in the order of the units */
    DP_RULE_KEY,     /* a number of its own: by chance, or the caller's */
    DP_RULE_FEATURES
};

struct dp_rule {
    int32_t weight[2][DP_RULE_FEATURES]; /* within a share, and in its last quarter; -1024..1024 */
    uint64_t seed;                       /* of the keys by chance */
    const uint16_t *key;                 /* [units] borrowed; NULL: by chance */
};

/* What rules know of a graph. */
struct dp_rule_facts {
    const struct dp_units *units; /* borrowed */
    uint64_t share_ns;            /* of one device, if all had the same compute; at least 1 */
    uint64_t mean_net_ns, mean_ns;
    int32_t *depth, *height; /* [units] 0..256 */
};

/* u must outlive it. n_devices >= 1. returns 0 or -1 (DP_ENOMEM); either way release it. */
int dp_rule_facts_create(struct dp_rule_facts *f, const struct dp_units *u, uint32_t n_devices, struct dp_err *err);
void dp_rule_facts_release(struct dp_rule_facts *f);

/* The rule with that number of a seed: four kinds in turn, all different. */
void dp_rule_draw(struct dp_rule *rule, uint64_t seed, uint64_t number);

/* order: [units] =, where there is one within max_steps (looks at a ready unit). steps: += those made.
 * returns: 1: there is; 0: it would take more steps; -1: DP_ENOMEM. */
int dp_rule_order(const struct dp_rule_facts *f, const struct dp_rule *rule, uint64_t max_steps, uint32_t *order, uint64_t *steps,
                  struct dp_err *err);

#endif
