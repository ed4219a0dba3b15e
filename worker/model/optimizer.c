/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizer step of a stage (stage.h): learning rate, gradient norm, AdamW on every parameter.
 *
 * Bias corrections and learning rate are formed in double from the step alone, so that a resumed or
 * moved layer goes on with the same bits.
 */
#include <math.h>
#include <stdlib.h>

#include "worker/model/layer_run.h"
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

/* The head's copy of wte has no moments: the embedding's wte is stepped for both. Nor has a frozen layer. */
static bool is_stepped(const struct dp_param *p)
{
    return p->m != NULL;
}

/* A layer that ran for no microbatch of the step has no gradient: what lies in g is the last one.
 * A dense matrix with a bitmap has gradients where nothing is left: they must not count, so that the
 * norm does not depend on how a matrix is stored. */
static int squares_of(struct dp_layer *l, double *sum, bool of_moments, struct dp_err *err)
{
    for (uint32_t j = 0; j < l->n_params; j++) {
        struct dp_param *p = &l->param[j];
        const struct dp_sum_squares squares = {.n = p->n, .x = of_moments ? p->m : p->g, .keep = p->keep, .sum = &sum[j]};

        if (!is_stepped(p))
            continue;
        if (!of_moments && p->g_is_void && l->be->ops->zero(l->be, p->g, (size_t)p->n * sizeof *p->g, err) < 0)
            return dp_err_prefix(err, "layer %u, %s", l->index, p->name);
        p->g_is_void = p->g_is_void && of_moments;
        if (l->be->ops->sum_squares(l->be, &squares, err) < 0)
            return dp_err_prefix(err, "layer %u, %s", l->index, p->name);
    }
    return 0;
}

static int tell_squares(struct dp_stage *stage, bool of_moments, struct dp_err *err)
{
    double *sums = dp_stage_workspace(stage)->squares;

    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++)
        if (squares_of(dp_stage_layer(stage, i), sums + i * DP_LAYER_MAX_PARAMS, of_moments, err) < 0)
            return -1;
    return 0;
}

int dp_stage_sum_squares(struct dp_stage *stage, struct dp_err *err)
{
    if (dp_stage_part_begin(stage, DP_STAGE_SQUARES, 0, err) < 0 || tell_squares(stage, false, err) < 0)
        return -1;
    return dp_stage_part_end(stage, err);
}

int dp_stage_moment_squares(struct dp_stage *stage, double *out, struct dp_err *err)
{
    return tell_squares(stage, true, err) < 0 ? -1 : dp_stage_grad_squares(stage, out, err);
}

int dp_stage_grad_squares(struct dp_stage *stage, double *out, struct dp_err *err)
{
    const uint32_t n = dp_stage_n_layers(stage);
    const size_t bytes = (size_t)n * DP_LAYER_MAX_PARAMS * sizeof(double);
    struct dp_backend *be;
    double *sums;
    int rc;

    if (n == 0)
        return 0;
    be = dp_stage_layer(stage, 0)->be;
    sums = malloc(bytes);
    if (!sums)
        return dp_err_set(err, DP_ENOMEM, "no memory for the norms of %u layers", n);
    rc = be->ops->get(be, sums, dp_stage_workspace(stage)->squares, bytes, err);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);

        out[i] = 0.0;
        for (uint32_t j = 0; j < l->n_params; j++)
            if (is_stepped(&l->param[j]))
                out[i] += sums[i * DP_LAYER_MAX_PARAMS + j];
    }
    free(sums);
    return rc;
}

/* The step of elements first to first + n - 1. */
static struct dp_adamw step_of(const struct dp_param *p, int64_t first, int64_t n, const struct dp_step_scalars *step)
{
    return (struct dp_adamw){.n = n, .w = p->w + first, .g = p->g + first, .m = p->m + first, .v = p->v + first,
                             .keep = p->keep ? p->keep + first / 64 : NULL, .step = step, .decays = p->decays};
}

static int step_param(struct dp_layer *l, struct dp_param *p, const struct dp_step_scalars *step, struct dp_err *err)
{
    struct dp_adamw a = step_of(p, 0, p->n, step);

    a.leave_g = p->is_linear || (l->touched && p == &l->param[DP_WTE]); /* tied: see dp_layer_tied_split() */
    p->g_is_void = p->is_linear;
    if (l->be->ops->adamw(l->be, &a, err) < 0)
        return -1;
    return p->sparse ? l->be->ops->sparse_refresh(l->be, p->sparse, p->w, err) : 0;
}

int dp_step_scalars_put(const struct dp_train_config *c, struct dp_backend *be, struct dp_step_scalars *out, uint64_t step,
                        double grad_scale, struct dp_err *err)
{
    const double n = (double)step + 1.0;
    const struct dp_step_scalars s = {
        .lr = (float)dp_train_lr(c, step),
        .beta1 = (float)c->train.beta1,
        .beta2 = (float)c->train.beta2,
        .eps = (float)c->train.eps,
        .decay = (float)c->train.weight_decay,
        .bias1 = (float)(1.0 - pow(c->train.beta1, n)),
        .bias2 = (float)(1.0 - pow(c->train.beta2, n)),
        .grad_scale = (float)grad_scale,
    };

    return be->ops->put(be, out, &s, sizeof s, err);
}

int dp_param_step(struct dp_layer *l, struct dp_param *p, int64_t first, int64_t n, const struct dp_step_scalars *step,
                  struct dp_err *err)
{
    const struct dp_adamw a = step_of(p, first, n, step);

    return l->be->ops->adamw(l->be, &a, err);
}

int dp_stage_step(struct dp_stage *stage, uint64_t step, double grad_scale, struct dp_err *err)
{
    struct dp_step_scalars *scalars = dp_stage_workspace(stage)->step;

    if (dp_stage_n_layers(stage)) {
        const struct dp_layer *l = dp_stage_layer(stage, 0);

        if (dp_step_scalars_put(l->config, l->be, scalars, step, grad_scale, err) < 0)
            return -1;
    }
    if (dp_stage_part_begin(stage, DP_STAGE_STEP, 0, err) < 0)
        return -1;
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);

        for (uint32_t j = 0; j < l->n_params; j++)
            if (is_stepped(&l->param[j]) && step_param(l, &l->param[j], scalars, err) < 0)
                return dp_err_prefix(err, "layer %u, %s", l->index, l->param[j].name);
    }
    return dp_stage_part_end(stage, err);
}
