/* SPDX-License-Identifier: BSD-3-Clause */
/* DRL-PP's way: see train.h and clipped.h. All parts of struct dp_cutter learn together, from one reward at the end of a placement: that of
 * the pipeline that comes of it. */
#include <stdlib.h>

#include "policies/graph/maxload/parts.h"
#include "policies/learn/train/clipped.h"

struct episode {
    struct dp_cutter_tape tape;
    float *log_then; /* [choices] when it was drawn */
    struct dp_cutter grad; /* summed over choices */
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

static int draw(struct dp_clipped *p, uint32_t which, struct dp_err *err)
{
    const struct dp_lesson *lesson = &p->l->lesson[which / DP_LEARN_TRIES];
    struct episode *e = &((struct episode *)p->arg)[which];
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
        p->trial[which].reward = dp_lesson_reward(lesson, load);
    dp_cutter_code_release(&code);
    return rc;
}

static int learn(struct dp_clipped *p, uint32_t which, struct dp_err *err)
{
    const struct dp_lesson *lesson = &p->l->lesson[which / DP_LEARN_TRIES];
    struct episode *e = &((struct episode *)p->arg)[which];
    struct dp_clipped_trial *t = &p->trial[which];
    struct dp_cutter_code code;
    int rc = dp_cutter_encode(&code, &p->l->cutter, &lesson->seen, err);

    e->grad = (struct dp_cutter){0};
    if (rc == 0) {
        dp_cutter_place(&p->l->cutter, &lesson->seen, &code, DP_CUTTER_FOLLOW, 0, &e->tape);
        t->n_choices = choices(e);
        for (uint32_t i = 0; i < t->n_choices; i++)
            e->tape.slope[i] = dp_clipped_slope(t, e->tape.log_share[i], e->log_then[i]);
        rc = dp_cutter_learn(&p->l->cutter, &lesson->seen, &code, &e->tape, DP_CLIPPED_ENTROPY, &e->grad, err);
    }
    dp_cutter_code_release(&code);
    return rc;
}

static const float *grad_of(const struct dp_clipped *p, uint32_t which)
{
    return dp_cutter_numbers(&((struct episode *)p->arg)[which].grad);
}

int dp_learn_drl_pp(struct dp_learner *l, float *reward, struct dp_err *err)
{
    struct episode *episode = calloc(DP_CLIPPED_EPISODES, sizeof *episode);
    struct dp_clipped p = {
        .l = l, .arg = episode, .draw = draw, .learn = learn, .grad = grad_of, .size = DP_CUTTER_SIZE, .step = dp_learner_step_cutter};
    int rc = episode ? dp_clipped_learn(&p, reward, err) : dp_err_set(err, DP_ENOMEM, "episodes: out of memory");

    for (uint32_t i = 0; episode && i < DP_CLIPPED_EPISODES; i++) {
        dp_cutter_tape_release(&episode[i].tape);
        free(episode[i].log_then);
    }
    free(episode);
    return rc;
}
