/* SPDX-License-Identifier: BSD-3-Clause */
/* See events.h. */
#include "worker/scheme/events.h"

uint64_t dp_events_last(const struct dp_events *e)
{
    return (e->end - e->begin + e->every - 1) / e->every;
}

uint64_t dp_events_step(const struct dp_events *e, uint64_t i)
{
    return i >= dp_events_last(e) ? e->end : e->begin + i * e->every;
}

bool dp_events_at(const struct dp_events *e, uint64_t step, uint64_t *i)
{
    if (step < e->begin || step > e->end || (step != e->end && (step - e->begin) % e->every))
        return false;
    *i = step == e->end ? dp_events_last(e) : (step - e->begin) / e->every;
    return true;
}

uint64_t dp_events_until(const struct dp_events *e, uint64_t step)
{
    if (step < e->begin)
        return 0;
    return step >= e->end ? dp_events_last(e) + 1 : (step - e->begin) / e->every + 1;
}

uint32_t dp_events_choose(const struct dp_events *e, uint32_t most, uint64_t *out)
{
    uint64_t last = dp_events_last(e);
    uint32_t n = last < most ? (uint32_t)last + 1 : most;

    for (uint32_t i = 0; i < n; i++)
        out[i] = last < most ? i : (uint64_t)((double)last * i / (most - 1) + 0.5);
    return n;
}
