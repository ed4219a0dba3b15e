/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has not come yet, daemon or worker, and what those who wait are told. */
#ifndef DP_DAEMON_RUN_MISSING_H
#define DP_DAEMON_RUN_MISSING_H

#include "daemon/run/run.h"

/* A daemon of the job's nodes has asked for orders (JOIN): it is not missing any more. */
void dp_run_joined(struct dp_run *run, const char *node);
/* On the batch host: look which nodes of the run are not heard of, and tell the coordinator why. On other nodes: say
 * JOIN to it now and then. To be called about every 100 ms. */
void dp_run_missing_tick(struct dp_run *run, uint64_t now_ns);
/* One line for the user of a worker that waits for its WELCOME here. Begins with DP_HOST_TROUBLE where it is the same
 * on every node. */
void dp_run_why_waiting(const struct dp_run *run, char *out, size_t cap);
void dp_workers_explain(struct dp_run *run, uint64_t now_ns); /* HELLOs that have waited for long: tell why */

#endif
