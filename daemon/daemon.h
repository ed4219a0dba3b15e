/* SPDX-License-Identifier: BSD-3-Clause */
/* One daemon, from its sockets to its end. */
#ifndef DP_DAEMON_DAEMON_H
#define DP_DAEMON_DAEMON_H

#include "daemon/net/daemon_state.h"

/* The caller fills in config, node, boot_id, uid, priv and start_ns. begin makes the event loop, serve opens
 * sockets and journals; end closes what is there, also after either failed, but for the loop, which the caller frees. */
int dp_daemon_begin(struct dp_daemon *d, struct dp_err *err);
int dp_daemon_serve(struct dp_daemon *d, struct dp_err *err);
void dp_daemon_end(struct dp_daemon *d);
void dp_daemon_limit(struct dp_daemon *d); /* take the limits for connections from the configuration */

#endif
