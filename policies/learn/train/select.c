/* SPDX-License-Identifier: BSD-3-Clause */
/* Which networks are best together: see train.h. Networks that agree with each other are of little use beside each other, so each
 * one is chosen for what it adds. */
#include <stdlib.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/train/team.h"
#include "policies/learn/train/train.h"

#define LESSONS 32u /* to select by; training has not seen them */
#define SELECT_SEED UINT64_C(0x73656c656374) /* their stream */

struct selection {
    const struct dp_learn *ask;
    const struct dp_net *pool;
    uint32_t n_trained, n;
    float *reward; /* [n][LESSONS] */
};

static int judge(void *arg, uint32_t which, struct dp_err *err)
{
    struct selection *s = arg;
    struct dp_lesson lesson;
    int rc = dp_lesson_create(&lesson, dp_draw_stream(s->ask->seed, SELECT_SEED), which, false, err);

    for (uint32_t i = 0; rc == 0 && i < s->n; i++) {
        uint64_t load;

        rc = dp_lesson_try(&lesson, &s->pool[i], s->ask->seed, &load, err);
        if (rc == 0)
            s->reward[i * LESSONS + which] = dp_lesson_reward(&lesson, load);
    }
    dp_lesson_release(&lesson);
    return rc;
}

/* What network i adds to the best so far, over all lessons. */
static float gain(const struct selection *s, uint32_t i, const float *best)
{
    float sum = 0;

    for (uint32_t k = 0; k < LESSONS; k++)
        sum += s->reward[i * LESSONS + k] > best[k] ? s->reward[i * LESSONS + k] - best[k] : 0;
    return sum;
}

static void choose(const struct selection *s, struct dp_weights *w)
{
    float best[LESSONS];

    for (uint32_t k = 0; k < LESSONS; k++)
        best[k] = -100; /* so the first one is the best in the mean */
    while (w->n < DP_WEIGHTS_MOST) {
        uint32_t next = 0;

        for (uint32_t i = 1; i < s->n; i++)
            next = gain(s, i, best) > gain(s, next, best) ? i : next;
        if (w->n && !(gain(s, next, best) > 0))
            break;
        w->net[w->n++] = s->pool[next];
        w->n_trained += next < s->n_trained;
        for (uint32_t k = 0; k < LESSONS; k++)
            best[k] = s->reward[next * LESSONS + k] > best[k] ? s->reward[next * LESSONS + k] : best[k];
    }
}

int dp_learn_select(const struct dp_learn *ask, const struct dp_net *pool, uint32_t n_trained, uint32_t n, struct dp_weights *w,
                    struct dp_err *err)
{
    struct selection s = {.ask = ask, .pool = pool, .n_trained = n_trained, .n = n,
                          .reward = calloc((size_t)n * LESSONS, sizeof *s.reward)};
    int rc = 0;

    w->net = calloc(DP_WEIGHTS_MOST, sizeof *w->net);
    if (!s.reward || !w->net)
        rc = dp_err_set(err, DP_ENOMEM, "selection of %u networks: out of memory", n);
    if (rc == 0)
        rc = dp_team_run(ask->threads, LESSONS, judge, &s, err);
    if (rc == 0)
        choose(&s, w);
    free(s.reward);
    return rc;
}
