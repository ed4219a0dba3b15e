/* SPDX-License-Identifier: BSD-3-Clause */
/* See train.h: iterations, steps of Adam, and the pool that is selected from. */
#include "policies/learn/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/train/family.h"
#include "policies/learn/train/team.h"

#define MOST_LENGTH 0.5f /* of a gradient */
#define KEPT 12u         /* networks that are kept on the way, the last one among them */
#define RULES 24u        /* random rules in the pool */
#define LESSON_SEED UINT64_C(0x6c6573736f6e) /* lessons, and what episodes draw, are streams apart */

#define NAME(ID, name, once, help) name,
static const char *const names[] = {DP_LEARN_METHODS(NAME)};
#undef NAME
#define HELP(ID, name, once, help) help,
static const char *const helps[] = {DP_LEARN_METHODS(HELP)};
#undef HELP
#define ONCE(ID, name, once, help) once,
static int (*const methods[])(struct dp_learner *, float *, struct dp_err *) = {DP_LEARN_METHODS(ONCE)};
#undef ONCE
#define COMMA(ID, name, once, help) ", " name

const char *dp_learn_method_name(enum dp_learn_method m)
{
    return names[m];
}

const char *dp_learn_method_help(enum dp_learn_method m)
{
    return helps[m];
}

int dp_learn_method_find(const char *name, enum dp_learn_method *out, struct dp_err *err)
{
    for (int m = 0; m < DP_LEARN_N; m++)
        if (!strcmp(name, names[m])) {
            *out = (enum dp_learn_method)m;
            return 0;
        }
    return dp_err_set(err, DP_EINVAL, "unknown method '%s'; expected one of %s", name, &DP_LEARN_METHODS(COMMA)[2]);
}

uint64_t dp_learner_draws(const struct dp_learner *l, uint64_t what)
{
    return dp_draw_stream(dp_draw_stream(l->ask->seed, l->iteration + 1), what);
}

/* One of Adam: weights w [n] against g, with moments m and v. */
static void step(struct dp_learner *l, size_t n, float *w, float *m, float *v, const float *g, float rate)
{
    float square = 0, by = 1, done = (float)l->iteration / (float)l->ask->iterations;

    rate *= 1.0f - 0.9f * done;
    for (size_t k = 0; k < n; k++)
        square += g[k] * g[k];
    if (square > MOST_LENGTH * MOST_LENGTH)
        by = MOST_LENGTH / sqrtf(square);
    if (l->n_steps++ < 10000) { /* no powf(): it is libm's own */
        l->fade_first *= 0.9f;
        l->fade_second *= 0.999f;
    }
    for (size_t k = 0; k < n; k++) {
        float d = g[k] * by;

        m[k] = 0.9f * m[k] + 0.1f * d;
        v[k] = 0.999f * v[k] + 0.001f * d * d;
        w[k] -= rate * (m[k] / (1.0f - l->fade_first)) / (sqrtf(v[k] / (1.0f - l->fade_second)) + 1e-8f);
    }
}

void dp_learner_step(struct dp_learner *l, const float *grad, float rate)
{
    step(l, DP_NET_SIZE, dp_net_numbers(&l->net), dp_net_numbers(&l->first), dp_net_numbers(&l->second), grad, rate);
}

void dp_learner_step_cutter(struct dp_learner *l, const float *grad, float rate)
{
    step(l, DP_CUTTER_SIZE, dp_cutter_numbers(&l->cutter), dp_cutter_numbers(&l->first_cutter), dp_cutter_numbers(&l->second_cutter),
         grad, rate);
}

void dp_learner_begin(struct dp_learner *l, const struct dp_learn *ask)
{
    *l = (struct dp_learner){.ask = ask, .fade_first = 1, .fade_second = 1};
    dp_net_init(&l->net, ask->seed);
    dp_cutter_init(&l->cutter, ask->seed);
}

int dp_learner_once(struct dp_learner *l, float *reward, struct dp_err *err)
{
    return methods[l->ask->method](l, reward, err);
}

/* Lessons from exact plans have to have one. */
static int make_lesson(void *arg, uint32_t which, struct dp_err *err)
{
    struct dp_learner *l = arg;

    return dp_lesson_create(&l->lesson[which], dp_draw_stream(l->ask->seed, LESSON_SEED),
                            (uint64_t)l->iteration * DP_LEARN_LESSONS + which, l->ask->method == DP_LEARN_IMITATION, err);
}

static int iterate(struct dp_learner *l, struct dp_err *err)
{
    float reward = 0;
    int rc = dp_team_run(l->ask->threads, DP_LEARN_LESSONS, make_lesson, l, err);

    if (rc == 0)
        rc = dp_learner_once(l, &reward, err);
    for (uint32_t i = 0; i < DP_LEARN_LESSONS; i++)
        dp_lesson_release(&l->lesson[i]);
    memset(l->lesson, 0, sizeof l->lesson);
    if (rc == 0 && !(dp_net_check(&l->net) && dp_cutter_check(&l->cutter)))
        rc = dp_err_set(err, DP_EINVAL, "iteration %u: a weight is no number, or too large", l->iteration);
    if (rc == 0 && l->ask->on_iteration && !l->ask->on_iteration(l->ask->arg, l->iteration, reward))
        rc = dp_err_set(err, DP_EINVAL, "ended after %u iterations", l->iteration + 1);
    return rc;
}

int dp_learn_run(const struct dp_learn *ask, struct dp_weights *w, struct dp_err *err)
{
    struct dp_learner *l = calloc(1, sizeof *l);
    struct dp_net *pool = calloc(KEPT + RULES, sizeof *pool);
    uint32_t n = 0, n_trained;
    int rc = 0;

    *w = (struct dp_weights){.seed = ask->seed};
    if (!l || !pool) {
        rc = dp_err_set(err, DP_ENOMEM, "learning: out of memory");
        goto out;
    }
    dp_learner_begin(l, ask);
    for (; rc == 0 && l->iteration < ask->iterations; l->iteration++) {
        rc = iterate(l, err);
        if (rc == 0 && (uint64_t)(l->iteration + 1) * KEPT / ask->iterations > (uint64_t)l->iteration * KEPT / ask->iterations)
            pool[n++] = l->net;
    }
    if (rc == 0)
        rc = dp_family_hash(&w->families_hash, err);
    if (ask->method == DP_LEARN_DRL_PP) {
        if (rc == 0)
            rc = dp_weights_hold_cutter(w, &l->cutter, err);
        goto out;
    }
    n_trained = n;
    for (uint32_t i = 0; i < RULES; i++) {
        struct dp_rule rule;

        dp_rule_draw(&rule, ask->seed, i);
        dp_net_of_rule(&pool[n++], &rule);
    }
    if (rc == 0)
        rc = dp_learn_select(ask, pool, n_trained, n, w, err);
out:
    free(l);
    free(pool);
    return rc;
}
