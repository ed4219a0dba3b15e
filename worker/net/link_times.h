/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a stage's message takes to the next worker, apart from what sender and receiver compute for it.
 *
 * The parts are those of the LogP models (Culler et al. 1993, PPoPP; Alexandrov et al. 1995, SPAA): the
 * device's own part of a message, its "overhead", is measured in every step (metrics.h); the rest,
 * measured here, passes while both could compute.
 */
#ifndef DP_WORKER_NET_LINK_TIMES_H
#define DP_WORKER_NET_LINK_TIMES_H

#include "worker/net/transport.h"

struct dp_link_times {
    uint64_t latency_ns;  /* of a message of a few bytes to a worker that sleeps */
    uint64_t transfer_ns; /* what one of stage_message_bytes takes longer */
};

/* Ping-pong between neighbours, all pairs with an even first worker and then the others. Collective: all
 * n workers call it, before training. *out: rank's link to rank + 1; 0 for the last worker. computes: the processor that
 * handles messages is the device, so that its own part of them counts as the device's; else it is part of the way. */
int dp_link_measure(struct dp_transport *transport, uint32_t rank, uint32_t n, size_t stage_message_bytes, bool computes,
                    struct dp_link_times *out, struct dp_err *err);

#endif
