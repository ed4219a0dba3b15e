/* SPDX-License-Identifier: BSD-3-Clause */
/* Sampling is a function of (seed, step, microbatch, row); what cannot be trained on is refused. */
#include "worker/model/data.h"

#include <unistd.h>

#include "tests/unit/unit.h"
#include "worker/model/philox.h"

static char path[] = "/tmp/dp-test-data-XXXXXX";
static struct dp_train_config config;

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

static void fill(const void *data, size_t n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void reset(void)
{
    struct dp_err err = {0};

    if (dp_train_config_load(NULL, 0, NULL, &config, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(config.data.path, sizeof config.data.path, "%s", path);
    config.model.context = 8;
    config.train.batch = 3;
    config.data.validation = 0.25;
    config.data.eval_batches = 4;
}

/* n bytes whose value tells their position modulo 251. */
static void fill_text(size_t n)
{
    uint8_t *text = malloc(n);

    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (uint8_t)(i % 251);
    fill(text, n);
    free(text);
}

static void philox_known_answers(void **state)
{
    /* kat_vectors of the authors' Random123 1.14: philox4x32, 10 rounds */
    static const struct { uint64_t key, low, high; uint32_t out[4]; } kat[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];

        dp_philox(kat[i].key, kat[i].low, kat[i].high, out);
        assert_memory_equal(out, kat[i].out, sizeof out);
    }
}

static void text_is_sampled(void **state)
{
    uint32_t a[24], b[24], ta[24], tb[24], seen = 0;
    struct dp_err err = {0};
    struct dp_data *d;

    (void)state;
    reset();
    fill_text(251);
    d = dp_data_open(&config, &err);
    if (!d)
        fail_msg("%s", err.text);
    assert_true(dp_data_bytes_per_token(d) == 1.0);
    for (uint64_t step = 0; step < 50; step++) {
        dp_data_train(d, step, 1, a, ta);
        dp_data_train(d, step, 1, b, tb);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(ta, tb, sizeof ta);
        for (int i = 0; i < 24; i++) {
            assert_int_equal(ta[i], a[i] + 1); /* the byte after it */
            assert_true(ta[i] < 189);          /* validation is never trained on */
        }
        seen |= 1u << (a[0] % 32);
    }
    assert_true(__builtin_popcount(seen) > 15);
    dp_data_train(d, 0, 0, a, ta);
    dp_data_train(d, 0, 1, b, tb);
    assert_memory_not_equal(a, b, sizeof a);
    for (uint64_t i = 0; i < 4; i++) {
        dp_data_validation(d, i, a, ta);
        dp_data_validation(d, i, b, tb);
        assert_memory_equal(a, b, sizeof a);
        for (int k = 0; k < 24; k++) {
            assert_true(a[k] >= 189);
            assert_int_equal(ta[k], a[k] + 1);
        }
    }
    dp_data_close(d);
    config.train.seed = 2;
    d = dp_data_open(&config, &err);
    dp_data_train(d, 0, 1, a, ta);
    assert_memory_not_equal(a, b, sizeof a);
    dp_data_close(d);
}

static void refused(const char *says)
{
    struct dp_err err = {0};
    struct dp_data *d = dp_data_open(&config, &err);

    if (d || !strstr(err.text, says) || !strstr(err.text, config.data.path))
        fail_msg("wanted \"%s\", got \"%s\"", says, err.text);
    assert_int_equal(err.code, DP_EINVAL);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    reset();
    fill("", 0);
    refused("empty");
    fill_text(8);
    refused("too short");
    fill_text(25); /* 19 to train on, but 6 for validation */
    refused("too short");
    fill_text(300);
    config.model.vocabulary = 100;
    refused("token 100 at position 100 is outside the vocabulary of 100");
    snprintf(config.data.path, sizeof config.data.path, "/nonexistent/text");
    refused("No such file");
    snprintf(config.data.path, sizeof config.data.path, "/tmp");
    refused("not a regular file");
    config.data.path[0] = '\0';
    refused("data.path is empty");
}

/* A .bin of n tokens: 7 i mod 5000. */
static void fill_bin(uint32_t n, uint32_t magic, uint32_t version, uint32_t said)
{
    uint8_t *bytes = calloc(1, 1024 + 2 * (size_t)n);
    const uint32_t head[3] = {magic, version, said};

    assert_non_null(bytes);
    memcpy(bytes, head, sizeof head);
    for (uint32_t i = 0; i < n; i++) {
        bytes[1024 + 2 * i] = (uint8_t)(7 * i % 5000);
        bytes[1024 + 2 * i + 1] = (uint8_t)(7 * i % 5000 >> 8);
    }
    fill(bytes, 1024 + 2 * (size_t)n);
    free(bytes);
}

static void tokens_are_read(void **state)
{
    uint32_t a[24], t[24];
    struct dp_err err = {0};
    struct dp_data *d;

    (void)state;
    reset();
    config.model.vocabulary = 50257;
    fill_bin(600, 20240520, 1, 600);
    d = dp_data_open(&config, &err); /* "auto" */
    if (!d)
        fail_msg("%s", err.text);
    assert_true(dp_data_bytes_per_token(d) == 0.0);
    dp_data_train(d, 3, 0, a, t);
    for (int i = 0; i < 24; i++) {
        assert_int_equal(a[i] % 7, 0);
        assert_int_equal(t[i], a[i] + 7);
    }
    dp_data_close(d);
    config.model.vocabulary = 4000;
    refused("token 4004 at position 572");
    config.model.vocabulary = 50257;
    fill_bin(600, 20240520, 1, 601);
    refused("says 601 tokens, but 1200 bytes follow");
    fill_bin(600, 20240520, 2, 600);
    refused("version 2");
    fill_bin(600, 20240521, 1, 600);
    snprintf(config.data.format, sizeof config.data.format, "tokens");
    refused("magic number");
    fill_text(100);
    refused("magic number");
}

static void cut_file_is_noticed(void **state)
{
    uint32_t a[24], t[24];
    struct dp_err err = {0};
    struct dp_data *d;

    (void)state;
    reset();
    fill_text(20000);
    d = dp_data_open(&config, &err);
    assert_non_null(d);
    dp_data_train(d, 0, 0, a, t);
    assert_int_equal(dp_data_check(d, &err), 0);
    assert_null(dp_data_path_at(a));
    assert_int_equal(truncate(path, 19999), 0);
    assert_int_equal(dp_data_check(d, &err), -1);
    assert_int_equal(err.code, DP_EIO);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "from 20000 to 19999 bytes"));
    assert_int_equal(truncate(path, 30000), 0); /* longer is fine: the rest is not read */
    assert_int_equal(dp_data_check(d, &err), 0);
    dp_data_close(d);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(philox_known_answers),  cmocka_unit_test(text_is_sampled),
    cmocka_unit_test(bad_files_are_refused), cmocka_unit_test(tokens_are_read),
    cmocka_unit_test(cut_file_is_noticed),
};

int main(void)
{
    return cmocka_run_group_tests_name("data", tests, setup, teardown);
}
