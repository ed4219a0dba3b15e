/* SPDX-License-Identifier: BSD-3-Clause */
/* See initial_layout.h. Bisection over the bound: a greedy run from the left, which leaves one layer for each
 * worker still to come, needs the fewest workers for a bound, so the smallest bound that fits is exact. */
#include "worker/train/start/initial_layout.h"

#include <string.h>

#include "worker/model/model.h"

/* Cut so that no worker but maybe the last passes `bound`. returns: the largest share. */
static uint64_t cut_greedily(const uint64_t *weight, uint32_t n_layers, uint32_t n_workers, uint64_t bound,
                             uint32_t *cut)
{
    uint64_t largest = 0;
    uint32_t layer = 0;

    for (uint32_t s = 0; s < n_workers; s++) {
        uint32_t last = n_layers - (n_workers - s - 1); /* the others need one each */
        uint64_t sum = weight[layer];

        cut[s] = layer++;
        while (layer < last && (s + 1 == n_workers || sum + weight[layer] <= bound))
            sum += weight[layer++];
        if (sum > largest)
            largest = sum;
    }
    cut[n_workers] = n_layers;
    return largest;
}

int dp_layout_min_max(const uint64_t *weight, uint32_t n_layers, uint32_t n_workers, struct dp_layout *out,
                      struct dp_err *err)
{
    uint64_t low = 0, high = 0;

    if (n_workers < 1 || n_workers > DP_MAX_WORKERS || n_layers > DP_MAX_LAYERS || n_workers > n_layers)
        return dp_err_set(err, DP_EINVAL,
                          "%u workers for %u layers: a worker needs at least one layer; start at most %u workers",
                          n_workers, n_layers, n_layers);
    memset(out, 0, sizeof *out);
    out->n_workers = n_workers;
    out->n_layers = n_layers;
    for (uint32_t i = 0; i < n_layers; i++)
        high += weight[i];
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (cut_greedily(weight, n_layers, n_workers, middle, out->cut) <= middle)
            high = middle;
        else
            low = middle + 1;
    }
    cut_greedily(weight, n_layers, n_workers, high, out->cut);
    return dp_layout_check(out, err);
}

/* *layout: any layout of the same workers and layers. */
static int as_configured(const struct dp_train_config *config, struct dp_layout *layout, struct dp_err *err)
{
    struct dp_layout any = *layout;

    if (dp_layout_parse(config->pipeline.layout, &any, layout, err) < 0)
        return dp_err_prefix(err, "pipeline.layout");
    return 0;
}

int dp_layout_initial(const struct dp_train_config *config, uint32_t n_workers, struct dp_layout *out,
                      struct dp_err *err)
{
    uint64_t weight[DP_MAX_LAYERS] = {0};
    uint32_t n_layers = dp_model_layers(config);

    for (uint32_t i = 0; i < n_layers && i < DP_MAX_LAYERS; i++) {
        struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
        uint32_t n = dp_model_specs(config, i, spec);

        for (uint32_t k = 0; k < n; k++)
            weight[i] += (uint64_t)(spec[k].rows * spec[k].cols);
    }
    if (dp_layout_min_max(weight, n_layers, n_workers, out, err) < 0)
        return -1;
    return config->pipeline.layout[0] ? as_configured(config, out, err) : 0;
}
