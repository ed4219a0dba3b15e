/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedulers that a mix can be played with. One is a file of its own and a line in scheduler.c; names in errors, in
 * --help and behind TAB come from that line. */
#ifndef DP_POLICIES_CLUSTER_SCHEDULER_H
#define DP_POLICIES_CLUSTER_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct dp_cluster_state; /* state.h */

enum dp_cluster_scheduler { DP_CLUSTER_FIFO, DP_CLUSTER_EASY, DP_CLUSTER_SLURM, DP_CLUSTER_SCHEDULERS };

struct dp_cluster_scheduler_info {
    const char *name, *help;
    /* Something has changed: start what may start. Never fails. */
    void (*pass)(struct dp_cluster_state *s);
    /* One round of backfill, interval_ns apart; NULL: none. returns: has a job started? Then the next round may look at others. */
    bool (*round)(struct dp_cluster_state *s);
};
extern const struct dp_cluster_scheduler_info dp_cluster_schedulers[DP_CLUSTER_SCHEDULERS];

/* By name. returns 0, or -1 with the known ones in the text. */
int dp_cluster_scheduler_find(const char *name, enum dp_cluster_scheduler *out, struct dp_err *err);

#endif
