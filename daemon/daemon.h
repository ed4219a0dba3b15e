/* What the parts of one daemon share: the event loop, the configuration, its runs and its peers.
 * main.c makes and ends it.
 */
#ifndef DP_DAEMON_DAEMON_H
#define DP_DAEMON_DAEMON_H

#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>
#include <sys/types.h>

#include "daemon/daemon_config.h"
#include "daemon/conn.h"

struct dp_priv;
struct dp_run;
struct dp_link;
struct dp_node_log;
struct dp_helper;

struct dp_daemon {
    struct event_base *base;
    struct dp_config *config;
    const char *config_path; /* NULL: none */
    char node[64];
    char boot_id[40];
    uid_t uid;               /* that the event loop runs as */
    uint64_t start_ns;
    struct dp_conn_set conns;
    struct evconnlistener *local, *tcp;
    struct dp_priv *priv;
    struct dp_node_log *log; /* journal of the node */
    struct dp_run *runs;
    struct dp_link *links;
    struct event *tick;
    struct dp_helper *probe; /* of the site policies after a reload, NULL: none under way */
    char trouble[1100];      /* what was wrong with the last reload; "": nothing */
};

/* local_server.c: the unix socket. returns -1 with one clear line when another daemon holds it. */
int dp_local_open(struct dp_daemon *d, struct dp_err *err);
void dp_local_close(struct dp_daemon *d);

/* peer_server.c: the TCP port of the daemons. Port 0: nothing to do. */
int dp_peer_open(struct dp_daemon *d, struct dp_err *err);
void dp_peer_close(struct dp_daemon *d);

/* dispatch.c: one frame from a local peer, a daemon or a command line, whose role allows it. */
void dp_dispatch_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body);
void dp_dispatch_closed(struct dp_conn *c, const char *why);

/* query.c */
void dp_query_answer(struct dp_conn *c, const struct dp_msg_query *q);
void dp_query_command(struct dp_conn *c, const struct dp_msg_command *m);

#endif
