/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of one daemon share: the event loop, the configuration, its runs and its peers.
 * daemon.c opens and closes it, main.c makes a program of it.
 */
#ifndef DP_DAEMON_DAEMON_H
#define DP_DAEMON_DAEMON_H

#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>
#include <sys/types.h>

#include "common/site/daemon_config.h"
#include "daemon/conn.h"

struct dp_priv;
struct dp_run;
struct dp_link;
struct dp_node_log;
struct dp_helper;
struct dp_origin_cache;
struct dp_ask;
struct dp_past_list;
struct dp_node_check;
struct dp_seek;

struct dp_daemon {
    struct event_base *base;
    struct dp_config *config;
    const char *config_path; /* NULL: none */
    char node[64];
    char boot_id[40];
    uid_t uid;               /* that the event loop runs as */
    uint64_t start_ns;
    bool has_failed;         /* it ends because it cannot go on */
    struct dp_conn_set conns;
    struct evconnlistener *local, *tcp;
    int lock_fd;         /* beside the unix socket: no other daemon serves it */
    struct event *again; /* a listener that was paused goes on */
    uint32_t n_accepted; /* since then, or since the last tick */
    struct dp_priv *priv;
    struct dp_node_log *log; /* journal of the node */
    struct dp_run *runs;
    struct dp_step_wait *waits; /* steps whose start is not answered yet */
    struct dp_seek *seeks;      /* jobs that were spoken of and not registered */
    struct dp_bucket peer_lookups;
    struct dp_link *links;
    struct dp_origin_cache *origins; /* of daemons that came; NULL: none are kept */
    struct dp_past_list *history;
    struct dp_ask *asks;     /* questions, the oldest first */
    struct event *tick;
    unsigned n_ticks;
    struct dp_node_check *check; /* looks at this node that somebody asked for, NULL: never yet */
    struct dp_helper *probe; /* of the site policies after a reload, NULL: none under way */
    struct dp_helper *name_check; /* does Slurm know our name? */
    uint64_t name_ask_ns;
    uint32_t n_name_checks;
    char trouble[1100];      /* what was wrong with the last reload; "": nothing */
};

/* daemon.c. The caller fills in config, node, boot_id, uid, priv and start_ns. begin makes the event loop, serve opens
 * sockets and journals; end closes what is there, also after either failed, but for the loop, which the caller frees. */
int dp_daemon_begin(struct dp_daemon *d, struct dp_err *err);
int dp_daemon_serve(struct dp_daemon *d, struct dp_err *err);
void dp_daemon_end(struct dp_daemon *d);
void dp_daemon_limit(struct dp_daemon *d); /* take the limits for connections from the configuration */

/* local_server.c: the unix socket. returns -1 with one clear line when another daemon holds it. */
int dp_local_open(struct dp_daemon *d, struct dp_err *err);
void dp_local_close(struct dp_daemon *d);

/* peer_server.c: the TCP port of the daemons. Port 0: nothing to do. */
int dp_peer_open(struct dp_daemon *d, struct dp_err *err);
void dp_peer_close(struct dp_daemon *d);

/* dispatch.c: one frame from a local peer, a daemon or a command line, whose role allows it. */
void dp_dispatch_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body);
void dp_dispatch_closed(struct dp_conn *c, const char *why);
void dp_dispatch_drained(struct dp_conn *c); /* what was queued for it has been sent */
/* A listener has accepted: it goes on to, for as long as there is somebody, so after some the others have their turn. */
void dp_dispatch_accepted(struct dp_daemon *d, struct evconnlistener *listener);

/* ask.c: questions wait here for a child that answers them; one of a connection, which is not read from until it has
 * its answer. */
void dp_ask(struct dp_conn *c, const struct dp_msg_query *q);
void dp_ask_drained(struct dp_conn *c);                         /* room for more of its answer */
void dp_ask_forget(struct dp_daemon *d, const struct dp_conn *c); /* it is closed */
void dp_ask_pump(struct dp_daemon *d);                          /* something has ended that others waited for */

/* query.c */
void dp_query_refuse(struct dp_conn *c, enum dp_verdict verdict, const char *text);
void dp_query_answer_node(struct dp_conn *c);
void dp_query_command(struct dp_conn *c, const struct dp_msg_command *m);
/* In a child: the answer to a question of this connection. returns the document, a new reference, or NULL with the
 * verdict and one line. */
json_t *dp_query_document(const struct dp_conn *c, const struct dp_msg_query *q, enum dp_verdict *verdict, char text[256]);
/* A document that fits into one piece; takes the reference. */
void dp_query_send(struct dp_conn *c, json_t *doc);
json_t *dp_query_node(const struct dp_daemon *d); /* what this node says of itself; new reference */

/* name_check.c */
void dp_name_check_tick(struct dp_daemon *d);
void dp_name_check_end(struct dp_daemon *d);

/* node_check.c */
void dp_node_check(struct dp_conn *c, const struct dp_msg_check *m);
void dp_node_check_forget(struct dp_conn *c); /* it is closed */
void dp_node_check_end(struct dp_daemon *d);

#endif
