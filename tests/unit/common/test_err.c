/* SPDX-License-Identifier: BSD-3-Clause */
/* common/err.h at its limits: a text that just fits, one byte more, contexts in front of contexts, and nobody to tell. */
#include <stdbool.h>

#include "common/err.h"
#include "tests/unit/unit.h"

#define ROOM (sizeof((struct dp_err *)0)->text) /* with the NUL */

/* A dp_err between guards: nothing is written beside it. */
struct guarded {
    uint8_t before[64];
    struct dp_err err;
    uint8_t behind[64];
};
static struct guarded g;

static void fresh(void)
{
    memset(&g, 0xa5, sizeof g);
    g.err.code = DP_OK;
    g.err.text[0] = '\0';
}

static void is_untouched_beside(void)
{
    for (size_t i = 0; i < sizeof g.before; i++)
        assert_true(g.before[i] == 0xa5 && g.behind[i] == 0xa5);
    assert_non_null(memchr(g.err.text, 0, ROOM));
}

/* n times c. Valid until the next call. */
static const char *many(char c, size_t n)
{
    static char text[4 * ROOM];

    assert_true(n < sizeof text);
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

static void nobody_to_tell_is_fine(void **state)
{
    (void)state;
    assert_int_equal(dp_err_set(NULL, DP_EIO, "%s", "x"), -1);
    assert_int_equal(dp_err_prefix(NULL, "%s", "x"), -1);
}

static void a_text_is_kept_up_to_the_last_byte(void **state)
{
    static const size_t lengths[] = {0, 1, ROOM - 2, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 4 * ROOM - 1};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t n = lengths[i], kept = n < ROOM ? n : ROOM - 1;

        fresh();
        assert_int_equal(dp_err_set(&g.err, DP_ECORRUPT, "%s", many('x', n)), -1);
        assert_int_equal(g.err.code, DP_ECORRUPT);
        assert_int_equal(strlen(g.err.text), kept);
        assert_memory_equal(g.err.text, many('x', kept), kept);
        is_untouched_beside();
    }
}

/* What was there before does not shine through a shorter text. */
static void a_second_text_replaces_the_first(void **state)
{
    (void)state;
    fresh();
    dp_err_set(&g.err, DP_EIO, "%s", many('x', ROOM - 1));
    dp_err_set(&g.err, DP_EPROTO, "rank %d of %u", 3, 2u);
    assert_string_equal(g.err.text, "rank 3 of 2");
    assert_int_equal(g.err.code, DP_EPROTO);
}

static void a_context_keeps_code_and_text(void **state)
{
    (void)state;
    fresh();
    dp_err_set(&g.err, DP_ETIMEOUT, "no answer");
    assert_int_equal(dp_err_prefix(&g.err, "node %s", "n1"), -1);
    assert_int_equal(g.err.code, DP_ETIMEOUT);
    assert_string_equal(g.err.text, "node n1: no answer");
    dp_err_prefix(&g.err, "job %u", 7u);
    assert_string_equal(g.err.text, "job 7: node n1: no answer");
}

static void a_context_of_nothing_and_before_nothing(void **state)
{
    (void)state;
    fresh();
    dp_err_prefix(&g.err, "job 7");
    assert_string_equal(g.err.text, "job 7: ");
    dp_err_set(&g.err, DP_EIO, "lost");
    dp_err_prefix(&g.err, "%s", "");
    assert_string_equal(g.err.text, ": lost");
}

/* The context and ": " come whole as long as they fit, then as much of the text as is left room for. */
static void a_context_cuts_the_text_at_its_end(void **state)
{
    char should[4 * ROOM + 32];

    (void)state;
    for (size_t prefix = ROOM - 20; prefix <= ROOM + 2; prefix++)
        for (size_t n = 0; n < 24; n++) {
            fresh();
            dp_err_set(&g.err, DP_EIO, "%.*s", (int)n, "abcdefghijklmnopqrstuvwx");
            dp_err_prefix(&g.err, "%s", many('p', prefix));
            snprintf(should, sizeof should, "%s: %.*s", many('p', prefix), (int)n, "abcdefghijklmnopqrstuvwx");
            should[ROOM - 1] = '\0';
            assert_string_equal(g.err.text, should);
            assert_int_equal(g.err.code, DP_EIO);
            is_untouched_beside();
        }
}

/* The newest contexts are the ones that are left: each says where the one before it happened. */
static void many_contexts_push_the_text_out(void **state)
{
    (void)state;
    fresh();
    dp_err_set(&g.err, DP_ENOMEM, "the cause");
    for (int i = 0; i < 500; i++) {
        char head[32];

        dp_err_prefix(&g.err, "level %d", i);
        snprintf(head, sizeof head, "level %d: ", i);
        assert_memory_equal(g.err.text, head, strlen(head));
        is_untouched_beside();
    }
    assert_int_equal(strlen(g.err.text), ROOM - 1);
    assert_int_equal(g.err.code, DP_ENOMEM);
}

static void a_full_text_gets_a_context(void **state)
{
    (void)state;
    fresh();
    dp_err_set(&g.err, DP_EIO, "%s", many('x', ROOM - 1));
    dp_err_prefix(&g.err, "job 7");
    assert_memory_equal(g.err.text, "job 7: xxx", 10);
    assert_int_equal(strlen(g.err.text), ROOM - 1);
    is_untouched_beside();
}

/* UTF-8 as people and paths have it: a character is there or it is not. */
static bool is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    while (*p) {
        int more = *p < 0x80 ? 0 : *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc0 ? 1 : -1;

        if (more < 0)
            return false;
        for (p++; more > 0; more--, p++)
            if ((*p & 0xc0) != 0x80)
                return false;
    }
    return true;
}

static void no_character_is_cut_in_two(void **state)
{
    static const char *const characters[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x99\x82"};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (size_t n = ROOM - 6; n <= ROOM; n++) {
            fresh();
            dp_err_set(&g.err, DP_EIO, "%s%s%s", many('x', n), characters[i], characters[i]);
            assert_true(is_utf8(g.err.text));
            assert_true(strlen(g.err.text) + 4 >= ROOM - 1);
            is_untouched_beside();
            fresh();
            dp_err_set(&g.err, DP_EIO, "%s%s", characters[i], characters[i]);
            dp_err_prefix(&g.err, "%s", many('x', n));
            assert_true(is_utf8(g.err.text));
            is_untouched_beside();
            fresh();
            dp_err_set(&g.err, DP_EIO, "cause");
            dp_err_prefix(&g.err, "%s%s", many('x', n), characters[i]);
            assert_true(is_utf8(g.err.text));
            is_untouched_beside();
        }
}

/* Bytes that are no UTF-8 (a path, a peer) are not judged: only what a cut would halve goes. */
static void other_bytes_stay(void **state)
{
    (void)state;
    fresh();
    dp_err_set(&g.err, DP_EIO, "a\xff\x80z\xc3");
    assert_string_equal(g.err.text, "a\xff\x80z\xc3");
    dp_err_set(&g.err, DP_EIO, "%s", many('\x80', ROOM + 5));
    assert_int_equal(strlen(g.err.text), ROOM - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nobody_to_tell_is_fine),
    cmocka_unit_test(a_text_is_kept_up_to_the_last_byte),
    cmocka_unit_test(a_second_text_replaces_the_first),
    cmocka_unit_test(a_context_keeps_code_and_text),
    cmocka_unit_test(a_context_of_nothing_and_before_nothing),
    cmocka_unit_test(a_context_cuts_the_text_at_its_end),
    cmocka_unit_test(many_contexts_push_the_text_out),
    cmocka_unit_test(a_full_text_gets_a_context),
    cmocka_unit_test(no_character_is_cut_in_two),
    cmocka_unit_test(other_bytes_stay),
};
TEST_MAIN("err", tests)
