/* SPDX-License-Identifier: BSD-3-Clause */
/* Of all cuts of a chain whose bins keep within a bound, those nearest to the cuts in force. For
 * dp_partition_minmax(). */
#ifndef DP_POLICIES_SOLVE_PARTITION_NEAR_H
#define DP_POLICIES_SOLVE_PARTITION_NEAR_H

#include "common/err.h"
#include "policies/solve/bins.h"

#define DP_PARTITION_NEAR_CELLS (1u << 23) /* bins * places of a cut (* bins, where `depth` counts): 0.1 s or so */

/* cut: [p+1] in: cuts within the bound; out: such ones that lie the fewest items, in sum over all borders between
 * devices, from q->prefer. Exact where the places that cuts can have within the bound are at most
 * DP_PARTITION_NEAR_CELLS, as for every snapshot of a run; for more each cut in turn goes where it is nearest.
 * returns 0, or -1 (DP_ENOMEM). */
int dp_partition_near(const struct dp_partition *q, uint64_t bound, uint32_t *cut, struct dp_err *err);

#endif
