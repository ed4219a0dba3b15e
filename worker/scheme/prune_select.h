/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact selection of the k largest magnitudes among weights that are spread over workers. */
#ifndef DP_WORKER_SCHEME_PRUNE_SELECT_H
#define DP_WORKER_SCHEME_PRUNE_SELECT_H

#include "worker/scheme/prune_run.h"

/* What is chosen from in one matrix, in the order of the global index: its weights, or the norms of its blocks. */
struct dp_prune_part {
    const float *x;       /* [device] */
    int64_t n;
    const uint64_t *left; /* [device] bits of those that are left, NULL: all */
    uint32_t layer;
    uint64_t ties;        /* out: of those equal to the threshold the first so many survive */
};

/* An element survives when its key (kernels/backend.h) is greater than `key`, or equal and it is among the first ties of
 * its part. */
struct dp_prune_cut {
    uint64_t live;   /* elements left in the whole model before */
    uint64_t kept;   /* and after: min(k, live) */
    bool all;        /* all that are left survive: key and ties say nothing */
    uint32_t key;
};

/* All workers call it with the same k and n_layers and their own parts; be: theirs, NULL is fine without parts. 1 to 4 sums.
 * No element leaves the device. Behind the n_parts parts are n_copies of other workers' parts, which get their ties and count in no
 * sum; of one layer they are in the order of their owner's. */
int dp_prune_select(struct dp_backend *be, struct dp_prune_part *parts, uint32_t n_parts, uint32_t n_copies, uint32_t n_layers, uint64_t k,
                    dp_allreduce_fn *sum, void *arg, struct dp_prune_cut *out, struct dp_err *err);

#endif
