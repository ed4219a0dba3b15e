/* SPDX-License-Identifier: BSD-3-Clause */
/* The check value of RFC 3720 and the two ways to feed the same bytes. */
#include "common/crc32c.h"
#include "tests/unit/unit.h"

static void known_values(void **state)
{
    unsigned char zeros[32] = {0};

    (void)state;
    assert_int_equal(dp_crc32c(0, "", 0), 0);
    assert_int_equal(dp_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(dp_crc32c(0, zeros, sizeof zeros), 0x8a9136aau); /* RFC 3720, B.4 */
}

static void pieces_equal_whole(void **state)
{
    unsigned char data[257];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + 3);
    for (size_t cut = 0; cut <= sizeof data; cut++)
        assert_int_equal(dp_crc32c(dp_crc32c(0, data, cut), data + cut, sizeof data - cut),
                         dp_crc32c(0, data, sizeof data));
}

/* Around the length where three chains begin: the same as in pieces too short for them. */
static void long_equals_short_pieces(void **state)
{
    static unsigned char data[10000];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i >> 3);
    for (size_t n = 3000; n <= sizeof data; n += n < 3200 ? 1 : 677) {
        uint32_t crc = 0;

        for (size_t at = 0; at < n; at += 100)
            crc = dp_crc32c(crc, data + at, n - at < 100 ? n - at : 100);
        assert_int_equal(dp_crc32c(0, data, n), crc);
        assert_int_equal(dp_crc32c(dp_crc32c(0, data, n / 3), data + n / 3, n - n / 3), crc);
    }
}

static void joined_pieces_equal_whole(void **state)
{
    static unsigned char data[5000];
    uint32_t crc[5000];

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i * 5 >> 4);
    for (size_t piece = 1; piece < sizeof data; piece = piece * 3 + 1)
        for (size_t n = 0; n <= sizeof data; n += n < 20 ? 1 : 311) {
            for (size_t at = 0; at < n; at += piece)
                crc[at / piece] = dp_crc32c(0, data + at, n - at < piece ? n - at : piece);
            assert_int_equal(dp_crc32c_join(0, crc, piece, n), dp_crc32c(0, data, n));
            assert_int_equal(dp_crc32c_join(0xe3069283u, crc, piece, n), dp_crc32c(0xe3069283u, data, n));
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(joined_pieces_equal_whole),
    cmocka_unit_test(known_values),
    cmocka_unit_test(pieces_equal_whole),
    cmocka_unit_test(long_equals_short_pieces),
};
TEST_MAIN("crc32c", tests)
