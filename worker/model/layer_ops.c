/* SPDX-License-Identifier: BSD-3-Clause */
/* See layer_ops.h. n is batch * context of one microbatch everywhere. */
#include "worker/model/layer_ops.h"

static int64_t tokens_of(const struct dp_layer *l)
{
    return l->config->train.batch * l->config->model.context;
}

int dp_layer_formatted(struct dp_layer *l, int w, struct dp_view *out, void *room, void *x, int64_t c, struct dp_err *err)
{
    const struct dp_reorder a = {.n = tokens_of(l), .c = c, .y = room, .y_format = dp_layer_format(l, w), .x = x};

    *out = dp_rows(x);
    if (a.y_format == DP_ROWS)
        return 0;
    *out = (struct dp_view){.p = room, .format = a.y_format};
    return l->be->ops->reorder(l->be, &a, err);
}

int dp_layer_linear(struct dp_layer *l, struct dp_linear_out out, struct dp_view x, int w, int bias, struct dp_err *err)
{
    const struct dp_param *p = &l->param[w];
    const struct dp_linear a = {.n = tokens_of(l), .c_in = p->cols, .c_out = p->rows, .y = out.y,
                                .gelu = out.gelu, .x = x.p, .w = p->w,
                                .bias = bias == DP_NO_BIAS ? NULL : l->param[bias].w, .residual = out.residual,
                                .sparse = p->sparse, .x_format = x.format, .y_format = out.format};

    return l->be->ops->linear(l->be, &a, err);
}

int dp_layer_linear_input(struct dp_layer *l, struct dp_view dx, struct dp_view dy, int w, struct dp_err *err)
{
    return dp_layer_linear_gelu_input(l, dx, NULL, dy, NULL, w, err);
}

int dp_layer_linear_gelu_input(struct dp_layer *l, struct dp_view dx, void *gelu, struct dp_view dy, const void *x,
                               int w, struct dp_err *err)
{
    const struct dp_param *p = &l->param[w];
    const struct dp_linear_bwd_input a = {.n = tokens_of(l), .c_in = p->cols, .c_out = p->rows, .dx = dx.p,
                                          .gelu = gelu, .dy = dy.p, .w = p->w, .gelu_x = x, .sparse = p->sparse,
                                          .dy_format = dy.format, .dx_format = dx.format};

    return l->be->ops->linear_bwd_input(l->be, &a, err);
}

int dp_layer_linear_weight(struct dp_layer *l, int w, int bias, struct dp_view dy, struct dp_view x, struct dp_err *err)
{
    struct dp_param *p = &l->param[w];
    const struct dp_linear_bwd_weight a = {.n = tokens_of(l), .c_in = p->cols, .c_out = p->rows, .dw = p->g,
                                           .overwrite = p->g_is_void,
                                           .dbias = bias == DP_NO_BIAS ? NULL : l->param[bias].g, .dy = dy.p,
                                           .x = x.p, .sparse = p->sparse, .dy_format = dy.format,
                                           .x_format = x.format};

    p->g_is_void = false;
    return l->be->ops->linear_bwd_weight(l->be, &a, err);
}

int dp_layer_norm(struct dp_layer *l, struct dp_view y, float *mean, float *rstd, const void *x, int w,
                  struct dp_err *err)
{
    const struct dp_layernorm a = {.n = tokens_of(l), .c = l->config->model.channels, .y = y.p, .mean = mean,
                                   .rstd = rstd, .x = x, .gamma = l->param[w].w, .beta = l->param[w + 1].w,
                                   .y_format = y.format};

    return l->be->ops->layernorm(l->be, &a, err);
}

int dp_layer_norm_back(struct dp_layer *l, void *dx, const void *dy, const void *x, const float *mean,
                       const float *rstd, int w, bool add, struct dp_err *err)
{
    const struct dp_layernorm_bwd a = {.n = tokens_of(l), .c = l->config->model.channels, .dx = dx,
                                       .dgamma = l->param[w].g, .dbeta = l->param[w + 1].g, .dy = dy, .x = x,
                                       .gamma = l->param[w].w, .mean = mean, .rstd = rstd, .add_to_dx = add};

    return l->be->ops->layernorm_bwd(l->be, &a, err);
}

int dp_layer_lap(struct dp_layer *l, uint64_t *sum_ns, struct dp_err *err)
{
    return l->be->ops->lap(l->be, sum_ns, err);
}
