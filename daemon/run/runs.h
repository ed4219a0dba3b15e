/* SPDX-License-Identifier: BSD-3-Clause */
/* All runs of this node: taken up again, looked after, listed. */
#ifndef DP_DAEMON_RUN_RUNS_H
#define DP_DAEMON_RUN_RUNS_H

#include <jansson.h>
#include <sys/types.h>

#include "common/err.h"

struct dp_daemon;

/* Open the node's journal and take up the runs in it. */
int dp_runs_open(struct dp_daemon *d, struct dp_err *err);
void dp_runs_close(struct dp_daemon *d);
void dp_runs_tick(struct dp_daemon *d); /* every 100 ms */
/* The whole table for `dynpipe` (query.c): new reference. */
json_t *dp_runs_json(const struct dp_daemon *d, uid_t uid);

#endif
