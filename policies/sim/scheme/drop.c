/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer dropout by depth: block i of L, from 1, is left out of a microbatch with probability p i / L, where p is `most`. Then
 * neither its forward nor its backward is computed, and activation and gradient pass it by. Huang et al. 2016 (stochastic
 * depth, arXiv:1603.09382) has the linear rule.
 *
 * In time p is the same, or it rises from 0 (progressive layer dropping, Zhang and He 2020, arXiv:2010.13369: 24 % faster for
 * BERT), or it falls to 0 ("Don't Drop Dropout", ICML 2026, abstract: lower loss with 20 % fewer FLOPs): then blocks get dearer
 * again, and no device comes back.
 *
 * Memory is that of a microbatch that leaves nothing out; messages are as long as ever.
 */
#include "policies/sim/scheme/scheme.h"

enum { SCHEDULE, MOST, PARTS };
enum { SAME, RISING, FALLING };

static const struct dp_sim_scheme_key keys[] = {
    [SCHEDULE] = {"schedule", "of the probability over the run", .choices = "same rising falling"},
    [MOST] = {"most", "probability of the last block, where it is highest", 0, 1, .fallback = 0.5},
    [PARTS] = {"parts", "rising and falling: equal parts of the run, each with its own", 2, DP_SIM_SCHEME_CHANGES, 8, .is_whole = true},
    {0},
};

static int check(const struct dp_sim_scheme_in *in, struct dp_err *err)
{
    if (in->value[SCHEDULE] != SAME && in->iterations < in->value[PARTS])
        return dp_err_set(err, DP_EINVAL, "a run of %llu iterations in %g parts; give it more (--iterations)",
                          (unsigned long long)in->iterations, in->value[PARTS]);
    return 0;
}

static uint32_t changes(const struct dp_sim_scheme_in *in, uint64_t *at)
{
    uint32_t n = 0, parts = in->value[SCHEDULE] == SAME ? 1 : (uint32_t)in->value[PARTS];

    for (uint32_t k = 1; k < parts; k++)
        at[n++] = dp_sim_scheme_iteration(in, (double)k / parts);
    return n;
}

/* Of `most`, in the middle of the part that an iteration is in. */
static double level(const struct dp_sim_scheme_in *in, uint64_t iteration)
{
    uint32_t parts = (uint32_t)in->value[PARTS], part = 0;
    double over;

    if (in->value[SCHEDULE] == SAME)
        return 1.0;
    while (part + 1 < parts && iteration >= dp_sim_scheme_iteration(in, (part + 1.0) / parts))
        part++;
    over = (part + 0.5) / parts;
    return in->value[SCHEDULE] == RISING ? over : 1.0 - over;
}

static void apply(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer)
{
    double most = in->value[MOST] * level(in, iteration);

    for (uint32_t i = in->first; i < in->end; i++)
        dp_sim_scheme_scale_times(&layer[i], 1.0 - most * (i - in->first + 1.0) / (in->end - in->first));
}

const struct dp_sim_scheme_rule dp_sim_scheme_drop = {
    .source = "Huang et al. 2016 (stochastic depth), Zhang and He 2020 (progressive layer dropping); mean over microbatches",
    .key = keys,
    .check = check,
    .changes = changes,
    .apply = apply,
};
