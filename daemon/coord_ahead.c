/* What is to come of a run that is pruned on: the loads at some steps up to the end of pruning, and what the
 * reference `fixed` allows then. In the child of coord_think.c. A slot that was given back does not come again, so
 * what is kept must do for all of them; the other references promise a speed of now.
 */
#include "daemon/coord_internal.h"

#include <string.h>

#define MANY_WORKERS 32 /* a prediction for more takes long: those look at the end alone */

uint64_t coord_fixed_ns(const struct dp_coord *c, const struct dp_policy_in *in)
{
    uint64_t ns;

    return dp_sim_layout(in, &c->start_layout, NULL, &ns, NULL) < 0 ? 0 : ns;
}

void coord_look_ahead(const struct dp_coord *c, const struct coord_snapshot *now, const struct dp_policy_in *in,
                      double slope, struct coord_ahead *out)
{
    uint32_t n = c->n_workers > MANY_WORKERS ? 1 : COORD_LOOKS;
    double sparsity = dp_prune_sparsity(now->layer, c->n_layers);

    out->n = 0;
    if (c->limits.reference != DP_REF_FIXED || c->step >= c->prune_end || !(c->final_sparsity > 0.0))
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t step = c->step + ((c->prune_end - c->step) * (i + 1) + n - 1) / n;
        struct dp_policy_in then = *in;
        uint64_t fixed_ns;

        dp_loads_at_sparsity(now->layer, now->opt, slope, c->n_layers,
                             dp_prune_sparsity_at(step, c->step, c->prune_begin, c->prune_end, sparsity, c->final_sparsity),
                             out->layer[i], out->opt[i]);
        then.layer = out->layer[i];
        then.layer_opt_ns = out->opt[i];
        fixed_ns = coord_fixed_ns(c, &then);
        if (fixed_ns)
            out->later[out->n++] = (struct dp_pack_later){out->layer[i], out->opt[i],
                                                          dp_pack_later_ns(fixed_ns, c->limits.max_slowdown)};
    }
}
