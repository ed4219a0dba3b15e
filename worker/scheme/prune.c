/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradual pruning as a scheme: when, and how far (prune_run.h has what an event does).
 *
 * Sparsity after event i of 0..n (Zhu & Gupta 2017, arXiv:1710.01878, eq. 1):
 *   s = final + (initial - final) (1 - i / n)^3
 * The last event is at prune.end, so `final` is really reached. */
#include "worker/scheme/scheme.h"

#include <stdio.h>

#include "kernels/granularity.h"
#include "worker/model/model.h"
#include "worker/scheme/events.h"
#include "worker/scheme/prune_run.h"

static bool is_on(const struct dp_train_config *c)
{
    return c->prune.end > 0;
}

static struct dp_events events_of(const struct dp_train_config *c)
{
    return (struct dp_events){.begin = (uint64_t)c->prune.begin, .end = (uint64_t)c->prune.end, .every = (uint64_t)c->prune.every};
}

static double sparsity_after(const struct dp_train_config *c, uint64_t i, uint64_t last)
{
    double rest = last ? 1.0 - (double)i / (double)last : 0.0;

    if (i == 0 && last)
        return c->prune.initial; /* without the rounding of the line below */
    return c->prune.final + (c->prune.initial - c->prune.final) * rest * rest * rest;
}

static void decide(const struct dp_train_config *c, const struct dp_scheme_in *in, struct dp_scheme_order *out)
{
    const struct dp_events e = events_of(c);
    uint64_t i;

    if (!dp_events_at(&e, in->step, &i))
        return;
    out->target = sparsity_after(c, i, dp_events_last(&e));
    out->is_due = out->target > 0;
}

static uint32_t plan(const struct dp_train_config *c, uint32_t most, struct dp_change *out)
{
    const struct dp_events e = events_of(c);
    uint64_t i[DP_CHANGES_MAX];
    uint32_t n = dp_events_choose(&e, most, i);

    for (uint32_t k = 0; k < n; k++) {
        double sparsity = sparsity_after(c, i[k], dp_events_last(&e));

        if (k && sparsity < out[k - 1].value)
            sparsity = out[k - 1].value; /* by rounding */
        out[k] = (struct dp_change){.step = dp_events_step(&e, i[k]), .value = sparsity, .kind = DP_CHANGE_PRUNE};
    }
    return n;
}

/* Every matrix that is pruned consists of whole blocks. */
static int check_blocks(const struct dp_train_config *c, struct dp_err *err)
{
    const int64_t block = dp_train_block_rows(c);
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    uint32_t n = dp_model_specs(c, 1, spec);

    for (uint32_t i = 0; i < n; i++)
        if (spec[i].prunable && (spec[i].rows % block || spec[i].cols % dp_block_cols(block)))
            return dp_err_set(err, DP_EINVAL,
                              "prune.granularity: %s needs model.channels to be a multiple of %lld, not %lld: %s is %lld x %lld",
                              c->prune.granularity, (long long)block, (long long)c->model.channels, spec[i].name,
                              (long long)spec[i].rows, (long long)spec[i].cols);
    return 0;
}

static int check(const struct dp_train_config *c, struct dp_err *err)
{
    if (check_blocks(c, err) < 0)
        return -1;
    if (c->prune.begin > c->prune.end)
        return dp_err_set(err, DP_EINVAL, "prune.begin: %lld is after prune.end %lld",
                          (long long)c->prune.begin, (long long)c->prune.end);
    if (c->prune.initial > c->prune.final)
        return dp_err_set(err, DP_EINVAL, "prune.initial: %g is more than prune.final %g", c->prune.initial,
                          c->prune.final);
    if (c->prune.end > c->train.steps)
        return dp_err_set(err, DP_EINVAL,
                          "prune.end: %lld is after the last step %lld, `final` would not be reached",
                          (long long)c->prune.end, (long long)c->train.steps);
    return 0;
}

/* A checkpoint may have layers that another configuration froze. */
static int begin(const struct dp_scheme_site *site, uint64_t step, struct dp_err *err)
{
    if (site->reached->frozen && step < (uint64_t)site->config->prune.end)
        return dp_err_set(err, DP_EINVAL, "prune.end: %lld is still to come, and layers 0 to %u are frozen: they cannot be pruned",
                          (long long)site->config->prune.end, site->reached->frozen - 1);
    return 0;
}

static int apply(const struct dp_scheme_site *site, double target, struct dp_err *err)
{
    return dp_prune_run(site->stage, &site->copies, site->config, target, site->sum, site->arg, &site->reached->sparsity, err);
}

static double tell(const struct dp_reached *reached, char *text, size_t cap)
{
    snprintf(text, cap, "sparsity %.6f", reached->sparsity);
    return reached->sparsity;
}

const struct dp_scheme dp_scheme_prune = {
    .name = "prune", .is_on = is_on, .check = check, .plan = plan, .begin = begin, .decide = decide, .apply = apply, .tell = tell,
};
