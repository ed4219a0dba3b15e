/* SPDX-License-Identifier: BSD-3-Clause */
/* See masks.h. Random masks come from Philox, keyed by layer and matrix: every run prunes alike. */
#include "worker/bench/masks.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bits.h"
#include "common/numbers.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/model/model.h"
#include "worker/model/param.h"
#include "worker/model/philox.h"

#define SEED 2 /* any; not subject.c's, so that no mask follows its weights */

static const int matrix[BENCH_BLOCK_MATRICES] = {DP_QKV_W, DP_PROJ_W, DP_FC_W, DP_MLP_W};

/* ---- from a checkpoint ---- */

/* The model that the checkpoint's manifest names; the rest of the configuration has its defaults. */
static int read_model(const char *path, struct dp_train_config *c, struct dp_err *err)
{
    json_int_t blocks, channels, heads, context, vocabulary;
    json_error_t why;
    char file[1100];
    json_t *root;
    int tied, bad;

    if (dp_train_config_load(NULL, 0, NULL, c, err) < 0)
        return -1;
    if (snprintf(file, sizeof file, "%s/manifest.json", path) >= (int)sizeof file)
        return dp_err_set(err, DP_EINVAL, "%s: the name is too long", path);
    root = json_load_file(file, 0, &why);
    if (!root)
        return dp_err_set(err, DP_EINVAL, "%s: %s", file, why.text);
    bad =
        json_unpack(root, "{s:{s:I,s:I,s:I,s:I,s:I,s:b}}", "model", "blocks", &blocks, "channels", &channels,
                    "heads", &heads, "context", &context, "vocabulary", &vocabulary, "tied_head", &tied);
    json_decref(root);
    if (bad || blocks < 1 || blocks > DP_MAX_LAYERS - 2 || channels < 1 || channels > 65536 || heads < 1 ||
        heads > 1024 || context < 1 || context > 65536 || vocabulary < 2 || vocabulary > 1048576)
        return dp_err_set(err, DP_ECORRUPT, "%s: names no model", file);
    c->model.blocks = blocks;
    c->model.channels = channels;
    c->model.heads = heads;
    c->model.context = context;
    c->model.vocabulary = vocabulary;
    c->model.tied_head = tied;
    return dp_train_config_check(c, err);
}

static int read_block(struct bench_masks *masks, int64_t b, const struct dp_train_config *c,
                      struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err)
{
    struct dp_layer *l = dp_ckpt_read_layer(masks->path, c, (uint32_t)(b + 1), be, tune, err);
    int rc = l ? 0 : -1;

    for (int i = 0; i < BENCH_BLOCK_MATRICES && rc == 0; i++) {
        const struct dp_param *p = &l->param[matrix[i]];
        struct bench_mask *m = &masks->block[b][i];

        masks->name[i] = p->name;
        m->rows = p->rows;
        m->cols = p->cols;
        m->nnz = p->nnz;
        m->keep = dp_param_dup_kept(be, p, err);
        rc = m->keep ? 0 : -1;
    }
    dp_layer_destroy(l);
    return rc;
}

static void find_granularity(struct bench_masks *masks)
{
    masks->block_rows = DP_SPARSE_MAX;
    for (int64_t b = 0; b < masks->n_blocks; b++)
        for (int i = 0; i < BENCH_BLOCK_MATRICES; i++)
            masks->block_rows = dp_least_i64(masks->block_rows, bench_mask_block_rows(&masks->block[b][i]));
}

struct bench_masks *bench_masks_load(const char *path, struct dp_backend *be, struct dp_err *err)
{
    struct bench_masks *masks = calloc(1, sizeof *masks);
    struct dp_train_config config;
    struct dp_tune tune;
    uint64_t step;

    if (!masks) {
        dp_err_set(err, DP_ENOMEM, "no memory for masks");
        return NULL;
    }
    if (read_model(path, &config, err) < 0 ||
        dp_ckpt_find(&config, path, &step, masks->path, sizeof masks->path, &tune, err) < 0)
        goto fail;
    masks->n_blocks = config.model.blocks;
    masks->channels = config.model.channels;
    masks->block = calloc((size_t)masks->n_blocks, sizeof *masks->block);
    if (!masks->block) {
        dp_err_set(err, DP_ENOMEM, "no memory for masks");
        goto fail;
    }
    for (int64_t b = 0; b < masks->n_blocks; b++)
        if (read_block(masks, b, &config, be, &tune, err) < 0)
            goto fail;
    find_granularity(masks);
    return masks;
fail:
    bench_masks_destroy(masks);
    return NULL;
}

void bench_masks_destroy(struct bench_masks *masks)
{
    if (!masks)
        return;
    for (int64_t b = 0; masks->block && b < masks->n_blocks; b++)
        for (int i = 0; i < BENCH_BLOCK_MATRICES; i++)
            bench_mask_release(&masks->block[b][i]);
    free(masks->block);
    free(masks);
}

/* ---- as pictures ---- */

static double density_of(const struct bench_mask *m)
{
    return (double)m->nnz / (double)(m->rows * m->cols);
}

int bench_masks_draw(const struct bench_masks *masks, const char *folder, struct dp_err *err)
{
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return dp_err_set(err, DP_EIO, "%s: %s", folder, strerror(errno));
    for (int64_t b = 0; b < masks->n_blocks; b++)
        for (int i = 0; i < BENCH_BLOCK_MATRICES; i++) {
            const struct bench_mask *m = &masks->block[b][i];
            const int name = (int)strlen(masks->name[i]) - (int)strlen(".weight");
            char path[PATH_MAX];

            if (snprintf(path, sizeof path, "%s/block%lld-%.*s.pbm", folder, (long long)b + 1, name,
                         masks->name[i]) >= (int)sizeof path)
                return dp_err_set(err, DP_EINVAL, "%s: the name is too long", folder);
            if (bench_mask_write(m, path, err) < 0)
                return -1;
            printf("%s: %lld x %lld, %.1f %% zeros\n", path, (long long)m->rows, (long long)m->cols,
                   100.0 - 100.0 * density_of(m));
        }
    return 0;
}

/* ---- onto a layer ---- */

/* Each weight, or block, stays with the probability `density`. */
static int prune_randomly(double density, struct dp_layer *l, int param, struct dp_err *err)
{
    struct dp_param *p = &l->param[param];
    const int64_t n = p->rows * p->cols, block = dp_train_block_rows(l->config), width = dp_block_cols(block);
    const uint64_t key = dp_philox_key(SEED, DP_PHILOX_LAYER, l->index);
    uint64_t *keep = calloc(dp_bits_words(n), sizeof *keep);
    int rc;

    if (!keep)
        return dp_err_set(err, DP_ENOMEM, "no memory for a mask of %s", p->name);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits[4];

        dp_philox(key, (uint64_t)(i / p->cols / block * p->cols + i % p->cols / width), (uint64_t)param, bits);
        if ((double)bits[0] < density * 4294967296.0)
            dp_bits_set(keep, i);
    }
    rc = dp_param_prune(l, p, keep, err);
    free(keep);
    return rc;
}

int bench_masks_random(double sparsity, struct dp_layer *layer, struct dp_err *err)
{
    for (int i = 0; i < BENCH_BLOCK_MATRICES; i++)
        if (prune_randomly(1.0 - sparsity, layer, matrix[i], err) < 0)
            return -1;
    return 0;
}

int bench_masks_apply(const struct bench_masks *masks, bool is_shuffled, struct dp_layer *layer,
                      struct dp_err *err)
{
    const struct bench_mask *from = masks->block[(layer->index - 1) % masks->n_blocks];

    if (masks->channels != layer->config->model.channels)
        return dp_err_set(err, DP_EINVAL, "%s: has %lld channels, not %lld", masks->path,
                          (long long)masks->channels, (long long)layer->config->model.channels);
    for (int i = 0; i < BENCH_BLOCK_MATRICES; i++) {
        double density = density_of(&from[i]);

        if ((is_shuffled ? prune_randomly(density, layer, matrix[i], err)
                         : dp_param_prune(layer, &layer->param[matrix[i]], from[i].keep, err)) < 0)
            return -1;
    }
    return 0;
}

/* ---- how even it is ---- */

static int spread_of(struct dp_backend *be, const struct dp_param *p, struct bench_spread *out,
                     struct dp_err *err)
{
    int64_t *in_row = calloc((size_t)(p->rows + p->cols), sizeof *in_row), *in_col = in_row + p->rows;
    uint64_t *keep = in_row ? dp_param_dup_kept(be, p, err) : NULL;

    if (!in_row)
        return dp_err_set(err, DP_ENOMEM, "no memory to count nonzeros");
    for (int64_t i = 0; keep && i < p->rows * p->cols; i++)
        if (dp_bits_get(keep, i)) {
            in_row[i / p->cols]++;
            in_col[i % p->cols]++;
        }
    bench_spread_get(in_row, p->rows, in_col, p->cols, out);
    free(in_row);
    free(keep);
    return keep ? 0 : -1;
}

int bench_spread_add(const struct dp_layer *layer, double n, struct bench_spread *out, struct dp_err *err)
{
    for (uint32_t i = 0; i < layer->n_params; i++) {
        struct bench_spread one = {0};

        if (!layer->param[i].prunable)
            continue;
        if (spread_of(layer->be, &layer->param[i], &one, err) < 0)
            return -1;
        out->row_cv += one.row_cv / n;
        out->col_cv += one.col_cv / n;
        out->empty_rows += one.empty_rows / n;
        out->empty_cols += one.empty_cols / n;
    }
    return 0;
}
