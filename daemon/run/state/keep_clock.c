/* SPDX-License-Identifier: BSD-3-Clause */
/* See keep_clock.h. */
#include "config.h"

#include "daemon/run/state/keep_clock.h"

#include "common/clock.h"

#define JUMP_MS 60000 /* a time of day that gains more from one question to the next was set */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void dp_keep_clock_start(struct dp_keep_clock *c, uint64_t newest_ms, uint64_t wall_ms, uint64_t now_ns)
{
    c->is_started = true;
    c->base_ms = newest_ms ? least(newest_ms, wall_ms) : wall_ms;
    c->base_ns = now_ns;
    c->offset_ms = (int64_t)wall_ms - (int64_t)(now_ns / DP_MS_NS);
}

uint64_t dp_keep_clock_ms(struct dp_keep_clock *c, uint64_t keep_ms, uint64_t wall_ms, uint64_t now_ns)
{
    int64_t now_ms = (int64_t)(now_ns / DP_MS_NS), offset_ms = (int64_t)wall_ms - now_ms;
    uint64_t passed_ms = (now_ns - c->base_ns) / DP_MS_NS;
    uint64_t shown_ms = passed_ms < keep_ms ? c->base_ms + passed_ms : (uint64_t)(now_ms + c->offset_ms);

    if (offset_ms - c->offset_ms > JUMP_MS) {
        c->base_ms = shown_ms;
        c->base_ns = now_ns;
    } else if (passed_ms >= keep_ms) {
        shown_ms = wall_ms;
    }
    c->offset_ms = offset_ms;
    return least(shown_ms, wall_ms);
}
