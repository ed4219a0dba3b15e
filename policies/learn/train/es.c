/* SPDX-License-Identifier: BSD-3-Clause */
/* Evolution strategy: see train.h. A move and its opposite are tried on the same lessons; what counts is their rank, so that
 * no lesson's size does. */
#include <stdlib.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define TRIES DP_LEARN_TRIES /* of move i: 2 * i there, 2 * i + 1 back */
#define PAIRS (TRIES / 2)    /* of moves */
#define FAR 0.1f             /* how far a weight moves, in the mean; nearer, and orders stay what they are */
#define RATE 0.05f           /* of Adam */

struct es {
    struct dp_learner *l;
    float reward[TRIES];
};

/* About normal, variance 1: the sum of eight even ones (each 1/12). */
static float draw_normal(uint64_t *state)
{
    uint64_t bits[2];
    int32_t sum = 0;

    bits[0] = dp_draw(state);
    bits[1] = dp_draw(state);
    for (int i = 0; i < 8; i++)
        sum += (int32_t)(bits[i / 4] >> 16 * (i % 4) & 0xffff) - 32768;
    return (float)sum * (1.22474487f / 65536.0f);
}

/* net: += by * move `pair` of the iteration. */
static void add_move(const struct dp_learner *l, struct dp_net *net, uint32_t pair, float by)
{
    uint64_t draws = dp_learner_draws(l, pair);
    float *to = dp_net_numbers(net);

    for (size_t k = 0; k < DP_NET_SIZE; k++)
        to[k] += by * draw_normal(&draws);
}

static int try_move(void *arg, uint32_t which, struct dp_err *err)
{
    struct es *es = arg;
    struct dp_net *net = malloc(sizeof *net);
    float sum = 0;
    int rc = net ? 0 : dp_err_set(err, DP_ENOMEM, "a move: out of memory");

    if (rc == 0) {
        *net = es->l->net;
        add_move(es->l, net, which / 2, which % 2 ? -FAR : FAR);
    }
    for (uint32_t i = 0; rc == 0 && i < DP_LEARN_LESSONS; i++) {
        uint64_t load;

        rc = dp_lesson_try(&es->l->lesson[i], net, es->l->iteration, &load, err);
        if (rc == 0)
            sum += dp_lesson_reward(&es->l->lesson[i], load);
    }
    es->reward[which] = sum / DP_LEARN_LESSONS;
    free(net);
    return rc;
}

/* -0.5 for the worst to 0.5 for the best; equals have the same. */
static float rank_of(const struct es *es, uint32_t which)
{
    uint32_t below = 0, equal = 0;

    for (uint32_t i = 0; i < TRIES; i++) {
        below += es->reward[i] < es->reward[which];
        equal += i != which && !(es->reward[i] < es->reward[which]) && !(es->reward[i] > es->reward[which]);
    }
    return ((float)below + (float)equal / 2) / (TRIES - 1) - 0.5f;
}

int dp_learn_es(struct dp_learner *l, float *reward, struct dp_err *err)
{
    struct es es = {.l = l};
    struct dp_net *grad = calloc(1, sizeof *grad);
    int rc = grad ? dp_team_run(l->ask->threads, TRIES, try_move, &es, err) : dp_err_set(err, DP_ENOMEM, "moves: out of memory");

    *reward = 0;
    for (uint32_t i = 0; rc == 0 && i < PAIRS; i++) {
        add_move(l, grad, i, (rank_of(&es, 2 * i + 1) - rank_of(&es, 2 * i)) / (TRIES * FAR));
        *reward += (es.reward[2 * i] + es.reward[2 * i + 1]) / TRIES;
    }
    if (rc == 0)
        dp_learner_step(l, dp_net_numbers(grad), RATE);
    free(grad);
    return rc;
}
