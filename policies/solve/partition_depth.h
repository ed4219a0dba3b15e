/* SPDX-License-Identifier: BSD-3-Clause */
/* Min-max partition where the memory of a bin depends on how many bins after it hold anything: see `depth` in
 * partition.h. For dp_partition_minmax(), which counts as if all did; that may refuse a cut that leaves a bin
 * empty and so keeps fewer activations before it. */
#ifndef DP_POLICIES_SOLVE_PARTITION_DEPTH_H
#define DP_POLICIES_SOLVE_PARTITION_DEPTH_H

#include "common/err.h"
#include "policies/solve/bins.h"

#define DP_PARTITION_DEPTH_BINS 64 /* for more it would take too long */

/* Does `depth` count for this question? */
bool dp_partition_has_depth(const struct dp_partition *q);

/* cut, largest: =, where has_answer the best with copies[], which stays where nothing is better.
 * Exact, in O(p^2 log n) for each of at most log2(sum) probes; none where memory is not what limits the answer.
 * returns 0, or -1: no cut fits (DP_ENOMEM), or out of memory. */
int dp_partition_depth(const struct dp_partition *q, bool has_answer, uint32_t *cut, uint64_t *largest,
                       struct dp_err *err);

#endif
