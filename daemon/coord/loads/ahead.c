/* SPDX-License-Identifier: BSD-3-Clause */
/* What is to come of a run whose layers get cheaper by a schedule, in the child of plan.c: the loads at some of the changes that are
 * known to come, and what the reference `fixed` allows then. A slot that was given back does not come again, so what is kept
 * must do for all of them; the other references promise a speed of now. And how long the steps that are left take
 * beside one of now.
 */
#include "daemon/coord/internal.h"

#include <string.h>

#define MANY_WORKERS 32 /* a prediction for more takes long: those look at the end alone, */
#define FEW_LOOKS 4     /* and for the mean of what is left at so many changes */
#define MEAN_LOOKS 16   /* else at so many: pruning goes in a line between them, and few schedules freeze oftener */

void coord_foresight(const struct dp_coord *c, const double *speed, double slope, struct coord_known *out)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        for (uint32_t l = c->layout.cut[r]; l < c->layout.cut[r + 1]; l++)
            out->speed[l] = speed[r];
    out->f = (struct dp_foresight){.change = c->train.change, .n_changes = c->train.n_changes, .prune_slope = slope,
                                   .expected = out->expected, .n_expected = coord_expect_to_come(c, out->expected), .speed = out->speed};
}

uint64_t coord_fixed_ns(const struct dp_coord *c, const struct dp_policy_in *in)
{
    uint64_t ns;

    /* Loads that somebody expects may be anything that a number can be. */
    return dp_policy_in_check(in, NULL) < 0 || dp_predict_layout(in, &c->start_layout, NULL, &ns, NULL) < 0 ? 0 : ns;
}

void coord_look_ahead(const struct dp_coord *c, const struct coord_snapshot *now, const struct dp_policy_in *in,
                      const struct dp_foresight *known, struct coord_ahead *out)
{
    struct dp_look look[COORD_LOOKS];
    uint32_t n = 0;

    out->n = 0;
    if (c->limits.pack.reference == DP_REF_FIXED)
        n = dp_foresee_looks(known, c->train.step, c->train.steps_total, c->train.n_workers > MANY_WORKERS ? 1 : COORD_LOOKS, look);
    for (uint32_t i = 0; i < n; i++) {
        struct dp_policy_in then = *in;
        uint64_t fixed_ns;

        dp_foresee(known, look[i].step, now->layer, now->opt, c->train.n_layers, out->layer[i], out->opt[i]);
        then.layer = out->layer[i];
        then.layer_opt_ns = out->opt[i];
        fixed_ns = coord_fixed_ns(c, &then);
        if (fixed_ns)
            out->later[out->n++] = (struct dp_pack_later){out->layer[i], out->opt[i],
                                                          dp_pack_limit_ns(&c->limits.pack, fixed_ns)};
    }
}

double coord_steps_left_mean(const struct dp_coord *c, const struct coord_snapshot *now, const struct dp_foresight *known,
                             struct dp_layer_load *layer, uint64_t *opt)
{
    struct dp_policy_in then = now->in;
    struct dp_look look[MEAN_LOOKS];
    double part[MEAN_LOOKS];
    uint32_t n = dp_foresee_looks(known, c->train.step, c->train.steps_total,
                                  c->train.n_workers > MANY_WORKERS ? FEW_LOOKS : MEAN_LOOKS, look);
    uint64_t now_ns = n ? coord_fixed_ns(c, &now->in) : 0;

    then.layer = layer;
    then.layer_opt_ns = opt;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t then_ns;

        dp_foresee(known, look[i].step, now->layer, now->opt, c->train.n_layers, layer, opt);
        then_ns = coord_fixed_ns(c, &then);
        if (!now_ns || !then_ns)
            return 1.0;
        part[i] = (double)then_ns / (double)now_ns;
    }
    return n ? dp_foresee_mean(c->train.step, c->train.steps_total, 1.0, look, part, n) : 1.0;
}
