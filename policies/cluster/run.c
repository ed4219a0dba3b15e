/* SPDX-License-Identifier: BSD-3-Clause */
/* See run.h. Whatever happens at one time is carried out before a scheduler looks: first jobs end, then
 * nodes come back, then jobs arrive. */
#include "policies/cluster/run.h"

#include "policies/cluster/state.h"

static void arrive(struct dp_cluster_state *s, uint32_t *n_arrived)
{
    const struct dp_cluster_mix *mix = s->mix;

    for (; *n_arrived < mix->n_jobs && mix->job[*n_arrived].submit_ns == s->now_ns; ++*n_arrived) {
        const struct dp_cluster_job *j = &mix->job[*n_arrived];

        dp_cluster_queue_add(&s->queue, *n_arrived, j->nodes, dp_cluster_job_limit_ns(mix, j, s->is_shrinking));
    }
}

static int play(struct dp_cluster_state *s, const struct dp_cluster_scheduler_info *scheduler, struct dp_err *err)
{
    uint32_t n_arrived = 0;
    uint64_t round_ns = UINT64_MAX, soonest_ns = 0; /* next round of backfill, and when it may be at the soonest */

    while (n_arrived < s->mix->n_jobs || dp_cluster_next_ns(s) != UINT64_MAX) {
        uint64_t arrival_ns = n_arrived < s->mix->n_jobs ? s->mix->job[n_arrived].submit_ns : UINT64_MAX;
        uint64_t event_ns = dp_cluster_next_ns(s);

        event_ns = arrival_ns < event_ns ? arrival_ns : event_ns;
        s->now_ns = event_ns < round_ns ? event_ns : round_ns;
        if (s->now_ns > DP_CLUSTER_END_NS)
            return dp_err_set(err, DP_EINVAL, "after 126 years %u jobs still wait", s->queue.n_waiting);
        if (event_ns == s->now_ns) {
            dp_cluster_carry_out(s);
            arrive(s, &n_arrived);
            scheduler->pass(s);
            if (scheduler->round)
                round_ns = s->now_ns > soonest_ns ? s->now_ns : soonest_ns;
        }
        if (round_ns == s->now_ns) {
            soonest_ns = s->now_ns + s->machine->interval_ns;
            round_ns = scheduler->round(s) ? soonest_ns : UINT64_MAX;
        }
    }
    return 0;
}

int dp_cluster_run(const struct dp_cluster_mix *mix, const struct dp_cluster_machine *machine, enum dp_cluster_scheduler scheduler,
                   bool is_shrinking, struct dp_cluster_times *out, struct dp_err *err)
{
    struct dp_cluster_state s = {.is_shrinking = is_shrinking, .times = out};
    const struct dp_cluster_scheduler_info *info = &dp_cluster_schedulers[scheduler];
    int rc = dp_cluster_state_create(&s, mix, machine, info->round != NULL, err);

    for (uint32_t i = 0; i < mix->n_jobs; i++)
        out[i] = (struct dp_cluster_times){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (rc == 0)
        rc = play(&s, info, err);
    dp_cluster_state_release(&s);
    return rc;
}
