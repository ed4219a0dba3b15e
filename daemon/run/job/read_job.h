/* SPDX-License-Identifier: BSD-3-Clause */
/* What Slurm says of a run's job: when it is asked, and what follows from the answer. */
#ifndef DP_DAEMON_RUN_READ_JOB_H
#define DP_DAEMON_RUN_READ_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/run/run.h"

/* Read the job from Slurm in a child when it is time, or was asked for; one child at a time. To be called about every
 * 100 ms; does nothing where the daemon has no Slurm. */
void dp_run_read_tick(struct dp_run *run, uint64_t now_ns);
/* Read it now, or again as soon as the child that reads it is done: what it read may be older than the reason to ask. */
void dp_run_read_soon(struct dp_run *run);
/* As dp_run_create() (run_life.h) for a job that has just been read. NULL: it is none of this node's, or no memory. */
struct dp_run *dp_run_adopt(struct dp_daemon *d, const struct dp_msg_step_start *start, const struct dp_job_result *r);
/* Does another daemon speak of the job as we know it, or was it requeued for one of us? Asks Slurm where it seems so. */
bool dp_run_is_same_life(struct dp_run *run, uint32_t restarts);

#endif
