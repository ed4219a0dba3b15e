/* SPDX-License-Identifier: BSD-3-Clause */
/* Mixture of depths (Raposo et al. 2024, arXiv:2404.02258): in every second block only the tokens that a router scores highest
 * are computed, 12.5 % of them; the others pass by. Linear products shrink by that share, and attention among those tokens by
 * its square. It is the same from the first iteration on, so what it changes is the size of a request and the layout, not
 * what comes back. The router's own products, one column, are not counted.
 */
#include "policies/sim/scheme/scheme.h"

enum { CAPACITY, INTERVAL, ATTENTION };

static const struct dp_sim_scheme_key keys[] = {
    [CAPACITY] = {"capacity", "share of the tokens that such a block computes", 0, 1, .fallback = 0.125},
    [INTERVAL] = {"interval", "every so many blocks one is such a block", 1, 1024, 2, .is_whole = true},
    [ATTENTION] = {"attention", "share of a block that grows with the square of tokens (T / 12 c over 1 + that)", 0, 1, .fallback = 0.077},
    {0},
};

static void apply(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer)
{
    double share = in->value[CAPACITY], quadratic = in->value[ATTENTION];

    (void)iteration;
    for (uint32_t i = in->first; i < in->end; i++) {
        if ((i - in->first + 1) % (uint32_t)in->value[INTERVAL])
            continue;
        dp_sim_scheme_scale_times(&layer[i], (1.0 - quadratic) * share + quadratic * share * share);
        layer[i].act_bytes = dp_sim_scheme_scale(layer[i].act_bytes, share);
        layer[i].wgrad_bytes = dp_sim_scheme_scale(layer[i].wgrad_bytes, share);
    }
}

const struct dp_sim_scheme_rule dp_sim_scheme_mod = {
    .source = "Raposo et al. 2024 (Mixture-of-Depths); blocks shrink by arithmetic",
    .key = keys,
    .apply = apply,
};
