/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint is whole or refused by name: what is written is found and read bit for bit, a flipped bit
 * anywhere is noticed, the wrong model is told apart, old ones go, leftovers of a crash do not count. */
#define _GNU_SOURCE /* nftw */

#include "worker/checkpoint/checkpoint.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/worker/engine.h"
#include "worker/model/model.h"

static char root[] = "/tmp/dp-test-ckpt-XXXXXX";
static struct dp_train_config config;
static struct dp_backend *be;
static struct dp_tune tune;

static int setup(void **state)
{
    (void)state;
    be = cpu();
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    dp_backend_destroy(be);
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void fresh(const char *name)
{
    config = tiny_config();
    snprintf(config.checkpoint.dir, sizeof config.checkpoint.dir, "%s/%s", root, name);
    tune = tune_at(&config, 0.5);
    tune.entry[2].crossover = 0.1 + 0.2; /* needs 17 digits */
}

static void save(uint64_t step, char *path)
{
    struct dp_ckpt_entry entry[16];
    struct dp_err err = {0};

    if (dp_ckpt_begin(&config, step, &err) < 0)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < dp_model_layers(&config); i++) {
        struct dp_layer *l = layer_at(&config, i, be, &tune);

        shake(l, (uint32_t)step + i);
        if (dp_ckpt_write_layer(&config, step, l, &entry[i], &err) < 0)
            fail_msg("%s", err.text);
        dp_layer_destroy(l);
    }
    if (dp_ckpt_commit(&config, step, &tune, entry, &err) < 0)
        fail_msg("%s", err.text);
    dp_ckpt_name(&config, step, path, 2048);
}

static void assert_saved(const char *path, uint64_t step)
{
    for (uint32_t i = 0; i < dp_model_layers(&config); i++) {
        struct dp_err err = {0};
        struct dp_layer *l = dp_ckpt_read_layer(path, &config, i, be, &tune, &err), *want;
        uint8_t *a, *b;
        size_t n, m;

        if (!l)
            fail_msg("%s", err.text);
        want = layer_at(&config, i, be, &tune);
        shake(want, (uint32_t)step + i);
        assert_int_equal(dp_layer_write(l, &a, &n, NULL), 0);
        assert_int_equal(dp_layer_write(want, &b, &m, NULL), 0);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
        dp_layer_destroy(l);
        dp_layer_destroy(want);
    }
}

static void written_is_found(void **state)
{
    char path[2048], found[2048];
    struct dp_tune back = {0};
    struct dp_err err = {0};
    uint64_t step = 77;

    (void)state;
    fresh("plain");
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), 0);
    assert_int_equal(step, 0);
    assert_string_equal(found, "");
    config.checkpoint.keep = 2;
    for (uint64_t s = 5; s <= 20; s += 5)
        save(s, path);
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), 0);
    assert_int_equal(step, 20);
    assert_string_equal(found, path);
    assert_memory_equal(&back, &tune, sizeof tune);
    assert_saved(found, 20);
    snprintf(path, sizeof path, "%s/step-%08d", config.checkpoint.dir, 15);
    assert_int_equal(dp_ckpt_find(&config, path, &step, found, sizeof found, &back, &err), 0);
    assert_saved(found, 15);
    snprintf(path, sizeof path, "%s/step-%08d", config.checkpoint.dir, 10);
    assert_int_equal(access(path, F_OK), -1); /* beyond keep */
    assert_int_equal(dp_ckpt_find(&config, path, &step, found, sizeof found, &back, &err), -1);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(dp_ckpt_find(&config, "none", &step, found, sizeof found, &back, &err), 0);
    assert_string_equal(found, "");
    save(20, path); /* the same step again replaces it */
    assert_saved(path, 20);
}

static void flip(const char *file, long at, int bit)
{
    FILE *f = fopen(file, "r+");
    int c;

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    c = fgetc(f);
    assert_true(c != EOF);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    fputc(c ^ 1 << bit, f);
    assert_int_equal(fclose(f), 0);
}

static void flipped_bits_are_noticed(void **state)
{
    char path[2048], file[2100], found[2048];
    struct dp_tune back;
    struct dp_err err = {0};
    struct stat st;
    uint64_t step;

    (void)state;
    fresh("flip");
    save(3, path);
    snprintf(file, sizeof file, "%s/manifest.json", path);
    assert_int_equal(stat(file, &st), 0);
    for (long at = 0; at < st.st_size; at++) {
        flip(file, at, (int)(at % 8));
        memset(&err, 0, sizeof err);
        assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), -1);
        assert_int_equal(err.code, DP_ECORRUPT);
        assert_non_null(strstr(err.text, file));
        flip(file, at, (int)(at % 8));
    }
    snprintf(file, sizeof file, "%s/layer-0002.bin", path);
    assert_int_equal(stat(file, &st), 0);
    for (long at = 0; at < st.st_size; at += st.st_size / 50) {
        flip(file, at, (int)(at % 8));
        assert_null(dp_ckpt_read_layer(path, &config, 2, be, &tune, &err));
        assert_int_equal(err.code, DP_ECORRUPT);
        assert_non_null(strstr(err.text, file));
        assert_non_null(strstr(err.text, "SHA-256"));
        flip(file, at, (int)(at % 8));
    }
    assert_saved(path, 3);
    assert_int_equal(truncate(file, st.st_size - 1), 0);
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), -1);
    assert_int_equal(err.code, DP_ECORRUPT);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), -1);
    assert_non_null(strstr(err.text, file));
}

static void other_models_are_told_apart(void **state)
{
    char path[2048], found[2048];
    struct dp_tune back;
    struct dp_err err = {0};
    uint64_t step;

    (void)state;
    fresh("model");
    save(9, path);
    config.model.blocks = 3;
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "another model: 2 blocks"));
    assert_null(dp_ckpt_read_layer(path, &config, 0, be, &tune, &err));
}

static bool is_there(const char *folder, uint64_t step)
{
    char path[2048];

    dp_ckpt_name(&config, step, path, sizeof path);
    assert_non_null(strstr(path, folder));
    return access(path, F_OK) == 0;
}

/* A run that goes back to an earlier step must not lose its own for those that it left behind. */
static void later_ones_stay(void **state)
{
    char path[2048];
    uint64_t newest;

    (void)state;
    fresh("back");
    config.checkpoint.keep = 2;
    assert_int_equal(dp_ckpt_newest(&config, &newest, NULL), 0);
    save(40, path);
    save(60, path);
    save(8, path);
    save(16, path);
    assert_true(is_there("back", 8) && is_there("back", 16));
    save(24, path);
    assert_true(!is_there("back", 8) && is_there("back", 16) && is_there("back", 24));
    assert_true(is_there("back", 40) && is_there("back", 60));
    assert_int_equal(dp_ckpt_newest(&config, &newest, NULL), 1);
    assert_int_equal(newest, 60);
    save(40, path);
    assert_true(!is_there("back", 16) && is_there("back", 24) && is_there("back", 40) && is_there("back", 60));
}

static void leftovers_do_not_count(void **state)
{
    char path[2048], found[2048], tmp[2100];
    struct dp_ckpt_entry entry;
    struct dp_tune back;
    struct dp_err err = {0};
    uint64_t step;

    (void)state;
    fresh("crash");
    save(4, path);
    assert_int_equal(dp_ckpt_begin(&config, 8, &err), 0); /* and then the run died */
    struct dp_layer *l = layer_at(&config, 0, be, &tune);
    assert_int_equal(dp_ckpt_write_layer(&config, 8, l, &entry, &err), 0);
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), 0);
    assert_int_equal(step, 4);
    save(8, path); /* the same step again: the leftover is cleared away */
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), 0);
    assert_int_equal(step, 8);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    assert_int_equal(access(tmp, F_OK), -1);
    assert_int_equal(dp_ckpt_write_layer(&config, 12, l, &entry, &err), -1); /* nobody began it */
    assert_int_equal(err.code, DP_EIO);
    dp_layer_destroy(l);
    config.checkpoint.dir[0] = '\0';
    assert_int_equal(dp_ckpt_begin(&config, 1, &err), -1);
    assert_int_equal(dp_ckpt_find(&config, "auto", &step, found, sizeof found, &back, &err), 0);
}

/* A leftover that is a link is not followed: what it leads to may be anything of the user's. */
static void links_are_not_emptied(void **state)
{
    char outside[2048], file[2100], link_path[2048];
    struct dp_err err = {0};
    FILE *f;

    (void)state;
    fresh("link");
    assert_int_equal(mkdir(config.checkpoint.dir, 0700) < 0 && errno != EEXIST, 0);
    snprintf(outside, sizeof outside, "%s/precious", config.checkpoint.dir);
    snprintf(file, sizeof file, "%s/file", outside);
    snprintf(link_path, sizeof link_path, "%s/step-00000004.tmp", config.checkpoint.dir);
    assert_int_equal(mkdir(outside, 0700), 0);
    f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(symlink("precious", link_path), 0);
    (void)dp_ckpt_begin(&config, 8, &err);
    assert_int_equal(access(file, F_OK), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(written_is_found),
    cmocka_unit_test(flipped_bits_are_noticed),
    cmocka_unit_test(other_models_are_told_apart),
    cmocka_unit_test(later_ones_stay),
    cmocka_unit_test(leftovers_do_not_count),
    cmocka_unit_test(links_are_not_emptied),
};

int main(void)
{
    return cmocka_run_group_tests_name("checkpoint", tests, setup, teardown);
}
