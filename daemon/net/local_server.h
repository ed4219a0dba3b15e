/* SPDX-License-Identifier: BSD-3-Clause */
/* The unix socket of the node. */
#ifndef DP_DAEMON_NET_LOCAL_SERVER_H
#define DP_DAEMON_NET_LOCAL_SERVER_H

#include "daemon/net/daemon_state.h"

/* returns -1 with one clear line when another daemon holds it. */
int dp_local_open(struct dp_daemon *d, struct dp_err *err);
void dp_local_close(struct dp_daemon *d);

#endif
