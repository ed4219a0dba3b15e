/* SPDX-License-Identifier: BSD-3-Clause */
/* The loads of layers at a later step of a run, from those of now, the changes that are known to come (common/run/change.h) and what
 * its trainer expects of layers. One function for each kind of change. Only what is in these lists is foreseen: where a rule
 * decides by the training itself there is no list, and loads stay as they are until it has decided. */
#ifndef DP_POLICIES_DECIDE_FORESEE_H
#define DP_POLICIES_DECIDE_FORESEE_H

#include "common/run/change.h"
#include "policies/policy.h"

#define DP_EXPECTED_MAX 64 /* steps of a run of which something is expected */

/* What is said of layers from a step on. */
struct dp_expected {
    uint64_t step;
    const uint8_t *is_said;           /* [n_layers] 1: of this one */
    const struct dp_layer_load *load; /* [n_layers] where it is */
};

struct dp_foresight {
    const struct dp_change *change; /* [n_changes], checked */
    uint32_t n_changes;
    double prune_slope; /* dp_prune_slope() */
    const struct dp_expected *expected; /* [n_expected], at most DP_EXPECTED_MAX, rising */
    uint32_t n_expected;
    const double *speed; /* [n_layers] of the devices in whose time loads are expected; NULL: 1 */
};

/* A later step that is worth a look. */
struct dp_look {
    uint64_t step;
    bool is_next; /* no change lies between the look before, or now, and this one */
};

/* Layers from layer 0 on that only go forward, as their loads say (dp_load_is_frozen()). */
uint32_t dp_frozen_prefix(const struct dp_layer_load *layer, uint32_t n_layers);

/* Freezing, exact: no backward pass, no kept activations, no optimizer; of the state the weights alone, a quarter. A layer that is
 * frozen stays as it is. opt: NULL, or its optimizer time. */
void dp_load_freeze(struct dp_layer_load *layer, uint64_t *opt);

/* The loads when `step` steps are completed. Pruning first: dp_loads_at_sparsity() with the sparsity of the list; then layers are frozen;
 * but of which something is expected at that step or before, the newest of that counts, whatever the changes: an optimizer's time then
 * goes with the weights that are left, and a layer without a backward pass has none.
 * now, opt: loads of any step before it; opt NULL: no optimizer times. out, opt_out: [n_layers] =, may not be now and opt. */
void dp_foresee(const struct dp_foresight *f, uint64_t step, const struct dp_layer_load *now, const uint64_t *opt, uint32_t n_layers,
                struct dp_layer_load *out, uint64_t *opt_out);

/* Which steps to look at: of the changes, those that are expected included, that come after `now` and before `end`, up to
 * `most`, evenly chosen, the last of them always there. out: = [most], rising. returns: how many; 0: nothing more is known to come. */
uint32_t dp_foresee_looks(const struct dp_foresight *f, uint64_t now, uint64_t end, uint32_t most, struct dp_look *out);

/* Mean over the steps from `now` to `end` of what is `first` now and value[i] from look[i] on. Between two looks with changes between
 * them it goes in a straight line. end > now; look, value: [n]. */
double dp_foresee_mean(uint64_t now, uint64_t end, double first, const struct dp_look *look, const double *value, uint32_t n);

#endif
