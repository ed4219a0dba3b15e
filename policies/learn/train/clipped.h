/* SPDX-License-Identifier: BSD-3-Clause */
/* Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347), whatever the choices are (ppo.c, drl_pp.c). An episode is a row
 * of choices, whose reward comes at its end. The baseline is the mean of the episodes of the same lesson, so no critic has to be
 * learned. Constants are those of spark-sched-sim's, which learns to choose among ready stages, too. */
#ifndef DP_POLICIES_LEARN_CLIPPED_H
#define DP_POLICIES_LEARN_CLIPPED_H

#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define DP_CLIPPED_EPISODES (DP_LEARN_LESSONS * DP_LEARN_TRIES) /* of lesson i: i * DP_LEARN_TRIES and those behind it */
#define DP_CLIPPED_ENTROPY 0.002f                               /* worth of an entropy of 1 */

/* What an episode came to. */
struct dp_clipped_trial {
    float reward, advantage;
    float kl;           /* how far its choices are from when they were drawn, summed; 0 before the first slope */
    uint32_t n_choices; /* where there was something to choose */
};

struct dp_clipped {
    struct dp_learner *l;
    void *arg; /* of the functions */
    /* Of an episode: draw it and set its reward; learn from it: slopes, kl, n_choices and gradient. Each by one thread. */
    int (*draw)(struct dp_clipped *c, uint32_t episode, struct dp_err *err);
    int (*learn)(struct dp_clipped *c, uint32_t episode, struct dp_err *err);
    const float *(*grad)(const struct dp_clipped *c, uint32_t episode); /* [size], summed over choices; as learn left it */
    size_t size;
    void (*step)(struct dp_learner *l, const float *grad, float rate);
    struct dp_clipped_trial trial[DP_CLIPPED_EPISODES];
    uint32_t batch; /* which episode of each lesson is learned from */
};

/* The slope of the clipped objective by the log of the chosen one's share, negative since a step goes against the gradient. kl: += */
float dp_clipped_slope(struct dp_clipped_trial *t, float log_now, float log_drawn);

/* An iteration: all episodes are drawn, and looked at until the network is too far from the one that drew them. reward: = their mean.
 * returns 0 or -1 (DP_ENOMEM, or what the functions say). */
int dp_clipped_learn(struct dp_clipped *c, float *reward, struct dp_err *err);

#endif
