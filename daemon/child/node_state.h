/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a node of Slurm's being drained? */
#ifndef DP_DAEMON_CHILD_NODE_STATE_H
#define DP_DAEMON_CHILD_NODE_STATE_H

#include <stddef.h>
#include <stdint.h>

enum dp_node_state { DP_NODE_UNKNOWN, DP_NODE_USED, DP_NODE_DRAINS };

/* dp_helper_work_fn. Blocks for as long as Slurm does not answer. request: the node's name, with its end; result: one byte of
 * enum dp_node_state, UNKNOWN where Slurm does not say. */
size_t dp_node_state_work(const void *request, size_t bytes, uint8_t *result);

#endif
