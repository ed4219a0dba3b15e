/* SPDX-License-Identifier: BSD-3-Clause */
/* See copy_place.h. */
#include "common/run/copy_place.h"

static uint32_t layers_of(const struct dp_layout *l, uint32_t r)
{
    return l->cut[r + 1] - l->cut[r];
}

static bool is_any_elsewhere(const struct dp_layout *l, const uint32_t *node, uint32_t owner)
{
    for (uint32_t r = 0; r < l->n_workers; r++)
        if (!l->gone[r] && node[r] != node[owner])
            return true;
    return false;
}

/* held: layers of others that each holds so far. */
static uint32_t choose(const struct dp_layout *l, const uint32_t *node, const uint32_t *held, uint32_t owner)
{
    bool elsewhere = is_any_elsewhere(l, node, owner);
    uint32_t best = DP_COPY_NOWHERE;

    for (uint32_t k = 1; k < l->n_workers; k++) {
        uint32_t r = (owner + k) % l->n_workers;

        if (l->gone[r] || (elsewhere && node[r] == node[owner]))
            continue;
        if (best == DP_COPY_NOWHERE || held[r] < held[best])
            best = r;
    }
    return best;
}

void dp_copies_place(const struct dp_layout *layout, const uint32_t *node, struct dp_copy_place *out)
{
    uint32_t held[DP_MAX_WORKERS] = {0};

    out->is_apart = true;
    for (uint32_t r = 0; r < layout->n_workers; r++) {
        out->holder[r] = DP_COPY_NOWHERE;
        if (layout->gone[r] || !layers_of(layout, r))
            continue;
        out->holder[r] = choose(layout, node, held, r);
        if (out->holder[r] == DP_COPY_NOWHERE)
            continue;
        held[out->holder[r]] += layers_of(layout, r);
        out->is_apart &= node[out->holder[r]] != node[r];
    }
}
