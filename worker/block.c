/* A pre-norm transformer block (act.h), forward and backward:
 *   x2 = x + proj(attention(qkv(ln1(x))))
 *   y  = x2 + mlp_proj(gelu(fc(ln2(x2))))
 * Backward walks back with one gradient buffer, work->d: the residual path stays in it and the branches
 * add to it. ln1(x), ln2(x2) and gelu(fc) are computed again, by the same formula on the same input, so
 * their bits are those of forward.
 */
#include "worker/act.h"
#include "worker/lap.h"
#include "worker/model.h"
#include "worker/op.h"

static int attention(struct dp_layer *l, struct dp_act *act, struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const struct dp_attention a = {.b = c->train.batch, .t = c->model.context, .c = c->model.channels,
                                   .h = c->model.heads, .y = act->att, .lse = act->lse, .qkv = act->qkv};

    return l->be->ops->attention(l->be, &a, err);
}

static int attention_back(struct dp_layer *l, struct dp_act *act, float *dqkv, const float *dy,
                          struct dp_err *err)
{
    const struct dp_train_config *c = l->config;
    const struct dp_attention_bwd a = {.b = c->train.batch, .t = c->model.context, .c = c->model.channels,
                                       .h = c->model.heads, .dqkv = dqkv, .dy = dy, .y = act->att,
                                       .qkv = act->qkv, .lse = act->lse};

    return l->be->ops->attention_bwd(l->be, &a, err);
}

int dp_block_forward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, float *y, bool keep,
                     struct dp_err *err)
{
    const struct dp_op_out x2 = {.y = act->x2, .residual = act->x}, fc = {.y = act->fc, .gelu = work->g},
                           out = {.y = y, .residual = act->x2};
    struct dp_lap lap = dp_lap_start(l->be);

    if (dp_op_norm(l, work->a, act->mean1, act->rstd1, act->x, DP_LN1_W, err) < 0 ||
        dp_op_linear(l, (struct dp_op_out){.y = act->qkv}, work->a, DP_QKV_W, DP_QKV_B, err) < 0 ||
        attention(l, act, err) < 0 || dp_op_linear(l, x2, act->att, DP_PROJ_W, DP_PROJ_B, err) < 0 ||
        dp_op_norm(l, work->a, act->mean2, act->rstd2, act->x2, DP_LN2_W, err) < 0 ||
        dp_op_linear(l, fc, work->a, DP_FC_W, DP_FC_B, err) < 0 ||
        dp_op_linear(l, out, work->g, DP_MLP_W, DP_MLP_B, err) < 0)
        return dp_err_prefix(err, "layer %u, forward", l->index);
    if (keep)
        dp_lap_add(&lap, &l->fwd_ns);
    return 0;
}

/* work->d: gradient of y -> gradient of x2 */
static int mlp_backward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, struct dp_lap *lap,
                        struct dp_err *err)
{
    if (dp_op_linear_gelu_input(l, work->h, work->g, work->d, act->fc, DP_MLP_W, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_input_ns);
    if (dp_op_linear_weight(l, DP_MLP_W, DP_MLP_B, work->d, work->g, err) < 0)
        return -1;
    if (dp_op_norm(l, work->a, act->mean2, act->rstd2, act->x2, DP_LN2_W, err) < 0 ||
        dp_op_linear_weight(l, DP_FC_W, DP_FC_B, work->h, work->a, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_weight_ns);
    if (dp_op_linear_input(l, work->b, work->h, DP_FC_W, err) < 0 ||
        dp_op_norm_back(l, work->d, work->b, act->x2, act->mean2, act->rstd2, DP_LN2_W, true, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_input_ns);
    return 0;
}

/* work->d: gradient of x2 -> gradient of x */
static int attention_backward(struct dp_layer *l, struct dp_act *act, struct dp_work *work,
                              struct dp_lap *lap, struct dp_err *err)
{
    if (dp_op_linear_weight(l, DP_PROJ_W, DP_PROJ_B, work->d, act->att, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_weight_ns);
    if (dp_op_linear_input(l, work->b, work->d, DP_PROJ_W, err) < 0 ||
        attention_back(l, act, work->h, work->b, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_input_ns);
    if (dp_op_norm(l, work->a, act->mean1, act->rstd1, act->x, DP_LN1_W, err) < 0 ||
        dp_op_linear_weight(l, DP_QKV_W, DP_QKV_B, work->h, work->a, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_weight_ns);
    if (dp_op_linear_input(l, work->b, work->h, DP_QKV_W, err) < 0 ||
        dp_op_norm_back(l, work->d, work->b, act->x, act->mean1, act->rstd1, DP_LN1_W, true, err) < 0)
        return -1;
    dp_lap_add(lap, &l->bwd_input_ns);
    return 0;
}

int dp_block_backward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, struct dp_err *err)
{
    struct dp_lap lap = dp_lap_start(l->be);

    if (mlp_backward(l, act, work, &lap, err) < 0 || attention_backward(l, act, work, &lap, err) < 0)
        return dp_err_prefix(err, "layer %u, backward", l->index);
    l->timed_microbatches++;
    return 0;
}
