/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps that start and end: STEP_START and STEP_END, from the plugin, and what a worker brings of a step that the plugin
 * did not tell of here. */
#ifndef DP_DAEMON_RUN_STEP_H
#define DP_DAEMON_RUN_STEP_H

#include "daemon/run/run.h"

/* STEP_START of a plugin on this node: written down (node_journal.h) before it is acknowledged. FENCED: the job gave
 * this node back; LATER, or no answer yet: Slurm is asked whether it was requeued since. */
void dp_run_step_start(struct dp_conn *c, const struct dp_msg_step_start *m);
/* STEP_END: acknowledged at once; the job is read soon, for this may have been its last step. */
void dp_run_step_end(struct dp_conn *c, const struct dp_msg_step_end *m);
/* The options that a worker brings, for a step that the plugin did not tell of here. returns -1: it brings none. */
int dp_step_from_hello(const struct dp_msg_hello *m, struct dp_msg_step_start *start);
void dp_step_take_options(struct dp_run *run, const struct dp_msg_hello *m); /* if it is of a step not told of */
void dp_steps_answer(struct dp_daemon *d, uint32_t job_id); /* the job has been read: who waited is answered */
void dp_steps_tick(struct dp_daemon *d, uint64_t now_ns);
void dp_step_forget(struct dp_daemon *d, const struct dp_conn *c); /* it is closed */

#endif
