/* SPDX-License-Identifier: BSD-3-Clause */
/* Fetching what the next step of a walk needs while this one computes.
 *
 * Pieces (plan.h) are sorted by count, columns of a piece lie anywhere in their block: the processor foresees
 * none of it, and each first touch of a line would wait for memory. Measured at 95 % zeros, 768x3072, 256
 * tokens: 12 % of the time of an input gradient.
 */
#ifndef DP_KERNELS_CPU_SPARSE_FETCH_H
#define DP_KERNELS_CPU_SPARSE_FETCH_H

#include "kernels/backend.h"

/* Memory that will be needed soon. */
struct dp_fetch {
    const char *at, *end;
    int64_t lines; /* of 64 bytes, for a piece */
};

/* `channels` of a tile from p (NULL: nothing) on, during a step of `pieces`. */
static inline struct dp_fetch dp_fetch_tile(const float *p, int64_t channels, int64_t pieces)
{
    int64_t bytes = p && channels > 0 ? channels * DP_TILE * (int64_t)sizeof *p : 0;

    return (struct dp_fetch){(const char *)p, (const char *)p + bytes, bytes / 64 / (pieces + 1) + 1};
}

/* A piece's share of it, into the second-level cache; the end may be passed by less than that. */
static inline void dp_fetch_some(struct dp_fetch *f)
{
    if (f->at >= f->end)
        return;
    for (int64_t i = 0; i < f->lines; i++, f->at += 64)
        __builtin_prefetch(f->at, 0, 2);
}

#endif
