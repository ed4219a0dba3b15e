/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer's life: made from the run's seed, measured, destroyed (layer.h).
 *
 * Initial weights are a function of (seed, layer, tensor, element): pair j of a tensor comes from
 * Philox counter j, so every layout begins with the same model. The residual projections are scaled by
 * 1/sqrt(2 blocks) as GPT-2's are.
 */
#include "worker/model/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "worker/model/model.h"
#include "worker/model/param.h"
#include "worker/model/philox.h"

#define INIT_STD 0.02 /* GPT-2's */

static void fill_normal(float *w, int64_t n, uint64_t key, uint64_t tensor, double std)
{
    for (int64_t i = 0; i < n; i += 2) {
        uint32_t bits[4];
        double z[2];

        dp_philox(key, (uint64_t)i / 2, tensor, bits);
        dp_philox_normal(bits, z);
        w[i] = (float)(std * z[0]);
        if (i + 1 < n)
            w[i + 1] = (float)(std * z[1]);
    }
}

static int init_weights(struct dp_layer *layer, uint32_t i, const struct dp_param_spec *spec,
                        struct dp_err *err)
{
    struct dp_param *p = &layer->param[i];
    double std = INIT_STD;
    uint64_t key = layer->rng_key;
    float *host;
    int rc;

    if (spec->init == DP_INIT_ZERO)
        return 0;
    host = malloc((size_t)p->n * sizeof *host);
    if (!host)
        return dp_err_set(err, DP_ENOMEM, "%s: no memory for initial weights", p->name);
    if (spec->init == DP_INIT_RESIDUAL)
        std /= sqrt(2.0 * (double)layer->config->model.blocks);
    if (spec->is_tied_copy) { /* wte's numbers: layer 0, tensor 0 */
        key = dp_philox_key(layer->config->train.seed, DP_PHILOX_LAYER, 0);
        i = DP_WTE;
    }
    if (spec->init == DP_INIT_ONE)
        for (int64_t k = 0; k < p->n; k++)
            host[k] = 1.0f;
    else
        fill_normal(host, p->n, key, i, std);
    rc = layer->be->ops->put(layer->be, p->w, host, (size_t)p->n * sizeof *host, err);
    free(host);
    return rc;
}

struct dp_layer *dp_layer_create(const struct dp_train_config *config, uint32_t index,
                                 struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    struct dp_layer *layer = dp_layer_blank(config, index, be, tune, err);

    if (!layer)
        return NULL;
    dp_model_specs(config, index, spec);
    for (uint32_t i = 0; i < layer->n_params; i++) {
        if (dp_param_alloc(be, &layer->param[i], spec[i].is_tied_copy ? DP_PARAM_WG : DP_PARAM_ALL, err) < 0 ||
            init_weights(layer, i, &spec[i], err) < 0) {
            dp_err_prefix(err, "layer %u", index);
            dp_layer_destroy(layer);
            return NULL;
        }
    }
    return layer;
}

struct dp_layer *dp_layer_blank(const struct dp_train_config *config, uint32_t index,
                                struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    struct dp_layer *layer;
    uint64_t first;

    if (index >= dp_model_layers(config)) {
        dp_err_set(err, DP_EINVAL, "layer %u: the model has %u layers", index, dp_model_layers(config));
        return NULL;
    }
    layer = calloc(1, sizeof *layer);
    if (!layer) {
        dp_err_set(err, DP_ENOMEM, "layer %u: no memory", index);
        return NULL;
    }
    layer->index = index;
    layer->kind = dp_model_kind(config, index);
    layer->config = config;
    layer->be = be;
    layer->tune = tune;
    layer->rng_key = dp_philox_key(config->train.seed, DP_PHILOX_LAYER, index);
    layer->n_params = dp_model_specs(config, index, spec);
    if (layer->kind == DP_LAYER_EMBEDDING && config->model.tied_head) {
        void *rows = NULL;

        layer->touched = calloc(dp_bits_words(config->model.vocabulary), sizeof *layer->touched);
        if (!layer->touched)
            dp_err_set(err, DP_ENOMEM, "no memory");
        if (!layer->touched ||
            be->ops->alloc(be, (size_t)config->model.vocabulary * sizeof *layer->touched_rows, &rows, err) < 0) {
            dp_err_prefix(err, "layer %u", index);
            free(layer->touched);
            free(layer);
            return NULL;
        }
        layer->touched_rows = rows;
    }
    first = dp_model_first_prunable(config, index);
    for (uint32_t i = 0; i < layer->n_params; i++) {
        struct dp_param *p = &layer->param[i];

        *p = (struct dp_param){.name = spec[i].name, .rows = spec[i].rows, .cols = spec[i].cols,
                               .decays = spec[i].decays, .prunable = spec[i].prunable,
                               .is_linear = spec[i].cols > 1 && layer->kind != DP_LAYER_EMBEDDING};
        p->n = p->nnz = p->rows * p->cols;
        if (p->prunable) {
            p->first_global = first;
            first += (uint64_t)p->n;
        }
    }
    return layer;
}

void dp_layer_destroy(struct dp_layer *layer)
{
    if (!layer)
        return;
    for (uint32_t i = 0; i < layer->n_params; i++)
        dp_param_release(layer->be, &layer->param[i]);
    layer->be->ops->free(layer->be, layer->touched_rows);
    free(layer->touched);
    free(layer);
}

int dp_layer_freeze(struct dp_layer *layer, struct dp_err *err)
{
    if (layer->touched)
        return dp_err_set(err, DP_EINVAL, "layer %u: a tied embedding learns through the head, and cannot be frozen", layer->index);
    for (uint32_t i = 0; i < layer->n_params; i++)
        dp_param_freeze(layer->be, &layer->param[i]);
    layer->is_frozen = true;
    layer->notes = (struct dp_layer_notes){0};
    return 0;
}

int dp_layer_clear_gradients(struct dp_layer *layer, struct dp_err *err)
{
    for (uint32_t i = 0; i < layer->n_params; i++) {
        struct dp_param *p = &layer->param[i];

        if (p->g && layer->be->ops->zero(layer->be, p->g, (size_t)p->n * sizeof *p->g, err) < 0)
            return -1;
        p->g_is_void = p->is_linear;
    }
    if (layer->touched)
        memset(layer->touched, 0, dp_bits_words(layer->config->model.vocabulary) * sizeof *layer->touched);
    return 0;
}

static int renew_param(struct dp_backend *be, struct dp_param *p, bool is_tied_copy, struct dp_err *err)
{
    size_t bytes = (size_t)p->n * sizeof(float);

    if (dp_param_alloc(be, p, is_tied_copy ? DP_PARAM_WG : DP_PARAM_ALL, err) < 0)
        return -1;
    if (!p->m)
        return 0;
    return be->ops->zero(be, p->m, bytes, err) < 0 || be->ops->zero(be, p->v, bytes, err) < 0 ? -1 : 0;
}

int dp_layer_renew(struct dp_layer *layer, struct dp_err *err)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];

    dp_model_specs(layer->config, layer->index, spec);
    for (uint32_t i = 0; i < layer->n_params; i++)
        if (renew_param(layer->be, &layer->param[i], spec[i].is_tied_copy, err) < 0)
            return dp_err_prefix(err, "layer %u", layer->index);
    layer->is_frozen = false;
    layer->notes = (struct dp_layer_notes){0};
    layer->rng_key = dp_philox_key(layer->config->train.seed, DP_PHILOX_LAYER, layer->index);
    layer->rng_counter = 0;
    return 0;
}

static size_t param_bytes(struct dp_backend *be, const struct dp_param *p)
{
    size_t arrays = p->m ? 4 : p->g ? 2 : 1, sum = arrays * (size_t)p->n * sizeof(float);

    if (p->keep)
        sum += dp_bits_words(p->rows * p->cols) * sizeof *p->keep;
    if (p->sparse)
        sum += sizeof *p->sparse +
               ((size_t)(p->rows / dp_sparse_block(p->sparse)) + 1) * sizeof *p->sparse->row_ptr +
               (size_t)dp_sparse_n_blocks(p->sparse) * sizeof *p->sparse->col +
               be->ops->sparse_bytes(be, p->sparse);
    return sum;
}

size_t dp_layer_state_bytes(const struct dp_layer *layer)
{
    const struct dp_train_config *c = layer->config;
    size_t sum = sizeof *layer;

    for (uint32_t i = 0; i < layer->n_params; i++)
        sum += param_bytes(layer->be, &layer->param[i]);
    if (layer->touched_rows)
        sum += (size_t)c->model.vocabulary * sizeof *layer->touched_rows;
    if (layer->kind == DP_LAYER_HEAD)
        sum += layer->be->ops->head_bytes(layer->be, c->train.batch * c->model.context, c->model.channels,
                                          c->model.vocabulary);
    return sum;
}
