/* SPDX-License-Identifier: BSD-3-Clause */
/* Which layers move, from whom to whom, between two layouts of the same model. */
#ifndef DP_WORKER_HANDOVER_MOVES_H
#define DP_WORKER_HANDOVER_MOVES_H

#include "common/layout.h"

struct dp_move {
    uint32_t layer, from, to;
};

struct dp_moves {
    uint32_t n;
    struct dp_move move[DP_MAX_LAYERS]; /* in layer order */
};

/* Both layouts valid, with the same numbers of workers and layers. */
void dp_moves_plan(const struct dp_layout *old, const struct dp_layout *next, struct dp_moves *out);

#endif
