/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kinds of peers there are, and which messages each may send. */
#ifndef DP_DAEMON_NET_ROLES_H
#define DP_DAEMON_NET_ROLES_H

#include <stdbool.h>
#include <stdint.h>

/* What a peer has proved so far. */
enum dp_role {
    DP_ROLE_LOCAL,   /* unix socket, uid known: may become a worker, may ask */
    DP_ROLE_PLUGIN,  /* unix socket, root or the daemon's own user */
    DP_ROLE_WORKER,  /* unix socket, after HELLO */
    DP_ROLE_WIRER,   /* unix socket, after CARD */
    DP_ROLE_TCP_IN,  /* TCP, has been sent a challenge */
    DP_ROLE_TCP_OUT, /* TCP, we are the ones who must answer one */
    DP_ROLE_PEER,    /* the daemon of another node */
    DP_ROLE_CLI,     /* a command line on another machine, uid known */
    DP_N_ROLES
};

bool dp_role_may_send(enum dp_role role, uint16_t type); /* type: enum dp_msg_type, as it came */
const char *dp_role_name(enum dp_role role);               /* for people */

#endif
