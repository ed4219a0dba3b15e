/* SPDX-License-Identifier: BSD-3-Clause */
/* Does Slurm know this node by the name that its daemon has? Asked at start, and until it does. */
#ifndef DP_DAEMON_QUERY_NAME_CHECK_H
#define DP_DAEMON_QUERY_NAME_CHECK_H

#include "daemon/net/daemon_state.h"

/* Does Slurm know this node by the name that the daemon goes by? Asked in a child, some times after the start until
 * it answers; a doubt is logged. To be called about every 100 ms; does nothing where the daemon has no Slurm. */
void dp_name_check_tick(struct dp_daemon *d);
/* The daemon ends: the child, if any, is killed and not heard. */
void dp_name_check_end(struct dp_daemon *d);

#endif
