/* SPDX-License-Identifier: BSD-3-Clause */
/* What comments of jobs say of slices, and what they do not. */
#include "tests/unit/unit.h"

#include <string.h>

#include "daemon/child/slice_comment.h"

static void only_a_plain_number_at_the_end_names_home(void **state)
{
    static const struct {
        const char *comment;
        uint32_t home;
    } cases[] = {
        {"dynpipe: slice of 123", 123},
        {"sweep 7; dynpipe: slice of 4294967295", 4294967295u},
        {"dynpipe: slice of 1; dynpipe: slice of 2", 2},
        {"; dynpipe: slice of 5", 5},
        {"\xff\x1b[31m\n; dynpipe: slice of 8", 8},
        {"", 0},
        {"dynpipe: slice of ", 0},
        {"dynpipe: slice of 0", 0},
        {"dynpipe: slice of 0123", 0},
        {"dynpipe: slice of -1", 0},
        {"dynpipe: slice of +1", 0},
        {"dynpipe: slice of 4294967296", 0},
        {"dynpipe: slice of 18446744073709551617", 0},
        {"dynpipe: slice of 99999999999999999999999999", 0},
        {"dynpipe: slice of 12 3", 0},
        {"dynpipe: slice of 12\n", 0},
        {"dynpipe: slice of 12; mine", 0},
        {"dynpipe: slice of 12; dynpipe: home of slices", 0},
        {"dynpipe: home of slices", 0},
        {"mydynpipe: slice of 12", 0},
        {"his;dynpipe: slice of 12", 0},
        {"dynpipe: slice of %n%n%s", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (dp_slice_comment_home(cases[i].comment) != cases[i].home)
            fail_msg("'%s' names %u", cases[i].comment, dp_slice_comment_home(cases[i].comment));
}

static void a_users_words_stay(void **state)
{
    static const struct {
        const char *old;
        uint32_t slice_of;
        const char *made; /* "": left as it is */
    } cases[] = {
        {"", 123, "dynpipe: slice of 123"},
        {"", 0, "dynpipe: home of slices"},
        {"sweep 7", 123, "sweep 7; dynpipe: slice of 123"},
        {"sweep 7", 0, "sweep 7; dynpipe: home of slices"},
        {"sweep 7; dynpipe: home of slices", 123, "sweep 7; dynpipe: slice of 123"},
        {"sweep 7; dynpipe: slice of 9", 123, "sweep 7; dynpipe: slice of 123"},
        {"sweep 7; dynpipe: slice of 123", 123, ""},
        {"dynpipe: home of slices", 0, ""},
        {"dynpipe: home of slices", 5, "dynpipe: slice of 5"},
        {"dynpipe: notes of mine", 5, "dynpipe: notes of mine; dynpipe: slice of 5"},
        {"dynpipe: slice of 12; mine", 5, "dynpipe: slice of 12; mine; dynpipe: slice of 5"},
        {"%s%n", 5, "%s%n; dynpipe: slice of 5"},
        {"\xff\"'\n", 5, "\xff\"'\n; dynpipe: slice of 5"},
    };
    char out[DP_COMMENT_MAX], again[DP_COMMENT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool is_new = dp_slice_comment_make(cases[i].old, cases[i].slice_of, out, sizeof out);

        assert_int_equal(is_new, cases[i].made[0] != '\0');
        assert_string_equal(out, cases[i].made);
        if (is_new && cases[i].slice_of)
            assert_int_equal(dp_slice_comment_home(out), cases[i].slice_of);
        assert_false(is_new && dp_slice_comment_make(out, cases[i].slice_of, again, sizeof again));
    }
}

static void one_that_is_too_long_is_left(void **state)
{
    char old[DP_COMMENT_MAX + 8], out[DP_COMMENT_MAX];
    size_t room = sizeof out - strlen("; dynpipe: slice of 5") - 1;

    (void)state;
    for (size_t n = room - 3; n < sizeof old; n++) {
        memset(old, 'x', n);
        old[n] = '\0';
        assert_int_equal(dp_slice_comment_make(old, 5, out, sizeof out), n <= room);
        assert_int_equal(strlen(out), n <= room ? n + strlen("; dynpipe: slice of 5") : 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(only_a_plain_number_at_the_end_names_home),
    cmocka_unit_test(a_users_words_stay),
    cmocka_unit_test(one_that_is_too_long_is_left),
};
TEST_MAIN("slice_comment", tests)
