/* SPDX-License-Identifier: BSD-3-Clause */
/* STOP_SLOT: a slot of this node is emptied, and that is proved. */
#ifndef DP_DAEMON_RUN_SLOT_H
#define DP_DAEMON_RUN_SLOT_H

#include "daemon/run/run.h"

/* from: node of the daemon that asks. */
void dp_slot_stop(struct dp_daemon *d, const char *from, const struct dp_msg_stop_slot *m);
void dp_slot_serve(struct dp_run *run); /* start what waits, once the job is known */

#endif
