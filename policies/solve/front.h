/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts between the two ends of what an iteration waits for: its slowest stage, m - 1 times, and one microbatch's way
 * through all stages. Fewer stages, and the fast ones, have the shorter way; more stages the faster slowest one. Of all
 * cuts whose bins keep within a bound, the one with the shortest way; and a bound below every layout's iteration. */
#ifndef DP_POLICIES_SOLVE_FRONT_H
#define DP_POLICIES_SOLVE_FRONT_H

#include "common/err.h"
#include "policies/solve/bins.h"

struct dp_front {
    const struct dp_partition *q; /* borrowed; `weight` is a step's work, copies[] count, depth does not */
    const uint64_t *pass;         /* [n] of it the work of one microbatch */
    double hop_ns;                /* a message and its gradient between two stages */
};

/* cut: [p+1] =, fullest: = its largest load. Exact, in O(n p) time and 4 n p bytes.
 * returns 0, or -1: no cut keeps within the bound (DP_EINVAL), or out of memory (DP_ENOMEM). */
int dp_front_shortest(const struct dp_front *f, uint64_t bound, uint32_t *cut, uint64_t *fullest, struct dp_err *err);

/* No layout of these items has an iteration below: every stage does all its work after the first microbatch has come
 * through those before it, and before its last gradient has gone back through them; and one microbatch passes all.
 * Memory is not looked at. known: an iteration that is possible. returns 0: out of memory, too. */
uint64_t dp_front_bound(const struct dp_front *f, uint64_t known);

#endif
