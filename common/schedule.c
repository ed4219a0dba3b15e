/* SPDX-License-Identifier: BSD-3-Clause */
/* See schedule.h. Pure: the same arguments give the same list on every worker. */
#include "common/schedule.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void dp_schedule_fill(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t m, struct dp_op *out)
{
    uint32_t ahead = kind == DP_SCHED_GPIPE ? m : least(n_stages - stage - 1, m);
    uint32_t fwd = 0, bwd = 0;

    while (fwd < ahead)
        *out++ = (struct dp_op){.mb = fwd++};
    while (bwd < m) {
        if (fwd < m)
            *out++ = (struct dp_op){.mb = fwd++};
        *out++ = (struct dp_op){.mb = bwd++, .is_backward = true};
    }
}

uint32_t dp_schedule_in_flight(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t m)
{
    return kind == DP_SCHED_GPIPE ? m : least(n_stages - stage, m);
}
