/* SPDX-License-Identifier: BSD-3-Clause */
/* See scheme.h. */
#include "worker/scheme/scheme.h"

#define DP_SCHEME_AT(ID, id) &dp_scheme_##id,
static const struct dp_scheme *const schemes[DP_N_SCHEMES] = {DP_SCHEMES(DP_SCHEME_AT)};

const struct dp_scheme *dp_scheme_at(enum dp_scheme_id id)
{
    return schemes[id];
}

int dp_schemes_check(const struct dp_train_config *c, struct dp_err *err)
{
    for (int i = 0; i < DP_N_SCHEMES; i++)
        if (schemes[i]->check && schemes[i]->check(c, err) < 0)
            return -1;
    return 0;
}

static bool plans(const struct dp_scheme *s, const struct dp_train_config *c)
{
    return s->plan && s->is_on(c);
}

/* Behind those that are there: changes of the same step stay in the order of schemes. */
static void insert(struct dp_change *all, uint32_t n, const struct dp_change *one)
{
    for (; n > 0 && all[n - 1].step > one->step; n--)
        all[n] = all[n - 1];
    all[n] = *one;
}

uint32_t dp_schemes_plan(const struct dp_train_config *c, struct dp_change out[DP_CHANGES_MAX])
{
    uint32_t n_plans = 0, n = 0;

    for (int i = 0; i < DP_N_SCHEMES; i++)
        n_plans += plans(schemes[i], c);
    for (int i = 0; i < DP_N_SCHEMES; i++) {
        struct dp_change its[DP_CHANGES_MAX];
        uint32_t k = plans(schemes[i], c) ? schemes[i]->plan(c, DP_CHANGES_MAX / n_plans, its) : 0;

        for (uint32_t j = 0; j < k; j++)
            insert(out, n++, &its[j]);
    }
    return n;
}

int dp_schemes_begin(const struct dp_scheme_site *site, uint64_t step, struct dp_err *err)
{
    for (int i = 0; i < DP_N_SCHEMES; i++)
        if (schemes[i]->is_on(site->config) && schemes[i]->begin && schemes[i]->begin(site, step, err) < 0)
            return -1;
    return 0;
}

static bool measures(const struct dp_scheme *s, const struct dp_train_config *c, uint64_t step)
{
    return s->measures && s->is_on(c) && s->measures(c, step);
}

uint32_t dp_schemes_measured(const struct dp_train_config *c, uint64_t step)
{
    uint32_t n = 0;

    for (int i = 0; i < DP_N_SCHEMES; i++)
        n += measures(schemes[i], c, step);
    return n;
}

int dp_schemes_measure(struct dp_stage *stage, const struct dp_train_config *c, uint64_t step, const double *squares, double *out,
                       struct dp_err *err)
{
    for (int i = 0; i < DP_N_SCHEMES; i++) {
        if (!measures(schemes[i], c, step))
            continue;
        if (schemes[i]->measure(stage, c, step, squares, out, err) < 0)
            return -1;
        out += dp_stage_n_layers(stage);
    }
    return 0;
}

bool dp_schemes_decide(const struct dp_train_config *c, const struct dp_scheme_in *in, const double *measured,
                       struct dp_scheme_order out[DP_N_SCHEMES])
{
    bool is_due = false;

    for (int i = 0; i < DP_N_SCHEMES; i++) {
        struct dp_scheme_in its = *in;

        out[i] = (struct dp_scheme_order){0};
        its.measured = NULL;
        if (measures(schemes[i], c, in->step)) {
            its.measured = measured;
            measured += in->n_layers;
        }
        if (schemes[i]->decide && schemes[i]->is_on(c))
            schemes[i]->decide(c, &its, &out[i]);
        is_due |= out[i].is_due;
    }
    return is_due;
}

void dp_schemes_observe_layer(struct dp_layer *layer, const struct dp_train_config *c, uint64_t step, double squares, double grad_scale)
{
    for (int i = 0; i < DP_N_SCHEMES; i++)
        if (schemes[i]->observe && schemes[i]->is_on(c))
            schemes[i]->observe(layer, c, step, squares, grad_scale);
}

void dp_schemes_observe(struct dp_stage *stage, const struct dp_train_config *c, uint64_t step, const double *squares,
                        double grad_scale)
{
    for (uint32_t k = 0; k < dp_stage_n_layers(stage); k++)
        dp_schemes_observe_layer(dp_stage_layer(stage, k), c, step, squares[k], grad_scale);
}

dp_layer_runs_fn *dp_schemes_runs(const struct dp_train_config *c)
{
    for (int i = 0; i < DP_N_SCHEMES; i++)
        if (schemes[i]->runs && schemes[i]->is_on(c))
            return schemes[i]->runs(c);
    return NULL;
}
