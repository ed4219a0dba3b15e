/* SPDX-License-Identifier: BSD-3-Clause */
/* The way to a daemon: the unix socket of this node, or TCP with munge to another one. */
#ifndef DP_CLI_ASK_LINK_H
#define DP_CLI_ASK_LINK_H

#include "cli/command/command.h"
#include "common/message/msg.h"
#include "common/site/daemon_config.h"

/* The configuration that the command goes by: --config, $DYNPIPE_CONF, the installed one, else the
 * defaults. *path (may be NULL): what was read, NULL for the defaults; borrowed. NULL and err when it
 * is wrong. The caller destroys it. */
struct dp_config *dp_link_config(const struct dp_cli *cli, const char **path, struct dp_err *err);

/* Name of this node in Slurm: $SLURMD_NODENAME, else the short host name. Borrowed. */
const char *dp_link_node(void);

/* Path of the local daemon's socket: --socket, $DYNPIPE_SOCKET, the configuration. */
void dp_link_socket(const struct dp_cli *cli, const struct dp_config *config, char *out, size_t cap);

/* Ask the daemon of a node over TCP. *text: the caller frees it. */
int dp_link_query_node(const struct dp_config *config, const char *config_path, const char *node,
                       enum dp_query what, uint32_t job_id, char **text, struct dp_err *err);

/* Ask the daemon of a node to look at it, and from there at the daemon of `target`. From any thread. */
int dp_link_check_node(const struct dp_config *config, const char *config_path, const char *node, const char *target,
                       uint32_t job_id, char **text, struct dp_err *err);

/* Ask the daemon that --node, --socket or the configuration name. Where the local one does not answer
 * or does not know the job, Slurm is asked for the job's batch host, and the daemon there answers.
 * DP_EGONE: nobody knows the job; DP_EIO: no daemon could be reached. */
int dp_link_query(const struct dp_cli *cli, enum dp_query what, uint32_t job_id, char **text, struct dp_err *err);
int dp_link_command(const struct dp_cli *cli, enum dp_verb verb, uint32_t job_id, const char *argument,
                    struct dp_err *err);

#endif
