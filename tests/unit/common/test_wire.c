/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounded fields: values survive, short buffers stick, texts cannot carry control bytes. */
#include "common/wire.h"
#include "tests/unit/unit.h"

static void values_survive(void **state)
{
    uint8_t buf[64];
    char text[8];
    struct dp_writer w;
    struct dp_reader r;

    (void)state;
    dp_writer_init(&w, buf, sizeof buf);
    dp_wr_u8(&w, 0xfe);
    dp_wr_u16(&w, 0x1234);
    dp_wr_u32(&w, 0xdeadbeef);
    dp_wr_u64(&w, 0x0123456789abcdefu);
    dp_wr_f64(&w, -0.15625);
    dp_wr_str(&w, "abc\n");
    assert_false(w.bad);
    assert_int_equal(buf[1], 0x12); /* big-endian */
    dp_reader_init(&r, buf, dp_writer_used(&w));
    assert_int_equal(dp_rd_u8(&r), 0xfe);
    assert_int_equal(dp_rd_u16(&r), 0x1234);
    assert_int_equal(dp_rd_u32(&r), 0xdeadbeef);
    assert_true(dp_rd_u64(&r) == 0x0123456789abcdefu);
    assert_true(dp_rd_f64(&r) == -0.15625);
    dp_rd_str(&r, text, sizeof text);
    assert_string_equal(text, "abc?");
    assert_true(dp_reader_at_end(&r));
}

static void short_buffers_stick(void **state)
{
    uint8_t buf[3] = {1, 2, 3};
    struct dp_reader r;
    struct dp_writer w;

    (void)state;
    dp_reader_init(&r, buf, sizeof buf);
    assert_int_equal(dp_rd_u32(&r), 0);
    assert_int_equal(dp_rd_u8(&r), 0);
    assert_true(r.bad);
    dp_writer_init(&w, buf, sizeof buf);
    dp_wr_u32(&w, 5);
    dp_wr_u8(&w, 5);
    assert_true(w.bad);
    assert_int_equal(buf[0], 1);
}

static void texts_are_checked(void **state)
{
    uint8_t newline[] = {0, 2, 'a', '\n'}, lies[] = {0, 9, 'a'}, fits[] = {0, 3, 'a', 'b', 'c'};
    char out[4], small[3];
    struct dp_reader r;

    (void)state;
    dp_reader_init(&r, newline, sizeof newline);
    dp_rd_str(&r, out, sizeof out);
    assert_true(r.bad);
    dp_reader_init(&r, lies, sizeof lies);
    dp_rd_str(&r, out, sizeof out);
    assert_true(r.bad);
    dp_reader_init(&r, fits, sizeof fits);
    dp_rd_str(&r, small, sizeof small); /* no room for the NUL */
    assert_true(r.bad);
    dp_reader_init(&r, fits, sizeof fits);
    dp_rd_str(&r, out, sizeof out);
    assert_string_equal(out, "abc");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_survive),
    cmocka_unit_test(short_buffers_stick),
    cmocka_unit_test(texts_are_checked),
};
TEST_MAIN("wire", tests)
