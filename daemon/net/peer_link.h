/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections between the daemons of two nodes, whoever opened them: doc/protocol.md, "Session".
 */
#ifndef DP_DAEMON_NET_PEER_LINK_H
#define DP_DAEMON_NET_PEER_LINK_H

#include "daemon/net/daemon_state.h"

/* See to it that there is a connection to a node's daemon, now and whenever it breaks, until
 * dp_peer_forget(). The events peer_up and peer_down tell of it. */
void dp_peer_want(struct dp_daemon *d, const char *node);
void dp_peer_forget(struct dp_daemon *d, const char *node);
bool dp_peer_is_wanted(const struct dp_daemon *d, const char *node);

/* An authenticated connection to the node, whoever opened it; the newest. NULL: none now. */
struct dp_conn *dp_peer_find(const struct dp_daemon *d, const char *node);

/* The protocol version that is spoken with it; 0: no connection now. */
uint16_t dp_peer_version(const struct dp_daemon *d, const char *node);
/* Too old to prove that a slot is empty, and to tell a requeued job from its life before (msg.h: restarts)? */
bool dp_peer_is_old(const struct dp_daemon *d, const char *node);
/* What is said of it then. */
#define DP_PEER_OLD_FMT "its daemon speaks protocol version %u, this one %d: "

/* Queue a frame to a node. returns false when there is no connection now. */
bool dp_peer_send(struct dp_daemon *d, const char *node, enum dp_msg_type type, const void *body, size_t bytes);

#define DP_PEER_SEND(d, node, name, type, msg)                                                     \
    ({                                                                                             \
        struct dp_conn *dp_peer_conn = dp_peer_find((d), (node));                                  \
        if (dp_peer_conn)                                                                          \
            DP_CONN_SEND(dp_peer_conn, name, type, msg);                                           \
        dp_peer_conn != NULL;                                                                      \
    })

/* Why nothing gets through to a node: there is no connection, as the last try showed, or what is sent on it is not
 * answered. "": not tried yet, or all is well. Borrowed until the next try. */
const char *dp_peer_trouble(const struct dp_daemon *d, const char *node);

/* Name of some wanted node, NULL: none. */
const char *dp_peer_first(const struct dp_daemon *d);

/* Let the kernel find a dead host within 15 s. */
void dp_peer_set_keepalive(int fd);

#endif
