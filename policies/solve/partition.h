/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact contiguous min-max partition: n items in order over p bins in order, so that the fullest bin
 * is as empty as possible. */
#ifndef DP_POLICIES_SOLVE_PARTITION_H
#define DP_POLICIES_SOLVE_PARTITION_H

#include "common/err.h"
#include "policies/solve/bins.h"

/* cut: [p+1] =, bin b holds items [cut[b], cut[b+1]). largest: = load of the fullest bin. Nearest is where the
 * borders between devices lie the fewest items, in sum, from those in force (partition_near.h: up to what size).
 * O(p log n) for each of at most log2(sum) probes, more where `depth`, `between` or `prefer` count.
 * returns -1 when no cut fits into memory (DP_ENOMEM) or the arguments are impossible. */
int dp_partition_minmax(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err);

#endif
