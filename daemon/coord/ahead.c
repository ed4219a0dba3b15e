/* SPDX-License-Identifier: BSD-3-Clause */
/* What is to come of a run that is pruned on, in the child of plan.c: the loads at some steps up to the end of
 * pruning, and what the reference `fixed` allows then. A slot that was given back does not come again, so what is kept
 * must do for all of them; the other references promise a speed of now. And how long the steps that are left take
 * beside one of now.
 */
#include "daemon/coord/internal.h"

#include <string.h>

#define SAMPLES 64      /* of the steps that are left */
#define MANY_WORKERS 32 /* a prediction for more takes long: those look at the end alone */

uint64_t coord_fixed_ns(const struct dp_coord *c, const struct dp_policy_in *in)
{
    uint64_t ns;

    return dp_predict_layout(in, &c->start_layout, NULL, &ns, NULL) < 0 ? 0 : ns;
}

void coord_look_ahead(const struct dp_coord *c, const struct coord_snapshot *now, const struct dp_policy_in *in,
                      double slope, struct coord_ahead *out)
{
    uint32_t n = c->train.n_workers > MANY_WORKERS ? 1 : COORD_LOOKS;
    double sparsity = dp_prune_sparsity(now->layer, c->train.n_layers);

    out->n = 0;
    if (c->limits.pack.reference != DP_REF_FIXED || c->train.step >= c->train.prune_end || !(c->train.final_sparsity > 0.0))
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t step = c->train.step + ((c->train.prune_end - c->train.step) * (i + 1) + n - 1) / n;
        struct dp_policy_in then = *in;
        uint64_t fixed_ns;

        dp_loads_at_sparsity(now->layer, now->opt, slope, c->train.n_layers,
                             dp_prune_sparsity_at(step, c->train.step, c->train.prune_begin, c->train.prune_end, sparsity,
                                                  c->train.final_sparsity),
                             out->layer[i], out->opt[i]);
        then.layer = out->layer[i];
        then.layer_opt_ns = out->opt[i];
        fixed_ns = coord_fixed_ns(c, &then);
        if (fixed_ns)
            out->later[out->n++] = (struct dp_pack_later){out->layer[i], out->opt[i],
                                                          dp_pack_limit_ns(&c->limits.pack, fixed_ns)};
    }
}

static bool is_pruned_on(const struct dp_coord *c)
{
    return c->train.step < c->train.prune_end && c->train.final_sparsity > 0.0 && c->train.steps_total > c->train.step;
}

/* A step is shorter by its nonzeros, so what is between the iterations of now and of the end follows the sparsity. */
double coord_steps_left_mean(const struct dp_coord *c, const struct coord_snapshot *now, double slope,
                             struct dp_layer_load *layer, uint64_t *opt)
{
    double sparsity = dp_prune_sparsity(now->layer, c->train.n_layers), way = 0.0;
    double left = (double)(c->train.steps_total > c->train.step ? c->train.steps_total - c->train.step : 0);
    struct dp_policy_in then = now->in;
    uint64_t now_ns, end_ns;

    if (!is_pruned_on(c) || !(c->train.final_sparsity > sparsity))
        return 1.0;
    dp_loads_at_sparsity(now->layer, now->opt, slope, c->train.n_layers, c->train.final_sparsity, layer, opt);
    then.layer = layer;
    then.layer_opt_ns = opt;
    now_ns = coord_fixed_ns(c, &now->in);
    end_ns = coord_fixed_ns(c, &then);
    if (!now_ns || !end_ns)
        return 1.0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t step = c->train.step + (uint64_t)(left * (i + 0.5) / SAMPLES);
        double s = dp_prune_sparsity_at(step < c->train.prune_end ? step : c->train.prune_end, c->train.step, c->train.prune_begin,
                                        c->train.prune_end, sparsity, c->train.final_sparsity);

        way += (s - sparsity) / (c->train.final_sparsity - sparsity) / SAMPLES;
    }
    return 1.0 + ((double)end_ns / (double)now_ns - 1.0) * way;
}
