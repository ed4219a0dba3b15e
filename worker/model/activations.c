/* SPDX-License-Identifier: BSD-3-Clause */
/* Activations and workspace (activations.h). Each is one device allocation cut into tensors on 64-byte borders. */
#include "worker/model/activations.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 10

struct part {
    float **at;
    int64_t n;
};

static size_t round_up(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 63) & ~(size_t)63;
}

/* The tensors of a set. returns their number. */
static uint32_t parts_of(struct dp_activations *act, const struct dp_train_config *config, struct part out[MAX_PARTS])
{
    const int64_t n = config->train.batch * config->model.context, c = config->model.channels;
    const int64_t hidden = dp_format_floats(DP_TILES, n, 4 * c);
    const struct part block[] = {
        {&act->x, n * c},   {&act->mean1, n},   {&act->rstd1, n}, {&act->mean2, n}, {&act->rstd2, n},
        {&act->qkv, 3 * n * c}, {&act->att, n * c}, {&act->lse, n * config->model.heads},
        {&act->x2, n * c},  {&act->fc, hidden},
    };
    const struct part head[] = {
        {&act->x, n * c}, {&act->mean1, n}, {&act->rstd1, n}, {&act->dx, n * c},
    };

    switch (act->kind) {
    case DP_LAYER_BLOCK:
        memcpy(out, block, sizeof block);
        return sizeof block / sizeof block[0];
    case DP_LAYER_HEAD:
        memcpy(out, head, sizeof head);
        return sizeof head / sizeof head[0];
    default:
        return 0;
    }
}

static size_t cut(void *mem, const struct part *parts, uint32_t n)
{
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (mem)
            *parts[i].at = (float *)((char *)mem + at);
        at += round_up(parts[i].n);
    }
    return at;
}

size_t dp_activations_bytes(const struct dp_train_config *config, enum dp_layer_kind kind)
{
    struct dp_activations act = {.kind = kind};
    struct part parts[MAX_PARTS];

    return cut(NULL, parts, parts_of(&act, config, parts));
}

struct dp_activations *dp_activations_take(struct dp_activation_pool *pool, enum dp_layer_kind kind, struct dp_err *err)
{
    struct dp_activations *act = pool->free[kind];
    struct part parts[MAX_PARTS];
    size_t bytes = dp_activations_bytes(pool->config, kind);

    if (act) {
        pool->free[kind] = act->next;
        act->next = NULL;
        act->has_loss = false;
        return act;
    }
    act = calloc(1, sizeof *act);
    if (!act) {
        dp_err_set(err, DP_ENOMEM, "no memory for activations");
        return NULL;
    }
    act->kind = kind;
    if (bytes && pool->be->ops->alloc(pool->be, bytes, &act->mem, err) < 0) {
        dp_err_prefix(err, "activations of a microbatch");
        free(act);
        return NULL;
    }
    cut(act->mem, parts, parts_of(act, pool->config, parts));
    pool->bytes += bytes;
    return act;
}

void dp_activations_give(struct dp_activation_pool *pool, struct dp_activations *act)
{
    if (!act)
        return;
    act->next = pool->free[act->kind];
    pool->free[act->kind] = act;
}

void dp_activations_destroy(struct dp_activation_pool *pool, struct dp_activations *act)
{
    if (!act)
        return;
    pool->be->ops->free(pool->be, act->mem);
    free(act);
}

void dp_activation_pool_release(struct dp_activation_pool *pool)
{
    for (int kind = 0; kind < 3; kind++)
        while (pool->free[kind]) {
            struct dp_activations *act = pool->free[kind];

            pool->free[kind] = act->next;
            dp_activations_destroy(pool, act);
        }
}

int dp_workspace_init(struct dp_workspace *work, const struct dp_train_config *config, struct dp_backend *be,
                      struct dp_err *err)
{
    const int64_t n = config->train.batch * config->model.context, c = config->model.channels;
    const int64_t one = dp_format_floats(DP_TILES, n, c), hidden = dp_format_floats(DP_TILES, n, 4 * c);
    const struct part parts[] = {
        {&work->a, one}, {&work->b, n * c}, {&work->h, hidden}, {&work->g, hidden}, {&work->d, n * c}, {&work->t, one},
    };
    const uint32_t n_parts = sizeof parts / sizeof parts[0];

    memset(work, 0, sizeof *work);
    work->bytes = cut(NULL, parts, n_parts);
    if (be->ops->alloc(be, work->bytes, &work->mem, err) < 0)
        return dp_err_prefix(err, "workspace");
    cut(work->mem, parts, n_parts);
    work->loss = calloc((size_t)n, sizeof *work->loss);
    if (!work->loss)
        return dp_err_set(err, DP_ENOMEM, "no memory for the workspace");
    work->bytes += (size_t)n * sizeof *work->loss;
    return 0;
}

void dp_workspace_release(struct dp_workspace *work, struct dp_backend *be)
{
    be->ops->free(be, work->mem);
    free(work->loss);
    memset(work, 0, sizeof *work);
}
