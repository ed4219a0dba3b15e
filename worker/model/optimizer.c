/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizer step of a stage (stage.h): learning rate, gradient norm, AdamW on every parameter.
 *
 * Bias corrections and learning rate are formed in double from the step alone, so that a resumed or
 * moved layer goes on with the same bits.
 */
#include <math.h>

#include "worker/model/model.h"
#include "worker/model/stage.h"

double dp_train_lr(const struct dp_train_config *c, uint64_t step)
{
    double at = (double)step, warmup = (double)c->train.warmup, last = (double)c->train.steps - 1.0;
    double part;

    if (at < warmup)
        return c->train.lr * (at + 1.0) / warmup;
    part = last > warmup ? (at - warmup) / (last - warmup) : 1.0;
    if (part > 1.0)
        part = 1.0;
    return c->train.min_lr + 0.5 * (c->train.lr - c->train.min_lr) * (1.0 + cos(M_PI * part));
}

/* The head's copy of wte has no moments: the embedding's wte is stepped for both. */
static bool is_stepped(const struct dp_param *p)
{
    return p->m != NULL;
}

/* A dense matrix with a bitmap has gradients where nothing is left: they must not count, so that the
 * norm does not depend on how a matrix is stored. */
static int squares_of(struct dp_layer *l, struct dp_param *p, double *sum, struct dp_err *err)
{
    const struct dp_sum_squares squares = {.n = p->n, .x = p->g, .keep = p->keep, .sum = sum};

    return l->be->ops->sum_squares(l->be, &squares, err);
}

int dp_stage_grad_squares(struct dp_stage *stage, double *out, struct dp_err *err)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);

        out[i] = 0.0;
        for (uint32_t j = 0; j < l->n_params; j++) {
            double sum = 0.0;

            if (!is_stepped(&l->param[j]))
                continue;
            if (squares_of(l, &l->param[j], &sum, err) < 0)
                return dp_err_prefix(err, "layer %u, %s", l->index, l->param[j].name);
            out[i] += sum;
        }
    }
    return 0;
}

static int step_param(struct dp_layer *l, struct dp_param *p, const struct dp_adamw *common, struct dp_err *err)
{
    struct dp_adamw a = *common;

    a.n = p->n;
    a.w = p->w;
    a.g = p->g;
    a.m = p->m;
    a.v = p->v;
    a.keep = p->keep;
    a.leave_g = p->is_linear || (l->touched && p == &l->param[DP_WTE]); /* tied: see dp_layer_tied_split() */
    p->g_is_void = p->is_linear;
    if (!p->decays)
        a.decay = 0.0f;
    if (l->be->ops->adamw(l->be, &a, err) < 0)
        return -1;
    return p->sparse ? l->be->ops->sparse_refresh(l->be, p->sparse, p->w, err) : 0;
}

int dp_stage_step(struct dp_stage *stage, uint64_t step, double grad_scale, struct dp_err *err)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);
        const struct dp_train_config *c = l->config;
        const double n = (double)step + 1.0;
        const struct dp_adamw common = {
            .lr = (float)dp_train_lr(c, step),
            .beta1 = (float)c->train.beta1,
            .beta2 = (float)c->train.beta2,
            .eps = (float)c->train.eps,
            .decay = (float)c->train.weight_decay,
            .bias1 = (float)(1.0 - pow(c->train.beta1, n)),
            .bias2 = (float)(1.0 - pow(c->train.beta2, n)),
            .grad_scale = (float)grad_scale,
        };

        for (uint32_t j = 0; j < l->n_params; j++)
            if (is_stepped(&l->param[j]) && step_param(l, &l->param[j], &common, err) < 0)
                return dp_err_prefix(err, "layer %u, %s", l->index, l->param[j].name);
    }
    return 0;
}
