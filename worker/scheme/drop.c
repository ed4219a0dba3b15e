/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer dropout as a scheme: block l of n is left out for a microbatch with probability drop.rate l / n, drawn anew for each (Fan,
 * Grave, Joulin 2019, arXiv:1909.11556, with the depths of Huang et al. 2016, arXiv:1603.09382). What runs is not scaled, and
 * evaluations run all. The draw is Philox's with the layer's own key at the step and the microbatch: the same wherever the
 * layer is, and after a resume. Embedding and head always run.
 *
 * It makes steps cheaper from the beginning, evenly in time: nothing of it is a change that is known to come. */
#include "worker/scheme/scheme.h"

#include "worker/model/philox.h"

#define STREAM ((uint64_t)1 << 32) /* of the counter's upper word: initial weights have small numbers there */

static bool is_on(const struct dp_train_config *c)
{
    return c->drop.rate > 0;
}

static bool does_run(const struct dp_layer *l, uint64_t step, uint32_t mb)
{
    const struct dp_train_config *c = l->config;
    double rate = c->drop.rate * (double)l->index / (double)c->model.blocks;
    uint32_t bits[4];

    if (l->kind != DP_LAYER_BLOCK)
        return true;
    dp_philox(l->rng_key, step, STREAM | mb, bits);
    return (double)bits[0] >= rate * 4294967296.0;
}

static dp_layer_runs_fn *runs(const struct dp_train_config *c)
{
    (void)c;
    return does_run;
}

const struct dp_scheme dp_scheme_drop = {.name = "drop", .is_on = is_on, .runs = runs};
