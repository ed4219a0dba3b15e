/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer freezing: the first blocks, and what is before them, go forward only.
 *
 *   geometric  PipeTransformer (He et al. 2021, arXiv:2102.03161, equation 1): after e of E phases L (1 - (1 - a)^e) of L
 *              blocks are frozen; a = 1/3 is its conservative one, 2/5 and 1/2 cost accuracy there
 *   linear     Composer's LayerFreezing: from `begin` of the run on linearly, `most` of the blocks at `end`
 *   prefix     fine-tuning of the last blocks: `most` of them from the first iteration on
 *
 * A frozen layer costs its forward pass alone: about a third. Of 16 bytes a weight (weight, gradient, two moments) 4 are left.
 * The first block that learns needs no gradient of its input: of the products for gradients of inputs in a transformer
 * block, 12 c^2 a token without attention, that is the one of the query, key and value projection, 3 c^2 (`input`).
 */
#include "policies/sim/scheme/scheme.h"

#include <math.h>

enum { SCHEDULE, MOST, BEGIN, END, A, PHASES, INPUT };
enum { LINEAR, GEOMETRIC, PREFIX };

static const struct dp_sim_scheme_key keys[] = {
    [SCHEDULE] = {"schedule", "when blocks freeze", .choices = "linear geometric prefix"},
    [MOST] = {"most", "share of the blocks that is frozen at the end, or in a prefix", 0, 1, .fallback = 0.75},
    [BEGIN] = {"begin", "linear: share of the run after which it begins", 0, 1, .fallback = 0.5},
    [END] = {"end", "linear: share of the run after which `most` is frozen", 0, 1, .fallback = 1},
    [A] = {"a", "geometric: share of the blocks that learn which each phase freezes", 0, 1, .fallback = 1.0 / 3},
    [PHASES] = {"phases", "geometric: equal parts of the run", 1, DP_SIM_SCHEME_CHANGES, 5, .is_whole = true},
    [INPUT] = {"input", "share of the first learning block's input gradients that only its own input needs", 0, 1, .fallback = 0.25},
    {0},
};

static uint32_t blocks(const struct dp_sim_scheme_in *in)
{
    return in->end - in->first;
}

/* How many blocks are frozen at the most: one layer learns. */
static uint32_t most(const struct dp_sim_scheme_in *in)
{
    uint32_t n = (uint32_t)floor(in->value[MOST] * blocks(in) + 1e-9);

    return in->first + n < in->n_layers ? n : in->n_layers - 1 - in->first;
}

/* Steps of a linear schedule: a block each, or several. */
static uint32_t steps(const struct dp_sim_scheme_in *in)
{
    return most(in) < DP_SIM_SCHEME_CHANGES ? most(in) : DP_SIM_SCHEME_CHANGES;
}

/* Share of the run after which step k, from 1, is done. */
static double when(const struct dp_sim_scheme_in *in, uint32_t k)
{
    if (in->value[SCHEDULE] == GEOMETRIC)
        return k / in->value[PHASES];
    return in->value[BEGIN] + (in->value[END] - in->value[BEGIN]) * k / steps(in);
}

static uint32_t frozen_after(const struct dp_sim_scheme_in *in, uint32_t k)
{
    double share;

    if (in->value[SCHEDULE] != GEOMETRIC)
        return (uint32_t)((uint64_t)most(in) * k / (steps(in) ? steps(in) : 1));
    share = 1.0 - pow(1.0 - in->value[A], k);
    return (uint32_t)fmin(floor(share * blocks(in) + 1e-9), most(in));
}

static uint32_t n_steps(const struct dp_sim_scheme_in *in)
{
    return in->value[SCHEDULE] == PREFIX ? 0 : in->value[SCHEDULE] == LINEAR ? steps(in) : (uint32_t)in->value[PHASES] - 1;
}

static uint32_t frozen_at(const struct dp_sim_scheme_in *in, uint64_t iteration)
{
    uint32_t n = 0;

    if (in->value[SCHEDULE] == PREFIX)
        return most(in);
    for (uint32_t k = 1; k <= n_steps(in); k++) {
        uint64_t at = dp_sim_scheme_iteration(in, when(in, k));

        if (at && at <= iteration)
            n = frozen_after(in, k);
    }
    return n;
}

static int check(const struct dp_sim_scheme_in *in, struct dp_err *err)
{
    if (in->n_layers < 2)
        return dp_err_set(err, DP_EINVAL, "a model of one layer has none to freeze");
    if (in->value[SCHEDULE] == LINEAR && in->value[BEGIN] >= in->value[END])
        return dp_err_set(err, DP_EINVAL, "begin=%g is not before end=%g", in->value[BEGIN], in->value[END]);
    if (in->value[SCHEDULE] != PREFIX && in->iterations < 2)
        return dp_err_set(err, DP_EINVAL, "a run of one iteration has no time to freeze in; give it more (--iterations)");
    return 0;
}

static uint32_t changes(const struct dp_sim_scheme_in *in, uint64_t *at)
{
    uint32_t n = 0;

    for (uint32_t k = 1; k <= n_steps(in); k++) {
        uint64_t iteration = dp_sim_scheme_iteration(in, when(in, k));

        if (iteration && (!n || iteration > at[n - 1]))
            at[n++] = iteration;
    }
    return n;
}

static void apply(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer)
{
    uint32_t n = frozen_at(in, iteration), live = n ? in->first + n : 0;

    for (uint32_t i = 0; i < live; i++) {
        struct dp_sim_layer *l = &layer[i];

        l->bwd_input_ns = l->bwd_weight_ns = l->opt_ns = 0;
        l->act_bytes = l->wgrad_bytes = l->grad_bytes = 0;
        l->state_bytes /= 4;
    }
    if (n && live < in->end)
        layer[live].bwd_input_ns = dp_sim_scheme_scale(layer[live].bwd_input_ns, 1.0 - in->value[INPUT]);
}

const struct dp_sim_scheme_rule dp_sim_scheme_freeze = {
    .source = "He et al. 2021 (PipeTransformer), Composer's LayerFreezing; a frozen layer's costs are arithmetic",
    .key = keys,
    .check = check,
    .changes = changes,
    .apply = apply,
};
