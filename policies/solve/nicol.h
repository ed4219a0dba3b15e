/* SPDX-License-Identifier: BSD-3-Clause */
/* Nicol's exact contiguous min-max partition: the same answer as dp_partition_minmax() by another way,
 * so that each checks the other.
 *
 * For each bin in turn the shortest run is found whose load, as a bound, lets the rest fit: it is a
 * candidate for the answer, and the bin takes one item less, because less than that load is possible
 * only then. Rectilinear partitioning of irregular data parallel computations, Nicol, J. Parallel
 * Distrib. Comput. 23 (1994); for bins of different speed in a fixed order: Pinar, Tabak and Aykanat,
 * J. Parallel Distrib. Comput. 68 (2008).
 */
#ifndef DP_POLICIES_SOLVE_NICOL_H
#define DP_POLICIES_SOLVE_NICOL_H

#include "common/err.h"
#include "policies/solve/bins.h"

/* Arguments, answer and errors are those of dp_partition_minmax(); `prefer` and `depth` are not looked at.
 * Each bin's tries lie between what earlier ones showed to be too little and enough (as Pinar and Aykanat, J. Parallel Distrib.
 * Comput. 64 (2004), bound them): together some log2(sum) tries of O(p log n), as a rule; O(p^2 log^2 n) at worst. */
int dp_partition_nicol(const struct dp_partition *q, uint32_t *cut, uint64_t *largest, struct dp_err *err);

#endif
