/* SPDX-License-Identifier: BSD-3-Clause */
/* DRL-PP's way: see train.h. All parts of struct dp_cutter learn together by proximal policy optimization, from one reward at the end of a
 * placement: that of the pipeline that comes of it. Baseline and constants are those of ppo.c. */
#include <math.h>
#include <stdlib.h>

#include "policies/graph/maxload/parts.h"
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
#define MOST_KL 0.03f  /* of a batch, a choice */
#define RATE 3e-3f     /* of Adam */

struct episode {
    struct dp_cutter_tape tape;
    float *log_then; /* [choices] when it was drawn */
    float reward, advantage, kl;
    struct dp_cutter grad; /* summed over choices */
};

struct drl_pp {
    struct dp_learner *l;
    struct episode *episode; /* [EPISODES]; of lesson i: i * ROLLOUTS + 0.. */
    uint32_t batch;          /* which rollout of each lesson is learned from */
};

static uint32_t choices(const struct episode *e)
{
    return e->tape.n + e->tape.n_devices;
}

int dp_learn_drl_pp_load(const struct dp_lesson *l, const struct dp_cutter_tape *t, uint64_t *load_ns, struct dp_err *err)
{
    uint32_t *stage = calloc((size_t)t->n + 1, sizeof *stage), n_stages;
    int rc = stage ? 0 : dp_err_set(err, DP_ENOMEM, "a placement: out of memory");

    if (rc == 0) {
        dp_cutter_devices(t, stage);
        dp_parts_pipeline(&l->units, stage, l->n_devices, stage, &n_stages);
        rc = dp_parts_load(&l->units, stage, n_stages, UINT64_MAX, load_ns, err);
    }
    free(stage);
    return rc;
}

static int draw_episode(void *arg, uint32_t which, struct dp_err *err)
{
    struct drl_pp *p = arg;
    const struct dp_lesson *lesson = &p->l->lesson[which / ROLLOUTS];
    struct episode *e = &p->episode[which];
    struct dp_cutter_code code = {0};
    uint64_t load;
    int rc = dp_cutter_tape_create(&e->tape, lesson->units.n, lesson->n_devices, err);

    e->log_then = calloc((size_t)lesson->units.n + lesson->n_devices, sizeof *e->log_then);
    if (rc == 0 && !e->log_then)
        rc = dp_err_set(err, DP_ENOMEM, "an episode: out of memory");
    if (rc == 0)
        rc = dp_cutter_encode(&code, &p->l->cutter, &lesson->seen, err);
    if (rc == 0) {
        dp_cutter_place(&p->l->cutter, &lesson->seen, &code, DP_CUTTER_DRAWN, dp_learner_draws(p->l, which), &e->tape);
        for (uint32_t i = 0; i < choices(e); i++)
            e->log_then[i] = e->tape.log_share[i];
        rc = dp_learn_drl_pp_load(lesson, &e->tape, &load, err);
    }
    if (rc == 0)
        e->reward = dp_lesson_reward(lesson, load);
    dp_cutter_code_release(&code);
    return rc;
}

/* Slopes of the clipped objective, negative since a step goes against the gradient. */
static void set_slopes(struct episode *e)
{
    e->kl = 0;
    for (uint32_t i = 0; i < choices(e); i++) {
        float change = e->tape.log_share[i] - e->log_then[i], ratio = dp_f_exp(change);
        bool is_far = e->advantage > 0 ? ratio > 1.0f + CLIP : ratio < 1.0f - CLIP;

        e->tape.slope[i] = is_far ? 0 : -ratio * e->advantage;
        e->kl += ratio - 1.0f - change;
    }
}

static int learn_episode(void *arg, uint32_t which, struct dp_err *err)
{
    struct drl_pp *p = arg;
    const struct dp_lesson *lesson = &p->l->lesson[which];
    struct episode *e = &p->episode[which * ROLLOUTS + p->batch];
    struct dp_cutter_code code;
    int rc = dp_cutter_encode(&code, &p->l->cutter, &lesson->seen, err);

    e->grad = (struct dp_cutter){0};
    if (rc == 0) {
        dp_cutter_place(&p->l->cutter, &lesson->seen, &code, DP_CUTTER_FOLLOW, 0, &e->tape);
        set_slopes(e);
        rc = dp_cutter_learn(&p->l->cutter, &lesson->seen, &code, &e->tape, ENTROPY, &e->grad, err);
    }
    dp_cutter_code_release(&code);
    return rc;
}

/* What placements of the same lesson are worth beyond their mean, in units of how much that varies. returns: the mean. */
static float set_advantages(struct drl_pp *p)
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
static int learn_batch(struct drl_pp *p, struct dp_cutter *grad, float *kl, struct dp_err *err)
{
    uint32_t n = 0;
    float sum = 0;

    if (dp_team_run(p->l->ask->threads, DP_LEARN_LESSONS, learn_episode, p, err) < 0)
        return -1;
    *grad = (struct dp_cutter){0};
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++) {
        struct episode *e = &p->episode[i * ROLLOUTS + p->batch];

        dp_dense_add_row(dp_cutter_numbers(grad), dp_cutter_numbers(&e->grad), 1, DP_CUTTER_SIZE);
        n += choices(e);
        sum += e->kl;
    }
    *kl = sum / (float)n;
    if (*kl > MOST_KL)
        return 0;
    for (size_t k = 0; k < DP_CUTTER_SIZE; k++)
        dp_cutter_numbers(grad)[k] /= (float)n;
    dp_learner_step_cutter(p->l, grad, RATE);
    return 0;
}

int dp_learn_drl_pp(struct dp_learner *l, float *reward, struct dp_err *err)
{
    struct drl_pp p = {.l = l, .episode = calloc(EPISODES, sizeof *p.episode)};
    struct dp_cutter *grad = malloc(sizeof *grad);
    float kl = 0;
    int rc = p.episode && grad ? 0 : dp_err_set(err, DP_ENOMEM, "episodes: out of memory");

    if (rc == 0)
        rc = dp_team_run(l->ask->threads, EPISODES, draw_episode, &p, err);
    if (rc == 0)
        *reward = set_advantages(&p);
    for (int epoch = 0; rc == 0 && epoch < EPOCHS && kl <= MOST_KL; epoch++)
        for (p.batch = 0; rc == 0 && p.batch < ROLLOUTS && kl <= MOST_KL; p.batch++)
            rc = learn_batch(&p, grad, &kl, err);
    for (uint32_t i = 0; p.episode && i < EPISODES; i++) {
        dp_cutter_tape_release(&p.episode[i].tape);
        free(p.episode[i].log_then);
    }
    free(p.episode);
    free(grad);
    return rc;
}
