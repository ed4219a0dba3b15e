/* SPDX-License-Identifier: BSD-3-Clause */
/* Mixture of experts under expert parallelism: in every `interval`-th block the two dense products of the feed-forward part, 8
 * of a block's 12 c^2 a token (`part`), are those of `experts` experts, of which each token takes `top`; the experts lie on
 * `ranks` ranks. Without dropped tokens all ranks together compute top times the dense products, so a layer of experts on one
 * device is as even as a dense one (Gale et al. 2022, MegaBlocks, arXiv:2211.15841). Over ranks each layer waits for its fullest
 * one: `part` takes top times max / mean of the ranks' loads.
 *
 * How uneven ranks are is nobody's constant: `spread` is the standard deviation of a rank's load, in means, assumed, and the
 * loads are drawn from it by seed, layer and rank. A capacity factor (GShard, Lepikhin et al. 2020, arXiv:2006.16668) cuts max /
 * mean off. Loads settle: predictable within 1.3 % over the next 1000 steps (arXiv:2404.16914); `every` draws them anew.
 * Experts multiply the part's weights by experts / ranks on each rank. The all-to-all is not here: put it into the table.
 */
#include "policies/sim/scheme/scheme.h"

#include <math.h>

#define MOST_DRAWS 5e7 /* of loads: a second of computing */

enum { PART, TOP, EXPERTS, RANKS, INTERVAL, SPREAD, CAPACITY, EVERY };

static const struct dp_sim_scheme_key keys[] = {
    [PART] = {"part", "share of a block that becomes experts", 0, 1, .fallback = 2.0 / 3},
    [TOP] = {"top", "experts that each token takes", 1, 64, 2, .is_whole = true},
    [EXPERTS] = {"experts", "of a layer", 1, 65536, 64, .is_whole = true},
    [RANKS] = {"ranks", "that share the experts of a layer", 1, 4096, 8, .is_whole = true},
    [INTERVAL] = {"interval", "every so many blocks one has experts; 1: all", 1, 1024, 2, .is_whole = true},
    [SPREAD] = {"spread", "standard deviation of a rank's load, in means (assumed)", 0, 4, .fallback = 0.2},
    [CAPACITY] = {"capacity", "factor of the mean that a rank takes at most; 0: no limit", 0, 64, .fallback = 0},
    [EVERY] = {"every", "iterations after which loads differ anew; 0: never", 0, 1e9, 0, .is_whole = true},
    {0},
};

/* splitmix64 (Steele, Lea, Flood 2014, OOPSLA). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* About normal, with mean 0 and deviation 1: twelve uniform numbers, with arithmetic that rounds alike everywhere. */
static double draw(uint64_t key)
{
    double sum = 0;

    for (int i = 0; i < 12; i++) {
        key = mix(key);
        sum += (double)(key >> 11) * 0x1p-53;
    }
    return sum - 6.0;
}

/* max / mean of the ranks' loads of a layer. */
static double straggler(const struct dp_sim_scheme_in *in, uint64_t draws, uint32_t layer)
{
    double most = 0, sum = 0, ranks = in->value[RANKS];

    for (uint32_t r = 0; r < ranks; r++) {
        double load = fmax(0.0, 1.0 + in->value[SPREAD] * draw(mix(mix(draws + 1) + layer) + r));

        most = fmax(most, load);
        sum += load;
    }
    most = sum > 0 ? most * ranks / sum : 1.0;
    return in->value[CAPACITY] > 0 ? fmin(most, in->value[CAPACITY]) : most;
}

static int check(const struct dp_sim_scheme_in *in, struct dp_err *err)
{
    if (in->value[TOP] > in->value[EXPERTS] || in->value[RANKS] > in->value[EXPERTS])
        return dp_err_set(err, DP_EINVAL, "top=%g and ranks=%g are at most experts=%g", in->value[TOP], in->value[RANKS],
                          in->value[EXPERTS]);
    if (in->value[CAPACITY] > 0 && in->value[CAPACITY] < 1)
        return dp_err_set(err, DP_EINVAL, "capacity=%g is less than the mean; expected 0 or from 1 on", in->value[CAPACITY]);
    if (in->value[EVERY] > 0 && (double)(in->iterations - 1) / in->value[EVERY] >= DP_SIM_SCHEME_CHANGES + 1.0)
        return dp_err_set(err, DP_EINVAL, "every=%g changes loads more than %u times in %llu iterations", in->value[EVERY],
                          DP_SIM_SCHEME_CHANGES, (unsigned long long)in->iterations);
    if ((in->end - in->first) * in->value[RANKS] * (in->value[EVERY] > 0 ? 1.0 + DP_SIM_SCHEME_CHANGES : 1.0) > MOST_DRAWS)
        return dp_err_set(err, DP_EINVAL, "%u blocks on ranks=%g; that is too much to draw loads for", in->end - in->first,
                          in->value[RANKS]);
    return 0;
}

static uint32_t changes(const struct dp_sim_scheme_in *in, uint64_t *at)
{
    uint64_t every = (uint64_t)in->value[EVERY];
    uint32_t n = 0;

    for (uint64_t done = every; every && done < in->iterations && n < DP_SIM_SCHEME_CHANGES; done += every)
        at[n++] = done + 1;
    return n;
}

static void apply(const struct dp_sim_scheme_in *in, uint64_t iteration, struct dp_sim_layer *layer)
{
    uint64_t every = (uint64_t)in->value[EVERY];
    double part = in->value[PART], top = in->value[TOP];

    for (uint32_t i = in->first; i < in->end; i++) {
        struct dp_sim_layer *l = &layer[i];

        if ((i - in->first + 1) % (uint32_t)in->value[INTERVAL])
            continue;
        dp_sim_scheme_scale_times(l, 1.0 - part + part * top * straggler(in, every ? (iteration - 1) / every : 0, i));
        l->act_bytes = dp_sim_scheme_scale(l->act_bytes, 1.0 - part + part * top);
        l->wgrad_bytes = dp_sim_scheme_scale(l->wgrad_bytes, 1.0 - part + part * top);
        l->state_bytes = dp_sim_scheme_scale(l->state_bytes, 1.0 - part + part * in->value[EXPERTS] / in->value[RANKS]);
        l->opt_ns = dp_sim_scheme_scale(l->opt_ns, 1.0 - part + part * in->value[EXPERTS] / in->value[RANKS]);
    }
}

const struct dp_sim_scheme_rule dp_sim_scheme_moe = {
    .source = "Gale et al. 2022 (MegaBlocks), Lepikhin et al. 2020 (GShard); how uneven ranks are is assumed; no all-to-all",
    .key = keys,
    .check = check,
    .changes = changes,
    .apply = apply,
};
