/* SPDX-License-Identifier: BSD-3-Clause */
/* The crossover table: lookup, its file (round trip, damage), and that a measurement gives something
 * sensible. What it gives exactly depends on the machine and is not asserted. */
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/autotune.h"
#include "kernels/granularity.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/dp-tune-XXXXXX";
static char file[64];

static struct dp_backend *cpu;

static int setup(void **state)
{
    (void)state;
    cpu = dp_backend_create("cpu", 0, 1, NULL);
    if (!cpu || !mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/a/b/tune.json", folder);
    return 0;
}

static int teardown(void **state)
{
    char path[64];

    (void)state;
    dp_backend_destroy(cpu);
    unlink(file);
    snprintf(path, sizeof path, "%s/a/b", folder);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a", folder);
    rmdir(path);
    return rmdir(folder);
}

static void lookup(void **state)
{
    struct dp_tune t = {.n_entries = 2, .entry = {{10, 10, 64, 0.4, 1}, {20, 10, 64, 1.0, 1}}};

    (void)state;
    assert_true(dp_tune_is_sparse(&t, 10, 10, 64, 1, 60));
    assert_false(dp_tune_is_sparse(&t, 10, 10, 64, 1, 61));
    assert_true(dp_tune_is_sparse(&t, 10, 10, 64, 1, 0));
    assert_false(dp_tune_is_sparse(&t, 20, 10, 64, 1, 0));  /* 1.0: never */
    assert_false(dp_tune_is_sparse(&t, 10, 10, 128, 1, 0)); /* not measured */
    assert_false(dp_tune_is_sparse(&t, 10, 10, 64, 4, 0));
}

static void round_trip(void **state)
{
    struct dp_tune t = {.n_entries = 3, .entry = {{3072, 768, 256, 0.4123456789, 1}, {768, 3072, 256, 1.0, 4},
                                                  {768, 3072, 256, 0.5, 64}}};
    struct dp_tune back;
    struct dp_err err = {0};

    (void)state;
    if (dp_tune_load(file, cpu, &back, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(back.n_entries, 0); /* missing: empty */
    for (int i = 0; i < 2; i++) {
        if (dp_tune_save(file, cpu, &t, &err) < 0 || dp_tune_load(file, cpu, &back, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(back.n_entries, 3);
        assert_memory_equal(back.entry, t.entry, 3 * sizeof t.entry[0]); /* the same double */
    }
}

static void write_file(const char *text)
{
    FILE *f = fopen(file, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void damaged_files(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"format\": \"other\", \"version\": 2, \"entries\": []}",
        "{\"format\": \"dynpipe-tune\", \"version\": 4, \"entries\": []}",
        "{\"format\": \"dynpipe-tune\", \"version\": 3, \"entries\": "
        "[{\"device\": \"x\", \"c_out\": 4, \"c_in\": 1, \"n\": 1, \"crossover\": 0.5, \"block\": \"2x2\"}]}",
        "{\"format\": \"dynpipe-tune\", \"version\": 3, \"entries\": "
        "[{\"device\": 7, \"c_out\": 4, \"c_in\": 1, \"n\": 1, \"crossover\": 0.5, \"block\": \"4x1\"}]}",
        "{\"format\": \"dynpipe-tune\", \"version\": 3, \"entries\": "
        "[{\"c_out\": 4, \"c_in\": 1, \"n\": 1, \"crossover\": 0.5, \"block_rows\": 4}]}",
        "{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": {}}",
        "{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": [{\"c_out\": 1}]}",
        "{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": "
        "[{\"c_out\": 1, \"c_in\": 1, \"n\": 1, \"crossover\": 1.5, \"block_rows\": 1}]}",
        "{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": "
        "[{\"c_out\": 0, \"c_in\": 1, \"n\": 1, \"crossover\": 0.5, \"block_rows\": 1}]}",
        "{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": "
        "[{\"c_out\": 4, \"c_in\": 1, \"n\": 1, \"crossover\": 0.5, \"block_rows\": 2}]}",
    };
    struct dp_tune t = {.n_entries = 7};
    struct dp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(bad[i]);
        assert_int_equal(dp_tune_load(file, cpu, &t, &err), -1);
        assert_int_equal(err.code, DP_ECORRUPT);
        assert_non_null(strstr(err.text, file));
        assert_int_equal(t.n_entries, 7); /* untouched */
    }
}

/* The kernels that version 1 was measured with are gone. */
static void older_version(void **state)
{
    struct dp_tune t = {.n_entries = 7};
    struct dp_err err = {0};

    (void)state;
    write_file("{\"format\": \"dynpipe-tune\", \"version\": 1, \"entries\": "
               "[{\"c_out\": 1, \"c_in\": 1, \"n\": 1, \"crossover\": 0.5}]}");
    if (dp_tune_load(file, cpu, &t, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(t.n_entries, 0);
}

/* Of version 2 a processor's own, 4 x 1 blocks by their rows. */
static void version_before_devices(void **state)
{
    struct dp_tune t = {.n_entries = 7};
    struct dp_err err = {0};

    (void)state;
    write_file("{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": "
               "[{\"c_out\": 8, \"c_in\": 2, \"n\": 3, \"crossover\": 0.5, \"block_rows\": 4}]}");
    if (dp_tune_load(file, cpu, &t, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(t.n_entries, 1);
    assert_true(t.entry[0].c_out == 8 && t.entry[0].block_rows == 4 && t.entry[0].crossover == 0.5);
}

/* A backend that says that it is another device. */
static char other_name[64];

static int other_info(struct dp_backend *be, struct dp_device_info *out, struct dp_err *err)
{
    (void)be;
    (void)err;
    *out = (struct dp_device_info){.sparse_format = DP_ROWS};
    snprintf(out->name, sizeof out->name, "%s", other_name);
    return 0;
}

/* Devices share a file: each has its own entries, those without a name are everybody's, and saving loses none. */
static void devices_share_a_file(void **state)
{
    struct dp_backend_ops ops = *cpu->ops;
    struct dp_backend other = {.ops = &ops, .ctx = cpu->ctx};
    struct dp_tune mine = {.n_entries = 1, .entry = {{8, 2, 3, 0.25, 4}}};
    struct dp_tune theirs = {.n_entries = 1, .entry = {{8, 2, 3, 0.75, 4}}};
    struct dp_tune back;
    struct dp_err err = {0};
    char path[256];

    (void)state;
    ops.info = other_info;
    ops.name = "other";
    snprintf(other_name, sizeof other_name, "Card 9 \xff\"x\"\n"); /* what JSON has to be spared */
    unlink(file);
    for (int i = 0; i < 2; i++) {
        if (dp_tune_save(file, cpu, &mine, &err) < 0 || dp_tune_save(file, &other, &theirs, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(dp_tune_load(file, cpu, &back, &err), 0);
        assert_true(back.n_entries == 1 && back.entry[0].crossover == 0.25);
        assert_int_equal(dp_tune_load(file, &other, &back, &err), 0);
        assert_true(back.n_entries == 1 && back.entry[0].crossover == 0.75);
    }
    assert_int_equal(setenv("XDG_CACHE_HOME", "/somewhere", 1), 0);
    assert_int_equal(dp_tune_default_path(&other, path, sizeof path, NULL), 0);
    assert_string_equal(path, "/somewhere/dynpipe/tune-card-9-x.json");
    write_file("{\"format\": \"dynpipe-tune\", \"version\": 2, \"entries\": "
               "[{\"c_out\": 8, \"c_in\": 2, \"n\": 3, \"crossover\": 0.5, \"block_rows\": 4}]}");
    assert_int_equal(dp_tune_load(file, &other, &back, &err), 0);
    assert_int_equal(back.n_entries, 0); /* a processor's */
    write_file("{\"format\": \"dynpipe-tune\", \"version\": 3, \"entries\": "
               "[{\"c_out\": 64, \"c_in\": 32, \"n\": 3, \"crossover\": 0.5, \"block\": \"32x32\"}]}");
    assert_int_equal(dp_tune_load(file, &other, &back, &err), 0);
    assert_true(back.n_entries == 1 && back.entry[0].block_rows == 32);
}

static void default_path(void **state)
{
    char path[256];

    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", "/somewhere", 1), 0);
    assert_int_equal(dp_tune_default_path(cpu, path, sizeof path, NULL), 0);
    assert_true(!strncmp(path, "/somewhere/dynpipe/tune-", 24));
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0); /* the specification says: ignore */
    assert_int_equal(setenv("HOME", "/home/x", 1), 0);
    assert_int_equal(dp_tune_default_path(cpu, path, sizeof path, NULL), 0);
    assert_true(!strncmp(path, "/home/x/.cache/dynpipe/tune-", 28));
    assert_int_equal(dp_tune_default_path(cpu, path, 10, NULL), -1);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(dp_tune_default_path(cpu, path, sizeof path, NULL), -1);
}

static void measures(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct dp_tune t = {0};
    struct dp_err err = {0};
    double first;

    (void)state;
    if (dp_tune_add(&t, be, 192, 256, 128, 1, &err) < 0 || dp_tune_add(&t, be, 5, 3, 1, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(t.n_entries, 2);
    print_message("# crossover of (192, 256) at 128 tokens: %.3f\n", t.entry[0].crossover);
    for (int i = 0; i < 2; i++)
        assert_true(t.entry[i].crossover >= 0.2 && t.entry[i].crossover <= 1.0);
    first = t.entry[0].crossover;
    for (int g = 1; g < DP_N_GRANULARITIES; g++) {
        struct dp_tune blocks = {0};

        if (dp_tune_add(&blocks, be, 256, 128, 128, dp_granularity_at(g), &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(blocks.entry[0].block_rows, dp_granularity_at(g));
        print_message("# in blocks of %s: %.3f\n", dp_granularity_name(dp_granularity_at(g)), blocks.entry[0].crossover);
        assert_true(blocks.entry[0].crossover >= 0.2 && blocks.entry[0].crossover <= 1.0);
    }
    assert_int_equal(dp_tune_add(&t, be, 100, 64, 128, 32, &err), -1); /* no whole blocks */
    assert_int_equal(dp_tune_add(&t, be, 192, 256, 128, 1, &err), 0); /* known: not measured again */
    assert_true(t.n_entries == 2 && t.entry[1].c_out == 192 && t.entry[1].crossover == first);
    assert_int_equal(dp_tune_add(&t, be, 0, 3, 1, 1, &err), -1);
    dp_backend_destroy(be);
}

/* A cache that many models have used: a new shape takes the place of the oldest one, never of a shape
 * that this run has asked for. */
static void full_table(void **state)
{
    struct dp_err err = {0};
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, &err);
    struct dp_tune t = {.n_entries = DP_TUNE_MAX};

    (void)state;
    assert_non_null(be);
    for (int64_t i = 0; i < DP_TUNE_MAX; i++)
        t.entry[i] = (struct dp_tune_entry){.c_out = 1000 + i, .c_in = 8, .n = 64, .crossover = 0.5};
    assert_int_equal(dp_tune_add(&t, be, 1000, 8, 64, 1, &err), 0); /* known: becomes the newest */
    assert_int_equal(dp_tune_add(&t, be, 16, 16, 64, 1, &err), 0);  /* 1001 goes */
    assert_int_equal(t.n_entries, DP_TUNE_MAX);
    assert_int_equal(t.entry[0].c_out, 1002);
    assert_int_equal(t.entry[DP_TUNE_MAX - 2].c_out, 1000);
    assert_int_equal(t.entry[DP_TUNE_MAX - 1].c_out, 16);
    dp_backend_destroy(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lookup),       cmocka_unit_test(round_trip), cmocka_unit_test(damaged_files), cmocka_unit_test(older_version),
    cmocka_unit_test(version_before_devices), cmocka_unit_test(devices_share_a_file),
    cmocka_unit_test(default_path), cmocka_unit_test(measures), cmocka_unit_test(full_table),
};

int main(void)
{
    return cmocka_run_group_tests_name("kernel autotune", tests, setup, teardown);
}
