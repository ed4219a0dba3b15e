/* The calls that layers make most, with their shapes taken from the parameter. A matrix that is stored
 * sparse runs the sparse kernels: nothing above this line knows. */
#ifndef DP_WORKER_OP_H
#define DP_WORKER_OP_H

#include "worker/layer.h"

/* What a linear layer makes of its product: y = it + bias + residual, gelu = gelu(y); see struct dp_linear. */
struct dp_op_out {
    float *y;
    const float *residual; /* or NULL */
    float *gelu;           /* or NULL */
};
/* out (n, rows) from x (n, cols) w^T; bias: a parameter or DP_NO_BIAS. */
int dp_op_linear(struct dp_layer *l, struct dp_op_out out, const float *x, int w, int bias, struct dp_err *err);
/* dx (n, cols) = dy (n, rows) w */
int dp_op_linear_input(struct dp_layer *l, float *dx, const float *dy, int w, struct dp_err *err);
/* The same through the GELU in front of w: times gelu'(x); gelu (n, cols) = gelu(x). */
int dp_op_linear_gelu_input(struct dp_layer *l, float *dx, float *gelu, const float *dy, const float *x, int w,
                            struct dp_err *err);
/* dw += dy^T x; dbias += */
int dp_op_linear_weight(struct dp_layer *l, int w, int bias, const float *dy, const float *x,
                        struct dp_err *err);
/* Layer norm with the weights at w and w + 1. */
int dp_op_norm(struct dp_layer *l, float *y, float *mean, float *rstd, const float *x, int w,
               struct dp_err *err);
/* dx = or, with add, +=. */
int dp_op_norm_back(struct dp_layer *l, float *dx, const float *dy, const float *x, const float *mean,
                    const float *rstd, int w, bool add, struct dp_err *err);

#define DP_NO_BIAS (-1)

#endif
