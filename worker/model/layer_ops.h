/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that layers make most, with their shapes taken from the parameter. A matrix that is stored
 * sparse runs the sparse kernels: nothing above this line knows. */
#ifndef DP_WORKER_MODEL_LAYER_OPS_H
#define DP_WORKER_MODEL_LAYER_OPS_H

#include "worker/model/layer.h"

/* An activation and how it lies in memory (kernels/backend.h). */
struct dp_view {
    void *p;
    enum dp_token_format format;
};

static inline struct dp_view dp_rows(void *p)
{
    return (struct dp_view){.p = p, .format = DP_ROWS};
}

/* The format in which the matrix w likes its activations: a dense one takes rows, a sparse one what the device says. */
static inline enum dp_token_format dp_layer_format(const struct dp_layer *l, int w)
{
    return l->param[w].sparse ? l->be->info.sparse_format : DP_ROWS;
}

/* *out: x (n, c) in the format that w likes: x itself, or made from it in `room`. */
int dp_layer_formatted(struct dp_layer *l, int w, struct dp_view *out, void *room, void *x, int64_t c, struct dp_err *err);

/* What a linear layer makes of its product: y = it + bias + residual, gelu = gelu(y); see struct dp_linear. */
struct dp_linear_out {
    void *y;
    const void *residual; /* or NULL */
    void *gelu;           /* or NULL */
    enum dp_token_format format; /* of all three */
};
/* out (n, rows) from x (n, cols) w^T; bias: a parameter or DP_NO_BIAS. */
int dp_layer_linear(struct dp_layer *l, struct dp_linear_out out, struct dp_view x, int w, int bias, struct dp_err *err);
/* dx (n, cols) = dy (n, rows) w */
int dp_layer_linear_input(struct dp_layer *l, struct dp_view dx, struct dp_view dy, int w, struct dp_err *err);
/* The same through the GELU in front of w: times gelu'(x); gelu (n, cols) = gelu(x), both in dx's format. */
int dp_layer_linear_gelu_input(struct dp_layer *l, struct dp_view dx, void *gelu, struct dp_view dy, const void *x,
                               int w, struct dp_err *err);
/* dw += dy^T x; dbias += */
int dp_layer_linear_weight(struct dp_layer *l, int w, int bias, struct dp_view dy, struct dp_view x, struct dp_err *err);
/* Layer norm of rows x with the weights at w and w + 1. */
int dp_layer_norm(struct dp_layer *l, struct dp_view y, float *mean, float *rstd, const void *x, int w,
                  struct dp_err *err);
/* dx = or, with add, +=; rows. */
int dp_layer_norm_back(struct dp_layer *l, void *dx, const void *dy, const void *x, const float *mean,
                       const float *rstd, int w, bool add, struct dp_err *err);

/* What the device did since the last lap, on the computing lane, counts in *sum_ns once the step is over. */
int dp_layer_lap(struct dp_layer *l, uint64_t *sum_ns, struct dp_err *err);

#define DP_NO_BIAS (-1) /* no index of a parameter */

#endif
