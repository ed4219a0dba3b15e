/* SPDX-License-Identifier: BSD-3-Clause */
/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): a
 * function from a key and a counter to 128 random bits. No state: whoever knows key and counter gets
 * the same numbers, on any worker, in any order. */
#ifndef DP_WORKER_MODEL_PHILOX_H
#define DP_WORKER_MODEL_PHILOX_H

#include <stdint.h>

/* counter: two words of 64 bits, low first. out: 4 words. */
void dp_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t out[4]);

/* A key for one purpose, from the run's seed: keys of different purposes or indexes are unrelated. */
enum dp_philox_use { DP_PHILOX_LAYER = 1, DP_PHILOX_TRAIN = 2 };
/* The first 64 bits of Philox under the key `seed` at counter (index, use). */
uint64_t dp_philox_key(uint64_t seed, enum dp_philox_use use, uint64_t index);

/* Two independent normal numbers (mean 0, variance 1; Box & Muller 1958) from out[0..3]. */
void dp_philox_normal(const uint32_t bits[4], double out[2]);

#endif
