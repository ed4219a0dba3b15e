/* SPDX-License-Identifier: BSD-3-Clause */
/* A walk over the units of a graph: which are ready, whose predecessors all came, and what is known of each of them. Whoever
 * chooses the next one makes an order: rules (rule.h), or a network that has learned it.
 *
 * Whole numbers only. A feature of size one is DP_READY_ONE. */
#ifndef DP_POLICIES_GRAPH_SEARCH_READY_H
#define DP_POLICIES_GRAPH_SEARCH_READY_H

#include "policies/graph/units.h"

#define DP_READY_ONE 256 /* a feature is about -ONE..ONE, and never more than 64 times that */

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

struct dp_ready {
    const struct dp_rule_facts *facts; /* borrowed */
    uint64_t seed;                     /* of the keys by chance */
    const uint16_t *key;               /* [units] borrowed; NULL: by chance */
    uint32_t *missing;                 /* [units] predecessors that did not come yet */
    uint32_t *unit;                    /* [n] those without, by the time when they became so */
    uint32_t *since;                   /* [units] when that was */
    uint32_t *held;                    /* [nets] units of it that came */
    uint32_t n, now;
    uint64_t done_ns; /* compute of what came */
};

/* At the beginning of an order, with keys by chance from seed 0. f must outlive it. returns 0 or -1 (DP_ENOMEM); either
 * way release it. */
int dp_ready_create(struct dp_ready *r, const struct dp_rule_facts *f, struct dp_err *err);
void dp_ready_release(struct dp_ready *r);

/* Is what came in the last quarter of a device's share of the work, where a cut is likely? */
bool dp_ready_is_late(const struct dp_ready *r);
/* value: [DP_RULE_FEATURES] = of a ready unit; those are zero for which `weight` (NULL: all ones) has no use, where that
 * saves time. */
void dp_ready_look(const struct dp_ready *r, uint32_t unit, const int32_t *weight, int32_t *value);
/* r->unit[which] comes next. returns: the unit. */
uint32_t dp_ready_take(struct dp_ready *r, uint32_t which);

#endif
