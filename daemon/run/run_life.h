/* SPDX-License-Identifier: BSD-3-Clause */
/* How a run begins and ends on this node. */
#ifndef DP_DAEMON_RUN_RUN_LIFE_H
#define DP_DAEMON_RUN_RUN_LIFE_H

#include "daemon/run/run.h"

/* A run of this node's list; NULL: no memory. create: Slurm is asked what its job is now. make: it is not. */
struct dp_run *dp_run_create(struct dp_daemon *d, const struct dp_msg_step_start *start);
struct dp_run *dp_run_make(struct dp_daemon *d, const struct dp_msg_step_start *start);
/* The job is over: its report is kept, its journal and lock go, and the run is freed. why: for its log. */
void dp_run_end(struct dp_run *run, const char *why);
/* The run goes on, and is not this daemon's any more: journal and lock go, and it is freed. No coordinator is open. */
void dp_run_drop(struct dp_run *run);
/* The daemon forgets it; all that is on disk stays. */
void dp_run_free(struct dp_run *run);

#endif
