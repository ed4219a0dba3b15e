/* SPDX-License-Identifier: BSD-3-Clause */
/* The layers of one worker, run in order (stage.h).
 *
 * kept[mb * n_layers + i] is what layer i keeps of microbatch mb. A layer writes its output straight
 * into the input of the next one's activations; only the stage's two borders are copied. The operations and
 * their order are the same for every layer wherever the cuts lie: that makes the loss independent of
 * the layout, bit for bit.
 */
#include "worker/model/stage.h"

#include <stdlib.h>
#include <string.h>

#include "common/run/layout.h"
#include "worker/model/layer_run.h"

struct dp_stage {
    const struct dp_train_config *config;
    struct dp_backend *be;
    uint32_t n_layers;
    struct dp_layer **layer;
    struct dp_activations **kept;
    struct dp_activation_pool pool;
    struct dp_workspace work;
};

static int check_layers(struct dp_layer **layers, uint32_t n, struct dp_err *err)
{
    for (uint32_t i = 1; i < n; i++)
        if (layers[i]->index != layers[i - 1]->index + 1)
            return dp_err_set(err, DP_EINVAL, "stage: layer %u does not follow layer %u", layers[i]->index,
                              layers[i - 1]->index);
    return 0;
}

struct dp_stage *dp_stage_create(const struct dp_train_config *config, struct dp_backend *be,
                                 struct dp_layer **layers, uint32_t n, struct dp_err *err)
{
    struct dp_stage *s;

    if (check_layers(layers, n, err) < 0)
        return NULL;
    s = calloc(1, sizeof *s);
    if (!s) {
        dp_err_set(err, DP_ENOMEM, "stage: no memory");
        return NULL;
    }
    s->config = config;
    s->be = be;
    s->pool = (struct dp_activation_pool){.config = config, .be = be};
    s->layer = calloc(n + 1, sizeof *s->layer);
    s->kept = calloc((size_t)n * (size_t)config->train.microbatches + 1, sizeof *s->kept);
    if (!s->layer || !s->kept) {
        dp_err_set(err, DP_ENOMEM, "stage: no memory");
        goto fail;
    }
    if (n && dp_workspace_init(&s->work, config, be, err) < 0)
        goto fail;
    if (n)
        memcpy(s->layer, layers, n * sizeof *layers);
    s->n_layers = n; /* only now the layers are the stage's */
    return s;
fail:
    dp_stage_destroy(s);
    return NULL;
}

static void drop_activations(struct dp_stage *s)
{
    size_t n = (size_t)s->n_layers * (size_t)s->config->train.microbatches;

    for (size_t i = 0; i < n; i++) {
        dp_activations_destroy(&s->pool, s->kept[i]);
        s->kept[i] = NULL;
    }
    dp_activation_pool_release(&s->pool);
    s->pool.bytes = 0;
}

void dp_stage_destroy(struct dp_stage *s)
{
    if (!s)
        return;
    drop_activations(s);
    for (uint32_t i = 0; i < s->n_layers; i++)
        dp_layer_destroy(s->layer[i]);
    dp_workspace_release(&s->work, s->be);
    free(s->layer);
    free(s->kept);
    free(s);
}

uint32_t dp_stage_n_layers(const struct dp_stage *stage)
{
    return stage->n_layers;
}

struct dp_layer *dp_stage_layer(struct dp_stage *stage, uint32_t i)
{
    return stage->layer[i];
}

void dp_stage_take_layers(struct dp_stage *s, struct dp_layer **out)
{
    drop_activations(s);
    if (s->n_layers)
        memcpy(out, s->layer, s->n_layers * sizeof *out);
    s->n_layers = 0;
    dp_workspace_release(&s->work, s->be);
}

static size_t stage_message_bytes(const struct dp_stage *s)
{
    return (size_t)(s->config->train.batch * s->config->model.context * s->config->model.channels) *
           sizeof(float);
}

static int run_forward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *tokens,
                       const uint32_t *targets, float *y, double *loss, bool keep, struct dp_err *err)
{
    switch (l->kind) {
    case DP_LAYER_EMBEDDING:
        return dp_embedding_forward(l, tokens, y, keep, err);
    case DP_LAYER_HEAD:
        return dp_head_forward(l, act, work, targets, loss, keep, err);
    default:
        return dp_block_forward(l, act, work, y, keep, err);
    }
}

static int check_call(const struct dp_stage *s, uint32_t mb, const uint32_t *tokens, struct dp_err *err)
{
    if (!s->n_layers || mb >= (uint64_t)s->config->train.microbatches)
        return dp_err_set(err, DP_EINVAL, "stage: microbatch %u of %lld on %u layers", mb,
                          (long long)s->config->train.microbatches, s->n_layers);
    if (s->layer[0]->kind == DP_LAYER_EMBEDDING && !tokens)
        return dp_err_set(err, DP_EINVAL, "stage: layer 0 without tokens");
    return 0;
}

/* Activations of one microbatch: of all layers where they are kept, else of two neighbours at a time. */
static int forward_layers(struct dp_stage *s, struct dp_activations **act, const uint32_t *tokens,
                          const uint32_t *targets, float *out, double *loss, bool keep, struct dp_err *err)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        float *y = out;

        if (i + 1 < s->n_layers) {
            act[i + 1] = dp_activations_take(&s->pool, s->layer[i + 1]->kind, err);
            if (!act[i + 1])
                return -1;
            y = act[i + 1]->x;
        }
        if (run_forward(s->layer[i], act[i], &s->work, tokens, targets, y, loss, keep, err) < 0)
            return -1;
        if (!keep) {
            dp_activations_give(&s->pool, act[i]);
            act[i] = NULL;
        }
    }
    return 0;
}

static void give_all(struct dp_stage *s, struct dp_activations **act)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        dp_activations_give(&s->pool, act[i]);
        act[i] = NULL;
    }
}

int dp_stage_forward(struct dp_stage *s, uint32_t mb, const float *in, const uint32_t *tokens,
                     const uint32_t *targets, float *out, double *loss, bool keep, struct dp_err *err)
{
    struct dp_activations *eval[DP_MAX_LAYERS], **act;

    if (check_call(s, mb, tokens, err) < 0)
        return -1;
    act = keep ? s->kept + (size_t)mb * s->n_layers : eval;
    if (keep && act[0])
        return dp_err_set(err, DP_EINVAL, "stage: microbatch %u is already in flight", mb);
    memset(act, 0, s->n_layers * sizeof *act);
    act[0] = dp_activations_take(&s->pool, s->layer[0]->kind, err);
    if (!act[0])
        return -1;
    if ((act[0]->x && s->be->ops->copy(s->be, act[0]->x, in, stage_message_bytes(s), err) < 0) ||
        forward_layers(s, act, tokens, targets, out, loss, keep, err) < 0) {
        give_all(s, act);
        return -1;
    }
    return 0;
}

static int run_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, const uint32_t *tokens,
                        struct dp_err *err)
{
    switch (l->kind) {
    case DP_LAYER_EMBEDDING:
        return dp_embedding_backward(l, work, tokens, err);
    case DP_LAYER_HEAD:
        return dp_head_backward(l, act, work, err);
    default:
        return dp_block_backward(l, act, work, err);
    }
}

int dp_stage_backward(struct dp_stage *s, uint32_t mb, const float *dout, float *din, const uint32_t *tokens,
                      struct dp_err *err)
{
    struct dp_activations **act;

    if (check_call(s, mb, tokens, err) < 0)
        return -1;
    act = s->kept + (size_t)mb * s->n_layers;
    if (!act[0])
        return dp_err_set(err, DP_EINVAL, "stage: backward of microbatch %u without its forward", mb);
    if (s->layer[s->n_layers - 1]->kind != DP_LAYER_HEAD &&
        s->be->ops->copy(s->be, s->work.d, dout, stage_message_bytes(s), err) < 0)
        return -1;
    for (uint32_t i = s->n_layers; i-- > 0;) {
        if (run_backward(s->layer[i], act[i], &s->work, tokens, err) < 0)
            return -1;
        dp_activations_give(&s->pool, act[i]);
        act[i] = NULL;
    }
    if (s->layer[0]->kind != DP_LAYER_EMBEDDING)
        return s->be->ops->copy(s->be, din, s->work.d, stage_message_bytes(s), err);
    return 0;
}

size_t dp_stage_bytes(const struct dp_stage *s, uint64_t *act_bytes_per_layer)
{
    size_t sum = sizeof *s + s->work.bytes + s->pool.bytes;

    for (uint32_t i = 0; i < s->n_layers; i++) {
        sum += dp_layer_state_bytes(s->layer[i]);
        if (act_bytes_per_layer)
            act_bytes_per_layer[i] = dp_activations_bytes(s->config, s->layer[i]->kind);
    }
    return sum;
}
