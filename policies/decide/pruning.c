/* SPDX-License-Identifier: BSD-3-Clause */
/* See pruning.h. Blocks have the same shapes, so one slope serves all of them, however unevenly they
 * are pruned; sums over all blocks hide the noise of each. */
#include "policies/decide/pruning.h"

#include <math.h>
#include <string.h>

#define SAME_DENSITY 0.97 /* so close, two densities are one level */
#define SETTLED 3         /* measurements after which a level's time counts: loads are medians of three */
#define CHORD 1.2         /* least ratio of the nonzeros at the ends of a chord: shorter ones are noise */
#define HAS_FALLEN 0.9    /* of the dense time: below it the sparse kernels are at work */
#define LEAST_TIME 0.1    /* no prediction below this part of the time now */

uint64_t dp_most_common_params(const struct dp_layer_load *l, uint32_t n)
{
    uint64_t best = 0;
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t same = 0;

        for (uint32_t k = 0; k < n; k++)
            same += l[k].params == l[i].params;
        if (same > most || (same == most && l[i].params > best)) {
            most = same;
            best = l[i].params;
        }
    }
    return best;
}

static bool is_prunable(const struct dp_layer_load *l, uint64_t block)
{
    return l->nnz > 0 && (l->nnz < l->params || l->params == block);
}

static double layer_ns(const struct dp_layer_load *l)
{
    return (double)l->fwd_ns + (double)l->bwd_input_ns + (double)l->bwd_weight_ns;
}

static void sum(const struct dp_layer_load *layer, uint32_t n_layers, double *params, double *nnz, double *ns)
{
    uint64_t block = dp_most_common_params(layer, n_layers);

    *params = *nnz = *ns = 0.0;
    for (uint32_t i = 0; i < n_layers; i++)
        if (is_prunable(&layer[i], block)) {
            *params += (double)layer[i].params;
            *nnz += (double)layer[i].nnz;
            *ns += layer_ns(&layer[i]);
        }
}

/* When there is no room, every other level goes, and never the first, which is the dense one. */
static struct dp_prune_level *new_level(struct dp_prune_trend *t)
{
    if (t->n == DP_PRUNE_LEVELS) {
        for (uint32_t i = 0; i < DP_PRUNE_LEVELS / 2; i++)
            t->level[i] = t->level[2 * i];
        t->n = DP_PRUNE_LEVELS / 2;
    }
    memset(&t->level[t->n], 0, sizeof t->level[0]);
    return &t->level[t->n++];
}

static bool has_frozen(const struct dp_layer_load *layer, uint32_t n_layers)
{
    uint64_t block = dp_most_common_params(layer, n_layers);

    for (uint32_t i = 0; i < n_layers; i++)
        if (is_prunable(&layer[i], block) && dp_load_is_frozen(&layer[i]))
            return true;
    return false;
}

void dp_prune_learn(struct dp_prune_trend *t, const struct dp_layer_load *layer, uint32_t n_layers)
{
    struct dp_prune_level *last = t->n ? &t->level[t->n - 1] : NULL;
    double params, nnz, ns;

    sum(layer, n_layers, &params, &nnz, &ns);
    if (nnz <= 0.0 || ns <= 0.0 || has_frozen(layer, n_layers))
        return;
    if (!last || nnz < SAME_DENSITY * last->nnz) {
        last = new_level(t);
        last->nnz = nnz;
    }
    last->ns = ns; /* the newest counts: reports lag behind a pruning */
    last->n++;
}

double dp_prune_slope(const struct dp_prune_trend *t)
{
    const struct dp_prune_level *end = NULL;
    double steepest = 0.0;
    uint32_t i = t->n;

    while (i > 0 && !end)
        if (t->level[--i].n >= SETTLED)
            end = &t->level[i];
    if (!end || end->ns > HAS_FALLEN * t->level[0].ns)
        return 0.0;
    while (i-- > 0) {
        const struct dp_prune_level *k = &t->level[i];

        if (k->n >= SETTLED && k->nnz >= CHORD * end->nnz)
            steepest = fmax(steepest, (k->ns - end->ns) / (k->nnz - end->nnz));
    }
    return steepest;
}

/* Time with nnz nonzeros over time now. */
static double time_factor(const struct dp_layer_load *now, double slope, double nnz)
{
    double t = layer_ns(now), factor;

    if (t <= 0.0)
        return 1.0;
    factor = slope > 0.0 && !dp_load_is_frozen(now) ? 1.0 - slope * ((double)now->nnz - nnz) / t
                         : 1.0 - DP_PRUNABLE_TIME * (1.0 - nnz / (double)now->nnz);
    return fmin(1.0, fmax(LEAST_TIME, factor));
}

static uint64_t scaled(uint64_t v, double factor)
{
    return (uint64_t)((double)v * factor + 0.5);
}

void dp_loads_at_sparsity(const struct dp_layer_load *now, const uint64_t *opt, double slope, uint32_t n_layers,
                          double sparsity, struct dp_layer_load *out, uint64_t *opt_out)
{
    uint64_t block = dp_most_common_params(now, n_layers);
    double params, nnz, ns, density;

    sum(now, n_layers, &params, &nnz, &ns);
    density = nnz > 0.0 ? (1.0 - sparsity) * params / nnz : 1.0; /* of what is left now */
    for (uint32_t i = 0; i < n_layers; i++) {
        bool shrinks = density < 1.0 && is_prunable(&now[i], block);
        double f = shrinks ? time_factor(&now[i], slope, (double)now[i].nnz * density) : 1.0;

        out[i] = now[i];
        if (opt)
            opt_out[i] = shrinks ? scaled(opt[i], density) : opt[i];
        if (!shrinks)
            continue;
        out[i].nnz = scaled(now[i].nnz, density);
        out[i].state_bytes = scaled(now[i].state_bytes, density);
        out[i].fwd_ns = scaled(now[i].fwd_ns, f);
        out[i].bwd_input_ns = scaled(now[i].bwd_input_ns, f);
        out[i].bwd_weight_ns = scaled(now[i].bwd_weight_ns, f);
    }
}
