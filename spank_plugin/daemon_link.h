/* SPDX-License-Identifier: BSD-3-Clause */
/* One short conversation with the daemon of this node over its unix socket. */
#ifndef DP_SPANK_DAEMON_LINK_H
#define DP_SPANK_DAEMON_LINK_H

#include "common/message/msg.h"

/* For the whole conversation. slurmstepd waits in it, so it must stay short. */
#define DP_LINK_TIMEOUT_MS 500

enum dp_link_result {
    DP_LINK_OK,      /* *ack holds the answer */
    DP_LINK_UNSENT,  /* the daemon never got the message */
    DP_LINK_UNSURE,  /* the message went out, no (valid) answer came */
};

/* Tell the daemon that a step starts on this node, and read its answer.
 * Blocks DP_LINK_TIMEOUT_MS at most, whatever the daemon does. Raises no signal.
 * err: what went wrong where the result is not DP_LINK_OK. */
enum dp_link_result dp_link_step_start(const char *path, const struct dp_msg_step_start *m,
                                       struct dp_msg_ack *ack, struct dp_err *err);

/* Tell the daemon which tasks were started on this node. Does not wait for an answer.
 * returns: 0, or -1 and *err. Blocks DP_LINK_TIMEOUT_MS at most. */
int dp_link_tasks(const char *path, const struct dp_msg_tasks *m, struct dp_err *err);

/* Tell the daemon that a step ended on this node. Does not wait for an answer.
 * returns: 0, or -1 and *err. Blocks DP_LINK_TIMEOUT_MS at most. */
int dp_link_step_end(const char *path, const struct dp_msg_step_end *m, struct dp_err *err);

#endif
