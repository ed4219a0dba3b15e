/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout says which worker owns which layers: worker s owns layers [cut[s], cut[s+1]).
 *
 * cut has n_workers+1 entries, cut[0] = 0, cut[n_workers] = n_layers, never decreasing. A worker
 * with cut[s] == cut[s+1] owns nothing. Layers never leave the order of the model: that is the
 * whole point of describing a layout by cuts. Layouts are numbered by an epoch that only grows.
 */
#ifndef DP_COMMON_RUN_LAYOUT_H
#define DP_COMMON_RUN_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_MAX_WORKERS 512 /* cuts and gone of so many fit into a frame and, as u16, into a record of a journal */
#define DP_MAX_LAYERS 1024 /* loads of so many, 56 bytes each, fit into one REPORT */

struct dp_layout {
    uint64_t epoch;
    uint32_t n_workers, n_layers;
    uint32_t cut[DP_MAX_WORKERS + 1]; /* n_workers + 1 used */
    uint8_t gone[DP_MAX_WORKERS];     /* 1: this worker is not in the run: it has left, or nobody has its seat yet */
};

/* Is every layer owned exactly once, in order, by a worker that has not left?
 * returns: 0, or -1 with the first offence in err. Changes nothing. */
int dp_layout_check(const struct dp_layout *layout, struct dp_err *err);

/* The worker that owns `layer`. The layout must be valid and layer < n_layers. */
uint32_t dp_layout_owner(const struct dp_layout *layout, uint32_t layer);

/* Next worker after `worker` that owns layers, or -1 when it is the last one. */
int dp_layout_next(const struct dp_layout *layout, uint32_t worker);

/* Previous worker before `worker` that owns layers, or -1 when it is the first one. */
int dp_layout_prev(const struct dp_layout *layout, uint32_t worker);

/* How many workers before `worker` own layers: its stage's number, where it owns any. */
uint32_t dp_layout_stage(const struct dp_layout *layout, uint32_t worker);

/* The worker that leads the run: the lowest that has not left. 0 where nobody is left, or no layout was made yet. */
uint32_t dp_layout_leader(const struct dp_layout *layout);

/* Number of workers that are in the run. */
uint32_t dp_layout_members(const struct dp_layout *layout);

/* Number of workers that own at least one layer. */
uint32_t dp_layout_active(const struct dp_layout *layout);

/* A layer that another worker owns in the next layout. */
struct dp_move {
    uint32_t layer, from, to;
};

struct dp_moves {
    uint32_t n;
    struct dp_move move[DP_MAX_LAYERS]; /* in layer order */
};

/* Which layers move, from whom to whom. Both layouts valid, with the same numbers of workers and layers.
 * out: =, or NULL. returns: how many. */
uint32_t dp_layout_moves(const struct dp_layout *old, const struct dp_layout *next, struct dp_moves *out);

/* Write "0-3|4-6|-|7-9" (a dash for a worker without layers, x for one that left) into out. */
void dp_layout_format(const struct dp_layout *layout, char *out, size_t cap);

/* Read what dp_layout_format wrote, or a layout of Megatron (megatron.h) with a stage for each worker, where
 * an empty stage is a worker without layers; gone and epoch are taken from `current`, which also gives the
 * numbers of workers and layers that the text has to match. */
int dp_layout_parse(const char *text, const struct dp_layout *current, struct dp_layout *out,
                    struct dp_err *err);

#endif
