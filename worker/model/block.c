/* SPDX-License-Identifier: BSD-3-Clause */
/* A pre-norm transformer block (layer_run.h), forward and backward:
 *   x2 = x + proj(attention(qkv(ln1(x))))
 *   y  = x2 + mlp_proj(gelu(fc(ln2(x2))))
 * Backward walks back with one gradient buffer, work->d: the residual path stays in it and the branches
 * add to it. ln1(x), ln2(x2) and gelu(fc) are computed again, by the same formula on the same input, so
 * their bits are those of forward.
 *
 * Sparse matrices work on tiles of tokens. What goes between two of them stays in tiles, and what two
 * products read is put into tiles once; what layers, attention and the residual path see are rows.
 */
#include "worker/model/layer_ops.h"
#include "worker/model/layer_run.h"
#include "worker/model/model.h"

static int attention(struct dp_layer *l, struct dp_activations *act, struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const struct dp_attention a = {.b = c->train.batch, .t = c->model.context, .c = c->model.channels,
                                   .h = c->model.heads, .y = act->att, .lse = act->lse, .qkv = act->qkv};

    return l->be->ops->attention(l->be, &a, err);
}

static int attention_back(struct dp_layer *l, struct dp_activations *act, void *dqkv, const void *dy,
                          struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const struct dp_attention_bwd a = {.b = c->train.batch, .t = c->model.context, .c = c->model.channels,
                                       .h = c->model.heads, .dqkv = dqkv, .dy = dy, .y = act->att,
                                       .qkv = act->qkv, .lse = act->lse};

    return l->be->ops->attention_bwd(l->be, &a, err);
}

/* The hidden activations of the MLP stay in another format than rows when both matrices around them like that one. */
static enum dp_token_format hidden_format(const struct dp_layer *l)
{
    enum dp_token_format format = dp_layer_format(l, DP_FC_W);

    return format == dp_layer_format(l, DP_MLP_W) ? format : DP_ROWS;
}

int dp_block_forward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, void *y, bool keep,
                     struct dp_err *err)
{
    const struct dp_view ln1 = {work->a, dp_layer_format(l, DP_QKV_W)}, ln2 = {work->a, dp_layer_format(l, DP_FC_W)},
                         hidden = {work->g, hidden_format(l)};
    const struct dp_linear_out qkv = {.y = act->qkv}, x2 = {.y = act->x2, .residual = act->x},
                           fc = {.y = act->fc, .gelu = hidden.p, .format = hidden.format},
                           out = {.y = y, .residual = act->x2};

    if (dp_layer_norm(l, ln1, act->mean1, act->rstd1, act->x, DP_LN1_W, err) < 0 ||
        dp_layer_linear(l, qkv, ln1, DP_QKV_W, DP_QKV_B, err) < 0 || attention(l, act, err) < 0 ||
        dp_layer_linear(l, x2, dp_rows(act->att), DP_PROJ_W, DP_PROJ_B, err) < 0 ||
        dp_layer_norm(l, ln2, act->mean2, act->rstd2, act->x2, DP_LN2_W, err) < 0 ||
        dp_layer_linear(l, fc, ln2, DP_FC_W, DP_FC_B, err) < 0 ||
        dp_layer_linear(l, out, hidden, DP_MLP_W, DP_MLP_B, err) < 0 ||
        (keep && dp_layer_lap(l, &l->fwd_ns, err) < 0))
        return dp_err_prefix(err, "layer %u, forward", l->index);
    return 0;
}

/* work->d: gradient of y -> gradient of x2 */
static int mlp_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, struct dp_err *err)
{
    const struct dp_view hidden = {work->g, hidden_format(l)}, dhidden = {work->h, hidden.format},
                         ln2 = {work->a, dp_layer_format(l, DP_FC_W)};
    struct dp_view d;

    if (dp_layer_formatted(l, DP_MLP_W, &d, work->t, work->d, l->config->model.channels, err) < 0 ||
        dp_layer_linear_gelu_input(l, dhidden, hidden.p, d, act->fc, DP_MLP_W, err) < 0 ||
        dp_layer_lap(l, &l->bwd_input_ns, err) < 0)
        return -1;
    if (dp_layer_linear_weight(l, DP_MLP_W, DP_MLP_B, d, hidden, err) < 0 ||
        dp_layer_norm(l, ln2, act->mean2, act->rstd2, act->x2, DP_LN2_W, err) < 0 ||
        dp_layer_linear_weight(l, DP_FC_W, DP_FC_B, dhidden, ln2, err) < 0 ||
        dp_layer_lap(l, &l->bwd_weight_ns, err) < 0)
        return -1;
    if (dp_layer_linear_input(l, dp_rows(work->b), dhidden, DP_FC_W, err) < 0 ||
        dp_layer_norm_back(l, work->d, work->b, act->x2, act->mean2, act->rstd2, DP_LN2_W, true, err) < 0 ||
        dp_layer_lap(l, &l->bwd_input_ns, err) < 0)
        return -1;
    return 0;
}

/* work->d: gradient of x2 -> gradient of x */
static int attention_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work,
                              struct dp_err *err)
{
    const struct dp_view ln1 = {work->a, dp_layer_format(l, DP_QKV_W)};
    const int64_t c = l->config->model.channels;
    struct dp_view d, dqkv;

    if (dp_layer_formatted(l, DP_PROJ_W, &d, work->t, work->d, c, err) < 0 ||
        dp_layer_linear_input(l, dp_rows(work->b), d, DP_PROJ_W, err) < 0 ||
        dp_layer_lap(l, &l->bwd_input_ns, err) < 0)
        return -1;
    if (dp_layer_linear_weight(l, DP_PROJ_W, DP_PROJ_B, d, dp_rows(act->att), err) < 0 ||
        dp_layer_lap(l, &l->bwd_weight_ns, err) < 0)
        return -1;
    if (attention_back(l, act, work->h, work->b, err) < 0 ||
        dp_layer_formatted(l, DP_QKV_W, &dqkv, work->g, work->h, 3 * c, err) < 0 ||
        dp_layer_linear_input(l, dp_rows(work->b), dqkv, DP_QKV_W, err) < 0 ||
        dp_layer_lap(l, &l->bwd_input_ns, err) < 0)
        return -1;
    if (dp_layer_norm(l, ln1, act->mean1, act->rstd1, act->x, DP_LN1_W, err) < 0 ||
        dp_layer_linear_weight(l, DP_QKV_W, DP_QKV_B, dqkv, ln1, err) < 0 ||
        dp_layer_lap(l, &l->bwd_weight_ns, err) < 0)
        return -1;
    if (dp_layer_norm_back(l, work->d, work->b, act->x, act->mean1, act->rstd1, DP_LN1_W, true, err) < 0 ||
        dp_layer_lap(l, &l->bwd_input_ns, err) < 0)
        return -1;
    return 0;
}

int dp_block_backward(struct dp_layer *l, struct dp_activations *act, struct dp_workspace *work, struct dp_err *err)
{
    if (mlp_backward(l, act, work, err) < 0 || attention_backward(l, act, work, err) < 0)
        return dp_err_prefix(err, "layer %u, backward", l->index);
    l->timed_microbatches++;
    return 0;
}
