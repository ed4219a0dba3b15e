/* SPDX-License-Identifier: BSD-3-Clause */
/* Dense or sparse? Decided by measurement, once per kind of device, the same on every worker.
 *
 * For a shape (c_out, c_in, n) and a granularity of pruning the table holds the sparsity from which on the sparse kernels beat
 * the dense ones (forward + input gradient + weight gradient together). The table is measured when a
 * run meets a shape that it lacks, kept in a file so that the next run makes the same choice, sent by
 * rank 0 to all workers at the start, and stored in checkpoints: the choice changes the last bits of
 * a sum, so it must never depend on who measures when.
 */
#ifndef DP_KERNELS_AUTOTUNE_H
#define DP_KERNELS_AUTOTUNE_H

#include "kernels/backend.h"

#define DP_TUNE_MAX 64 /* shapes; a model has four, a file those of some models */

struct dp_tune_entry {
    int64_t c_out, c_in, n;
    double crossover;   /* 0..1; 1: never sparse */
    int64_t block_rows; /* 1 (0 means that too): single weights; else see kernels/granularity.h */
};
struct dp_tune {
    uint32_t n_entries;
    struct dp_tune_entry entry[DP_TUNE_MAX];
};

/* Is every member in its range? What was read from a file or a manifest need not be. */
bool dp_tune_is_entry(const struct dp_tune_entry *e);

/* Read what the file (JSON) has for be's device. A missing file, or one measured with the kernels of an older version,
 * gives an empty table and 0; a damaged one is an error. */
int dp_tune_load(const char *path, struct dp_backend *be, struct dp_tune *out, struct dp_err *err);
/* Write it, as measured on be's device, to a temporary name and rename. What the file had for other devices stays in it, as
 * far as it can be read, the newest DP_TUNE_MAX of it. */
int dp_tune_save(const char *path, struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err);
/* Where the file lies when nobody says: $XDG_CACHE_HOME or ~/.cache, /dynpipe/tune-<name of be's device>.json. */
int dp_tune_default_path(struct dp_backend *be, char *out, size_t cap, struct dp_err *err);
/* Measure the shape if it is missing (0.1 s; matrices of millions of weights up to 0.5 s). It becomes the
 * newest of the table; a full one loses its oldest shape for it. */
int dp_tune_add(struct dp_tune *tune, struct dp_backend *be, int64_t c_out, int64_t c_in, int64_t n,
                int64_t block_rows, struct dp_err *err);
/* True when a (c_out, c_in) matrix with nnz nonzeros should be computed as sparse. */
bool dp_tune_is_sparse(const struct dp_tune *tune, int64_t c_out, int64_t c_in, int64_t n, int64_t block_rows,
                       int64_t nnz);

#endif
