/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse attention: each token attends to a part of the others. Attention's share of a block follows from its products: 2 T c of
 * them a token beside 24 c^2 of the linear layers, forward and causal, which is T / (12 c) of these: 8 % at T = c, half at T = 12 c.
 * Published: 2.0 and 3.3 times as fast at 8192 and 16384 tokens (Pagliardini et al. 2023, dynamic sparse flash attention,
 * arXiv:2306.01160), for narrow models; fixed budgets (NSA, MoBA) are the same from the first iteration on.
 *
 * `kept` is the part that is computed in the first block, `last` in the last one, linear between: what depends on the data
 * differs by depth. Both are assumed.
 */
#include "policies/sim/scheme/scheme.h"

enum { TOKENS, CHANNELS, KEPT, LAST };

static const struct dp_sim_scheme_key keys[] = {
    [TOKENS] = {"tokens", "of a sequence", 1, 1e9, 8192, .is_whole = true},
    [CHANNELS] = {"channels", "of the model", 1, 1e6, 1024, .is_whole = true},
    [KEPT] = {"kept", "share of attention's products that the first block computes (assumed)", 0, 1, .fallback = 0.25},
    [LAST] = {"last", "likewise the last block (assumed)", 0, 1, .fallback = 0.25},
    {0},
};

static void apply(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer)
{
    double ratio = in->value[TOKENS] / (12.0 * in->value[CHANNELS]), attention = ratio / (1.0 + ratio);
    uint32_t n = in->end - in->first;

    (void)iteration;
    for (uint32_t i = in->first; i < in->end; i++) {
        double depth = n > 1 ? (double)(i - in->first) / (n - 1) : 0.0;
        double kept = in->value[KEPT] + (in->value[LAST] - in->value[KEPT]) * depth;

        dp_sim_scheme_scale_times(&layer[i], 1.0 - attention + attention * kept);
    }
}

const struct dp_sim_scheme_rule dp_sim_scheme_sparse_attention = {
    .source = "attention's share by its products, T / 12 c of the linear ones; what is kept is assumed",
    .key = keys,
    .apply = apply,
};
