/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedding of tokens and positions, the first layer of the model (layer_run.h). */
#include "worker/model/layer_ops.h"
#include "worker/model/layer_run.h"
#include "worker/model/model.h"

int dp_embedding_forward(struct dp_layer *l, const uint32_t *tokens, void *y, bool keep, struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const struct dp_embedding a = {.n = c->train.batch * c->model.context, .t = c->model.context,
                                   .c = c->model.channels, .v = c->model.vocabulary, .y = y,
                                   .wte = l->param[DP_WTE].w, .wpe = l->param[DP_WPE].w, .tokens = tokens};

    if (l->be->ops->embedding(l->be, &a, err) < 0 || (keep && dp_layer_lap(l, &l->fwd_ns, err) < 0))
        return dp_err_prefix(err, "layer %u, forward", l->index);
    return 0;
}

int dp_embedding_backward(struct dp_layer *l, struct dp_workspace *work, const uint32_t *tokens, struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const struct dp_embedding_bwd a = {.n = c->train.batch * c->model.context, .t = c->model.context,
                                       .c = c->model.channels, .v = c->model.vocabulary,
                                       .dwte = l->param[DP_WTE].g, .dwpe = l->param[DP_WPE].g,
                                       .dy = work->d, .tokens = tokens};

    if (l->be->ops->embedding_bwd(l->be, &a, err) < 0 || dp_layer_lap(l, &l->bwd_weight_ns, err) < 0)
        return dp_err_prefix(err, "layer %u, backward", l->index);
    l->timed_microbatches++;
    return 0;
}
