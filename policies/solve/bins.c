/* SPDX-License-Identifier: BSD-3-Clause */
/* See bins.h. Site policies get this, too: nothing here may need the rest of the library. */
#include "policies/solve/bins.h"

/* Weight that a bin of this speed computes in time b. */
static uint64_t room_at(double speed, uint64_t b)
{
    double room;

    if (speed == 1.0)
        return b;
    room = (double)b * speed;
    return room >= 1.8e19 ? UINT64_MAX : (uint64_t)room;
}

/* The quotient of doubles is off by a few of its last bits: bisection over what they can hide. */
uint64_t dp_partition_time(double speed, uint64_t weight)
{
    uint64_t guess, span, low, high;
    double time;

    if (speed == 1.0)
        return weight;
    time = (double)weight / speed;
    if (time >= 1.8e19)
        return UINT64_MAX;
    guess = (uint64_t)time;
    span = (guess >> 50) + 2;
    low = guess > span ? guess - span : 0;
    high = guess < UINT64_MAX - span ? guess + span : UINT64_MAX;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (room_at(speed, middle) >= weight)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t dp_partition_load(const struct dp_partition *q, uint32_t bin, uint64_t weight)
{
    uint64_t time = dp_partition_time(q->speed ? q->speed[bin] : 1.0, weight), cost = q->cost ? q->cost[bin] : 0;

    return time < UINT64_MAX - cost ? time + cost : UINT64_MAX;
}

uint64_t dp_partition_room(const struct dp_partition *q, uint32_t bin, uint64_t bound)
{
    uint64_t cost = q->cost ? q->cost[bin] : 0, room;

    if (bound < cost)
        return 0;
    room = room_at(q->speed ? q->speed[bin] : 1.0, bound - cost);
    return room == UINT64_MAX ? room : room + 1;
}
