/* Policy diffusion: rounds of the local rule of diffuse.h on a snapshot, from the cuts in force until
 * every worker knows that it is over: what the workers would do by themselves, done here for all of
 * them. Nothing passes between them but their notes and layers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/chain.h"
#include "policies/diffuse.h"

/* Rounds times workers, about half a second, so that a daemon is not held up: any round's cuts are an
 * answer. 64 workers get 65536 rounds. */
#define MAX_STEPS (UINT64_C(1) << 22)

struct pipeline {
    const struct dp_partition *q;
    uint32_t *cut;
    struct dp_diffuse_worker *worker; /* [p] */
    struct dp_diffuse_note *note;     /* [p][2] over its left and its right boundary */
    bool *gives;                      /* [p][2] a layer over its left, its right boundary */
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

static void tell_all(struct pipeline *t)
{
    for (uint32_t b = 0; b < t->q->p; b++) {
        bool has = t->cut[b] < t->cut[b + 1];
        struct dp_diffuse_layer first = {0}, last = {0};

        if (has) {
            first = layer_of(t->q, t->cut[b]);
            last = layer_of(t->q, t->cut[b + 1] - 1);
        }
        dp_diffuse_tell(&t->worker[b], DP_DIFFUSE_LEFT, has ? &first : NULL, &t->note[2 * b]);
        dp_diffuse_tell(&t->worker[b], DP_DIFFUSE_RIGHT, has ? &last : NULL, &t->note[2 * b + 1]);
    }
}

/* Worker b hands the layer at a boundary to its neighbour. */
static void hand_over(struct pipeline *t, uint32_t b, enum dp_diffuse_side to)
{
    bool is_left = to == DP_DIFFUSE_LEFT;
    struct dp_diffuse_layer layer = layer_of(t->q, is_left ? t->cut[b]++ : --t->cut[b + 1]);

    dp_diffuse_moved(&t->worker[b], &layer, false);
    dp_diffuse_moved(&t->worker[is_left ? b - 1 : b + 1], &layer, true);
    t->last_move = t->rounds + 1;
    t->moves++;
}

/* returns: does every worker know that it is over? */
static bool one_round(struct pipeline *t)
{
    uint32_t p = t->q->p;
    bool is_over = true;

    tell_all(t);
    for (uint32_t b = 0; b < p; b++)
        dp_diffuse_ask(&t->worker[b], b ? &t->note[2 * b - 1] : NULL, b + 1 < p ? &t->note[2 * b + 2] : NULL);
    for (uint32_t b = 0; b < p; b++) {
        bool left = b && t->worker[b - 1].asks == DP_DIFFUSE_RIGHT;
        bool right = b + 1 < p && t->worker[b + 1].asks == DP_DIFFUSE_LEFT;

        for (uint32_t side = 0; side < 2; side++)
            t->gives[2 * b + side] = dp_diffuse_grant(&t->worker[b], (enum dp_diffuse_side)side, left, right);
    }
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
    t.gives = calloc(2 * (size_t)q->p, sizeof *t.gives);
    if (!t.worker || !t.note || !t.gives) {
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
    free(t.gives);
    return rc;
}

DP_BALANCER_POLICY(diffusion_param, "diffusion-param", DP_BY_PARAM, dp_balancer_diffusion,
                   "neighbours hand layers to each other, by remaining parameters");
DP_BALANCER_POLICY(diffusion_time, "diffusion-time", DP_BY_TIME, dp_balancer_diffusion,
                   "neighbours hand layers to each other, by measured time");
