/* SPDX-License-Identifier: BSD-3-Clause */
/* Proximal policy optimization: see train.h. An episode is an order; its reward comes at its end. The baseline is the mean of the
 * orders that the same lesson got, so no critic has to be learned. Constants are those of spark-sched-sim's, which learns to
 * choose among ready stages, too. */
#include <math.h>
#include <stdlib.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/dense.h"
#include "policies/learn/floats.h"
#include "policies/learn/team.h"
#include "policies/learn/train.h"

#define ROLLOUTS DP_LEARN_TRIES
#define EPISODES (DP_LEARN_LESSONS * ROLLOUTS)
#define EPOCHS 2       /* looks at each episode */
#define CLIP 0.2f      /* of the ratio of two probabilities */
#define ENTROPY 0.002f /* worth of an entropy of 1 */
#define MOST_KL 0.03f  /* of a batch: further from the orders that were drawn, and the iteration ends */
#define RATE 3e-3f     /* of Adam */

struct episode {
    uint32_t *order;  /* [units] */
    float *log_share; /* [units] when it was drawn */
    float *log_now;   /* [units] */
    uint64_t key_seed;
    float reward, advantage;
    uint32_t n_choices; /* where there was something to choose */
    struct dp_net_tape tape;
    struct dp_net grad; /* summed over choices */
    float kl;           /* likewise */
};

struct ppo {
    struct dp_learner *l;
    struct episode *episode; /* [EPISODES]; of lesson i: i * ROLLOUTS + 0.. */
    uint32_t batch;          /* which rollout of each lesson is learned from */
};

static void release(struct episode *e)
{
    free(e->order);
    free(e->log_share);
    free(e->log_now);
    dp_net_tape_release(&e->tape);
}

static int draw_episode(void *arg, uint32_t which, struct dp_err *err)
{
    struct ppo *p = arg;
    const struct dp_lesson *lesson = &p->l->lesson[which / ROLLOUTS];
    struct episode *e = &p->episode[which];
    uint64_t draws = dp_learner_draws(p->l, which), load, steps = 0;
    struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1, .is_drawn = true};
    struct dp_net_code code = {0};
    size_t n = (size_t)lesson->units.n + 1;
    int rc = -1;

    e->order = calloc(n, sizeof *e->order);
    e->log_share = ask.log_share = calloc(n, sizeof *e->log_share);
    e->log_now = calloc(n, sizeof *e->log_now);
    e->key_seed = ask.key_seed = dp_draw(&draws);
    ask.draw_seed = dp_draw(&draws);
    if (!e->order || !e->log_share || !e->log_now)
        dp_err_set(err, DP_ENOMEM, "an episode: out of memory");
    else if (dp_net_encode(&code, &p->l->net, &lesson->seen, err) == 0 &&
             dp_net_order(&p->l->net, &lesson->seen, &code, &ask, e->order, &steps, err) == 1)
        rc = dp_lesson_load(lesson, e->order, &load, err);
    if (rc == 0)
        e->reward = dp_lesson_reward(lesson, load);
    dp_net_code_release(&code);
    return rc;
}

/* Slopes of the clipped objective, negative since a step goes against the gradient. */
static void set_slopes(struct episode *e)
{
    e->n_choices = 0;
    e->kl = 0;
    for (uint32_t i = 0; i < e->tape.n_choices; i++) {
        struct dp_net_choice *c = &e->tape.choice[i];
        float change = e->log_now[i] - e->log_share[i], ratio = dp_f_exp(change);
        bool is_far = e->advantage > 0 ? ratio > 1.0f + CLIP : ratio < 1.0f - CLIP;

        c->slope = is_far ? 0 : -ratio * e->advantage;
        c->entropy_worth = ENTROPY;
        e->n_choices += c->n > 1;
        e->kl += ratio - 1.0f - change;
    }
}

static int learn_episode(void *arg, uint32_t which, struct dp_err *err)
{
    struct ppo *p = arg;
    const struct dp_lesson *lesson = &p->l->lesson[which];
    struct episode *e = &p->episode[which * ROLLOUTS + p->batch];
    const struct dp_net_walk ask = {.max_steps = UINT64_MAX - 1,
                                    .key_seed = e->key_seed,
                                    .follow = e->order,
                                    .log_share = e->log_now,
                                    .tape = &e->tape};
    struct dp_net_code code;
    uint64_t steps = 0;
    int rc = dp_net_encode(&code, &p->l->net, &lesson->seen, err);

    e->grad = (struct dp_net){0};
    if (rc == 0 && dp_net_order(&p->l->net, &lesson->seen, &code, &ask, e->order, &steps, err) < 0)
        rc = -1;
    if (rc == 0) {
        set_slopes(e);
        rc = dp_net_learn(&p->l->net, &lesson->seen, &code, &e->tape, &e->grad, err);
    }
    dp_net_code_release(&code);
    return rc;
}

/* What orders of the same lesson are worth beyond their mean, in units of how much that varies. */
static float set_advantages(struct ppo *p)
{
    float sum = 0, square = 0;

    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        struct episode *e = &p->episode[i * ROLLOUTS];
        float mean = 0;

        for (uint32_t r = 0; r < ROLLOUTS; r++)
            mean += e[r].reward / ROLLOUTS;
        for (uint32_t r = 0; r < ROLLOUTS; r++) {
            e[r].advantage = e[r].reward - mean;
            square += e[r].advantage * e[r].advantage;
        }
        sum += mean;
    }
    for (uint32_t i = 0; i < EPISODES; i++)
        p->episode[i].advantage /= sqrtf(square / EPISODES) + 1e-6f;
    return sum / DP_LEARN_LESSONS;
}

/* One batch. kl: = of a choice, in the mean. */
static int learn_batch(struct ppo *p, struct dp_net *grad, float *kl, struct dp_err *err)
{
    uint32_t n_choices = 0;
    float sum = 0;

    if (dp_team_run(p->l->ask->threads, DP_LEARN_LESSONS, learn_episode, p, err) < 0)
        return -1;
    *grad = (struct dp_net){0};
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        struct episode *e = &p->episode[i * ROLLOUTS + p->batch];

        dp_dense_add_row(dp_net_numbers(grad), dp_net_numbers(&e->grad), 1, DP_NET_SIZE);
        n_choices += e->n_choices;
        sum += e->kl;
    }
    *kl = n_choices ? sum / (float)n_choices : 0;
    if (!n_choices || *kl > MOST_KL)
        return 0;
    for (size_t k = 0; k < DP_NET_SIZE; k++)
        dp_net_numbers(grad)[k] /= (float)n_choices;
    dp_learner_step(p->l, grad, RATE);
    return 0;
}

int dp_learn_ppo(struct dp_learner *l, float *reward, struct dp_err *err)
{
    struct ppo p = {.l = l, .episode = calloc(EPISODES, sizeof *p.episode)};
    struct dp_net *grad = malloc(sizeof *grad);
    float kl = 0;
    int rc = p.episode && grad ? 0 : dp_err_set(err, DP_ENOMEM, "episodes: out of memory");

    if (rc == 0)
        rc = dp_team_run(l->ask->threads, EPISODES, draw_episode, &p, err);
    if (rc == 0)
        *reward = set_advantages(&p);
    for (int epoch = 0; rc == 0 && epoch < EPOCHS && kl <= MOST_KL; epoch++)
        for (p.batch = 0; rc == 0 && p.batch < ROLLOUTS && kl <= MOST_KL; p.batch++)
            rc = learn_batch(&p, grad, &kl, err);
    for (uint32_t i = 0; p.episode && i < EPISODES; i++)
        release(&p.episode[i]);
    free(p.episode);
    free(grad);
    return rc;
}
