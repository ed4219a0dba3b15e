/* SPDX-License-Identifier: BSD-3-Clause */
/* See diffuse.h. Nothing here sees more than one worker and the notes of its neighbours. */
#include "policies/solve/diffuse.h"

#include <stddef.h>

#include "policies/solve/bins.h"

#define OVERFULL (UINT64_C(1) << 63) /* above all times: what does not fit must go first */

static bool fits(const struct dp_diffuse_worker *w, uint64_t fixed, uint64_t multi)
{
    uint64_t bytes;

    return !w->cap_bytes || (!__builtin_mul_overflow(multi, (uint64_t)w->copies, &bytes) &&
                             !__builtin_add_overflow(bytes, fixed, &bytes) && bytes <= w->cap_bytes);
}

static uint64_t time_of(const struct dp_diffuse_worker *w, uint64_t weight)
{
    uint64_t t = dp_partition_time(w->speed, weight);

    return t < OVERFULL ? t : OVERFULL - 1;
}

uint64_t dp_diffuse_load(const struct dp_diffuse_worker *w)
{
    return time_of(w, w->weight) + (fits(w, w->fixed_bytes, w->multi_bytes) ? 0 : OVERFULL);
}

void dp_diffuse_tell(const struct dp_diffuse_worker *w, enum dp_diffuse_side to, const struct dp_diffuse_layer *end,
                     const struct dp_diffuse_note *passed, struct dp_diffuse_note *out)
{
    enum dp_diffuse_side from = to == DP_DIFFUSE_LEFT ? DP_DIFFUSE_RIGHT : DP_DIFFUSE_LEFT;
    uint64_t load = dp_diffuse_load(w), beyond = w->highest[from];

    *out = (struct dp_diffuse_note){.highest = beyond > load ? beyond : load, .quiet = w->quiet};
    if (end) {
        out->has_layer = true;
        out->layer = *end;
    } else if (passed) {
        out->has_layer = passed->has_layer;
        out->layer = passed->layer;
    }
}

static void hear(struct dp_diffuse_worker *w, enum dp_diffuse_side side, const struct dp_diffuse_note *note)
{
    w->highest[side] = note ? note->highest : 0;
    if (note && note->quiet < w->quiet)
        w->quiet = note->quiet;
}

enum dp_diffuse_side dp_diffuse_ask(struct dp_diffuse_worker *w, const struct dp_diffuse_note *left,
                                    const struct dp_diffuse_note *right)
{
    const struct dp_diffuse_note *giver;

    hear(w, DP_DIFFUSE_LEFT, left);
    hear(w, DP_DIFFUSE_RIGHT, right);
    w->quiet++;
    w->asks = DP_DIFFUSE_NONE;
    giver = left && (!right || left->highest >= right->highest) ? left : right;
    if (giver && giver->has_layer && time_of(w, w->weight + giver->layer.weight) < giver->highest &&
        fits(w, w->fixed_bytes + giver->layer.fixed_bytes, w->multi_bytes + giver->layer.multi_bytes))
        w->asks = giver == left ? DP_DIFFUSE_LEFT : DP_DIFFUSE_RIGHT;
    return w->asks;
}

bool dp_diffuse_wants(const struct dp_diffuse_worker *w, enum dp_diffuse_side side, bool is_asked)
{
    return w->asks == side || (is_asked && w->asks == DP_DIFFUSE_NONE && w->layers == 0);
}

bool dp_diffuse_grant(const struct dp_diffuse_worker *w, enum dp_diffuse_side to, bool left_asks, bool right_asks)
{
    bool left = left_asks && w->asks != DP_DIFFUSE_LEFT && w->layers > 0;

    if (to == DP_DIFFUSE_LEFT)
        return left;
    return right_asks && w->asks != DP_DIFFUSE_RIGHT && w->layers > (left ? 1 : 0);
}

void dp_diffuse_moved(struct dp_diffuse_worker *w, const struct dp_diffuse_layer *layer, bool is_mine)
{
    w->quiet = 0;
    if (is_mine) {
        w->layers++;
        w->weight += layer->weight;
        w->fixed_bytes += layer->fixed_bytes;
        w->multi_bytes += layer->multi_bytes;
    } else {
        w->layers--;
        w->weight -= layer->weight;
        w->fixed_bytes -= layer->fixed_bytes;
        w->multi_bytes -= layer->multi_bytes;
    }
}

bool dp_diffuse_is_over(const struct dp_diffuse_worker *w, uint32_t n)
{
    return w->quiet >= 2 * n;
}
