/* SPDX-License-Identifier: BSD-3-Clause */
/* Is this node being drained? Slurm says nothing of that to the jobs that run there: they may go on for as long as they like, and
 * the administrator waits. So where workers are on the node that could go elsewhere, slices or those of a job of several nodes,
 * Slurm is asked, and their coordinators are told, which let them go where they can (daemon/coord/members/leave.c).
 */
#ifndef DP_DAEMON_RUN_DRAIN_H
#define DP_DAEMON_RUN_DRAIN_H

#include <stdint.h>

#include "daemon/net/daemon_state.h"

/* About every 100 ms: looks, and tells coordinators. The daemon ends: a look that is under way is given up. */
void dp_drain_tick(struct dp_daemon *d, uint64_t now_ns);
void dp_drain_end(struct dp_daemon *d);

#endif
