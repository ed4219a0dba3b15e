/* SPDX-License-Identifier: BSD-3-Clause */
/* See foresee.h. */
#include "policies/decide/foresee.h"

#include "policies/decide/pruning.h"

#define STATE_PARTS 4 /* weight, gradient and two moments: fp32 each */

uint32_t dp_frozen_prefix(const struct dp_layer_load *layer, uint32_t n_layers)
{
    uint32_t n = 0;

    while (n < n_layers && dp_load_is_frozen(&layer[n]))
        n++;
    return n;
}

void dp_load_freeze(struct dp_layer_load *layer, uint64_t *opt)
{
    if (opt)
        *opt = 0;
    if (dp_load_is_frozen(layer))
        return;
    layer->bwd_input_ns = layer->bwd_weight_ns = layer->act_bytes = 0;
    layer->state_bytes /= STATE_PARTS;
}

/* --- one for each kind --- */

static void foresee_pruning(const struct dp_foresight *f, double sparsity, const struct dp_layer_load *now, const uint64_t *opt,
                            uint32_t n_layers, struct dp_layer_load *out, uint64_t *opt_out)
{
    dp_loads_at_sparsity(now, opt, f->prune_slope, n_layers, sparsity, out, opt_out);
}

static void foresee_freezing(double frozen, uint32_t n_layers, struct dp_layer_load *layer, uint64_t *opt)
{
    for (uint32_t l = 0; l < n_layers && l < frozen; l++)
        dp_load_freeze(&layer[l], opt ? &opt[l] : NULL);
}

/* Of now: what the load that is said replaces. */
static void foresee_load(const struct dp_layer_load *said, double speed, const struct dp_layer_load *now, const uint64_t *opt,
                         struct dp_layer_load *out, uint64_t *opt_out)
{
    *out = *said;
    out->fwd_ns = (uint64_t)((double)said->fwd_ns * speed);
    out->bwd_input_ns = (uint64_t)((double)said->bwd_input_ns * speed);
    out->bwd_weight_ns = (uint64_t)((double)said->bwd_weight_ns * speed);
    if (opt && dp_load_is_frozen(said))
        *opt_out = 0;
    else if (opt)
        *opt_out = now->nnz ? (uint64_t)((double)*opt * ((double)said->nnz / (double)now->nnz)) : *opt;
}

static void foresee_expected(const struct dp_foresight *f, uint64_t step, const struct dp_layer_load *now, const uint64_t *opt,
                             uint32_t n_layers, struct dp_layer_load *out, uint64_t *opt_out)
{
    for (uint32_t i = 0; i < f->n_expected && f->expected[i].step <= step; i++)
        for (uint32_t l = 0; l < n_layers; l++)
            if (f->expected[i].is_said[l])
                foresee_load(&f->expected[i].load[l], f->speed ? f->speed[l] : 1.0, &now[l], opt ? &opt[l] : NULL, &out[l],
                             opt ? &opt_out[l] : NULL);
}

void dp_foresee(const struct dp_foresight *f, uint64_t step, const struct dp_layer_load *now, const uint64_t *opt, uint32_t n_layers,
                struct dp_layer_load *out, uint64_t *opt_out)
{
    foresee_pruning(f, dp_changes_value(f->change, f->n_changes, DP_CHANGE_PRUNE, step), now, opt, n_layers, out, opt_out);
    foresee_freezing(dp_changes_value(f->change, f->n_changes, DP_CHANGE_FREEZE, step), n_layers, out, opt ? opt_out : NULL);
    foresee_expected(f, step, now, opt, n_layers, out, opt_out);
}

/* --- when to look --- */

/* Steps at which something changes, after `now` and before `end`; several at a step are one. returns: how many. */
static uint32_t steps_of_changes(const struct dp_foresight *f, uint64_t now, uint64_t end, uint64_t at[DP_CHANGES_MAX + DP_EXPECTED_MAX])
{
    uint32_t i = 0, e = 0, n = 0;

    while (i < f->n_changes || e < f->n_expected) {
        bool is_change = e == f->n_expected || (i < f->n_changes && f->change[i].step <= f->expected[e].step);
        uint64_t step = is_change ? f->change[i++].step : f->expected[e++].step;

        if (step > now && step < end && (!n || at[n - 1] != step))
            at[n++] = step;
    }
    return n;
}

uint32_t dp_foresee_looks(const struct dp_foresight *f, uint64_t now, uint64_t end, uint32_t most, struct dp_look *out)
{
    uint64_t at[DP_CHANGES_MAX + DP_EXPECTED_MAX];
    uint32_t n = steps_of_changes(f, now, end, at), n_looks = n < most ? n : most, last = 0;

    for (uint32_t k = 0; k < n_looks; k++) {
        uint32_t i = (k + 1) * n / n_looks; /* so many changes are in force then */

        out[k] = (struct dp_look){at[i - 1], i == last + 1};
        last = i;
    }
    return n_looks;
}

double dp_foresee_mean(uint64_t now, uint64_t end, double first, const struct dp_look *look, const double *value, uint32_t n)
{
    double sum = 0.0, before = first;
    uint64_t from = now;

    for (uint32_t i = 0; i < n; i++) {
        double mean = look[i].is_next ? before : (before + value[i]) / 2.0;

        sum += mean * (double)(look[i].step - from);
        before = value[i];
        from = look[i].step;
    }
    return (sum + before * (double)(end - from)) / (double)(end - now);
}
