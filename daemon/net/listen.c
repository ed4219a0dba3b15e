/* SPDX-License-Identifier: BSD-3-Clause */
/* See listen.h. */
#include "config.h"

#include "daemon/net/listen.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "daemon/net/daemon_state.h"

#define ACCEPTS_PER_TURN 32 /* a flood of connections must not keep the loop from those that it has */

void dp_listen_again(struct dp_daemon *d)
{
    d->n_accepted = 0;
    if (d->local)
        evconnlistener_enable(d->local);
    if (d->tcp)
        evconnlistener_enable(d->tcp);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    dp_listen_again(arg);
}

static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    (void)arg;
    dp_warn("accept: %s", strerror(errno));
    evconnlistener_disable(listener); /* until the next tick, instead of spinning */
}

int dp_listen_begin(struct dp_daemon *d, struct dp_err *err)
{
    d->again = event_new(d->base, -1, 0, on_again, d);
    return d->again ? 0 : dp_err_set(err, DP_ENOMEM, "cannot watch sockets and timers");
}

void dp_listen_end(struct dp_daemon *d)
{
    if (d->again)
        event_free(d->again);
    d->again = NULL;
}

void dp_listen_watch(struct evconnlistener *listener)
{
    evconnlistener_set_error_cb(listener, on_accept_error);
}

void dp_listen_accepted(struct dp_daemon *d, struct evconnlistener *listener)
{
    static const struct timeval now = {0};

    if (++d->n_accepted < ACCEPTS_PER_TURN)
        return;
    evconnlistener_disable(listener);
    event_add(d->again, &now);
}
