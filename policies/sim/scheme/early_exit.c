/* SPDX-License-Identifier: BSD-3-Clause */
/* Early exits: losses behind some blocks, beside the one at the end (EE-LLM, Chen et al. 2023, arXiv:2312.04916: at a quarter
 * and at half of the depth). Each is a head of its own, so the block before it takes a head's time and memory besides:
 * training gets dearer, what they gain is inference.
 *
 * `leave`: a share of the tokens that come to an exit leaves the model there while it trains. No published recipe does that
 * with quality; it is here because published speeds of training with early exit suppose it.
 */
#include "policies/sim/scheme/scheme.h"

#include <math.h>

enum { FIRST, SECOND, LEAVE };

static const struct dp_sim_scheme_key keys[] = {
    [FIRST] = {"first", "share of the blocks behind which the first exit is; 0: none", 0, 1, .fallback = 0.25},
    [SECOND] = {"second", "likewise the second", 0, 1, .fallback = 0.5},
    [LEAVE] = {"leave", "share of the tokens that leaves at each exit (no recipe has it)", 0, 1, .fallback = 0},
    {0},
};

static int check(const struct dp_sim_scheme_in *in, struct dp_err *err)
{
    if (in->end == in->n_layers)
        return dp_err_set(err, DP_EINVAL, "an exit costs what the layer behind the last block costs, the head; there is none");
    return 0;
}

/* The block behind which an exit is. returns UINT32_MAX: there is no such exit. */
static uint32_t exit_at(const struct dp_sim_scheme_in *in, int key)
{
    uint32_t n = (uint32_t)llround(in->value[key] * (in->end - in->first));

    return n ? in->first + n - 1 : UINT32_MAX;
}

static void add_head(struct dp_sim_layer *l, const struct dp_sim_layer *head)
{
    l->fwd_ns += head->fwd_ns;
    l->bwd_input_ns += head->bwd_input_ns;
    l->bwd_weight_ns += head->bwd_weight_ns;
    l->opt_ns += head->opt_ns;
    l->state_bytes += head->state_bytes;
    l->act_bytes += head->act_bytes;
    l->wgrad_bytes += head->wgrad_bytes;
    l->grad_bytes += head->grad_bytes;
    l->params += head->params;
    l->nnz += head->nnz;
}

static void apply(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer)
{
    const struct dp_sim_layer head = layer[in->n_layers - 1];
    const uint32_t exits[] = {exit_at(in, FIRST), exit_at(in, SECOND)};
    double left = 1.0; /* of the tokens */

    (void)iteration;
    for (uint32_t i = 0; i < in->n_layers; i++) {
        struct dp_sim_layer *l = &layer[i];

        for (int e = 0; e < 2; e++)
            if (exits[e] == i)
                add_head(l, &head);
        dp_sim_scheme_scale_times(l, left);
        l->act_bytes = dp_sim_scheme_scale(l->act_bytes, left);
        l->wgrad_bytes = dp_sim_scheme_scale(l->wgrad_bytes, left);
        for (int e = 0; e < 2; e++)
            left *= exits[e] == i ? 1.0 - in->value[LEAVE] : 1.0;
        l->output_bytes = dp_sim_scheme_scale(l->output_bytes, left);
    }
}

const struct dp_sim_scheme_rule dp_sim_scheme_early_exit = {
    .source = "Chen et al. 2023 (EE-LLM): exits at 1/4 and 1/2 of the depth; each costs what the model's own head costs",
    .key = keys,
    .check = check,
    .apply = apply,
};
