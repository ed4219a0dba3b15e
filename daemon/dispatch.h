/* SPDX-License-Identifier: BSD-3-Clause */
/* From what the sockets tell (struct dp_net_events) to the functions that mean it. */
#ifndef DP_DAEMON_DISPATCH_H
#define DP_DAEMON_DISPATCH_H

#include "daemon/net/events.h"

extern const struct dp_net_events dp_dispatch_events;

#endif
