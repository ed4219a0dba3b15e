/* SPDX-License-Identifier: BSD-3-Clause */
/* The examples of FIPS 180-4, and every length around a block against libcrypto's. */
#include <openssl/evp.h>

#include "lib/sha256.h"
#include "tests/unit/unit.h"

static void digest_of(const void *data, size_t bytes, size_t piece, uint8_t out[32])
{
    struct dp_sha256 s;

    dp_sha256_init(&s);
    for (size_t at = 0; at < bytes; at += piece)
        dp_sha256_add(&s, (const uint8_t *)data + at, bytes - at < piece ? bytes - at : piece);
    dp_sha256_end(&s, out);
}

static void the_standard_s_example(void **state)
{
    static const uint8_t abc[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t out[32];

    (void)state;
    digest_of("abc", 3, 3, out);
    assert_memory_equal(out, abc, sizeof abc);
}

static void every_length_and_cut_is_as_libcrypto_has_it(void **state)
{
    uint8_t data[300], mine[32], theirs[32];
    unsigned n;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 167 + 13);
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        assert_int_equal(EVP_Digest(data, bytes, theirs, &n, EVP_sha256(), NULL), 1);
        for (size_t piece = 1; piece < 200; piece += 33) {
            digest_of(data, bytes, piece, mine);
            assert_memory_equal(mine, theirs, sizeof mine);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_standard_s_example),
    cmocka_unit_test(every_length_and_cut_is_as_libcrypto_has_it),
};

TEST_MAIN("sha256", tests)
