/* SPDX-License-Identifier: BSD-3-Clause */
/* See moves.h. */
#include "worker/handover/moves.h"

void dp_moves_plan(const struct dp_layout *old, const struct dp_layout *next, struct dp_moves *out)
{
    uint32_t from = 0, to = 0;

    out->n = 0;
    for (uint32_t layer = 0; layer < old->n_layers; layer++) {
        while (layer >= old->cut[from + 1])
            from++;
        while (layer >= next->cut[to + 1])
            to++;
        if (from != to)
            out->move[out->n++] = (struct dp_move){.layer = layer, .from = from, .to = to};
    }
}
