/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy diffusion: rounds of the local rule of diffuse.h on a snapshot, from the cuts in force until
 * every worker knows that it is over: what the workers would do by themselves, done here for all of
 * them. Nothing passes between them but their notes and layers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"
#include "policies/solve/diffuse.h"

/* Rounds times workers, about half a second, so that a daemon is not held up: any round's cuts are an
 * answer. 64 workers get 65536 rounds. */
#define MAX_STEPS (UINT64_C(1) << 22)

struct pipeline {
    const struct dp_partition *q;
    uint32_t *cut;
    struct dp_diffuse_worker *worker; /* [p] */
    struct dp_diffuse_note *note;     /* [p][2] over its left and its right border */
    bool *asked, *gives;              /* [p][2] over its left, its right border: for a layer, a layer */
    uint32_t rounds, last_move, moves;
};

static struct dp_diffuse_layer layer_of(const struct dp_partition *q, uint32_t i)
{
    return (struct dp_diffuse_layer){.weight = q->weight[i],
                                     .fixed_bytes = q->fixed_bytes ? q->fixed_bytes[i] : 0,
                                     .multi_bytes = q->multi_bytes ? q->multi_bytes[i] : 0};
}

static void begin(struct pipeline *t)
{
    const struct dp_partition *q = t->q;

    for (uint32_t b = 0; b < q->p; b++) {
        struct dp_diffuse_worker *w = &t->worker[b];

        w->speed = q->speed ? q->speed[b] : 1.0;
        w->cap_bytes = q->cap_bytes && q->fixed_bytes ? q->cap_bytes[b] : 0;
        w->copies = q->copies ? q->copies[b] : 1;
        for (uint32_t i = t->cut[b]; i < t->cut[b + 1]; i++) {
            struct dp_diffuse_layer layer = layer_of(q, i);

            dp_diffuse_moved(w, &layer, true);
        }
    }
}

/* Over one border of worker b. */
static void tell(struct pipeline *t, uint32_t b, enum dp_diffuse_side to)
{
    bool is_left = to == DP_DIFFUSE_LEFT, has = t->cut[b] < t->cut[b + 1];
    bool is_outermost = is_left ? b + 1 == t->q->p : b == 0;
    const struct dp_diffuse_note *passed = is_outermost ? NULL : &t->note[2 * (is_left ? b + 1 : b - 1) + to];
    struct dp_diffuse_layer end = {0};

    if (has)
        end = layer_of(t->q, is_left ? t->cut[b] : t->cut[b + 1] - 1);
    dp_diffuse_tell(&t->worker[b], to, has ? &end : NULL, passed, &t->note[2 * b + to]);
}

/* Against the direction of the notes, since a worker without layers waits for the one that it passes on. */
static void tell_all(struct pipeline *t)
{
    for (uint32_t b = 0; b < t->q->p; b++)
        tell(t, b, DP_DIFFUSE_RIGHT);
    for (uint32_t b = t->q->p; b-- > 0;)
        tell(t, b, DP_DIFFUSE_LEFT);
}

/* asked: = [p][2] is the worker asked over its left, its right border? */
static void ask_all(struct pipeline *t)
{
    uint32_t p = t->q->p;

    for (uint32_t b = 0; b < p; b++)
        dp_diffuse_ask(&t->worker[b], b ? &t->note[2 * b - 1] : NULL, b + 1 < p ? &t->note[2 * b + 2] : NULL);
    for (uint32_t b = 0; b < p; b++)
        t->asked[2 * b] = b && dp_diffuse_wants(&t->worker[b - 1], DP_DIFFUSE_RIGHT, t->asked[2 * b - 2]);
    for (uint32_t b = p; b-- > 0;)
        t->asked[2 * b + 1] =
            b + 1 < p && dp_diffuse_wants(&t->worker[b + 1], DP_DIFFUSE_LEFT, t->asked[2 * b + 3]);
}

/* Worker b hands the layer at a border to the nearest one there that asked for itself. */
static void hand_over(struct pipeline *t, uint32_t b, enum dp_diffuse_side to)
{
    uint32_t taker = b;
    struct dp_diffuse_layer layer;

    if (to == DP_DIFFUSE_LEFT) {
        layer = layer_of(t->q, t->cut[b]);
        do
            t->cut[taker--]++;
        while (t->worker[taker].asks != DP_DIFFUSE_RIGHT);
    } else {
        layer = layer_of(t->q, t->cut[b + 1] - 1);
        do
            t->cut[++taker]--;
        while (t->worker[taker].asks != DP_DIFFUSE_LEFT);
    }
    dp_diffuse_moved(&t->worker[b], &layer, false);
    dp_diffuse_moved(&t->worker[taker], &layer, true);
    t->last_move = t->rounds + 1;
    t->moves++;
}

/* returns: does every worker know that it is over? */
static bool one_round(struct pipeline *t)
{
    uint32_t p = t->q->p;
    bool is_over = true;

    tell_all(t);
    ask_all(t);
    for (uint32_t i = 0; i < 2 * p; i++)
        t->gives[i] = dp_diffuse_grant(&t->worker[i / 2], (enum dp_diffuse_side)(i % 2), t->asked[i - i % 2],
                                       t->asked[i - i % 2 + 1]);
    for (uint32_t i = 0; i < 2 * p; i++)
        if (t->gives[i])
            hand_over(t, i / 2, (enum dp_diffuse_side)(i % 2));
    for (uint32_t b = 0; b < p; b++)
        is_over = is_over && dp_diffuse_is_over(&t->worker[b], p);
    t->rounds++;
    return is_over;
}

static void sum_up(const struct pipeline *t, bool is_over, struct dp_balancer_note *note)
{
    uint64_t most = 0, least = UINT64_MAX;

    for (uint32_t b = 0; b < t->q->p; b++) {
        uint64_t load = dp_diffuse_load(&t->worker[b]);

        most = load > most ? load : most;
        least = load < least ? load : least;
    }
    snprintf(note->text, sizeof note->text, "%u moves in %u rounds%s, max - min %.4g", t->moves, t->last_move,
             is_over ? "" : " and not at its end", (double)(most - least));
}

int dp_balancer_diffusion(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                          struct dp_err *err)
{
    struct pipeline t = {.q = q, .cut = cut};
    bool is_over = false;
    int rc = -1;

    if (q->n < 1 || q->p < 1)
        return dp_err_set(err, DP_EINVAL, "partition of %u layers over %u devices", q->n, q->p);
    t.worker = calloc(q->p, sizeof *t.worker);
    t.note = calloc(2 * (size_t)q->p, sizeof *t.note);
    t.asked = calloc(2 * (size_t)q->p, sizeof *t.asked);
    t.gives = calloc(2 * (size_t)q->p, sizeof *t.gives);
    if (!t.worker || !t.note || !t.asked || !t.gives) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        goto out;
    }
    dp_chain_start(q, cut);
    begin(&t);
    while (!is_over && (uint64_t)t.rounds * q->p < MAX_STEPS)
        is_over = one_round(&t);
    sum_up(&t, is_over, note);
    rc = 0;
out:
    free(t.worker);
    free(t.note);
    free(t.asked);
    free(t.gives);
    return rc;
}

DP_BALANCER_POLICY_WITH(diffusion_param, "diffusion-param", DP_BY_PARAM, dp_balancer_diffusion,
                   "neighbours hand layers to each other, by remaining parameters", .is_slow = true);
DP_BALANCER_POLICY_WITH(diffusion_time, "diffusion-time", DP_BY_TIME, dp_balancer_diffusion,
                   "neighbours hand layers to each other, by measured time", .is_slow = true);
