/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 (FIPS 180-4) for the library, which needs libc only. Programs of this project that have libcrypto take it from there. */
#ifndef DP_LIB_SHA256_H
#define DP_LIB_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct dp_sha256 {
    uint32_t h[8];
    uint64_t bytes;    /* taken in so far */
    uint8_t block[64]; /* its last, incomplete block */
};

/* dp_sha256_init(), dp_sha256_add() any number of times, dp_sha256_end() once. */
void dp_sha256_init(struct dp_sha256 *s);
void dp_sha256_add(struct dp_sha256 *s, const void *data, size_t bytes);
void dp_sha256_end(struct dp_sha256 *s, uint8_t digest[32]);

#endif
