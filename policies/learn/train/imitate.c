/* SPDX-License-Identifier: BSD-3-Clause */
/* Imitation of exact plans: see train.h. A plan says which stage comes when, and nothing about the order in a stage. So the order to
 * imitate is the network's own, but for units of a later stage, which wait: what is learned is where stages end. The loss is the
 * cross-entropy of what is chosen so, among all units that are ready. Graphs with too many ideals for an exact plan are passed over. */
#include <stdlib.h>

#include "policies/learn/net/dense.h"
#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define EPOCHS 4   /* looks at each plan, with the order that is the network's own then */
#define RATE 1e-2f /* of Adam */

struct pupil {
    uint32_t *stage; /* [units] of the exact plan */
    uint32_t *order; /* [units] */
    bool is_exact;
    float reward;       /* of the network's own order, before it learned */
    uint32_t n_choices; /* where there was something to choose */
    struct dp_net_tape tape;
    struct dp_net grad; /* summed over choices */
};

struct imitation {
    struct dp_learner *l;
    struct pupil pupil[DP_LEARN_LESSONS];
};

static int look(void *arg, uint32_t which, struct dp_err *err)
{
    struct imitation *m = arg;
    const struct dp_lesson *lesson = &m->l->lesson[which];
    struct pupil *p = &m->pupil[which];
    size_t n = (size_t)lesson->units.n + 1;
    uint64_t load;
    int rc;

    p->stage = calloc(n, sizeof *p->stage);
    p->order = calloc(n, sizeof *p->order);
    if (!p->stage || !p->order)
        return dp_err_set(err, DP_ENOMEM, "an exact plan: out of memory");
    if (dp_lesson_try(lesson, &m->l->net, m->l->iteration, &load, err) < 0)
        return -1;
    p->reward = dp_lesson_reward(lesson, load);
    rc = dp_lesson_exact(lesson, p->stage, err);
    p->is_exact = rc > 0;
    return rc < 0 ? -1 : 0;
}

static int learn_plan(void *arg, uint32_t which, struct dp_err *err)
{
    struct imitation *m = arg;
    const struct dp_lesson *lesson = &m->l->lesson[which];
    struct pupil *p = &m->pupil[which];
    const struct dp_net_walk ask = {
        .max_steps = UINT64_MAX - 1, .key_seed = m->l->iteration, .stage = p->stage, .tape = &p->tape};
    struct dp_net_code code;
    uint64_t steps = 0;
    int rc;

    p->n_choices = 0;
    p->grad = (struct dp_net){0};
    if (!p->is_exact)
        return 0;
    rc = dp_net_encode(&code, &m->l->net, &lesson->seen, err);
    if (rc == 0 && dp_net_order(&m->l->net, &lesson->seen, &code, &ask, p->order, &steps, err) < 0)
        rc = -1;
    for (uint32_t i = 0; rc == 0 && i < p->tape.n_choices; i++) {
        p->tape.choice[i].slope = -1;
        p->tape.choice[i].entropy_worth = 0;
        p->n_choices += p->tape.choice[i].n > 1;
    }
    if (rc == 0)
        rc = dp_net_learn(&m->l->net, &lesson->seen, &code, &p->tape, &p->grad, err);
    dp_net_code_release(&code);
    return rc;
}

/* A step of all lessons together. grad: room for it. */
static int learn_all(struct imitation *m, struct dp_net *grad, struct dp_err *err)
{
    uint32_t n_choices = 0;

    if (dp_team_run(m->l->ask->threads, DP_LEARN_LESSONS, learn_plan, m, err) < 0)
        return -1;
    *grad = (struct dp_net){0};
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        dp_dense_add_row(dp_net_numbers(grad), dp_net_numbers(&m->pupil[i].grad), 1, DP_NET_SIZE);
        n_choices += m->pupil[i].n_choices;
    }
    if (!n_choices)
        return 0;
    for (size_t k = 0; k < DP_NET_SIZE; k++)
        dp_net_numbers(grad)[k] /= (float)n_choices;
    dp_learner_step(m->l, dp_net_numbers(grad), RATE);
    return 0;
}

int dp_learn_imitation(struct dp_learner *l, float *reward, struct dp_err *err)
{
    struct imitation *m = calloc(1, sizeof *m);
    struct dp_net *grad = malloc(sizeof *grad);
    int rc = m && grad ? 0 : dp_err_set(err, DP_ENOMEM, "exact plans: out of memory");

    *reward = 0;
    if (rc == 0) {
        m->l = l;
        rc = dp_team_run(l->ask->threads, DP_LEARN_LESSONS, look, m, err);
    }
    for (uint32_t i = 0; rc == 0 && i < DP_LEARN_LESSONS; i++)
        *reward += m->pupil[i].reward / DP_LEARN_LESSONS;
    for (int epoch = 0; rc == 0 && epoch < EPOCHS; epoch++)
        rc = learn_all(m, grad, err);
    for (uint32_t i = 0; m && i < DP_LEARN_LESSONS; i++) {
        free(m->pupil[i].stage);
        free(m->pupil[i].order);
        dp_net_tape_release(&m->pupil[i].tape);
    }
    free(m);
    free(grad);
    return rc;
}
