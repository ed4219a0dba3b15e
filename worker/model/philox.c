/* SPDX-License-Identifier: BSD-3-Clause */
/* See philox.h. Constants and number of rounds are those of the paper's philox4x32-10; the known answers
 * of its reference implementation are in tests/unit/worker/test_data.c. */
#include "worker/model/philox.h"

#include <math.h>

void dp_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;

        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t dp_philox_key(uint64_t seed, enum dp_philox_use use, uint64_t index)
{
    uint32_t bits[4];

    dp_philox(seed, index, (uint64_t)use, bits);
    return (uint64_t)bits[1] << 32 | bits[0];
}

/* In (0, 1]: its logarithm is finite. */
static double unit(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 32 | low;

    return (double)((bits >> 11) + 1) * 0x1p-53;
}

void dp_philox_normal(const uint32_t bits[4], double out[2])
{
    double r = sqrt(-2.0 * log(unit(bits[0], bits[1]))), angle = 2.0 * M_PI * unit(bits[2], bits[3]);

    out[0] = r * cos(angle);
    out[1] = r * sin(angle);
}
