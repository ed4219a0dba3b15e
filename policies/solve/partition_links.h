/* SPDX-License-Identifier: BSD-3-Clause */
/* Min-max partition where a bin's load has a part for each neighbour: see `between` in partition.h. For
 * dp_partition_minmax(). */
#ifndef DP_POLICIES_SOLVE_PARTITION_LINKS_H
#define DP_POLICIES_SOLVE_PARTITION_LINKS_H

#include "common/err.h"
#include "policies/solve/bins.h"

/* cut: =. largest: in: that of the best cuts without `between`, out: of the best ones with it. Exact, copies[] as they
 * are given, in O(p log n) for each of at most 64 probes. returns 0 or -1 (out of memory). */
int dp_partition_links(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err);

#endif
