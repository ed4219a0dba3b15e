/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker tells its daemon first: who it is, in which job, what the run plans. */
#ifndef DP_WORKER_TRAIN_START_HELLO_H
#define DP_WORKER_TRAIN_START_HELLO_H

#include "common/message/msg.h"
#include "worker/model/train_config.h"

/* Job and step come from Slurm's environment (0 outside of a job); the daemon checks them against
 * what the kernel says about the process. device and stage_message_bytes are left to
 * who has opened the device. */
void dp_hello_fill(struct dp_msg_hello *out, const struct dp_train_config *config,
                   const struct dp_layout *layout, uint32_t rank, uint64_t step);

#endif
