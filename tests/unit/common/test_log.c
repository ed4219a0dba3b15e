/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines that go to a function instead of a stream. */
#include <fcntl.h>
#include <unistd.h>

#include "common/log.h"
#include "tests/unit/unit.h"

static char told[4096];
static enum dp_log_level told_level;
static int n_told;

static void tell(enum dp_log_level level, const char *line)
{
    snprintf(told, sizeof told, "%s", line);
    told_level = level;
    n_told++;
}

/* What dp_warn() writes to stderr meanwhile, in out. */
static void warn_into(const char *text, char *out, size_t cap)
{
    int ends[2], old = dup(STDERR_FILENO);
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_true(old >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    dp_warn("%s", text);
    dup2(old, STDERR_FILENO);
    n = read(ends[0], out, cap - 1);
    out[n > 0 ? n : 0] = '\0';
    close(old);
    close(ends[0]);
    close(ends[1]);
}

static void lines_go_to_the_function_and_nowhere_else(void **state)
{
    char text[256];

    (void)state;
    dp_log_to_function(tell);
    warn_into("daemon lost", text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(n_told, 1);
    assert_string_equal(told, "daemon lost");
    assert_int_equal(told_level, DP_LOG_WARN);
    dp_debug("too talkative");
    assert_int_equal(n_told, 1);
    dp_log_to_function(NULL);
    warn_into("again", text, sizeof text);
    assert_non_null(strstr(text, " warning: again\n"));
    assert_int_equal(n_told, 1);
}

static void what_a_peer_wrote_is_escaped_and_cut(void **state)
{
    char longest[8192];

    (void)state;
    memset(longest, '\n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    dp_log_to_function(tell);
    dp_error("a\nb");
    assert_string_equal(told, "a\\x0ab");
    dp_error("%s", longest);
    assert_true(strlen(told) > 2000 && strlen(told) < 2560);
    assert_null(strchr(told, '\n'));
    dp_log_to_function(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lines_go_to_the_function_and_nowhere_else),
    cmocka_unit_test(what_a_peer_wrote_is_escaped_and_cut),
};

TEST_MAIN("log", tests)
