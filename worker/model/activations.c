/* SPDX-License-Identifier: BSD-3-Clause */
/* Activations and workspace (activations.h). Each is one device allocation cut into tensors on 64-byte borders. */
#include "worker/model/activations.h"

#include <string.h>

/* Memory that tensors are cut from. Without memory only the bytes are counted. */
struct roll {
    char *mem; /* NULL: none */
    const struct dp_device_info *device;
    size_t used;
};

static void *cut(struct roll *r, int64_t elements, size_t bytes_each)
{
    size_t at = r->used;

    r->used += ((size_t)elements * bytes_each + 63) & ~(size_t)63;
    return r->mem ? r->mem + at : NULL;
}

static void *cut_activations(struct roll *r, int64_t elements)
{
    return cut(r, elements, r->device->act_bytes);
}

static float *cut_floats(struct roll *r, int64_t floats)
{
    return cut(r, floats, sizeof(float));
}

static void cut_set(struct dp_activations *act, const struct dp_train_config *config, bool has_x, struct roll *r)
{
    const int64_t n = config->train.batch * config->model.context, c = config->model.channels;

    if (act->kind == DP_LAYER_EMBEDDING)
        return;
    act->x = has_x ? cut_activations(r, n * c) : NULL;
    act->mean1 = cut_floats(r, n);
    act->rstd1 = cut_floats(r, n);
    if (act->kind == DP_LAYER_HEAD) {
        act->dx = cut_activations(r, n * c);
        return;
    }
    act->mean2 = cut_floats(r, n);
    act->rstd2 = cut_floats(r, n);
    act->qkv = cut_activations(r, 3 * n * c);
    act->att = cut_activations(r, n * c);
    act->lse = cut_floats(r, n * config->model.heads);
    act->x2 = cut_activations(r, n * c);
    act->fc = cut_activations(r, dp_format_elements(r->device->sparse_format, n, 4 * c));
}

size_t dp_activations_bytes(const struct dp_train_config *config, const struct dp_device_info *device, enum dp_layer_kind kind)
{
    struct dp_activations act = {.kind = kind};
    struct roll r = {.device = device};

    cut_set(&act, config, true, &r);
    return r.used;
}

int dp_activations_init(struct dp_activations *act, const struct dp_train_config *config, struct dp_backend *be,
                        enum dp_layer_kind kind, bool is_first, struct dp_err *err)
{
    struct roll r = {.device = &be->info};

    *act = (struct dp_activations){.kind = kind};
    cut_set(act, config, !is_first, &r);
    if (!r.used)
        return 0;
    if (be->ops->alloc(be, r.used, &act->mem, err) < 0)
        return dp_err_prefix(err, "activations of a microbatch");
    act->bytes = r.used;
    r = (struct roll){.mem = act->mem, .device = &be->info};
    cut_set(act, config, !is_first, &r);
    return 0;
}

void dp_activations_release(struct dp_activations *act, struct dp_backend *be)
{
    be->ops->free(be, act->mem);
    *act = (struct dp_activations){0};
}

static void cut_workspace(struct dp_workspace *work, const struct dp_train_config *config, struct roll *r)
{
    const int64_t n = config->train.batch * config->model.context, c = config->model.channels;
    const enum dp_token_format format = r->device->sparse_format;
    const int64_t one = dp_format_elements(format, n, c), hidden = dp_format_elements(format, n, 4 * c);

    work->a = cut_activations(r, one);
    work->b = cut_activations(r, n * c);
    work->h = cut_activations(r, hidden);
    work->g = cut_activations(r, hidden);
    work->d = cut_activations(r, n * c);
    work->t = format == DP_ROWS ? NULL : cut_activations(r, one);
}

int dp_workspace_init(struct dp_workspace *work, const struct dp_train_config *config, struct dp_backend *be,
                      uint32_t n_layers, struct dp_err *err)
{
    const int64_t n = config->train.batch * config->model.context;
    const size_t doubles = ((size_t)n + (size_t)n_layers * DP_LAYER_MAX_PARAMS) * sizeof *work->doubles;
    struct roll r = {.device = &be->info};
    void *mem;

    memset(work, 0, sizeof *work);
    cut_workspace(work, config, &r);
    work->bytes = r.used;
    if (be->ops->alloc(be, work->bytes, &work->mem, err) < 0)
        return dp_err_prefix(err, "workspace");
    r = (struct roll){.mem = work->mem, .device = &be->info};
    cut_workspace(work, config, &r);
    if (be->ops->alloc(be, doubles, &mem, err) < 0)
        return dp_err_prefix(err, "workspace");
    work->doubles = work->loss = mem;
    work->squares = work->loss + n;
    if (be->ops->alloc(be, sizeof *work->step, &mem, err) < 0)
        return dp_err_prefix(err, "workspace");
    work->step = mem;
    work->bytes += doubles + sizeof *work->step;
    return 0;
}

void dp_workspace_release(struct dp_workspace *work, struct dp_backend *be)
{
    be->ops->free(be, work->mem);
    be->ops->free(be, work->doubles);
    be->ops->free(be, work->step);
    memset(work, 0, sizeof *work);
}
