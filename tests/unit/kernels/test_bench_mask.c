/* SPDX-License-Identifier: BSD-3-Clause */
/* Masks as portable bitmaps: what is written is read again, plain and raw are the same, what is no bitmap is
 * refused with the place; how even the nonzeros of a mask lie. */
#include "tests/unit/unit.h"

#include <math.h>
#include <unistd.h>

#include "common/bits.h"
#include "kernels/bench/mask.h"

static char path[] = "/tmp/dp-mask-XXXXXX";

static void put(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wbe");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static struct bench_mask make_mask(int64_t rows, int64_t cols, uint32_t seed)
{
    struct bench_mask m = {
        .rows = rows, .cols = cols, .keep = calloc(dp_bits_words(rows * cols), sizeof *m.keep)};

    assert_non_null(m.keep);
    for (int64_t i = 0; i < rows * cols; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (seed >> 31) {
            dp_bits_set(m.keep, i);
            m.nnz++;
        }
    }
    return m;
}

static void check_same_mask(const struct bench_mask *a, const struct bench_mask *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    assert_int_equal(a->nnz, b->nnz);
    for (int64_t i = 0; i < a->rows * a->cols; i++)
        assert_int_equal(dp_bits_get(a->keep, i), dp_bits_get(b->keep, i));
}

static void round_trip(void **state)
{
    static const int64_t sizes[][2] = {{1, 1},   {1, 8},     {3, 7},     {5, 9},
                                       {64, 65}, {127, 130}, {1, 65536}, {65536, 1}};
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct bench_mask m = make_mask(sizes[i][0], sizes[i][1], (uint32_t)i), again = {0};
        char *plain = malloc((size_t)(2 * m.rows * m.cols) + 64);
        int n;

        assert_non_null(plain);
        if (bench_mask_write(&m, path, &err) < 0 || bench_mask_read(path, &again, &err) < 0)
            fail_msg("%s", err.text);
        check_same_mask(&m, &again);
        bench_mask_release(&again);

        n = snprintf(plain, 64, "P1\n# columns, rows\n%lld\t%lld\n", (long long)m.cols, (long long)m.rows);
        for (int64_t k = 0; k < m.rows * m.cols; k++) {
            plain[n++] = (char)('0' + dp_bits_get(m.keep, k));
            if (k % 7 == 0)
                plain[n++] = k % 2 ? '\n' : ' ';
        }
        put(plain, (size_t)n);
        if (bench_mask_read(path, &again, &err) < 0)
            fail_msg("%s", err.text);
        check_same_mask(&m, &again);
        bench_mask_release(&again);
        bench_mask_release(&m);
        free(plain);
    }
}

/* The bytes of the standard: the first pixel is the high bit, a row begins with a new byte, padding is
 * ignored. */
static void golden(void **state)
{
    static const char raw[] = "P4 10 2\n\x80\x7f\x01\x80";
    struct bench_mask m;

    (void)state;
    put(raw, sizeof raw - 1);
    assert_int_equal(bench_mask_read(path, &m, NULL), 0);
    assert_int_equal(m.rows, 2);
    assert_int_equal(m.cols, 10);
    assert_int_equal(m.nnz, 4);
    assert_true(dp_bits_get(m.keep, 0) && dp_bits_get(m.keep, 9) && dp_bits_get(m.keep, 17) &&
                dp_bits_get(m.keep, 18));
    bench_mask_release(&m);
}

static void refused(void **state)
{
    static const struct {
        const char *bytes, *why;
    } bad[] = {
        {"", "the file is empty"},
        {"P5 1 1\n1", "line 1, byte 2: begins with neither P1 nor P4"},
        {"Q4 1 1\n1", "line 1, byte 1: begins with neither P1 nor P4"},
        {"P4\n# 1 1\n", "line 3, byte 9: no number of columns"},
        {"P4 -1 1\n", "no number of columns"},
        {"P4 1\n", "no number of rows"},
        {"P4 0 1\n", "no columns"},
        {"P4 1 0\n", "no rows"},
        {"P4 65537 1\n", "more than 65536 columns"},
        {"P4 1 99999999999999999999\n", "more than 65536 rows"},
        {"P4 65536 4097\n", "4097 x 65536 pixels are more than 268435456"},
        {"P4 65536 4096\n1", "1 bytes of pixels, not 33554432"},
        {"P4 3x 1\n1", "no white space behind the number of columns"},
        {"P4 1 3", "no white space behind the number of rows"},
        {"P4 9 2\n123", "3 bytes of pixels, not 4"},
        {"P4 9 2\n12345", "5 bytes of pixels, not 4"},
        {"P1 65536 4096\n1", "1 bytes of pixels, not 268435456"},
        {"P1 2 2\n1 1\n1 ", "line 3, byte 13: 3 of 4 pixels"},
        {"P1 2 2\n1 1\n1 2", "line 3, byte 14: a byte 0x32 where a pixel is 0 or 1"},
        {"P1 2 2\n1 1\n1 1\n1", "line 4, byte 16: more than 4 pixels"},
        {"P1 2 2\n#\n1111", "a byte 0x23 where a pixel is 0 or 1"},
    };
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bench_mask m = {.rows = 77};

        put(bad[i].bytes, strlen(bad[i].bytes));
        err.text[0] = '\0';
        if (bench_mask_read(path, &m, &err) != -1 || m.rows != 77 || !strstr(err.text, bad[i].why) ||
            strncmp(err.text, path, strlen(path)))
            fail_msg("'%s' is not refused with '%s' but '%s'", bad[i].bytes, bad[i].why, err.text);
    }
    assert_int_equal(bench_mask_read("/tmp", &(struct bench_mask){0}, &err), -1);
    assert_non_null(strstr(err.text, "/tmp: "));
    assert_int_equal(bench_mask_write(&(struct bench_mask){1, 1, 0, (uint64_t[]){0}}, "/nowhere/x.pbm", &err),
                     -1);
    assert_non_null(strstr(err.text, "/nowhere/x.pbm: "));
}

static void blocks(void **state)
{
    uint64_t keep[1] = {0};
    struct bench_mask m = {.rows = 8, .cols = 3, .keep = keep};

    (void)state;
    for (int64_t row = 0; row < 8; row++)
        dp_bits_set(keep, row * 3 + (row < 4 ? 1 : 2));
    assert_int_equal(bench_mask_block_rows(&m), 4);
    dp_bits_set(keep, 5 * 3);
    assert_int_equal(bench_mask_block_rows(&m), 1);
    m.rows = 4;
    assert_int_equal(bench_mask_block_rows(&m), 4);
    m.rows = 3;
    assert_int_equal(bench_mask_block_rows(&m), 1);
}

/* The largest that fits: 64 rows, of which the first 32 are kept. */
static void square_blocks(void **state)
{
    uint64_t keep[64 * 2] = {0};
    struct bench_mask m = {.rows = 64, .cols = 128, .keep = keep};

    (void)state;
    assert_int_equal(bench_mask_block_rows(&m), 64); /* nothing is kept */
    for (int64_t i = 0; i < 32 * 128; i++)
        dp_bits_set(keep, i);
    assert_int_equal(bench_mask_block_rows(&m), 32);
    keep[63 * 2 + 1] = (uint64_t)1 << 63;
    assert_int_equal(bench_mask_block_rows(&m), 1);
}

static void spread(void **state)
{
    const int64_t rows[] = {0, 4, 2, 2}, cols[] = {4, 4}, none[] = {0, 0};
    struct bench_spread s;

    (void)state;
    bench_spread_get(rows, 4, cols, 2, &s);
    assert_true(fabs(s.row_cv - sqrt(2.0) / 2.0) < 1e-12);
    assert_true(s.col_cv == 0.0 && s.empty_rows == 0.25 && s.empty_cols == 0.0);
    bench_spread_get(none, 2, none, 2, &s);
    assert_true(s.row_cv == 0.0 && s.empty_rows == 1.0 && s.empty_cols == 1.0);
}

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(golden), cmocka_unit_test(refused),
        cmocka_unit_test(blocks), cmocka_unit_test(square_blocks),     cmocka_unit_test(spread),
    };

    return cmocka_run_group_tests_name("masks of benchmarks", tests, make_file, remove_file);
}
