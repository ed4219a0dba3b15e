/* SPDX-License-Identifier: BSD-3-Clause */
/* The dynamic program behind hierarchical.c: the least time of every range of a network, on every number of
 * devices of a level. A range lies between two ideals (ideals.h); its time is that of its slowest stage, as
 * hierarchical.h defines it. */
#ifndef DP_POLICIES_GRAPH_HIERARCHICAL_RANGES_H
#define DP_POLICIES_GRAPH_HIERARCHICAL_RANGES_H

#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/ideals.h"

#define DP_RANGES_MAX_WORK 3e10 /* of the innermost loop with machines, before anything is cut off: minutes */
#define DP_RANGES_MAX_CUTS 8192u /* of one order; a longer one is cut at every second, third ... unit only */
#define DP_RANGES_MAX_STEPS UINT64_C(800000000) /* really made: some seconds of one core */

struct dp_ranges {
    /* The question: the caller's. */
    const struct dp_graph *g;
    const struct dp_plan_hierarchical *ask;
    struct dp_units units;
    uint64_t *param_bytes; /* [units] */
    struct dp_ideals ideals;
    uint32_t each;     /* of the upper or only level in a group */
    double below_s;    /* only what is faster is looked for; INFINITY: anything. The nearer, the less work */
    uint64_t bound_ns; /* for the watch */
    bool has_no_table; /* which straight.h does without */
    bool was_ended;    /* by the watch: tables are not complete */
    bool is_too_long;  /* likewise, more than max_steps */
    uint64_t steps, max_steps; /* of the innermost loop */
    /* What dp_ranges_create() makes. */
    uint64_t *compute_ns, *params, *state, *kept; /* [ideals] sums; memory: see dp_ranges_has_room() */
    uint64_t *leaves;                       /* [ideals] bytes of outputs that a later unit takes */
    uint32_t *by_compute;                   /* [n_cuts] ideals that may be cut at, ascending in compute_ns */
    uint32_t step, n_cuts;                  /* every step-th ideal and the last one: all but in very long orders */
    double *inner;                          /* [ideals * ideals], two levels */
    double *time;                           /* [ideals * (devices + 1)] */
};

/* A level of the network: 0 has devices, 1 machines. */
struct dp_ranges_level {
    uint32_t index, n; /* n: how many groups of them */
    uint32_t each;     /* in a group, which is given to a stage as a whole: 1 but for many on the upper or only level */
};

/* A stage: the ideal before it, and its replicas. */
struct dp_ranges_choice {
    uint32_t from, replicas;
};

/* The level of that index, 0 <= index < ask->n_levels; groups (h->each) are on the last one only. */
struct dp_ranges_level dp_ranges_at(const struct dp_ranges *h, uint32_t index);

/* Steps of the innermost loop for n ideals, as they were measured: a few cuts near the best, and a share of
 * the rest. */
double dp_ranges_work(const struct dp_ranges *h, double n);
/* Sets h->each for n ideals: 1, or where there are many devices and that is too much, so that there are some dozen
 * groups. */
void dp_ranges_group(struct dp_ranges *h, double n);
/* More than minutes, or more than fits in memory? */
bool dp_ranges_are_too_many(const struct dp_ranges *h, double n);

/* Sums and tables for h->ideals. returns: 0, or -1 without memory; either way release it, and the ideals with
 * it. */
int dp_ranges_create(struct dp_ranges *h);
void dp_ranges_release(struct dp_ranges *h);

/* Do m replicas of a stage from..to on the lower or only level keep what is under way, with `end` groups of devices used up to
 * its end? */
bool dp_ranges_has_room(const struct dp_ranges *h, uint32_t from, uint32_t to, uint32_t m, uint32_t end);

/* Of a range that ends at `ideal`, from the base that was solved last: [0..n] seconds by devices, INFINITY
 * where there is no plan, or none that can be part of one below below_s. n: devices of the level. */
double *dp_ranges_times(const struct dp_ranges *h, uint32_t n, uint32_t ideal);
/* All ranges from `base`; ends early where the watch says so. */
void dp_ranges_solve(struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t base);
/* h->inner: every range on all devices of one machine. */
void dp_ranges_solve_inner(struct dp_ranges *h);
/* The last stage of the best plan of base..to with m devices, after dp_ranges_solve() from that base; *m =
 * what is left for those before it. replicas 0: there is no plan. */
struct dp_ranges_choice dp_ranges_last_stage(struct dp_ranges *h, const struct dp_ranges_level *l,
                                             uint32_t base, uint32_t to, uint32_t *m);

#endif
