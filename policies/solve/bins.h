/* SPDX-License-Identifier: BSD-3-Clause */
/* The question of every solver here: n items in order over p bins in order, and what a bin's load is. */
#ifndef DP_POLICIES_SOLVE_BINS_H
#define DP_POLICIES_SOLVE_BINS_H

#include <stdbool.h>
#include <stdint.h>

struct dp_partition {
    uint32_t n, p;
    const uint64_t *weight;      /* [n] */
    const double *speed;         /* [p] > 0, NULL: all 1. Load of a bin = the least integer b with
                                    floor(b * speed) >= sum of its weights */
    const uint64_t *cost;        /* [p] added to the load of a bin that holds anything; NULL: 0 */
    uint64_t between;            /* added for each neighbour that a bin has among those that hold anything: none
                                    where it holds all, one for the first and the last, two for the others */
    const uint64_t *fixed_bytes; /* [n] memory of an item; NULL: memory is no limit */
    const uint64_t *multi_bytes; /* [n] memory of an item that counts copies[bin] times; NULL: 0 */
    const uint32_t *copies;      /* [p]; NULL: 1 */
    uint32_t depth;              /* not 0: a bin has one copy for itself and each bin after it that holds
                                    anything, but no more than `depth`; copies[] is that where no bin is
                                    empty. Of more than 64 bins, and for whatever else reads this struct,
                                    copies[] counts. */
    const uint64_t *cap_bytes;   /* [p], 0: unlimited */
    const uint32_t *prefer;      /* cuts in force, of all best ones take the nearest to these; NULL: any */
    const uint32_t *device;      /* [p] rising: bin b is device[b] of those that prefer[0], prefer[1], ... cut; the
                                    others hold nothing from now on. NULL: device[b] is b */
};

/* Load of a bin that holds so much, its cost included, `between` not. */
uint64_t dp_partition_load(const struct dp_partition *q, uint32_t bin, uint64_t weight);
/* One more than the weight that a bin takes within a bound, its cost included; 0: it cannot hold anything. */
uint64_t dp_partition_room(const struct dp_partition *q, uint32_t bin, uint64_t bound);

/* Least integer time in which a bin of this speed does so much: floor(time * speed) >= weight. UINT64_MAX: none. */
uint64_t dp_partition_time(double speed, uint64_t weight);

#endif
