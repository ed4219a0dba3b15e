/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever proposes orders of a graph's units: a search cuts them (search/search.h), and knows nothing else of him. And whoever
 * places units himself. */
#ifndef DP_POLICIES_GRAPH_SOURCE_H
#define DP_POLICIES_GRAPH_SOURCE_H

#include "policies/graph/units.h"

struct dp_order_source {
    uint32_t n; /* orders 0 .. n - 1 of a graph are his best; there are as many behind them as anybody asks for */
    /* *walk: = what the orders of these units over n_devices >= 1 are made with; units must outlive it. returns 0 or -1
     * (DP_ENOMEM); then there is nothing to end. */
    int (*begin)(const void *arg, const struct dp_units *units, uint32_t n_devices, void **walk, struct dp_err *err);
    /* order: [units] = the one with that number, which no edge contradicts, where there is one within max_steps; the same seed and
     * number give the same one on every machine. steps: += those made, which take as long as a rule's look at a ready
     * unit (search/rule.h). returns: 1: there is; 0: it would take more steps; -1: DP_ENOMEM. */
    int (*order)(void *walk, uint64_t seed, uint64_t number, uint64_t max_steps, uint32_t *order, uint64_t *steps,
                 struct dp_err *err);
    void (*end)(void *walk); /* NULL: nothing */
    const void *arg;
};

struct dp_place_source {
    uint32_t most_devices;
    /* As above; n_devices <= most_devices. */
    int (*begin)(const void *arg, const struct dp_units *units, uint32_t n_devices, void **walk, struct dp_err *err);
    /* device: [units] = < n_devices, anything else: maxload/parts.h makes a pipeline of it. Number 0 is his best. steps: += those
     * made. The same seed and number give the same one on every machine. returns 0 or -1 (DP_ENOMEM). */
    int (*place)(void *walk, uint64_t seed, uint64_t number, uint32_t *device, uint64_t *steps, struct dp_err *err);
    void (*end)(void *walk); /* NULL: nothing */
    const void *arg;
};

#endif
