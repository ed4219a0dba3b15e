/* SPDX-License-Identifier: BSD-3-Clause */
/* See scheduler.h. */
#include "policies/cluster/scheduler.h"

#include <stdio.h>
#include <string.h>

#include "policies/cluster/state.h"

static void pass_fifo(struct dp_cluster_state *s)
{
    dp_cluster_start_in_order(s);
}

const struct dp_cluster_scheduler_info dp_cluster_schedulers[DP_CLUSTER_SCHEDULERS] = {
    [DP_CLUSTER_FIFO] = {.name = "fifo", .help = "first come, first served: no job overtakes another", .pass = pass_fifo},
    [DP_CLUSTER_EASY] = {.name = "easy",
                         .help = "EASY backfill: a job may overtake where that does not delay the head of the queue",
                         .pass = dp_cluster_pass_easy},
    [DP_CLUSTER_SLURM] = {.name = "slurm",
                          .help = "as Slurm's sched/backfill: in order at every event, and rounds that reserve for every job tested",
                          .pass = pass_fifo,
                          .round = dp_cluster_round_slurm},
};

int dp_cluster_scheduler_find(const char *name, enum dp_cluster_scheduler *out, struct dp_err *err)
{
    char known[128] = "";
    size_t used = 0;

    for (int i = 0; i < DP_CLUSTER_SCHEDULERS; i++) {
        if (!strcmp(name, dp_cluster_schedulers[i].name)) {
            *out = (enum dp_cluster_scheduler)i;
            return 0;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", dp_cluster_schedulers[i].name);
    }
    return dp_err_set(err, DP_EINVAL, "unknown scheduler '%.64s'; known: %s", name, known);
}
