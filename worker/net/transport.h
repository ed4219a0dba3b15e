/* SPDX-License-Identifier: BSD-3-Clause */
/* The data plane between the workers of one run: tagged messages over UCX, host memory.
 *
 * Shared memory and CMA within a node, TCP or InfiniBand between nodes, as UCX finds them. Every
 * message is received by an exact (sender, tag), and the tag carries kind, epoch, step and
 * microbatch, so a message of another layout or iteration can never be taken for the expected one.
 * Waiting spins for a few microseconds and then sleeps on UCX's event descriptor (and on the
 * descriptors of dp_transport_watch), so a worker that waits leaves its core to one that computes.
 */
#ifndef DP_WORKER_NET_TRANSPORT_H
#define DP_WORKER_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct dp_transport;
struct dp_transport_request; /* one send or receive in flight */

enum dp_channel {
    DP_CH_ACTIVATION = 1, /* of a microbatch, to the next stage */
    DP_CH_GRADIENT = 2,   /* of a microbatch, to the stage before */
    DP_CH_WIREUP = 3,     /* wire-up: the barrier of a run that all give up; to a newcomer: what the others are at */
    DP_CH_COLLECTIVE = 4, /* sums over workers */
    DP_CH_TIED = 5,       /* tied head: gradient one way, weights the other */
    DP_CH_LAYER = 6,      /* hand-over: manifest and chunks */
    DP_CH_VOTING = 7,     /* hand-over: voting among the workers, before they go to the coordinator */
    DP_CH_SAVE = 8,       /* checkpoint: digests to the leader */
    DP_CH_SHADOW = 9,     /* layers that are copied while training goes on */
    DP_CH_COPY = 10,      /* the same of copies that stay (worker/copies/) */
};

/* epoch: low 11 bits used; step: low 23 bits; index: microbatch, chunk or round, low 16 bits. */
uint64_t dp_tag(enum dp_channel channel, uint64_t epoch, uint64_t step, uint32_t index);

/* card: this worker's address for the others (opaque bytes), valid as long as the transport. */
struct dp_transport *dp_transport_create(uint32_t rank, uint32_t n_workers, struct dp_err *err);
void dp_transport_destroy(struct dp_transport *t);
void dp_transport_card(const struct dp_transport *t, const void **card, size_t *bytes);
/* Tell it a peer's card; connects on first use. key: the run's secret, the same on all workers; each
 * message carries a keyed check, so a process without the key cannot inject one. */
int dp_transport_add(struct dp_transport *t, uint32_t rank, const void *card, size_t bytes, struct dp_err *err);
void dp_transport_set_key(struct dp_transport *t, const uint8_t key[16]);
void dp_transport_key(const struct dp_transport *t, uint8_t key[16]); /* as it was set */
/* Which of how many known workers of this machine this one is (several Slurm nodes may be one machine). */
uint32_t dp_transport_local_rank(const struct dp_transport *t, uint32_t *n_local);
/* Is this worker on the same machine, in the same namespace of processes? Both say the same of each other. */
bool dp_transport_is_local(const struct dp_transport *t, uint32_t rank);
/* The node that a worker runs on, this one's included: the same number for workers of one node, as Slurm names it
 * ($SLURMD_NODENAME; without Slurm: of one machine), and the same on all workers. Names of two nodes have the same number once
 * in 2^32. It stays known when the worker has left. 0: it has given no card, or one of a release that did not say. */
uint32_t dp_transport_node(const struct dp_transport *t, uint32_t rank);
/* Forget a peer that left the run. */
void dp_transport_remove(struct dp_transport *t, uint32_t rank);

/* Start a transfer. The buffer is borrowed until dp_transport_wait() returns for it; every transfer
 * is waited for exactly once. */
struct dp_transport_request *dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *data,
                                               size_t bytes, struct dp_err *err);
struct dp_transport_request *dp_transport_recv(struct dp_transport *t, uint32_t from, uint64_t tag, void *data,
                                               size_t bytes, struct dp_err *err);
/* timeout_ns 0: for ever. DP_ETIMEOUT leaves the transfer in flight: wait again or cancel. *waited_ns,
 * where not NULL, += the time spent. DP_EGONE: the peer is gone; DP_ECORRUPT: a check failed. */
int dp_transport_wait(struct dp_transport *t, struct dp_transport_request *x, uint64_t timeout_ns, uint64_t *waited_ns,
                      struct dp_err *err);
bool dp_transport_test(struct dp_transport *t, struct dp_transport_request *x);
/* CRC-32C of the message: of a send from its begin on, of a receive once dp_transport_test() says that it is over, and as its
 * sender has it; where dp_transport_wait() then returns 0, the bytes in memory have it, too. */
uint32_t dp_transport_crc(const struct dp_transport_request *x);
void dp_transport_cancel(struct dp_transport *t, struct dp_transport_request *x);
/* While fn says so, whatever waits, or is begun, fails with DP_EGONE: the run regroups, and nobody will send or fetch what
 * belongs to the layout that was in force. What has come already may still be taken. fn NULL: never. */
void dp_transport_give_up_when(struct dp_transport *t, bool (*fn)(void *arg), void *arg);
/* A worker is lost, whatever its connection says: forget it at once. */
void dp_transport_lose(struct dp_transport *t, uint32_t rank);
/* May UCX still write into memory of a transfer that was given up? Then that memory must not be freed: the process has to
 * end. */
bool dp_transport_is_unsafe(const struct dp_transport *t);
/* For whoever drives many transfers with dp_transport_test(): make progress; when there was none, sleep
 * until something arrives or timeout_ns passed. */
void dp_transport_idle(struct dp_transport *t, uint64_t timeout_ns);
/* Has this worker left or died? Transfers with it that are not done fail at their next wait. */
bool dp_transport_is_gone(struct dp_transport *t, uint32_t rank);

/* While a wait sleeps, also wake for this descriptor and call fn (the control connection). fn must not
 * use the transport. fd -1: there is no descriptor now; fn, unless NULL, is called now and then. */
void dp_transport_watch(struct dp_transport *t, int fd, void (*fn)(void *arg), void *arg);

#endif
