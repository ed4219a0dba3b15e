/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that no step registered here. */
#ifndef DP_DAEMON_RUN_SEEK_H
#define DP_DAEMON_RUN_SEEK_H

#include "daemon/run/run.h"

/* Ask Slurm about a job that is not registered here, because a worker of this user says HELLO for it, or a
 * daemon JOIN; where it is this node's it is registered then. The worker's text: what is known so far. */
const char *dp_seek_hello(struct dp_daemon *d, uint32_t uid, const struct dp_msg_hello *m);
void dp_seek_join(struct dp_daemon *d, const char *node, uint32_t job_id);
void dp_seeks_tick(struct dp_daemon *d, uint64_t now_ns);
void dp_seeks_close(struct dp_daemon *d);

#endif
