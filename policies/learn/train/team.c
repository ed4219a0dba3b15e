/* SPDX-License-Identifier: BSD-3-Clause */
/* See team.h: task i is that of member i mod n_threads, and nobody waits for anybody but at the end. */
#include "policies/learn/train/team.h"

#include <pthread.h>
#include <stdbool.h>

struct member {
    uint32_t first, step, n, failed; /* failed: the task that did, or n */
    dp_team_fn *fn;
    void *arg;
    struct dp_err err;
};

static void *work(void *arg)
{
    struct member *m = arg;

    for (uint32_t i = m->first; i < m->n && m->failed == m->n; i += m->step)
        if (m->fn(m->arg, i, &m->err) < 0)
            m->failed = i;
    return NULL;
}

int dp_team_run(uint32_t n_threads, uint32_t n, dp_team_fn *fn, void *arg, struct dp_err *err)
{
    struct member member[DP_TEAM_MOST];
    pthread_t thread[DP_TEAM_MOST];
    bool is_started[DP_TEAM_MOST] = {false};
    uint32_t members = n_threads < DP_TEAM_MOST ? n_threads : DP_TEAM_MOST, worst = 0;

    members = members < n ? members : n;
    for (uint32_t t = 0; t < members; t++)
        member[t] = (struct member){.first = t, .step = members, .n = n, .failed = n, .fn = fn, .arg = arg};
    for (uint32_t t = 1; t < members; t++)
        is_started[t] = pthread_create(&thread[t], NULL, work, &member[t]) == 0;
    for (uint32_t t = 0; t < members; t++) {
        if (!is_started[t])
            work(&member[t]);
    }
    for (uint32_t t = 0; t < members; t++) {
        if (is_started[t])
            pthread_join(thread[t], NULL);
        if (member[t].failed < member[worst].failed)
            worst = t;
    }
    if (members == 0 || member[worst].failed == n)
        return 0;
    return dp_err_set(err, member[worst].err.code, "%s", member[worst].err.text);
}
