/* SPDX-License-Identifier: BSD-3-Clause */
/* Small collective operations of the workers that are still in the run, through the leader of the layout in force.
 *
 * The leader takes the others' parts in rank order and sends one answer to each: with a handful of
 * workers and messages below 8 KiB a star costs one round trip. All workers call the same operations
 * in the same order; a counter of rounds, equal on all, keeps their messages apart. Whoever
 * has left (layout->gone) takes no part.
 */
#ifndef DP_WORKER_NET_COLLECTIVES_H
#define DP_WORKER_NET_COLLECTIVES_H

#include "common/run/layout.h"
#include "worker/net/transport.h"

struct dp_collectives {
    struct dp_transport *transport; /* borrowed; NULL: the worker is alone */
    const struct dp_layout *layout; /* borrowed: in force, may change between two operations */
    uint32_t rank;
    uint64_t round;
    uint64_t epoch; /* of the newest REGROUP, 0: none: its rounds begin anew */
    uint64_t wait_ns; /* += time spent waiting; the owner resets it */
};

/* transport and layout are borrowed and may change between two operations; workers that are gone in the layout take
 * no part. Every other worker calls the same operations in the same order. */
void dp_collectives_init(struct dp_collectives *c, struct dp_transport *transport, const struct dp_layout *layout,
                         uint32_t rank);

/* Is this worker the one that the others' parts go to? */
bool dp_collectives_leads(const struct dp_collectives *c);

/* The leader gets worker r's bytes at all[offset[r]..offset[r + 1]); offset has n_workers + 1 entries and is
 * used by the leader alone, like `all`. The others send `bytes` bytes of `mine`; so does the leader, to itself.
 * A worker that sends another number of bytes than the leader expects is an error. */
int dp_collectives_gather(struct dp_collectives *c, const void *mine, size_t bytes, void *all, const size_t *offset,
                          struct dp_err *err);

/* data of the leader to all. */
int dp_collectives_broadcast(struct dp_collectives *c, void *data, size_t bytes, struct dp_err *err);

/* Sum of n counters, in place, the same on all. arg: struct dp_collectives (a dp_allreduce_fn of worker/scheme/scheme.h). */
int dp_collectives_allreduce(void *arg, uint64_t *counts, uint32_t n, struct dp_err *err);

/* Nobody passes before all are here. */
int dp_collectives_barrier(struct dp_collectives *c, struct dp_err *err);

/* Did everybody succeed? rc, err: what this worker has to say. returns: 0 when all gave 0, else -1 on all
 * with the error of the lowest rank that failed, so that one worker can print it once. err: not NULL. */
int dp_collectives_agree(struct dp_collectives *c, int rc, struct dp_err *err);

#endif
