/* SPDX-License-Identifier: BSD-3-Clause */
/* The tied head (layer.h): the head's copy of wte and the embedding's wte, which stands for both. The
 * runtime carries the two arrays between their owners; when one worker holds both it hands the pointers
 * over directly. Tokens touch few rows of wte in a step, so the sum is formed in the head's gradient:
 * whole passes over the largest matrix of the model would cost more than some layers do.
 */
#include "worker/model/layer.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "worker/model/model.h"
#include "worker/model/param.h"

int64_t dp_layer_tied_count(const struct dp_train_config *config)
{
    return config->model.vocabulary * config->model.channels;
}

static struct dp_param *tied_param(struct dp_layer *layer)
{
    if (!layer->config->model.tied_head || layer->kind == DP_LAYER_BLOCK)
        return NULL;
    return &layer->param[layer->kind == DP_LAYER_HEAD ? DP_HEAD_W : DP_WTE];
}

float **dp_layer_tied_gradient(struct dp_layer *layer)
{
    struct dp_param *p = tied_param(layer);

    return p ? &p->g : NULL;
}

float *dp_layer_tied_weight(struct dp_layer *layer)
{
    struct dp_param *p = tied_param(layer);

    return p ? p->w : NULL;
}

/* The touched rows as a list on the device; returns how many, -1 on failure. */
static int64_t list_rows(struct dp_layer *embedding, int64_t rows, struct dp_err *err)
{
    uint32_t *list = malloc((size_t)rows * sizeof *list);
    int64_t n = 0;
    int rc;

    if (!list)
        return dp_err_set(err, DP_ENOMEM, "no memory for a list of %lld rows", (long long)rows);
    for (int64_t r = 0; r < rows; r++)
        if (dp_bits_get(embedding->touched, r))
            list[n++] = (uint32_t)r;
    rc = embedding->be->ops->put(embedding->be, embedding->touched_rows, list, (size_t)n * sizeof *list, err);
    free(list);
    return rc < 0 ? -1 : n;
}

int dp_layer_tied_merge(struct dp_layer *embedding, float **head_gradient, struct dp_err *err)
{
    struct dp_param *p = tied_param(embedding);
    float *sum = *head_gradient;
    struct dp_merge_rows a;

    if (!p || !embedding->touched)
        return dp_err_set(err, DP_EINVAL, "layer %u holds no tied embedding", embedding->index);
    a = (struct dp_merge_rows){.n = list_rows(embedding, p->rows, err), .c = p->cols, .y = sum, .x = p->g,
                               .rows = embedding->touched_rows};
    if (a.n < 0 || embedding->be->ops->merge_rows(embedding->be, &a, err) < 0)
        return dp_err_prefix(err, "layer %u, tied gradient", embedding->index);
    memset(embedding->touched, 0, dp_bits_words(p->rows) * sizeof *embedding->touched);
    *head_gradient = p->g;
    p->g = sum;
    return 0;
}

void dp_layer_tied_split(struct dp_layer *embedding, float **head_gradient)
{
    struct dp_param *p = tied_param(embedding);
    float *zeros = *head_gradient;

    *head_gradient = p->g;
    p->g = zeros;
}

int dp_layer_tied_set(struct dp_layer *head, const float *wte, struct dp_err *err)
{
    struct dp_param *p = tied_param(head);

    if (!p || head->kind != DP_LAYER_HEAD)
        return dp_err_set(err, DP_EINVAL, "layer %u holds no tied head", head->index);
    p->g_is_void = true;
    return head->be->ops->copy(head->be, p->w, wte, (size_t)p->n * sizeof *p->w, err);
}
