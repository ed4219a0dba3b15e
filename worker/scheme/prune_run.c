/* SPDX-License-Identifier: BSD-3-Clause */
/* A pruning event on one stage (prune_run.h): look at all prunable matrices of the stage, agree with the
 * other workers on what survives, take the rest out of each matrix.
 */
#include "worker/scheme/prune_run.h"

#include <math.h>
#include <stdlib.h>

#include "common/bits.h"
#include "kernels/granularity.h"
#include "worker/model/param.h"
#include "worker/scheme/prune_select.h"

/* One matrix as selection sees it: its weights, or the norms of its blocks. All [device]. */
struct view {
    struct dp_layer *layer;
    struct dp_param *param;
    float *norm;    /* of blocks */
    uint64_t *left; /* blocks that are left of a dense matrix */
    struct dp_layer **copy; /* entry of a copy; NULL: the stage's */
};

/* A pruning event on this worker. */
struct event {
    struct dp_backend *be; /* NULL without layers */
    int64_t block;         /* rows of a block */
    struct view *views;
    struct dp_prune_part *parts; /* of each view */
    uint32_t n, n_own;     /* copies follow those of the stage */
    const struct dp_scheme_copies *copies; /* who else follows these layers */
    uint64_t *mixed;       /* [device] of each view: blocks of which some weights are left */
};

static void *device_array(struct dp_backend *be, size_t bytes, struct dp_err *err)
{
    void *p = NULL;

    return be->ops->alloc(be, bytes, &p, err) < 0 ? NULL : p;
}

/* Views from the n-th on. */
static void close_views(struct event *e, uint32_t n)
{
    for (uint32_t i = n; i < e->n; i++) {
        e->be->ops->free(e->be, e->views[i].norm);
        e->be->ops->free(e->be, e->views[i].left);
    }
    e->n = n;
}

static void release(struct event *e)
{
    close_views(e, 0);
    if (e->be)
        e->be->ops->free(e->be, e->mixed);
    free(e->views);
    free(e->parts);
}

/* Weights to blocks. What a network loses with weights is about the sum of their squares (LeCun et al. 1990, equal
 * curvatures), for one weight that is its magnitude. */
static int open_blocks(struct event *e, uint32_t i, struct dp_err *err)
{
    struct view *v = &e->views[i];
    const struct dp_param *p = v->param;
    struct dp_block_norms a = {.rows = p->rows, .cols = p->cols, .block_rows = e->block, .w = p->w, .sparse = p->sparse,
                               .keep = p->keep};

    v->norm = a.norm = device_array(e->be, (size_t)e->parts[i].n * sizeof *a.norm, err);
    if (!v->norm)
        return -1;
    if (p->keep) {
        v->left = a.left = device_array(e->be, dp_bits_words(e->parts[i].n) * sizeof *a.left, err);
        if (!v->left)
            return -1;
        a.mixed = e->mixed + i;
    }
    if (e->be->ops->block_norms(e->be, &a, err) < 0)
        return -1;
    e->parts[i].x = v->norm;
    e->parts[i].left = v->left;
    return 0;
}

static int open_view(struct event *e, struct dp_layer *layer, struct dp_layer **copy, struct dp_param *p, struct dp_err *err)
{
    uint32_t i = e->n++;

    e->views[i] = (struct view){.layer = layer, .param = p, .copy = copy};
    e->parts[i] = (struct dp_prune_part){.x = p->w, .n = dp_param_blocks(p, e->block), .left = p->keep, .layer = layer->index};
    if (p->sparse && dp_sparse_block(p->sparse) != e->block)
        return dp_err_set(err, DP_EINVAL, "prune.granularity: %s, but %s of layer %u was pruned by %s",
                          layer->config->prune.granularity, p->name, layer->index,
                          dp_granularity_name(dp_sparse_block(p->sparse)));
    return e->block > 1 ? open_blocks(e, i, err) : 0;
}

/* Blocks whose weights were pruned one by one? */
static int check_mixed(const struct event *e, struct dp_err *err)
{
    uint64_t *mixed = malloc(e->n * sizeof *mixed + 1);
    int rc = -1;

    if (!mixed)
        return dp_err_set(err, DP_ENOMEM, "pruning: no memory");
    rc = e->be->ops->get(e->be, mixed, e->mixed, e->n * sizeof *mixed, err);
    for (uint32_t i = 0; i < e->n && rc == 0; i++)
        if (mixed[i])
            rc = dp_err_set(err, DP_EINVAL, "prune.granularity: %s, but %s of layer %u was pruned by less than its blocks",
                            e->views[i].layer->config->prune.granularity, e->views[i].param->name, e->views[i].layer->index);
    free(mixed);
    return rc;
}

static int open_layer(struct event *e, struct dp_layer *l, struct dp_layer **copy, struct dp_err *err)
{
    if (l->is_frozen)
        return dp_err_set(err, DP_EINVAL, "layer %u is frozen, and cannot be pruned", l->index);
    for (uint32_t j = 0; j < l->n_params; j++)
        if (l->param[j].prunable && open_view(e, l, copy, &l->param[j], err) < 0)
            return -1;
    return 0;
}

/* A copy that cannot be pruned is none any more, and no reason to stop. */
static void open_copies(struct event *e, const struct dp_scheme_copies *copies)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        uint32_t n = e->n;

        if (open_layer(e, copies->layer[i], &copies->layer[i], NULL) == 0)
            continue;
        close_views(e, n);
        copies->layer[i] = NULL;
    }
}

/* On failure the caller releases what there is. */
static int open_views(struct event *e, struct dp_stage *stage, const struct dp_scheme_copies *copies, struct dp_err *err)
{
    const uint32_t n = dp_stage_n_layers(stage), n_all = n + copies->n;
    const size_t most = (size_t)n_all * DP_LAYER_MAX_PARAMS;

    e->views = calloc(most + 1, sizeof *e->views);
    e->parts = calloc(most + 1, sizeof *e->parts);
    if (!e->views || !e->parts)
        return dp_err_set(err, DP_ENOMEM, "pruning: no memory");
    if (most == 0)
        return 0;
    e->be = n ? dp_stage_layer(stage, 0)->be : copies->layer[0]->be;
    e->mixed = device_array(e->be, most * sizeof *e->mixed, err);
    if (!e->mixed)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (open_layer(e, dp_stage_layer(stage, i), NULL, err) < 0)
            return -1;
    e->n_own = e->n;
    open_copies(e, copies);
    return check_mixed(e, err);
}

static int tell_chosen(const struct event *e, const struct view *v, const struct dp_choose *a, struct dp_err *err)
{
    if (v->copy || !e->copies->chosen)
        return 0;
    return e->copies->chosen(e->copies->arg, v->layer, v->param, a->chosen, a->n, err);
}

static int prune_view(const struct event *e, uint32_t i, const struct dp_prune_cut *cut, struct dp_err *err)
{
    const struct dp_prune_part *part = &e->parts[i];
    struct dp_choose a = {.n = part->n, .x = part->x, .left = part->left, .key = cut->key, .ties = part->ties};

    a.chosen = device_array(e->be, dp_bits_words(a.n) * sizeof *a.chosen, err);
    if (!a.chosen)
        return -1;
    if (e->be->ops->choose(e->be, &a, err) < 0 || tell_chosen(e, &e->views[i], &a, err) < 0) {
        e->be->ops->free(e->be, a.chosen);
        return -1;
    }
    return dp_param_keep_chosen(e->views[i].layer, e->views[i].param, a.chosen, err);
}

static int prune_views(const struct event *e, const struct dp_prune_cut *cut, struct dp_err *err)
{
    for (uint32_t i = 0; i < e->n; i++) {
        struct dp_layer **copy = e->views[i].copy;

        if (copy && !*copy)
            continue;
        if (prune_view(e, i, cut, err) == 0)
            continue;
        if (!copy)
            return -1;
        *copy = NULL;
    }
    return 0;
}

int dp_prune_run(struct dp_stage *stage, const struct dp_scheme_copies *copies, const struct dp_train_config *config, double target,
                 dp_allreduce_fn *sum, void *arg, double *reached, struct dp_err *err)
{
    static const struct dp_scheme_copies none;
    struct event e = {.block = dp_train_block_rows(config), .copies = copies ? copies : &none};
    const uint64_t prunable = dp_model_prunable(config);
    const double weights = (double)dp_block_weights(e.block);
    const uint64_t k = (uint64_t)llround((1.0 - target) * (double)prunable / weights);
    struct dp_prune_cut cut = {0};
    int rc = open_views(&e, stage, e.copies, err);

    if (rc == 0)
        rc = dp_prune_select(e.be, e.parts, e.n_own, e.n - e.n_own, dp_model_layers(config), k, sum, arg, &cut, err);
    if (rc == 0 && !cut.all)
        rc = prune_views(&e, &cut, err);
    if (rc == 0 && reached)
        *reached = 1.0 - (double)cut.kept * weights / (double)prunable;
    release(&e);
    return rc;
}
