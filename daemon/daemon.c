/* SPDX-License-Identifier: BSD-3-Clause */
/* One daemon, apart from what a process has only once (main.c: argv, signals, the pid file, the parting of rights): its
 * event loop, its sockets, its runs. Several can live in one process (tests/fuzz/fuzz_daemons.c).
 */
#include "config.h"

#include "daemon/daemon.h"

#include "daemon/net/daemon_state.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "daemon/dispatch.h"
#include "daemon/net/listen.h"
#include "daemon/net/local_server.h"
#include "daemon/net/peer_link.h"
#include "daemon/net/peer_server.h"
#include "daemon/query/ask.h"
#include "daemon/query/name_check.h"
#include "daemon/query/node_check.h"
#include "daemon/run/run.h"
#include "daemon/run/runs.h"
#include "daemon/run/slices/drain.h"
#include "daemon/run/state/history.h"

#define TICK_MS 100 /* resends and deadlines are seconds; ten looks at them in one */
#define PRUNE_EVERY_TICKS 6000 /* ten minutes */

static bool owns_run(void *arg, uid_t uid)
{
    return dp_runs_has_owner(arg, uid);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct dp_daemon *d = arg;

    (void)fd;
    (void)what;
    dp_runs_tick(d);
    dp_conn_tick(&d->conns);
    dp_ask_pump(d);
    dp_name_check_tick(d);
    if (d->n_ticks++ % PRUNE_EVERY_TICKS == 0)
        dp_history_prune_journals(d);
    dp_history_tick(d);
    dp_listen_again(d); /* one that ran out of descriptors was paused */
}

int dp_daemon_begin(struct dp_daemon *d, struct dp_err *err)
{
    static const struct timeval tick = {.tv_usec = TICK_MS * 1000};

    d->lock_fd = -1;
    d->base = event_base_new();
    if (!d->base)
        return dp_err_set(err, DP_ENOMEM, "cannot watch sockets and timers");
    d->events = &dp_dispatch_events;
    d->conns.base = d->base;
    d->conns.daemon_uid = d->uid;
    d->conns.owns_run = owns_run;
    d->conns.arg = d;
    dp_daemon_limit(d);
    d->tick = event_new(d->base, -1, EV_PERSIST, on_tick, d);
    if (!d->tick || event_add(d->tick, &tick) < 0)
        return dp_err_set(err, DP_ENOMEM, "cannot watch sockets and timers");
    return dp_listen_begin(d, err);
}

void dp_daemon_limit(struct dp_daemon *d)
{
    d->conns.max = (uint32_t)d->config->max_connections;
    d->conns.max_per_uid = (uint32_t)d->config->max_connections_per_uid;
}

int dp_daemon_serve(struct dp_daemon *d, struct dp_err *err)
{
    /* The socket's lock tells first and clearest that another daemon is here. */
    if (dp_local_open(d, err) < 0 || dp_runs_open(d, err) < 0 || dp_peer_open(d, err) < 0)
        return -1;
    return 0;
}

void dp_daemon_end(struct dp_daemon *d)
{
    dp_local_close(d);
    dp_node_check_end(d);
    dp_name_check_end(d);
    dp_drain_end(d);
    dp_runs_close(d);
    dp_peer_close(d);
    dp_conn_close_all(&d->conns, "the daemon ends");
    if (d->base)
        event_base_loop(d->base, EVLOOP_NONBLOCK); /* frees the connections */
    if (d->tick)
        event_free(d->tick);
    d->tick = NULL;
    dp_listen_end(d);
}
