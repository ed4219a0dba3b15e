/* SPDX-License-Identifier: BSD-3-Clause */
/* What pruning takes or leaves together: single weights, or the blocks of struct dp_sparse (backend.h), which the
 * number of their rows tells. A line of the list has both; configuration, tables and benchmarks take names from it. */
#ifndef DP_KERNELS_GRANULARITY_H
#define DP_KERNELS_GRANULARITY_H

#include <stdint.h>

/* The first name stands alone, so that the list can be written with bars between. */
#define DP_GRANULARITIES(FIRST, G) FIRST(1, "weight") G(4, "4x1") G(32, "32x32") G(64, "64x64") G(128, "128x128")
#define DP_N_GRANULARITIES 5 /* lines of the list */

#define DP_GRANULARITY_FIRST(rows, name) name
#define DP_GRANULARITY_BAR(rows, name) "|" name
/* "weight|4x1|..." */
#define DP_GRANULARITY_CHOICES DP_GRANULARITIES(DP_GRANULARITY_FIRST, DP_GRANULARITY_BAR)

/* Of blocks with so many rows; NULL: there are none. Static. */
const char *dp_granularity_name(int64_t block_rows);
/* Rows of a block; 0: there is no such name. */
int64_t dp_granularity_rows(const char *name);
/* The i-th of the list, 0 ... DP_N_GRANULARITIES - 1: rows of a block. */
int64_t dp_granularity_at(int i);

#endif
