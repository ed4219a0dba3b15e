/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration files: what is good is read, what is bad is refused with file, line and a hint, and
 * nothing that libconfig would wrap or ignore passes. */
#include "common/conf/conf.h"

#include <libconfig.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct sample {
    int64_t count, wide;
    double rate;
    bool on;
    char text[8], mode[8];
};

static const struct dp_conf_key keys[] = {
    {"alpha", "count", DP_CONF_INT, offsetof(struct sample, count), 0, 1, 64, "3", NULL, "things"},
    {"alpha", "wide", DP_CONF_INT, offsetof(struct sample, wide), 0, -1e19, 1e19, "0", NULL, "any integer"},
    {"alpha", "rate", DP_CONF_FLOAT, offsetof(struct sample, rate), 0, 0, 1, "0.5", NULL, "per second"},
    {"beta", "on", DP_CONF_BOOL, offsetof(struct sample, on), 0, 0, 0, "true", NULL, "is it on"},
    {"beta", "text", DP_CONF_STRING, offsetof(struct sample, text), 8, 0, 0, "", NULL, "a name"},
    {"beta", "mode", DP_CONF_STRING, offsetof(struct sample, mode), 8, 0, 0, "slow", "slow|fast", "speed"},
    {0},
};
static const struct dp_conf_key required[] = {
    {"alpha", "count", DP_CONF_INT, offsetof(struct sample, count), 0, 1, 64, NULL, NULL, "things"},
    {0},
};
static const char *const extra[] = {"partition", NULL};

static char path[] = "/tmp/dp-test-conf-XXXXXX";

static int setup(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static int load_bytes(const struct dp_conf_key *table, const char *text, size_t n, struct sample *out,
                      struct dp_err *err)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    memset(out, 0, sizeof *out);
    memset(err, 0, sizeof *err);
    return dp_conf_load(path, table, extra, out, err);
}

static void good_files_are_read(void **state)
{
    struct sample s;
    struct dp_err err;
    static const char text[] = "# 99999999999999999999 in a comment\n/* 1e999 @include */ // @\n"
                               "alpha: { count = 0x10; wide = 3000000000; rate = 1; };\n"
                               "beta = { text = \"a@9e9\"; mode = \"fast\"; on = FALSE; };\n"
                               "partition: { anything = 5; list = (1, 2); };\n";

    (void)state;
    assert_int_equal(load_bytes(keys, text, strlen(text), &s, &err), 0);
    assert_int_equal(s.count, 16);
    assert_true(s.wide == 3000000000);
    assert_true(s.rate == 1.0);
    assert_false(s.on);
    assert_string_equal(s.text, "a@9e9");
    assert_string_equal(s.mode, "fast");
    assert_int_equal(load_bytes(keys, "alpha: { wide = -5000000000L; rate = 2.5e-1; };", 47, &s, &err), 0);
    assert_true(s.wide == -5000000000);
    assert_true(s.rate == 0.25);
    assert_int_equal(load_bytes(keys, "\xef\xbb\xbf" "alpha: { count = 7; };", 24, &s, &err), 0);
    assert_int_equal(s.count, 7);
    assert_int_equal(load_bytes(keys, "#\n", 2, &s, &err), 0);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.mode, "slow");
    assert_true(s.on);
}

static void bad_files_are_refused(void **state)
{
    static const struct { const char *text, *line, *says; } bad[] = {
        {"alpha: {\n  cuont = 3;\n};", ":2: ", "the nearest known one is alpha.count"},
        {"alpha: {\n\n  mode = \"fast\";\n};", ":3: ", "the nearest known one is beta.mode"},
        {"alhpa: { count = 3; };", ":1: ", "the nearest known one is 'alpha'"},
        {"partitoin: { };", ":1: ", "the nearest known one is 'partition'"},
        {"count = 3;", ":1: ", "unknown section"},
        {"alpha = 3;", ":1: ", "is not a group"},
        {"alpha: {\n count = 0;\n};", ":2: ", "1 to 64"},
        {"alpha: { count = 65; };", ":1: ", "1 to 64"},
        {"alpha: { count = 4294967297; };", ":1: ", "1 to 64"},
        {"alpha: {\n count =\n 99999999999999999999999; };", ":3: ", "64 bits"},
        {"alpha: { count = 0xffffffffffffffffff; };", ":1: ", "64 bits"},
        {"alpha: { count = 1.5; };", ":1: ", "an integer"},
        {"alpha: { count = \"3\"; };", ":1: ", "an integer"},
        {"alpha: { count = true; };", ":1: ", "an integer"},
        {"alpha: { count = [1, 2]; };", ":1: ", "a group or list"},
        {"alpha: { rate = 1e9999; };", ":1: ", "too large"},
        {"alpha: { rate = -0.001; };", ":1: ", "0 to 1"},
        {"alpha: { rate = nan; };", ":1: ", "syntax error at 'nan'"},
        {"beta: { on = 1; };", ":1: ", "true or false"},
        {"beta: { text = \"12345678\"; };", ":1: ", "too long"},
        {"beta: { text = \"a\\x01\"; };", ":1: ", "control characters"},
        {"beta: { mode = \"fas\"; };", ":1: ", "slow|fast"},
        {"beta: { mode = \"\"; };", ":1: ", "slow|fast"},
        {"alpha: { count = 3; count = 4; };", ":1: ", "duplicate setting name at 'count'"},
        {"alpha: {\n count = 3;\n rate = 1;\n count = 4; };", ":4: ", "at 'count'"},
        {"alpha: { };\nalpha: { };", ":2: ", "at 'alpha'"},
        {"alpha: { count = 3 ", ":1: ", "syntax error at the end of the file"},
        {"alpha: {\n count = 3;\n # so many\n rate == 1;\n};", ":4: ", "syntax error at '='"},
        {"alpha: {\n count 3;\n};", ":2: ", "syntax error at '3'"},
        {"alpha: {\n count = ;\n};", ":2: ", "syntax error at ';'"},
        {"beta: {\n text = \"a\" \"b\";\n mode fast;\n};", ":3: ", "syntax error at 'fast'"},
        {"\n@include \"/etc/passwd\"\n", ":2: ", "@include"},
        {"alpha: {\n\xff\xfe\n};", ":2: ", "syntax error"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sample s;
        struct dp_err err;
        char start[64];

        assert_int_equal(load_bytes(keys, bad[i].text, strlen(bad[i].text), &s, &err), -1);
        snprintf(start, sizeof start, "%s%s", path, bad[i].line);
        if (strncmp(err.text, start, strlen(start)) || !strstr(err.text, bad[i].says))
            fail_msg("\"%s\" gives \"%s\"", bad[i].text, err.text);
        assert_int_equal(err.code, DP_EINVAL);
    }
}

static void files_that_are_none(void **state)
{
    struct sample s = {0};
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_conf_load("", keys, NULL, &s, &err), -1);
    assert_non_null(strstr(err.text, "empty"));
    assert_int_equal(dp_conf_load("/nonexistent/x.conf", keys, NULL, &s, &err), -1);
    assert_int_equal(err.code, DP_EIO);
    assert_non_null(strstr(err.text, "/nonexistent/x.conf"));
    assert_int_equal(dp_conf_load("/tmp", keys, NULL, &s, &err), -1);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(load_bytes(keys, "alpha: {\0};", 11, &s, &err), -1);
    assert_non_null(strstr(err.text, "NUL"));
    assert_int_equal(load_bytes(keys, "\xff\xfe" "a\0:\0", 6, &s, &err), -1);
    assert_non_null(strstr(err.text, "UTF-16 text: save it as UTF-8"));
    assert_int_equal(load_bytes(keys, "", 0, &s, &err), -1);
    assert_non_null(strstr(err.text, ": the file is empty"));
    assert_int_equal(load_bytes(keys, " \n\t\r\n", 5, &s, &err), -1);
    assert_non_null(strstr(err.text, ": the file is empty"));
    assert_int_equal(load_bytes(keys, "# all as it is\n", 15, &s, &err), 0);
    assert_int_equal(load_bytes(required, "#\n", 2, &s, &err), -1);
    assert_non_null(strstr(err.text, "alpha.count is required"));
    assert_int_equal(dp_conf_load(NULL, keys, NULL, &s, NULL), 0);
}

static void assignments(void **state)
{
    static const char *const bad[] = {"alpha.count=", "alpha.count=3x", "alpha.count=99999999999999999999",
                                      "alpha.rate=inf", "alpha.rate=nan", "beta.on=yes", "alpha.cout=3",
                                      "alpha", "alpha=3", "=", ".=", "alpha.count", "beta.mode=fa"};
    struct sample s;
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_conf_load(NULL, keys, NULL, &s, &err), 0);
    assert_int_equal(dp_conf_set(keys, "alpha.count=7", "-o", &s, &err), 0);
    assert_int_equal(dp_conf_set(keys, "beta.text=a=b.c", "-o", &s, &err), 0);
    assert_int_equal(s.count, 7);
    assert_string_equal(s.text, "a=b.c");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (dp_conf_set(keys, bad[i], "-o", &s, &err) == 0 || strncmp(err.text, "-o: ", 4))
            fail_msg("\"%s\" gives \"%s\"", bad[i], err.text);
    }
    assert_int_equal(s.count, 7);
}

static void printed_table_reads_back(void **state)
{
    struct sample a = {0}, b = {0};
    struct dp_err err;
    FILE *f = fopen(path, "w");

    (void)state;
    assert_non_null(f);
    dp_conf_print(keys, f);
    fclose(f);
    assert_int_equal(dp_conf_load(NULL, keys, NULL, &a, &err), 0);
    assert_int_equal(dp_conf_load(path, keys, NULL, &b, &err), 0);
    assert_memory_equal(&a, &b, sizeof a);
}

static void groups_of_the_caller(void **state)
{
    struct sample s;
    struct dp_err err;
    config_t conf;
    static const char text[] = "partition: {\n count = 5;\n ratte = 1.0; };";

    (void)state;
    assert_int_equal(load_bytes(keys, text, strlen(text), &s, &err), 0);
    config_init(&conf);
    assert_int_equal(dp_conf_parse(path, text, &conf, &err), 0);
    assert_int_equal(dp_conf_read_group(path, config_lookup(&conf, "partition"), "alpha", keys, &s, &err), -1);
    assert_non_null(strstr(err.text, ":3: unknown key alpha.ratte; the nearest known one is alpha.rate"));
    assert_int_equal(s.count, 5);
    config_destroy(&conf);
}

static int put_another(const char *name, const struct stat *opened, struct dp_err *err)
{
    char other[sizeof path + 8];
    FILE *f;

    (void)opened;
    (void)err;
    snprintf(other, sizeof other, "%s.other", name);
    f = fopen(other, "w");
    assert_non_null(f);
    fputs("alpha: { count = 9; };", f);
    fclose(f);
    return rename(other, name);
}

/* Somebody puts another file there between the look at its owner and the reading. */
static void what_is_checked_is_what_is_read(void **state)
{
    static const char first[] = "alpha: { count = 5; };";
    struct sample s;
    struct dp_err err;
    char *text;

    (void)state;
    assert_int_equal(load_bytes(keys, first, strlen(first), &s, &err), 0);
    text = dp_conf_read(path, put_another, &err);
    assert_string_equal(text, first);
    free(text);
    text = dp_conf_read(path, NULL, &err);
    assert_non_null(strstr(text, "count = 9"));
    free(text);
}

/* libconfig loses memory over these. */
static void what_does_not_end_is_refused(void **state)
{
    static const char *const texts[] = {"alpha: { count = 3; };\nbeta: { text = \"ab;\n};", "beta: { text = \"a\\\"",
                                        "alpha: { };\n/* to the end", "/*/", "beta: { text = \""};
    struct sample s;
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(load_bytes(keys, texts[i], strlen(texts[i]), &s, &err), -1);
        assert_non_null(strstr(err.text, "unterminated "));
    }
    assert_int_equal(load_bytes(keys, "beta: { text = \"a\\\\\"; };", 24, &s, &err), 0);
    assert_string_equal(s.text, "a\\");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(good_files_are_read),  cmocka_unit_test(bad_files_are_refused),
    cmocka_unit_test(files_that_are_none),  cmocka_unit_test(assignments),
    cmocka_unit_test(printed_table_reads_back), cmocka_unit_test(groups_of_the_caller), cmocka_unit_test(what_is_checked_is_what_is_read),
    cmocka_unit_test(what_does_not_end_is_refused),
};

int main(void)
{
    return cmocka_run_group_tests_name("conf", tests, setup, teardown);
}
