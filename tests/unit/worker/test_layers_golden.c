/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers and a manifest against the bytes in layers_golden.h: what is written is these bytes, and from these bytes a layer
 * is read that writes them again. */
#include <unistd.h>

#include "common/bits.h"
#include "common/crc32c.h"
#include "tests/unit/golden.h"
#include "tests/unit/worker/engine.h"
#include "tests/unit/worker/layers_golden.h"
#include "worker/checkpoint/ckpt_manifest.h"
#include "worker/model/model.h"

static struct dp_backend *be;

static int setup(void **state)
{
    (void)state;
    be = cpu();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dp_backend_destroy(be);
    return 0;
}

static struct dp_train_config golden_config(bool is_tied, const char *granularity)
{
    struct dp_train_config c = tiny_config();

    c.model.blocks = 1;
    c.model.channels = 4;
    c.model.heads = 1;
    c.model.context = 1;
    c.model.vocabulary = 2;
    c.model.tied_head = is_tied;
    c.train.batch = 1;
    snprintf(c.prune.granularity, sizeof c.prune.granularity, "%s", granularity);
    return c;
}

typedef bool kept_fn(int64_t row, int64_t col);

static bool not_every_fifth(int64_t row, int64_t col)
{
    return (row * 4 + col) % 5 != 0;
}

static bool every_third(int64_t row, int64_t col)
{
    return (row * 4 + col) % 3 == 0;
}

static bool every_third_column(int64_t row, int64_t col)
{
    (void)row;
    return col % 3 == 0;
}

static void thin(struct dp_layer *l, int param, kept_fn *kept)
{
    struct dp_param *p = &l->param[param];
    uint64_t *keep = calloc(dp_bits_words(p->rows * p->cols), sizeof *keep);
    struct dp_err err = {0};

    for (int64_t e = 0; e < p->rows * p->cols; e++)
        if (kept(e / p->cols, e % p->cols))
            dp_bits_set(keep, e);
    if (dp_param_prune(l, p, keep, &err) < 0)
        fail_msg("%s", err.text);
    free(keep);
}

static struct dp_layer *numbered_layer(const struct dp_train_config *c, uint32_t index, const struct dp_tune *tune)
{
    struct dp_layer *l = layer_at(c, index, be, tune);

    l->rng_key = 0x0102030405060708;
    l->rng_counter = 0x1112131415161718;
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];

        for (int64_t e = 0; e < p->n; e++) {
            p->w[e] = (float)(16.0 * i + (double)e / 4.0);
            if (p->m) {
                p->m[e] = p->w[e] + 0.5f;
                p->v[e] = p->w[e] + 0.25f;
            }
        }
    }
    return l;
}

/* l is given up. */
static void is_written_so(const char *name, struct dp_layer *l, const char *digits, const struct dp_tune *tune)
{
    uint8_t should[8192], *is;
    size_t n_should = unhex(digits, should), n_is;
    struct dp_err err = {0};
    struct dp_layer *back;

    assert_int_equal(dp_layer_write(l, &is, &n_is, &err), 0);
    same_bytes(name, is, n_is, should, n_should);
    free(is);
    back = dp_layer_read(l->config, be, tune, should, n_should, &err);
    if (!back)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(dp_layer_write(back, &is, &n_is, &err), 0);
    same_bytes(name, is, n_is, should, n_should);
    free(is);
    dp_layer_destroy(back);
    dp_layer_destroy(l);
}

static void layers_have_their_bytes(void **state)
{
    struct dp_train_config c = golden_config(false, "weight"), tied = golden_config(true, "weight");
    struct dp_tune tune = tune_at(&c, 0.5);
    struct dp_layer *block = numbered_layer(&c, 1, &tune);

    (void)state;
    is_written_so("an embedding", numbered_layer(&c, 0, &tune), golden_embedding, &tune);
    is_written_so("a head", numbered_layer(&c, 2, &tune), golden_head, &tune);
    is_written_so("a tied head", numbered_layer(&tied, 2, &tune), golden_tied_head, &tune);
    thin(block, DP_PROJ_W, not_every_fifth);
    thin(block, DP_FC_W, every_third);
    is_written_so("a block", block, golden_block, &tune);
}

/* What version 1 cannot say. */
static void version_2_has_its_bytes(void **state)
{
    struct dp_train_config c = golden_config(false, "weight");
    struct dp_tune tune = tune_at(&c, 0.5);
    struct dp_layer *frozen = numbered_layer(&c, 0, &tune), *noted = numbered_layer(&c, 0, &tune);

    (void)state;
    assert_int_equal(dp_layer_freeze(frozen, NULL), 0);
    is_written_so("a frozen embedding", frozen, golden_frozen_embedding, &tune);
    noted->notes = (struct dp_layer_notes){.rule = 3, .value = {1.5, 2, -0.25}};
    is_written_so("an embedding with notes", noted, golden_noted_embedding, &tune);
}

static void blocks_of_4x1_have_theirs(void **state)
{
    struct dp_train_config c = golden_config(false, "4x1");
    struct dp_tune tune = tune_at(&c, 0.5);
    struct dp_layer *block = numbered_layer(&c, 1, &tune);

    (void)state;
    thin(block, DP_MLP_W, every_third_column);
    is_written_so("a block in 4x1", block, golden_block_4x1, &tune);
}

static bool first_32x32(int64_t row, int64_t col)
{
    return row >= 32 && row < 64 && col < 32;
}

/* Too many bytes to be listed: their number and their checksum. */
static void blocks_of_32x32_have_theirs(void **state)
{
    struct dp_train_config c = golden_config(false, "32x32");
    struct dp_tune tune;
    struct dp_layer *block, *back;
    struct dp_err err = {0};
    uint8_t *data;
    size_t n;

    (void)state;
    c.model.channels = 32;
    tune = tune_at(&c, 0.5);
    block = numbered_layer(&c, 1, &tune);
    thin(block, DP_FC_W, first_32x32);
    assert_int_equal(dp_layer_write(block, &data, &n, &err), 0);
    assert_int_equal(n, GOLDEN_32X32_BYTES);
    assert_int_equal(dp_crc32c(0, data, n), GOLDEN_32X32_CRC);
    back = dp_layer_read(&c, be, &tune, data, n, &err);
    if (!back)
        fail_msg("%s", err.text);
    assert_int_equal(back->param[DP_FC_W].sparse->block_rows, 32);
    free(data);
    dp_layer_destroy(block);
    dp_layer_destroy(back);
}

static void a_manifest_has_its_text(void **state)
{
    static struct dp_ckpt_manifest m = {
        .step = 0x0102030405060708,
        .tune = {.n_entries = 2, .entry = {{12, 4, 1, 0.5, 0}, {16, 4, 1, 0.625, 4}}},
    };
    struct dp_train_config c = golden_config(false, "weight");
    char path[] = "/tmp/dp-manifest-XXXXXX";
    struct dp_ckpt_manifest *back;
    struct dp_err err = {0};
    char *text;
    int fd = mkstemp(path);

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        m.entry[i].bytes = 1000 + i;
        assert_int_equal(unhex(golden_layer_digest[i], m.entry[i].digest), DP_DIGEST_BYTES);
    }
    text = dp_ckpt_manifest_encode(&c, &m, &err);
    if (!text)
        fail_msg("%s", err.text);
    assert_string_equal(text, golden_manifest);
    free(text);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, golden_manifest, strlen(golden_manifest)), strlen(golden_manifest));
    close(fd);
    back = dp_ckpt_manifest_read(path, &c, &err);
    unlink(path);
    if (!back)
        fail_msg("%s", err.text);
    assert_true(back->step == m.step && back->tune.n_entries == 2 && back->tune.entry[1].block_rows == 4);
    assert_true(back->tune.entry[1].crossover == 0.625 && back->entry[2].bytes == 1002);
    assert_memory_equal(back->entry[1].digest, m.entry[1].digest, DP_DIGEST_BYTES);
    free(back);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(layers_have_their_bytes, setup, teardown),
    cmocka_unit_test_setup_teardown(version_2_has_its_bytes, setup, teardown),
    cmocka_unit_test_setup_teardown(blocks_of_4x1_have_theirs, setup, teardown),
    cmocka_unit_test_setup_teardown(blocks_of_32x32_have_theirs, setup, teardown),
    cmocka_unit_test(a_manifest_has_its_text),
};
TEST_MAIN("layers_golden", tests)
