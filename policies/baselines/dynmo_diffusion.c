/* SPDX-License-Identifier: BSD-3-Clause */
/* DynMo's "diffusion" (balancer/diffusion.py of the released code; written anew from its description). It
 * is no diffusion: one process sees all loads. At most five times over, every stage with more than the
 * average gives one layer to the stage with the least load of all; the move stays if the variance of the
 * loads is less than any before (the first one always stays), and if it has room there, with the average
 * of a layer of the source.
 *
 * The released code takes the lightest layer of the source and appends it to the destination's, so that
 * the order of the layers is lost, and the loads that it then reports belong to another network. With the
 * order kept, a stage that gives a layer to one further along can only shift every cut between the two by
 * one layer; that is what is done here, and the variance is that of the real loads. It knows no speeds.
 */
#include <math.h>
#include <stdio.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"

#define SWEEPS 5 /* as the released code has it */

struct stages {
    const struct dp_chain *chain;
    uint32_t *cut;
    uint32_t p;
    double average, best; /* least variance so far */
};

static uint64_t load(const struct stages *t, uint32_t s)
{
    return dp_chain_weight(t->chain, t->cut[s], t->cut[s + 1]);
}

static double variance(const struct stages *t)
{
    double sum = 0.0;

    for (uint32_t s = 0; s < t->p; s++) {
        double d = (double)load(t, s) - t->average;

        sum += d * d;
    }
    return t->p > 1 ? sum / (t->p - 1) : 0.0;
}

static uint32_t least_loaded(const struct stages *t)
{
    uint32_t least = 0;

    for (uint32_t s = 1; s < t->p; s++)
        if (load(t, s) < load(t, least))
            least = s;
    return least;
}

/* One layer of stage a more for stage b, or back: every cut between them by one. */
static void shift(struct stages *t, uint32_t a, uint32_t b)
{
    for (uint32_t s = a; s < b; s++)
        t->cut[s + 1]--;
    for (uint32_t s = b; s < a; s++)
        t->cut[s + 1]++;
}

static bool has_room(const struct stages *t, uint32_t source, uint32_t dest)
{
    const struct dp_partition *q = t->chain->q;
    uint64_t cap = q->cap_bytes ? q->cap_bytes[dest] : 0;
    uint64_t share = dp_chain_bytes(t->chain, source, t->cut[source], t->cut[source + 1]) /
                     (t->cut[source + 1] - t->cut[source]);

    return !cap || !q->fixed_bytes || dp_chain_bytes(t->chain, dest, t->cut[dest], t->cut[dest + 1]) + share <= cap;
}

/* returns: did the layer stay where it was put? */
static bool try_move(struct stages *t, uint32_t source, uint32_t dest)
{
    double v;

    if (source == dest || !has_room(t, source, dest))
        return false;
    shift(t, source, dest);
    v = variance(t);
    if (v < t->best) {
        t->best = v;
        return true;
    }
    shift(t, dest, source);
    return false;
}

int dp_balancer_dynmo_diffusion(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                                struct dp_err *err)
{
    struct dp_chain chain;
    struct stages t = {.chain = &chain, .cut = cut, .p = q->p, .best = INFINITY};
    uint32_t moves = 0;

    if (dp_chain_init(&chain, q, err) < 0)
        return -1;
    t.average = (double)dp_chain_weight(&chain, 0, q->n) / q->p;
    dp_chain_start(q, cut);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t s = 0; s < q->p; s++)
            if ((double)load(&t, s) > t.average && cut[s + 1] > cut[s])
                moves += try_move(&t, s, least_loaded(&t));
    dp_chain_release(&chain);
    snprintf(note->text, sizeof note->text, "%u moves", moves);
    return 0;
}

DP_BALANCER_POLICY(dynmo_diffusion_param, "dynmo-diffusion-param", DP_BY_PARAM, dp_balancer_dynmo_diffusion,
                   "DynMo's global diffusion, by remaining parameters");
DP_BALANCER_POLICY(dynmo_diffusion_time, "dynmo-diffusion-time", DP_BY_FORWARD, dp_balancer_dynmo_diffusion,
                   "DynMo's global diffusion, by forward time");
