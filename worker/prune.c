/* A pruning event on one stage (prune.h): look at all prunable matrices of the stage, agree with the
 * other workers on what survives, take the rest out of each matrix.
 */
#include "worker/prune.h"

#include <math.h>
#include <stdlib.h>

#include "worker/bits.h"
#include "worker/param.h"
#include "worker/prune_select.h"

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

/* One matrix on the host, as selection sees it. */
struct view {
    struct dp_layer *layer;
    struct dp_param *param;
    float *copy;    /* of a device's weights; NULL on a host backend */
    uint64_t *keep;
    struct dp_prune_part part;
};

static void release_views(struct view *views, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(views[i].copy);
        free(views[i].keep);
    }
    free(views);
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

/* Does element i of the part survive? Called in order: it uses up the layer's ties. */
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
    uint64_t *keep = calloc(dp_bits_words(p->rows * p->cols) + 1, sizeof *keep);
    int rc;

    if (!keep)
        return dp_err_set(err, DP_ENOMEM, "pruning: no memory for a bitmap of %s", p->name);
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t end = sp ? sp->row_ptr[r + 1] : (r + 1) * p->cols;

        for (int64_t i = sp ? sp->row_ptr[r] : r * p->cols; i < end; i++)
            if (survives(&v->part, i, cut))
                dp_bits_set(keep, sp ? r * p->cols + sp->col[i] : i);
    }
    rc = dp_param_prune(v->layer, v->param, keep, err);
    free(keep);
    return rc;
}

int dp_prune_run(struct dp_stage *stage, const struct dp_train_config *config, double target,
                 dp_sum_fn *sum, void *arg, double *reached, struct dp_err *err)
{
    const uint64_t prunable = dp_model_prunable(config);
    const uint64_t k = (uint64_t)llround((1.0 - target) * (double)prunable);
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
        *reached = 1.0 - (double)cut.kept / (double)prunable;
out:
    if (views)
        release_views(views, n);
    free(parts);
    free(cut.ties);
    return rc;
}
