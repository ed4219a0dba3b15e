/* SPDX-License-Identifier: BSD-3-Clause */
/* The exact min-max partition of a dp_partition as far as its weights, speeds, costs and memory go: what partition.c
 * begins with. */
#ifndef DP_POLICIES_SOLVE_BISECT_H
#define DP_POLICIES_SOLVE_BISECT_H

#include "common/err.h"
#include "policies/solve/bins.h"

/* As dp_partition_minmax() where neither `between` nor `depth` nor `prefer` is set; they are not looked at. */
int dp_partition_bisect(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err);

#endif
