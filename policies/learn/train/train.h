/* SPDX-License-Identifier: BSD-3-Clause */
/* Learning of networks that make orders (net.h), from lessons (lesson.h), by one of three methods, or of one that places
 * units itself, to compare with:
 *
 *   PPO  proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347): orders are drawn, what an order is worth less
 *        the mean of its lesson's orders is every choice's advantage, and a step changes no choice's probability by much
 *   ES   evolution strategy (Salimans et al. 2017, arXiv:1703.03864): weights are moved by chance, both ways, and follow those
 *        moves whose best orders are worth more
 *   IMITATION  of exact plans of small graphs: at each choice a unit of the plan's stage gets more likely (imitate.c)
 *   DRL_PP  a network that cuts and places without a dynamic program (cutter.h), by proximal policy optimization (drl_pp.c)
 *
 * On the way networks that make orders are kept; of these and of random rules those are selected that are best together (select.c).
 *
 * Every random number is that of a seed, an iteration, an episode and a place in it; threads own whole episodes, and sums over
 * episodes are made in their order. So weights are the same, bit for bit, whatever the number of threads. */
#ifndef DP_POLICIES_LEARN_TRAIN_H
#define DP_POLICIES_LEARN_TRAIN_H

#include <stdbool.h>

#include "policies/learn/train/lesson.h"
#include "policies/learn/net/weights.h"

/* All methods, a line each: --method, its help and its errors have their names from here. */
#define DP_LEARN_METHODS(M)                                                               \
    M(PPO, "ppo", dp_learn_ppo, "proximal policy optimization of orders that are drawn")  \
    M(ES, "es", dp_learn_es, "evolution strategy: weights are moved by chance")           \
    M(IMITATION, "imitation", dp_learn_imitation, "of exact plans of small graphs")              \
    M(DRL_PP, "drl-pp", dp_learn_drl_pp, "cuts and devices themselves, for plan --algorithm=drl-pp")
#define DP_LEARN_ENUM(ID, name, once, help) DP_LEARN_##ID,
enum dp_learn_method { DP_LEARN_METHODS(DP_LEARN_ENUM) DP_LEARN_N };
#undef DP_LEARN_ENUM

/* As --method has it; and in a few words. */
const char *dp_learn_method_name(enum dp_learn_method m);
const char *dp_learn_method_help(enum dp_learn_method m);
/* returns 0 and *out, or -1 with an error that lists the names. */
int dp_learn_method_find(const char *name, enum dp_learn_method *out, struct dp_err *err);

struct dp_learn {
    enum dp_learn_method method;
    uint64_t seed;
    uint32_t iterations; /* 0: only random rules are selected */
    uint32_t threads;    /* at least 1 */
    /* Told after each iteration: mean reward of its episodes. returns: go on? NULL: nobody. */
    bool (*on_iteration)(void *arg, uint32_t iteration, float reward);
    void *arg;
};

/* w: = the networks that are best together, or the one that DRL_PP learned, with seed and hash of the families; the caller's to
 * release, whatever comes back.
 * returns 0, or -1: DP_ENOMEM, or DP_EINVAL (`on_iteration` ended it, or weights became no numbers). */
int dp_learn_run(const struct dp_learn *ask, struct dp_weights *w, struct dp_err *err);

/* ---- for train.c and the methods ---- */

#define DP_LEARN_LESSONS 4u /* of an iteration: one of each family */
#define DP_LEARN_TRIES 16u  /* orders of each lesson that an iteration of PPO or ES cuts, so that these can be compared */

struct dp_learner {
    const struct dp_learn *ask;
    struct dp_net net, first, second; /* first, second: moments of its gradients (Adam) */
    uint32_t n_steps;                 /* that Adam made */
    float fade_first, fade_second;    /* what zeroes to begin with still count in the moments */
    struct dp_cutter cutter, first_cutter, second_cutter; /* likewise: what DRL_PP learns */
    uint32_t iteration;
    struct dp_lesson lesson[DP_LEARN_LESSONS]; /* of the iteration */
};

/* The state of random numbers `what` (an episode, a move) of this iteration. */
uint64_t dp_learner_draws(const struct dp_learner *l, uint64_t what);
/* A step of Adam (Kingma and Ba 2015, arXiv:1412.6980) against grad [DP_NET_SIZE], whose length is cut off at 0.5 before, at a rate that
 * falls to a tenth by the last iteration. */
void dp_learner_step(struct dp_learner *l, const float *grad, float rate);
/* The same of the cutter. grad: [DP_CUTTER_SIZE] */
void dp_learner_step_cutter(struct dp_learner *l, const float *grad, float rate);
/* Both networks as they begin; the other members are zeroes. */
void dp_learner_begin(struct dp_learner *l, const struct dp_learn *ask);
/* One iteration by the method that was asked for, from the lessons that there are. reward: = mean of its episodes.
 * returns 0 or -1 (DP_ENOMEM). */
int dp_learner_once(struct dp_learner *l, float *reward, struct dp_err *err);
/* That of each method, likewise. */
int dp_learn_ppo(struct dp_learner *l, float *reward, struct dp_err *err);
int dp_learn_es(struct dp_learner *l, float *reward, struct dp_err *err);
int dp_learn_imitation(struct dp_learner *l, float *reward, struct dp_err *err);
int dp_learn_drl_pp(struct dp_learner *l, float *reward, struct dp_err *err);
/* load_ns: = of the pipeline that such a placement makes (parts.h). returns 0 or -1 (DP_ENOMEM). */
int dp_learn_drl_pp_load(const struct dp_lesson *l, const struct dp_cutter_tape *t, uint64_t *load_ns, struct dp_err *err);
/* w: = at most DP_WEIGHTS_MOST of pool [n], the first n_trained of which were trained, found one after the other, each with the largest
 * gain in what the best of all is worth in lessons of the seed; w->net is allocated. returns 0 or -1 (DP_ENOMEM). */
int dp_learn_select(const struct dp_learn *ask, const struct dp_net *pool, uint32_t n_trained, uint32_t n, struct dp_weights *w,
                    struct dp_err *err);

#endif
