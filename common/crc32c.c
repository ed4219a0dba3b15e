/* SPDX-License-Identifier: BSD-3-Clause */
/* See crc32c.h. The bit-by-bit version is the specification and the fallback. One chain of the
 * instruction takes 8 bytes per 3 cycles, its latency; long inputs are cut into three chains side by
 * side (from 9.8 to 27 GB/s on an AMD EPYC, family 25 model 17), because tensors between workers of a node
 * are checked on both sides of a copy that itself runs at 11 GB/s. Chains that begin anew every few KiB are nothing that the processor
 * foresees: what is not in a cache is asked for ahead, in the order of memory (from 5 to 15 GB/s and more, as fast as it can be read).
 *
 * Joining chains: the CRC without its inversions is linear, so crc(A B) = crc(A) advanced by |B| zero
 * bytes, xor crc(B) begun at 0. A table holds the advance by LANE bytes, by bytes of the CRC. */
#include "common/crc32c.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define POLY 0x82f63b78u /* Castagnoli's 0x1edc6f41, bits reversed */

static uint32_t crc_by_bit(uint32_t crc, const unsigned char *p, size_t n)
{
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (POLY & (0u - (crc & 1u)));
    }
    return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define LANE 1024 /* bytes of one of the three chains */
#define AHEAD (2 * 3 * LANE) /* bytes */
#define LINE 64 /* of a cache; chains begin at the same place in theirs */

static uint32_t advance_table[4][256];
static atomic_bool advance_is_ready;

__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc,
                                                                     const unsigned char *p,
                                                                     size_t n)
{
    uint64_t c = crc;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, 8);
        c = _mm_crc32_u64(c, v);
    }
    crc = (uint32_t)c;
    for (; n; n--, p++)
        crc = _mm_crc32_u8(crc, *p);
    return crc;
}
/* Two threads may build it at once: they write the same values. */
static void build_advance_table(void)
{
    static const unsigned char zeros[LANE];
    uint32_t basis[32];

    for (int bit = 0; bit < 32; bit++)
        basis[bit] = crc_by_instruction(1u << bit, zeros, LANE);
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t v = 0; v < 256; v++) {
            uint32_t sum = 0;

            for (int bit = 0; bit < 8; bit++)
                sum ^= v >> bit & 1 ? basis[8 * byte + bit] : 0;
            advance_table[byte][v] = sum;
        }
    atomic_store_explicit(&advance_is_ready, true, memory_order_release);
}

static uint32_t advance(uint32_t crc)
{
    return advance_table[0][crc & 0xff] ^ advance_table[1][crc >> 8 & 0xff] ^ advance_table[2][crc >> 16 & 0xff] ^
           advance_table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc_by_three(uint32_t crc, const unsigned char *p, size_t n)
{
    if (n >= 3 * LANE && !atomic_load_explicit(&advance_is_ready, memory_order_acquire))
        build_advance_table();
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {
        uint64_t a = crc, b = 0, c = 0, v;

        for (size_t i = 0; i < LANE; i += 8) {
            if (i % LINE == 0)
                for (size_t k = 0; k < 3 * LINE; k += LINE)
                    _mm_prefetch((const char *)p + AHEAD + 3 * i + k, _MM_HINT_T0); /* beyond the end nothing happens */
            memcpy(&v, p + i, 8);
            a = _mm_crc32_u64(a, v);
            memcpy(&v, p + i + LANE, 8);
            b = _mm_crc32_u64(b, v);
            memcpy(&v, p + i + 2 * LANE, 8);
            c = _mm_crc32_u64(c, v);
        }
        crc = advance(advance((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }
    return crc_by_instruction(crc, p, n);
}
#endif

uint32_t dp_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_by_three(crc, data, bytes);
#endif
    return ~crc_by_bit(crc, data, bytes);
}

/* CRCs as polynomials over GF(2), the highest bit being x^0: a b modulo the CRC's. */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (int k = 0; k < 32; k++) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (POLY & (0u - (b & 1u)));
    }
    return product;
}

/* x^(8 n): times this, a CRC is advanced by n zero bytes. */
static uint32_t power_of_bytes(size_t n)
{
    uint32_t power = 1u << 31, base = 1u << 23; /* x^0, x^8 */

    for (; n; n >>= 1, base = times(base, base))
        if (n & 1)
            power = times(power, base);
    return power;
}

uint32_t dp_crc32c_join(uint32_t crc, const uint32_t *piece_crc, size_t piece, size_t bytes)
{
    const uint32_t whole = power_of_bytes(piece);

    for (; bytes >= piece; bytes -= piece)
        crc = times(crc, whole) ^ *piece_crc++;
    return bytes ? times(crc, power_of_bytes(bytes)) ^ *piece_crc : crc;
}
