/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves in a max-load plan: a unit, and what has to come along, goes over to the next stage or to the one before, and the
 * loads of these two change; and passes of many units, which part stages, too. A few hundred thousand moves a second; the dynamic
 * program then cuts the order of what came out. For accelerators that are alike, without CPUs. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_REFINE_H
#define DP_POLICIES_GRAPH_MAXLOAD_REFINE_H

#include "policies/graph/maxload/maxload.h"

struct dp_refine {
    const struct dp_units *units;
    uint64_t accel_bytes; /* UINT64_MAX: no limit */
    uint32_t n_stages;    /* that there may be; fewer than the plan has: as many as that */
    uint64_t seed, max_steps;
    uint32_t heat; /* how much worse a plan may get at the beginning; in 1/4096 of (slowest stage)^8, summed over the stages */
    const struct dp_plan_watch *watch; /* NULL: nobody; asked with best_ns and lower_ns */
    uint64_t lower_ns; /* nothing is better */
};

/* stage: [units] of a plan; = the best plan that was found, which is never slower; numbers may be left out. Too large to count
 * its nets stage by stage: it stays as it is. steps: += those made. returns 0 or -1 (DP_ENOMEM). */
int dp_refine_run(const struct dp_refine *q, uint32_t *stage, uint64_t *steps, struct dp_err *err);

#endif
