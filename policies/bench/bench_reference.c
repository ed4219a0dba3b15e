/* SPDX-License-Identifier: BSD-3-Clause */
/* make bench-reference: what each reference makes of a run that is pruned while it trains: how much later it ends
 * than the layout that it started with, and how many device-seconds it takes (policies/saving/saving.h).
 *
 * 24 equal blocks on 2, 4 and 8 devices, one a slot, are pruned to 90 % between a tenth and six tenths of the steps.
 * A block takes at a density what `./demo` measured. Densities are even, or rise over the depth from a fifth of the
 * mean to nine fifths. At each of 100 windows the run is packed by the code that a coordinator runs, and balanced by
 * policy time; moves cost nothing, and devices that were given back do not come back. Nothing is measured: every
 * machine prints the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/stdout.h"
#include "policies/bench/recorded_loads.h"
#include "policies/decide/pack.h"
#include "policies/list.h"
#include "policies/predict/predict.h"
#include "policies/saving/saving.h"

#define BLOCKS 24 /* divides evenly among 2, 4 and 8 devices */
#define MOST_DEVICES 8 /* then three blocks are left for each */
#define WINDOWS 100 /* of a run, each a percent of its steps */
#define PARAMS 1000000.0 /* of a block; only the share that is left counts */

struct rule {
    const char *name;
    struct dp_pack_rule rule;
    bool packs;
};

static const struct rule rules[] = {
    {"balanced only", {.limits = {.reference = DP_REF_START}}, false},
    {"fixed 0", {.limits = {.reference = DP_REF_FIXED, .max_slowdown = 0, .objective = DP_OBJ_EFFICIENCY}}, true},
    {"fixed 5", {.limits = {.reference = DP_REF_FIXED, .max_slowdown = 5, .objective = DP_OBJ_EFFICIENCY}}, true},
    {"fixed 10", {.limits = {.reference = DP_REF_FIXED, .max_slowdown = 10, .objective = DP_OBJ_EFFICIENCY}}, true},
    {"fixed 25", {.limits = {.reference = DP_REF_FIXED, .max_slowdown = 25, .objective = DP_OBJ_EFFICIENCY}}, true},
    {"start 5", {.limits = {.reference = DP_REF_START, .max_slowdown = 5}}, true},
    {"best 5", {.limits = {.reference = DP_REF_BEST, .max_slowdown = 5}}, true},
    {"efficiency", {.limits = {.reference = DP_REF_FIXED, .max_slowdown = 100, .objective = DP_OBJ_EFFICIENCY}}, true},
};

struct world {
    bool is_uneven;
    struct dp_layer_load layer[BLOCKS];
    uint64_t opt[BLOCKS];
    struct dp_device device[MOST_DEVICES];
    struct dp_layout start, now;
    struct dp_policy_in in;
    struct dp_pack pack;
};

static double density_at(uint32_t window)
{
    double done = ((double)window / WINDOWS - 0.1) / 0.5, left;

    done = done < 0.0 ? 0.0 : done > 1.0 ? 1.0 : done;
    left = 1.0 - done;
    return 1.0 - 0.9 * (1.0 - left * left * left);
}

/* Loads to come, for references that look ahead. */
#define LOOKS 3

struct ahead {
    struct dp_layer_load layer[LOOKS][BLOCKS];
    struct dp_pack_later later[LOOKS];
};

/* Even: all alike. Uneven: what is gone lies more in front; the mean stays. */
static void loads_at(const struct world *w, uint32_t window, struct dp_layer_load *layer)
{
    double mean = density_at(window);

    for (uint32_t i = 0; i < BLOCKS; i++) {
        double tilt = w->is_uneven ? 0.2 + 1.6 * i / (BLOCKS - 1) : 1.0, density = mean * tilt;
        uint64_t ns;

        if (w->is_uneven && mean > 0.5) /* near 1 there is no room above */
            density = 1.0 - (1.0 - mean) * (2.0 - tilt);
        density = density > 1.0 ? 1.0 : density;
        ns = (uint64_t)(recorded_ms(density) * 1e6 / 8 / 3);
        layer[i] = (struct dp_layer_load){ns, ns, ns, 1000, 1000, (uint64_t)PARAMS, (uint64_t)(PARAMS * density)};
    }
}

static void begin(struct world *w, uint32_t devices, uint32_t microbatches, bool is_uneven)
{
    memset(w, 0, sizeof *w);
    w->is_uneven = is_uneven;
    w->start.n_workers = devices;
    w->start.n_layers = BLOCKS;
    for (uint32_t d = 0; d < devices; d++) {
        w->start.cut[d + 1] = BLOCKS * (d + 1) / devices;
        w->device[d] = (struct dp_device){.speed = 1.0, .slot = d, .is_allowed = true};
    }
    w->now = w->start;
    w->in = (struct dp_policy_in){.n_layers = BLOCKS, .n_devices = devices, .n_slots = devices, .layer = w->layer,
                                  .layer_opt_ns = w->opt, .current = &w->now, .device = w->device,
                                  .microbatches = microbatches, .steps_total = WINDOWS};
}

static double step_with(const struct world *w, const struct dp_layer_load *layer, const struct dp_layout *l)
{
    struct dp_policy_in in = w->in;
    uint64_t ns = 0;

    in.layer = layer;
    if (dp_predict_layout(&in, l, NULL, &ns, NULL) < 0)
        exit(1);
    return (double)ns * 1e-9;
}

static double step_of(const struct world *w, const struct dp_layout *l)
{
    return step_with(w, w->layer, l);
}

/* Of the fixed layout's loads up to the end of pruning. returns: how many. */
static uint32_t look_ahead(const struct world *w, const struct dp_pack_rule *r, uint32_t window, struct ahead *a)
{
    const uint32_t end = WINDOWS * 6 / 10;
    uint32_t n = r->limits.reference == DP_REF_FIXED && window < end ? LOOKS : 0;

    for (uint32_t i = 0; i < n; i++) {
        loads_at(w, window + (end - window) * (i + 1) / LOOKS, a->layer[i]);
        a->later[i] = (struct dp_pack_later){a->layer[i], w->opt,
                                             dp_pack_limit_ns(&r->limits, (uint64_t)(1e9 * step_with(w, a->layer[i], &w->start)))};
    }
    return n;
}

/* Pack, or balance; what is given back stays away. */
static void decide(struct world *w, const struct rule *r, uint32_t window, double dense_s, double fixed_s)
{
    struct ahead ahead;
    struct dp_pack_rule rule = r->rule;
    struct dp_err err;

    rule.limits.min_devices = 1;
    rule.reference_ns = r->packs ? (uint64_t)(1e9 * (rule.limits.reference == DP_REF_FIXED ? fixed_s : dense_s)) : 0;
    if (dp_pack_choose_lasting(&dp_policy_time, NULL, &w->in, &rule, ahead.later, look_ahead(w, &rule, window, &ahead), &w->pack,
                               &err) < 0) {
        fprintf(stderr, "bench-reference: %s\n", err.text);
        exit(1);
    }
    w->now = w->pack.best.layout;
    for (uint32_t d = 0; r->packs && d < w->in.n_devices; d++)
        w->device[d].is_allowed &= w->pack.keep_slot[d];
}

static uint32_t held(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < w->in.n_devices; d++)
        n += w->device[d].is_allowed;
    return n;
}

static void run(struct world *w, const struct rule *r)
{
    struct dp_saving_held curve[WINDOWS];
    struct dp_saving_sums sums = {0};
    struct dp_saving s;
    double dense_s = 0.0;

    for (uint32_t i = 0; i < WINDOWS; i++) {
        struct dp_saving_window v = {.steps = 1};

        loads_at(w, i, w->layer);
        v.predicted_s[DP_WAY_FIXED] = step_of(w, &w->start);
        v.dense_s = dense_s = i ? dense_s : v.predicted_s[DP_WAY_FIXED];
        decide(w, r, i, dense_s, v.predicted_s[DP_WAY_FIXED]);
        v.step_s = v.predicted_s[DP_WAY_RUN] = step_of(w, &w->now);
        v.is_whole = held(w) == w->in.n_devices;
        curve[i] = (struct dp_saving_held){sums.time_s[DP_WAY_RUN], held(w)};
        dp_saving_add(&sums, &v);
    }
    curve[0].devices = w->in.n_devices;
    dp_saving_close(&sums, curve, WINDOWS, &s);
    printf("   %-14s %2u  %+6.1f %%  %+6.1f %%  %+6.1f %%\n", r->name, held(w), 100 * s.later,
           100 * (s.device_s[DP_WAY_RUN] / s.device_s[DP_WAY_FIXED] - 1), 100 * s.packing);
}

int main(void)
{
    static struct world w;
    struct dp_err err;

    for (uint32_t devices = 2; devices <= MOST_DEVICES; devices *= 2)
        for (uint32_t each = 1; each <= 8; each *= 8)
            for (int is_uneven = 0; is_uneven < 2; is_uneven++) {
                printf("%u stages, %u microbatches, densities %s\n   %-14s %2s  %8s  %8s  %8s\n", devices, devices * each,
                       is_uneven ? "uneven" : "even", "reference", "to", "later", "device-s", "packing");
                for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
                    begin(&w, devices, devices * each, is_uneven);
                    run(&w, &rules[i]);
                }
            }
    if (dp_stdout_flush(&err) < 0) {
        fprintf(stderr, "bench-reference: %s\n", err.text);
        return 1;
    }
    return 0;
}
