/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions wait here for a child that answers them. */
#ifndef DP_DAEMON_QUERY_ASK_H
#define DP_DAEMON_QUERY_ASK_H

#include "daemon/net/daemon_state.h"

/* One of a connection, which is not read from until it has its answer. */
void dp_ask_add(struct dp_conn *c, const struct dp_msg_query *q);
void dp_ask_drained(struct dp_conn *c);                         /* room for more of its answer */
void dp_ask_forget(struct dp_daemon *d, const struct dp_conn *c); /* it is closed */
void dp_ask_pump(struct dp_daemon *d);                          /* something has ended that others waited for */

#endif
