/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of sparse matrices, for every backend. */
#ifndef DP_KERNELS_PATTERN_H
#define DP_KERNELS_PATTERN_H

#include "kernels/backend.h"

/* Is the pattern what struct dp_sparse says: sizes in range, whole blocks, row pointers that rise from 0 to the number of
 * blocks, columns that ascend and are there? row_ptr and col are as long as sizes and nnz say. returns: 0, or -1 and err
 * (DP_EINVAL). */
int dp_sparse_check(const struct dp_sparse *sp, struct dp_err *err);

#endif
