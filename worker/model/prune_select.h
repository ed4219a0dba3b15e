/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact selection of the k largest magnitudes among weights that are spread over workers. */
#ifndef DP_WORKER_MODEL_PRUNE_SELECT_H
#define DP_WORKER_MODEL_PRUNE_SELECT_H

#include "worker/model/prune.h"

/* The weights of one matrix, in the order of their global index. [host] */
struct dp_prune_part {
    const float *w;
    int64_t n;
    const uint64_t *keep; /* weights that are left, NULL: all */
    uint32_t layer;
};

/* A weight survives when its key is greater than `key`, or equal and it is among the first ties[layer]
 * such weights of its layer. */
struct dp_prune_cut {
    uint64_t live;   /* weights left in the whole model before */
    uint64_t kept;   /* and after: min(k, live) */
    bool all;        /* all that are left survive: the rest says nothing */
    bool none;       /* k is 0 */
    uint32_t key;
    uint64_t *ties;  /* n_layers; the caller frees */
};

/* Magnitudes order like their bits without the sign (NaN above everything). */
static inline uint32_t dp_prune_key(float w)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &w, sizeof bits);
    return bits & 0x7fffffffu;
}

/* All workers call it with the same k and n_layers and their own parts. 1 to 4 sums. */
int dp_prune_select(const struct dp_prune_part *parts, uint32_t n_parts, uint32_t n_layers, uint64_t k,
                    dp_allreduce_fn *sum, void *arg, struct dp_prune_cut *out, struct dp_err *err);

#endif
