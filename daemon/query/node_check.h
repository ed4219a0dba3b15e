/* SPDX-License-Identifier: BSD-3-Clause */
/* CHECK: what `dynpipe check` wants to know of this node, found out by a child; see node_look.h. */
#ifndef DP_DAEMON_QUERY_NODE_CHECK_H
#define DP_DAEMON_QUERY_NODE_CHECK_H

#include "daemon/net/daemon_state.h"

/* CHECK: what a child finds when it looks at this node (node_look.h). Answered on c later, by one ANSWER or a DENIED;
 * several who ask the same share one child, and an answer that is a second old is given again. The target of anybody
 * but root and the daemon's user must be a node that the configuration or Slurm knows. */
void dp_node_check_start(struct dp_conn *c, const struct dp_msg_check *m);
void dp_node_check_forget(struct dp_conn *c); /* it is closed */
/* The daemon ends: looks under way are killed, nobody is answered. */
void dp_node_check_end(struct dp_daemon *d);

#endif
