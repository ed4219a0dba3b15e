/* SPDX-License-Identifier: BSD-3-Clause */
/* CHECK: what `dynpipe check` wants to know of this node, found out by a child; see node_look.h. */
#ifndef DP_DAEMON_QUERY_NODE_CHECK_H
#define DP_DAEMON_QUERY_NODE_CHECK_H

#include "daemon/net/daemon_state.h"

void dp_node_check(struct dp_conn *c, const struct dp_msg_check *m);
void dp_node_check_forget(struct dp_conn *c); /* it is closed */
void dp_node_check_end(struct dp_daemon *d);

#endif
