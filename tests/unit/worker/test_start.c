/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run begins with: a checkpoint that it goes on from, the weights of another run's, or neither. */
#define _GNU_SOURCE /* nftw */
#include "worker/checkpoint/distributed.h"

#include <ftw.h>
#include <unistd.h>

#include "tests/unit/worker/engine.h"

#define N_LAYERS 4

static char root[] = "/tmp/dp-test-start-XXXXXX";
static struct dp_train_config config;
static struct dp_backend *be;
static struct dp_tune tune;
static const struct dp_layout layout = {.n_workers = 1, .n_layers = N_LAYERS, .cut = {0, N_LAYERS}};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Layer i of the checkpoint of `step`: trained, the first two frozen, layer 2 with notes. */
static struct dp_layer *trained(uint32_t i, uint64_t step)
{
    struct dp_layer *l = layer_at(&config, i, be, &tune);

    shake(l, (uint32_t)step + i);
    l->rng_counter = 7;
    if (i < 2)
        assert_int_equal(dp_layer_freeze(l, NULL), 0);
    if (i == 2)
        l->notes = (struct dp_layer_notes){.rule = 3, .value = {1, 2, 3}};
    return l;
}

static void save(uint64_t step, char *path, size_t cap)
{
    struct dp_ckpt_entry entry[N_LAYERS];
    struct dp_err err = {0};

    assert_int_equal(dp_ckpt_begin(&config, step, &err), 0);
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        struct dp_layer *l = trained(i, step);

        assert_int_equal(dp_ckpt_write_layer(&config, step, l, &entry[i], &err), 0);
        dp_layer_destroy(l);
    }
    if (dp_ckpt_commit(&config, step, &tune, entry, &err) < 0)
        fail_msg("%s", err.text);
    dp_ckpt_name(&config, step, path, cap);
}

static int setup(void **state)
{
    (void)state;
    be = cpu();
    config = tiny_config();
    tune = tune_at(&config, 0.5);
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    dp_backend_destroy(be);
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void fresh(const char *name)
{
    snprintf(config.checkpoint.dir, sizeof config.checkpoint.dir, "%s/%s", root, name);
    snprintf(config.checkpoint.resume, sizeof config.checkpoint.resume, "auto");
    config.checkpoint.weights[0] = '\0';
}

static struct dp_start begun(void)
{
    struct dp_start start;
    struct dp_err err = {0};

    if (dp_start_find(&config, &start, &err) < 0)
        fail_msg("%s", err.text);
    return start;
}

static void refused(const char *why)
{
    struct dp_start start;
    struct dp_err err = {0};

    assert_int_equal(dp_start_find(&config, &start, &err), -1);
    if (strncmp(err.text, "checkpoint.weights: ", 20) != 0 || !strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void weights_begin_a_new_run(void **state)
{
    struct dp_start start;
    struct dp_stage *stage;
    struct dp_err err = {0};
    char path[1024];

    (void)state;
    fresh("old");
    save(12, path, sizeof path);
    fresh("new");
    start = begun();
    assert_true(!dp_start_resumes(&start) && !start.path[0] && start.step == 0);
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", path);
    start = begun();
    assert_true(!dp_start_resumes(&start) && start.is_weights && start.step == 0);
    assert_string_equal(start.path, path);
    assert_int_equal(start.tune.n_entries, tune.n_entries); /* by which pruned weights are stored */
    stage = dp_start_stage(&config, be, &start, &layout, 0, &err);
    if (!stage)
        fail_msg("%s", err.text);
    assert_int_equal(dp_stage_n_frozen(stage), 0);
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        struct dp_layer *l = dp_stage_layer(stage, i), *old = trained(i, 12), *new_one = layer_at(&config, i, be, &tune);

        assert_true(!l->is_frozen && !l->notes.rule && l->rng_key == new_one->rng_key && l->rng_counter == new_one->rng_counter);
        assert_int_equal(dp_layer_state_bytes(l), dp_layer_state_bytes(new_one));
        for (uint32_t j = 0; j < l->n_params; j++) {
            assert_memory_equal(l->param[j].w, old->param[j].w, (size_t)l->param[j].n * sizeof(float));
            for (int64_t k = 0; k < l->param[j].n; k++)
                assert_true(l->param[j].m[k] == 0 && l->param[j].v[k] == 0);
        }
        dp_layer_destroy(old);
        dp_layer_destroy(new_one);
    }
    dp_stage_destroy(stage);
}

static void a_run_that_resumes_keeps_its_own(void **state)
{
    struct dp_start start;
    struct dp_stage *stage;
    struct dp_err err = {0};
    char path[1024], own[1024];

    (void)state;
    fresh("others");
    save(12, path, sizeof path);
    fresh("own");
    save(5, own, sizeof own);
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", path);
    start = begun();
    assert_true(dp_start_resumes(&start) && start.step == 5);
    assert_string_equal(start.path, own);
    stage = dp_start_stage(&config, be, &start, &layout, 0, &err);
    if (!stage)
        fail_msg("%s", err.text);
    assert_int_equal(dp_stage_n_frozen(stage), 2);
    assert_int_equal(dp_stage_layer(stage, 2)->notes.rule, 3);
    assert_true(dp_stage_layer(stage, 3)->param[0].m[0] != 0 && dp_stage_layer(stage, 3)->rng_counter == 7);
    dp_stage_destroy(stage);
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s/nowhere", root);
    start = begun(); /* nobody asks for it */
    assert_true(dp_start_resumes(&start));
    snprintf(config.checkpoint.resume, sizeof config.checkpoint.resume, "none");
    refused("nowhere");
}

/* Whoever names the folder of another run means what that run had learnt last. */
static void a_folder_means_its_newest(void **state)
{
    struct dp_start start;
    char folder[1024], first[1024], last[1024], file[1100];

    (void)state;
    fresh("folder");
    save(9, first, sizeof first);
    save(100, last, sizeof last);
    snprintf(folder, sizeof folder, "%s", config.checkpoint.dir);
    snprintf(file, sizeof file, "%s/step-00000200.tmp", folder); /* what a crash left */
    assert_int_equal(mkdir(file, 0777), 0);
    fresh("from-folder");
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", folder);
    start = begun();
    assert_true(!dp_start_resumes(&start) && start.is_weights && start.step == 0);
    assert_string_equal(start.path, last);
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", first);
    assert_string_equal(begun().path, first);
    /* A damaged one is said, and no older one taken instead. */
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", folder);
    snprintf(file, sizeof file, "%s/manifest.json", last);
    assert_int_equal(truncate(file, 20), 0);
    refused("step-00000100/manifest.json");
    assert_int_equal(unlink(file), 0);
    refused("step-00000100/manifest.json");
}

static void what_is_no_weights_is_said(void **state)
{
    struct dp_start start;
    char path[1024];

    (void)state;
    fresh("model");
    save(12, path, sizeof path);
    fresh("empty");
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "auto"); /* a name like any other */
    refused("auto: No such file");
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", root);
    refused("neither a checkpoint");
    memset(config.checkpoint.weights, 'x', sizeof config.checkpoint.weights - 1);
    config.checkpoint.weights[sizeof config.checkpoint.weights - 1] = '\0';
    refused("xxxxxxxx");
    snprintf(config.checkpoint.weights, sizeof config.checkpoint.weights, "%s", path);
    config.model.blocks++;
    refused("model");
    config.model.blocks--;
    start = begun();
    assert_true(start.is_weights);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(weights_begin_a_new_run),
    cmocka_unit_test(a_run_that_resumes_keeps_its_own),
    cmocka_unit_test(a_folder_means_its_newest),
    cmocka_unit_test(what_is_no_weights_is_said),
};

int main(void)
{
    return cmocka_run_group_tests_name("start", tests, setup, teardown);
}
