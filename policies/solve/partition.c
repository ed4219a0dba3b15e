/* SPDX-License-Identifier: BSD-3-Clause */
/* See partition.h. One part after the other: the bisection, links between bins, memory that depends on how many bins
 * hold anything, and of all best cuts the nearest. None of them asks this file. */
#include "policies/solve/partition.h"

#include "policies/solve/bisect.h"
#include "policies/solve/partition_depth.h"
#include "policies/solve/partition_links.h"
#include "policies/solve/partition_near.h"

int dp_partition_minmax(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err)
{
    int rc = dp_partition_bisect(q, cut, largest, err);

    if (rc == 0 && q->between)
        rc = dp_partition_links(q, cut, largest, err);
    if (dp_partition_has_depth(q))
        rc = dp_partition_depth(q, rc == 0, cut, largest, err);
    return rc == 0 && q->prefer ? dp_partition_near(q, *largest, cut, err) : rc;
}
