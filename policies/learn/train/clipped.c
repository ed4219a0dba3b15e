/* SPDX-License-Identifier: BSD-3-Clause */
/* See clipped.h. */
#include "policies/learn/train/clipped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/learn/net/dense.h"
#include "policies/learn/net/floats.h"

#define ROLLOUTS DP_LEARN_TRIES
#define EPOCHS 2      /* looks at each episode */
#define CLIP 0.2f     /* of the ratio of two probabilities */
#define MOST_KL 0.03f /* of a batch, a choice: further from what was drawn, and the iteration ends */
#define RATE 3e-3f    /* of Adam */

float dp_clipped_slope(struct dp_clipped_trial *t, float log_now, float log_drawn)
{
    float change = log_now - log_drawn, ratio = dp_f_exp(change);
    bool is_far = t->advantage > 0 ? ratio > 1.0f + CLIP : ratio < 1.0f - CLIP;

    t->kl += ratio - 1.0f - change;
    return is_far ? 0 : -ratio * t->advantage;
}

static int draw_one(void *arg, uint32_t which, struct dp_err *err)
{
    struct dp_clipped *c = arg;

    return c->draw(c, which, err);
}

static uint32_t of_batch(const struct dp_clipped *c, uint32_t lesson)
{
    return lesson * ROLLOUTS + c->batch;
}

static int learn_one(void *arg, uint32_t lesson, struct dp_err *err)
{
    struct dp_clipped *c = arg;
    struct dp_clipped_trial *t = &c->trial[of_batch(c, lesson)];

    t->kl = 0;
    t->n_choices = 0;
    return c->learn(c, of_batch(c, lesson), err);
}

/* What episodes of the same lesson are worth beyond their mean, in units of how much that varies. returns: the mean of all. */
static float set_advantages(struct dp_clipped_trial *trial)
{
    float sum = 0, square = 0;

    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        struct dp_clipped_trial *t = &trial[i * ROLLOUTS];
        float mean = 0;

        for (uint32_t r = 0; r < ROLLOUTS; r++)
            mean += t[r].reward / ROLLOUTS;
        for (uint32_t r = 0; r < ROLLOUTS; r++) {
            t[r].advantage = t[r].reward - mean;
            square += t[r].advantage * t[r].advantage;
        }
        sum += mean;
    }
    for (uint32_t i = 0; i < DP_CLIPPED_EPISODES; i++)
        trial[i].advantage /= sqrtf(square / DP_CLIPPED_EPISODES) + 1e-6f;
    return sum / DP_LEARN_LESSONS;
}

/* One batch. grad: [size], to work in. kl: = of a choice, in the mean. */
static int learn_batch(struct dp_clipped *c, float *grad, float *kl, struct dp_err *err)
{
    uint32_t n = 0;
    float sum = 0;

    if (dp_team_run(c->l->ask->threads, DP_LEARN_LESSONS, learn_one, c, err) < 0)
        return -1;
    memset(grad, 0, c->size * sizeof *grad);
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        const struct dp_clipped_trial *t = &c->trial[of_batch(c, i)];

        dp_dense_add_row(grad, c->grad(c, of_batch(c, i)), 1, (uint32_t)c->size);
        n += t->n_choices;
        sum += t->kl;
    }
    *kl = n ? sum / (float)n : 0;
    if (!n || *kl > MOST_KL)
        return 0;
    for (size_t k = 0; k < c->size; k++)
        grad[k] /= (float)n;
    c->step(c->l, grad, RATE);
    return 0;
}

int dp_clipped_learn(struct dp_clipped *c, float *reward, struct dp_err *err)
{
    float *grad = malloc(c->size * sizeof *grad), kl = 0;
    int rc = grad ? dp_team_run(c->l->ask->threads, DP_CLIPPED_EPISODES, draw_one, c, err)
                  : dp_err_set(err, DP_ENOMEM, "episodes: out of memory");

    if (rc == 0)
        *reward = set_advantages(c->trial);
    for (int epoch = 0; rc == 0 && epoch < EPOCHS && kl <= MOST_KL; epoch++)
        for (c->batch = 0; rc == 0 && c->batch < ROLLOUTS && kl <= MOST_KL; c->batch++)
            rc = learn_batch(c, grad, &kl, err);
    free(grad);
    return rc;
}
