/* SPDX-License-Identifier: BSD-3-Clause */
/* Events at begin, begin + every, ..., end: the last one is at `end`, however far that is from the one before. */
#ifndef DP_WORKER_SCHEME_EVENTS_H
#define DP_WORKER_SCHEME_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct dp_events {
    uint64_t begin, end, every; /* steps; begin <= end, every > 0 */
};

/* Index of the last event, from 0. */
uint64_t dp_events_last(const struct dp_events *e);
/* Step of event i <= dp_events_last(). */
uint64_t dp_events_step(const struct dp_events *e, uint64_t i);
/* Is there an event after `step` completed steps? *i: its index. */
bool dp_events_at(const struct dp_events *e, uint64_t step, uint64_t *i);
/* Events up to `step`, that one included. */
uint64_t dp_events_until(const struct dp_events *e, uint64_t step);
/* The indices of most > 1 of them, evenly chosen, the first and the last one among them, or of all where they are fewer. In a time
 * that `most` says, however many there are. returns how many. */
uint32_t dp_events_choose(const struct dp_events *e, uint32_t most, uint64_t *out);

#endif
