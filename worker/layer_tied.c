/* The tied head (layer.h): the head's copy of wte and the embedding's wte, which stands for both. The
 * runtime carries the two arrays between their owners; when one worker holds both it hands the pointers
 * over directly. The order of the sum, embedding + head, is the same everywhere.
 */
#include "worker/layer.h"
#include "worker/model.h"
#include "worker/param.h"

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

float *dp_layer_tied_gradient(struct dp_layer *layer)
{
    struct dp_param *p = tied_param(layer);

    return p ? p->g : NULL;
}

float *dp_layer_tied_weight(struct dp_layer *layer)
{
    struct dp_param *p = tied_param(layer);

    return p ? p->w : NULL;
}

int dp_layer_tied_add(struct dp_layer *embedding, const float *head_gradient, struct dp_err *err)
{
    struct dp_param *p = tied_param(embedding);
    struct dp_add a;

    if (!p || embedding->kind != DP_LAYER_EMBEDDING)
        return dp_err_set(err, DP_EINVAL, "layer %u holds no tied embedding", embedding->index);
    a = (struct dp_add){.n = p->n, .y = p->g, .a = p->g, .b = head_gradient};
    return embedding->be->ops->add(embedding->be, &a, err);
}

int dp_layer_tied_set(struct dp_layer *head, const float *wte, struct dp_err *err)
{
    struct dp_param *p = tied_param(head);
    size_t bytes;

    if (!p || head->kind != DP_LAYER_HEAD)
        return dp_err_set(err, DP_EINVAL, "layer %u holds no tied head", head->index);
    bytes = (size_t)p->n * sizeof *p->w;
    if (head->be->ops->copy(head->be, p->w, wte, bytes, err) < 0)
        return -1;
    return dp_device_zero(head->be, p->g, bytes, err);
}
