/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator of a run of slices moves when its node is lost (doc/protocol.md, "When the coordinator is lost").
 *
 * Every daemon with slices of the run sees by itself that it is away, and by Slurm that no slice runs on its node any more; all
 * of them look to the daemon of the slice that began first of those that are left, by the same list of Slurm's. That one waits until all
 * slices that Slurm shows have come to it, and makes a coordinator of what they say (dp_coord_take_over()). So two never coordinate: who
 * has not come is still with the one before, and nothing begins without it.
 */
#ifndef DP_DAEMON_RUN_TAKE_OVER_H
#define DP_DAEMON_RUN_TAKE_OVER_H

#include "daemon/run/run.h"

void dp_take_over_tick(struct dp_run *run, uint64_t now_ns); /* about every 100 ms */
/* Of a run whose role is DP_RUN_RELAY: a worker's HELLO for its coordinator, from a slice on this node. returns: was it taken, because this
 * daemon is to coordinate? Then it comes again, and is answered when there is a coordinator. */
bool dp_take_over_hello(struct dp_run *run, const char *node, uint32_t pid, const struct dp_msg_hello *m);
/* A worker here was welcomed by the coordinator's daemon. */
void dp_take_over_proved(struct dp_run *run);
/* The daemon of `node` asks where the run is, and is told that this one looks to it: then this one does not turn back by itself. */
void dp_take_over_promise(struct dp_run *run, const char *node);
/* The daemon of `node` says where the run of a slice there is. returns: was it asked for this? */
bool dp_take_over_answered(struct dp_run *run, const char *node, const struct dp_msg_slice_rank *m);
void dp_take_over_destroy(struct dp_run *run);

#endif
