/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the transport: what transport.c (UCX context, peers) and transport_messages.c (messages) share. */
#ifndef DP_WORKER_NET_TRANSPORT_INTERNAL_H
#define DP_WORKER_NET_TRANSPORT_INTERNAL_H

#include <ucp/api/ucp.h>

#include "common/run/layout.h"
#include "worker/net/transport.h"

struct dp_peer {
    struct dp_transport *transport;
    void *address; /* UCX worker address, NULL: no card yet */
    ucp_ep_h ep;   /* NULL until first use */
    bool is_local; /* same boot, same pid namespace: its pidfd tells when it dies */
    bool by_shm;   /* both sides may use shared memory, which UCX cannot watch for failures */
    bool is_gone;
    int pidfd; /* -1: none */
    uint32_t pid;
    uint32_t node; /* dp_transport_node(); 0: no card yet */
};

struct dp_transport {
    uint32_t rank, n_workers;
    ucp_context_h context;
    ucp_worker_h worker;
    int efd;
    void *card;
    size_t card_bytes;
    uint8_t key[16];
    uint64_t nonce;
    int watch_fd;
    void (*watch_fn)(void *arg);
    void *watch_arg;
    bool (*give_up_fn)(void *arg);
    void *give_up_arg;
    uint64_t give_up_ns; /* of the newest look in which it said yes, the first one; 0: it said no */
    bool is_unsafe;
    struct dp_transport_request *ready; /* receives whose current part has arrived */
    struct dp_transport_request *spare; /* finished ones, kept with their bounce buffers */
    struct dp_transport_request *all; /* every one that was ever made, for the end */
    struct dp_peer peer[DP_MAX_WORKERS];
};

/* The endpoint of a peer, made on first use. NULL and err: no card, or gone. */
ucp_ep_h dp_peer_ep(struct dp_peer *peer, struct dp_err *err);
/* Has the peer's process ended (or UCX seen it go)? */
bool dp_peer_is_gone(struct dp_peer *peer);
/* Does give_up_fn say so? */
bool dp_transport_gives_up(struct dp_transport *t);
/* Frees all transfers; the UCX worker is gone by then. returns: did UCX still hold a request of one? */
bool dp_transport_request_release_all(struct dp_transport *t);

#endif
