/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: what is refused, who owns what, and the text form both ways. */
#include "common/run/layout.h"
#include "tests/unit/unit.h"

static struct dp_layout sample(void)
{
    struct dp_layout l = {.epoch = 3, .n_workers = 4, .n_layers = 8, .cut = {0, 3, 3, 7, 8}};

    return l;
}

static void refuses_what_breaks_the_order(void **state)
{
    struct dp_layout l = sample();
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_layout_check(&l, &err), 0);
    l.cut[0] = 1;
    assert_int_equal(dp_layout_check(&l, &err), -1);
    l = sample();
    l.cut[2] = 2;
    assert_int_equal(dp_layout_check(&l, &err), -1);
    l = sample();
    l.cut[4] = 7;
    assert_int_equal(dp_layout_check(&l, &err), -1);
    l = sample();
    l.gone[0] = 1;
    assert_int_equal(dp_layout_check(&l, &err), -1);
    assert_non_null(strstr(err.text, "left the run"));
    l = sample();
    l.gone[1] = 1;
    assert_int_equal(dp_layout_check(&l, &err), 0);
    l.n_workers = 0;
    assert_int_equal(dp_layout_check(&l, &err), -1);
    l.n_workers = DP_MAX_WORKERS + 1;
    assert_int_equal(dp_layout_check(&l, &err), -1);
}

static void knows_owners_and_neighbours(void **state)
{
    struct dp_layout l = sample();

    (void)state;
    assert_int_equal(dp_layout_owner(&l, 0), 0);
    assert_int_equal(dp_layout_owner(&l, 3), 2);
    assert_int_equal(dp_layout_owner(&l, 7), 3);
    assert_int_equal(dp_layout_next(&l, 0), 2);
    assert_int_equal(dp_layout_next(&l, 3), -1);
    assert_int_equal(dp_layout_prev(&l, 2), 0);
    assert_int_equal(dp_layout_prev(&l, 0), -1);
    assert_int_equal(dp_layout_active(&l), 3);
}

static void text_goes_both_ways(void **state)
{
    struct dp_layout l = sample(), back;
    struct dp_err err;
    char text[64];

    (void)state;
    dp_layout_format(&l, text, sizeof text);
    assert_string_equal(text, "0-2|-|3-6|7");
    assert_int_equal(dp_layout_parse(text, &l, &back, &err), 0);
    assert_memory_equal(&back, &l, sizeof l);
}

static void refuses_bad_text(void **state)
{
    static const char *const bad[] = {"", "0-2|-|3-6", "0-2|-|3-6|7|", "0-2|-|3-6|8", "0-2|2|3-6|7",
                                      "0-2||3-6|7", "a|-|-|-", "0-7|-|-|-|-", "0-99999999999|-|-|-",
                                      "1-7|-|-|-", "0-2|-|3-6|7x"};
    struct dp_layout l = sample(), back;
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(dp_layout_parse(bad[i], &l, &back, &err), -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(refuses_what_breaks_the_order),
    cmocka_unit_test(knows_owners_and_neighbours),
    cmocka_unit_test(text_goes_both_ways),
    cmocka_unit_test(refuses_bad_text),
};
TEST_MAIN("layout", tests)
