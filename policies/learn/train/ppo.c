/* SPDX-License-Identifier: BSD-3-Clause */
/* Proximal policy optimization of orders: see train.h and clipped.h. An episode is an order. */
#include <stdlib.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/train/clipped.h"

struct episode {
    uint32_t *order;  /* [units] */
    float *log_share; /* [units] when it was drawn */
    float *log_now;   /* [units] */
    uint64_t key_seed;
    struct dp_net_tape tape;
    struct dp_net grad; /* summed over choices */
};

static void release(struct episode *e)
{
    free(e->order);
    free(e->log_share);
    free(e->log_now);
    dp_net_tape_release(&e->tape);
}

static int draw(struct dp_clipped *p, uint32_t which, struct dp_err *err)
{
    const struct dp_lesson *lesson = &p->l->lesson[which / DP_LEARN_TRIES];
    struct episode *e = &((struct episode *)p->arg)[which];
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
        p->trial[which].reward = dp_lesson_reward(lesson, load);
    dp_net_code_release(&code);
    return rc;
}

static void set_slopes(struct episode *e, struct dp_clipped_trial *t)
{
    for (uint32_t i = 0; i < e->tape.n_choices; i++) {
        struct dp_net_choice *c = &e->tape.choice[i];

        c->slope = dp_clipped_slope(t, e->log_now[i], e->log_share[i]);
        c->entropy_worth = DP_CLIPPED_ENTROPY;
        t->n_choices += c->n > 1;
    }
}

static int learn(struct dp_clipped *p, uint32_t which, struct dp_err *err)
{
    const struct dp_lesson *lesson = &p->l->lesson[which / DP_LEARN_TRIES];
    struct episode *e = &((struct episode *)p->arg)[which];
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
        set_slopes(e, &p->trial[which]);
        rc = dp_net_learn(&p->l->net, &lesson->seen, &code, &e->tape, &e->grad, err);
    }
    dp_net_code_release(&code);
    return rc;
}

static const float *grad_of(const struct dp_clipped *p, uint32_t which)
{
    return dp_net_numbers(&((struct episode *)p->arg)[which].grad);
}

int dp_learn_ppo(struct dp_learner *l, float *reward, struct dp_err *err)
{
    struct episode *episode = calloc(DP_CLIPPED_EPISODES, sizeof *episode);
    struct dp_clipped p = {
        .l = l, .arg = episode, .draw = draw, .learn = learn, .grad = grad_of, .size = DP_NET_SIZE, .step = dp_learner_step};
    int rc = episode ? dp_clipped_learn(&p, reward, err) : dp_err_set(err, DP_ENOMEM, "episodes: out of memory");

    for (uint32_t i = 0; episode && i < DP_CLIPPED_EPISODES; i++)
        release(&episode[i]);
    free(episode);
    return rc;
}
