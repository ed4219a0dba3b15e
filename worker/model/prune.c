/* SPDX-License-Identifier: BSD-3-Clause */
/* A pruning event on one stage (prune.h): look at all prunable matrices of the stage, agree with the
 * other workers on what survives, take the rest out of each matrix.
 */
#include "worker/model/prune.h"

#include <math.h>
#include <stdlib.h>

#include "common/bits.h"
#include "worker/model/param.h"
#include "worker/model/prune_select.h"

bool dp_prune_due(const struct dp_train_config *config, uint64_t step, double *target)
{
    const uint64_t begin = (uint64_t)config->prune.begin, end = (uint64_t)config->prune.end;
    const uint64_t every = (uint64_t)config->prune.every;
    uint64_t n = (end - begin + every - 1) / every, i;
    double rest;

    if (end == 0 || step < begin || step > end || (step != end && (step - begin) % every))
        return false;
    i = step == end ? n : (step - begin) / every;
    rest = n ? 1.0 - (double)i / (double)n : 0.0;
    *target = config->prune.final + (config->prune.initial - config->prune.final) * rest * rest * rest;
    if (i == 0 && n)
        *target = config->prune.initial; /* without the rounding of the line above */
    return true;
}

/* One matrix on the host, as selection sees it: its weights, or the norms of its blocks. */
struct view {
    struct dp_layer *layer;
    struct dp_param *param;
    float *copy;    /* of a device's weights; NULL on a host backend */
    float *norm;    /* of blocks */
    uint64_t *keep; /* weights that are left, then blocks */
    struct dp_prune_part part;
};

static void release_views(struct view *views, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(views[i].copy);
        free(views[i].norm);
        free(views[i].keep);
    }
    free(views);
}

/* The L2 norm of a block, from its first weight on; `next` apart. What a network loses with weights is about
 * the sum of their squares (LeCun et al. 1990, equal curvatures), for one weight that is its magnitude. */
static float norm_of(const float *w, int64_t next)
{
    double sum = 0.0;

    for (int64_t r = 0; r < 4; r++)
        sum += (double)w[r * next] * (double)w[r * next];
    return (float)sqrt(sum);
}

/* Of a dense matrix: norms of all blocks; the bitmap of weights becomes one of blocks. */
static int norms_of_dense(struct view *v, int64_t cols)
{
    uint64_t *left = v->keep;
    int64_t n = v->param->rows / 4 * cols;

    for (int64_t b = 0; b < n; b++)
        v->norm[b] = norm_of(v->part.w + b / cols * 4 * cols + b % cols, cols);
    if (!left)
        return 0;
    for (int64_t b = 0; b < n; b++) {
        int64_t first = b / cols * 4 * cols + b % cols;
        bool is_left = dp_bits_get(left, first);

        for (int64_t r = 1; r < 4; r++)
            if (dp_bits_get(left, first + r * cols) != is_left)
                return -1;
        /* bit b lies in front of all bits that are still to be read, or is the first of them */
        if (is_left)
            dp_bits_set(left, b);
        else
            left[b >> 6] &= ~((uint64_t)1 << (b & 63));
    }
    return 0;
}

/* Weights to blocks. */
static int open_blocks(struct view *v, struct dp_err *err)
{
    const struct dp_param *p = v->param;
    int64_t n = p->n / 4;
    bool fits = !p->sparse || dp_sparse_block(p->sparse) == 4;

    v->norm = malloc((size_t)(n + 1) * sizeof *v->norm);
    if (!v->norm)
        return dp_err_set(err, DP_ENOMEM, "pruning: no memory for the norms of %s", p->name);
    for (int64_t b = 0; p->sparse && fits && b < n; b++)
        v->norm[b] = norm_of(v->part.w + 4 * b, 1);
    if (!fits || (!p->sparse && norms_of_dense(v, p->cols) < 0))
        return dp_err_set(err, DP_EINVAL, "prune.granularity: 4x1, but %s of layer %u was pruned by single weights",
                          p->name, v->layer->index);
    v->part.w = v->norm;
    v->part.n = n;
    return 0;
}

static int open_view(struct view *v, struct dp_layer *layer, struct dp_param *p, struct dp_err *err)
{
    struct dp_backend *be = layer->be;
    size_t bytes = (size_t)p->n * sizeof(float);

    v->layer = layer;
    v->param = p;
    v->part = (struct dp_prune_part){.w = p->w, .n = p->n, .layer = layer->index};
    if (!be->ops->host_memory) {
        v->copy = malloc(bytes + 1);
        if (!v->copy)
            return dp_err_set(err, DP_ENOMEM, "pruning: no memory for a copy of %s", p->name);
        if (be->ops->get(be, v->copy, p->w, bytes, err) < 0)
            return -1;
        v->part.w = v->copy;
    }
    if (p->keep) {
        v->keep = dp_param_dup_kept(be, p, err);
        if (!v->keep)
            return -1;
        v->part.keep = v->keep;
    }
    if (dp_train_block_rows(layer->config) == 4)
        return open_blocks(v, err);
    if (p->sparse && dp_sparse_block(p->sparse) != 1)
        return dp_err_set(err, DP_EINVAL, "prune.granularity: weight, but %s of layer %u was pruned by blocks of 4x1",
                          p->name, layer->index);
    return 0;
}

static struct view *open_views(struct dp_stage *stage, uint32_t *n_out, struct dp_err *err)
{
    struct view *views = calloc((size_t)dp_stage_n_layers(stage) * DP_LAYER_MAX_PARAMS + 1, sizeof *views);
    uint32_t n = 0;

    if (!views) {
        dp_err_set(err, DP_ENOMEM, "pruning: no memory");
        return NULL;
    }
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);

        for (uint32_t j = 0; j < l->n_params; j++) {
            if (!l->param[j].prunable)
                continue;
            if (open_view(&views[n++], l, &l->param[j], err) < 0) {
                release_views(views, n);
                return NULL;
            }
        }
    }
    *n_out = n;
    return views;
}

/* Does weight or block i of the part survive? Called in order: it uses up the layer's ties. */
static bool survives(const struct dp_prune_part *part, int64_t i, struct dp_prune_cut *cut)
{
    uint32_t key;

    if ((part->keep && !dp_bits_get(part->keep, i)) || cut->none)
        return false;
    key = dp_prune_key(part->w[i]);
    if (key == cut->key && cut->ties[part->layer] > 0) {
        cut->ties[part->layer]--;
        return true;
    }
    return key > cut->key;
}

static int prune_view(const struct view *v, struct dp_prune_cut *cut, struct dp_err *err)
{
    const struct dp_param *p = v->param;
    const struct dp_sparse *sp = p->sparse;
    const int64_t block = dp_train_block_rows(v->layer->config);
    uint64_t *keep = calloc(dp_bits_words(p->rows * p->cols) + 1, sizeof *keep);
    int rc;

    if (!keep)
        return dp_err_set(err, DP_ENOMEM, "pruning: no memory for a bitmap of %s", p->name);
    for (int64_t g = 0; g < p->rows / block; g++) {
        int64_t end = sp ? sp->row_ptr[g + 1] : (g + 1) * p->cols;

        for (int64_t i = sp ? sp->row_ptr[g] : g * p->cols; i < end; i++) {
            int64_t col = sp ? sp->col[i] : i - g * p->cols;

            if (!survives(&v->part, i, cut))
                continue;
            for (int64_t r = g * block; r < (g + 1) * block; r++)
                dp_bits_set(keep, r * p->cols + col);
        }
    }
    rc = dp_param_prune(v->layer, v->param, keep, err);
    free(keep);
    return rc;
}

int dp_prune_run(struct dp_stage *stage, const struct dp_train_config *config, double target,
                 dp_allreduce_fn *sum, void *arg, double *reached, struct dp_err *err)
{
    const uint64_t prunable = dp_model_prunable(config);
    const int64_t block = dp_train_block_rows(config);
    const uint64_t k = (uint64_t)llround((1.0 - target) * (double)prunable / (double)block);
    struct dp_prune_cut cut = {0};
    struct dp_prune_part *parts = NULL;
    struct view *views;
    uint32_t n = 0;
    int rc = -1;

    views = open_views(stage, &n, err);
    if (views)
        parts = calloc(n + 1, sizeof *parts);
    if (!views || !parts)
        goto out;
    for (uint32_t i = 0; i < n; i++)
        parts[i] = views[i].part;
    rc = dp_prune_select(parts, n, dp_model_layers(config), k, sum, arg, &cut, err);
    for (uint32_t i = 0; i < n && rc == 0 && !cut.all; i++)
        rc = prune_view(&views[i], &cut, err);
    if (rc == 0 && reached)
        *reached = 1.0 - (double)cut.kept * (double)block / (double)prunable;
out:
    if (views)
        release_views(views, n);
    free(parts);
    free(cut.ties);
    return rc;
}
