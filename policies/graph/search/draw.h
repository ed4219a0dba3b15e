/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole random numbers of a seed, the same on every machine: splitmix64 (Steele, Lea, Flood 2014, OOPSLA). */
#ifndef DP_POLICIES_GRAPH_SEARCH_DRAW_H
#define DP_POLICIES_GRAPH_SEARCH_DRAW_H

#include <stdint.h>

static inline uint64_t dp_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 .. n - 1; n > 0. */
static inline uint32_t dp_draw_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((dp_draw(state) >> 32) * n) >> 32);
}

/* The state of stream `which` of a seed: what one stream draws does not depend on how much another drew. */
static inline uint64_t dp_draw_stream(uint64_t seed, uint64_t which)
{
    uint64_t state = seed ^ (which * UINT64_C(0xd1342543de82ef95));

    return dp_draw(&state);
}

#endif
