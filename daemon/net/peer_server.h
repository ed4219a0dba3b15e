/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP port of the daemons. */
#ifndef DP_DAEMON_NET_PEER_SERVER_H
#define DP_DAEMON_NET_PEER_SERVER_H

#include "daemon/net/daemon_state.h"

/* Port 0: nothing to do. */
int dp_peer_open(struct dp_daemon *d, struct dp_err *err);
void dp_peer_close(struct dp_daemon *d);

#endif
