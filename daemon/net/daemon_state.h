/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of one daemon share: the event loop, the configuration, its runs and its peers.
 * daemon/daemon.c opens and closes it, daemon/main.c makes a program of it.
 */
#ifndef DP_DAEMON_NET_DAEMON_STATE_H
#define DP_DAEMON_NET_DAEMON_STATE_H

#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>
#include <sys/types.h>

#include "common/site/daemon_config.h"
#include "daemon/net/conn.h"

struct dp_priv;
struct dp_run;
struct dp_link;
struct dp_node_journal;
struct dp_helper;
struct dp_origin_cache;
struct dp_ask;
struct dp_past_list;
struct dp_node_check;
struct dp_seek;
struct dp_net_events;

struct dp_daemon {
    struct event_base *base;
    struct dp_config *config;
    const char *config_path; /* NULL: none */
    char node[64];
    char boot_id[40];
    uid_t uid;               /* that the event loop runs as */
    uint64_t start_ns;
    bool has_failed;         /* it ends because it cannot go on */
    const struct dp_net_events *events;
    struct dp_conn_set conns;
    struct evconnlistener *local, *tcp;
    int lock_fd;         /* beside the unix socket: no other daemon serves it */
    struct event *again; /* a listener that was paused goes on */
    uint32_t n_accepted; /* since then, or since the last tick */
    struct dp_priv *priv;
    uint32_t hung_pid;       /* the last process that asked the cards' driver and was not answered; 0: none */
    uint64_t hung_ticks;     /* when it began */
    struct dp_node_journal *log; /* journal of the node */
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
    struct dp_helper *drain_look; /* is this node being drained? */
    bool is_draining;        /* as Slurm said last */
    uint64_t drain_ask_ns, drain_said_ns; /* not asked before; told coordinators last */
    char trouble[1100];      /* what was wrong with the last reload; "": nothing */
};

#endif
