/* SPDX-License-Identifier: BSD-3-Clause */
/* See siphash.h. Used for message headers of the data plane (transport.c): 40 bytes cost about 30 ns,
 * so every message can carry a check that nobody without the run's key can make. The payload is bound
 * to the header by its CRC-32C. Words are read little-endian, as the paper says. */
#include "worker/net/siphash.h"

#include <endian.h>
#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t load(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return le64toh(v);
}

static void rounds(struct sip *s, int n)
{
    while (n--) {
        s->v0 += s->v1;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v2 = rotate(s->v2, 32);
    }
}

static void absorb(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    rounds(s, 2);
    s->v0 ^= word;
}

uint64_t dp_siphash(const uint8_t key[16], const void *data, size_t bytes)
{
    uint64_t k0 = load(key), k1 = load(key + 8);
    struct sip s = {
        .v0 = 0x736f6d6570736575u ^ k0,
        .v1 = 0x646f72616e646f6du ^ k1,
        .v2 = 0x6c7967656e657261u ^ k0,
        .v3 = 0x7465646279746573u ^ k1,
    };
    const uint8_t *p = data;
    uint8_t last[8] = {0};
    size_t left = bytes;

    for (; left >= 8; left -= 8, p += 8)
        absorb(&s, load(p));
    if (left)
        memcpy(last, p, left);
    last[7] = (uint8_t)bytes;
    absorb(&s, load(last));
    s.v2 ^= 0xff;
    rounds(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
