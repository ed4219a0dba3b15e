/* SPDX-License-Identifier: BSD-3-Clause */
/* What those who listen to sockets tell the rest of the daemon, whom they do not know. */
#ifndef DP_DAEMON_NET_EVENTS_H
#define DP_DAEMON_NET_EVENTS_H

#include "daemon/net/conn.h"

struct dp_daemon;

struct dp_net_events {
    /* One frame from a local peer, a daemon or a command line, whose role allows it. */
    void (*frame)(struct dp_conn *c, const struct dp_header *h, const uint8_t *body);
    void (*closed)(struct dp_conn *c, const char *why); /* one that could send such frames */
    void (*drained)(struct dp_conn *c); /* what was queued for it has been sent */
    /* There is a connection to the daemon of a node, whoever opened it; there is none any more. */
    void (*peer_up)(struct dp_daemon *d, const char *node);
    void (*peer_down)(struct dp_daemon *d, const char *node);
};

/* For struct dp_conn_ops of connections that a daemon owns: the event of that name. */
void dp_net_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body);
void dp_net_closed(struct dp_conn *c, const char *why);
void dp_net_drained(struct dp_conn *c);

#endif
