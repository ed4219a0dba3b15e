/* SPDX-License-Identifier: BSD-3-Clause */
/* Does Slurm know this node by the name that its daemon has? Asked at start, and until it does. */
#ifndef DP_DAEMON_QUERY_NAME_CHECK_H
#define DP_DAEMON_QUERY_NAME_CHECK_H

#include "daemon/net/daemon_state.h"

void dp_name_check_tick(struct dp_daemon *d);
void dp_name_check_end(struct dp_daemon *d);

#endif
