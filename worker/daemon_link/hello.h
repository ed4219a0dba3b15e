/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker tells its daemon first: who it is, in which job, what the run plans. */
#ifndef DP_WORKER_DAEMON_LINK_HELLO_H
#define DP_WORKER_DAEMON_LINK_HELLO_H

#include "common/message/msg.h"
#include "worker/model/train_config.h"

/* Of Slurm's environment: 0 outside of a job; DynPipe's options, "" where they are none that can be read. */
void dp_hello_step(uint32_t *job_id, uint32_t *step_id, char options[256]);
/* Job and step come from Slurm's environment (0 outside of a job); the daemon checks them against
 * what the kernel says about the process. device and stage_message_bytes are left to
 * who has opened the device. */
void dp_hello_fill(struct dp_msg_hello *out, const struct dp_train_config *config,
                   const struct dp_layout *layout, uint32_t rank, uint64_t step);

/* The job's options came along, and nobody took them: where the plugin ran, it set DYNPIPE_MODE at least. why: for
 * people. returns false: it ran, or DynPipe was not asked for. */
bool dp_hello_lacks_plugin(char why[256]);

#endif
