/* SPDX-License-Identifier: BSD-3-Clause */
/* A lesson: a generated graph, so many devices, a bandwidth; what orders are worth in it. */
#ifndef DP_POLICIES_LEARN_LESSON_H
#define DP_POLICIES_LEARN_LESSON_H

#include "policies/learn/net/net.h"

struct dp_lesson {
    struct dp_graph graph;
    struct dp_units units;
    struct dp_net_graph seen;
    uint32_t n_devices;
    uint64_t line_ns; /* of the best of the few orders (line.h) */
};

/* Lesson `number` of a seed, out of the families to learn from: 30 to 129 nodes (is_small: 16 to 47, most of which have an exact
 * plan), 4, 8 or 16 devices, 1.25, 5 or 12 GB/s. returns 0 or -1 (DP_ENOMEM); either way release it. */
int dp_lesson_create(struct dp_lesson *l, uint64_t seed, uint64_t number, bool is_small, struct dp_err *err);
void dp_lesson_release(struct dp_lesson *l);

/* load_ns: = of the slowest device, where the order is cut as well as it can be. returns 0 or -1 (DP_ENOMEM). */
int dp_lesson_load(const struct dp_lesson *l, const uint32_t *order, uint64_t *load_ns, struct dp_err *err);

/* -log(load / line_ns): 0 where the order is as good as the few orders, 0.01 where it is 1 % better. */
float dp_lesson_reward(const struct dp_lesson *l, uint64_t load_ns);

/* stage: [units] = those of a plan than which none is better. returns 1: there is; 0: the graph has too many ideals to look for
 * it; -1: DP_ENOMEM. */
int dp_lesson_exact(const struct dp_lesson *l, uint32_t *stage, struct dp_err *err);

/* The best order of a network, cut: load_ns =. returns 0 or -1 (DP_ENOMEM). */
int dp_lesson_try(const struct dp_lesson *l, const struct dp_net *net, uint64_t key_seed, uint64_t *load_ns, struct dp_err *err);

#endif
