/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners of a daemon take turns with everything else: after some connections they pause until the others have had
 * their turn, and after an error until the next tick. */
#ifndef DP_DAEMON_NET_LISTEN_H
#define DP_DAEMON_NET_LISTEN_H

#include "daemon/net/daemon_state.h"

/* For dp_daemon_begin(): what dp_listen_accepted() needs. */
int dp_listen_begin(struct dp_daemon *d, struct dp_err *err);
void dp_listen_end(struct dp_daemon *d);
/* A listener is open: errors of it pause it. */
void dp_listen_watch(struct evconnlistener *listener);
/* It has accepted: it goes on to, for as long as there is somebody, so after some the others have their turn. */
void dp_listen_accepted(struct dp_daemon *d, struct evconnlistener *listener);
/* Those that were paused go on; at each tick. */
void dp_listen_again(struct dp_daemon *d);

#endif
