/* SPDX-License-Identifier: BSD-3-Clause */
/* What the administrator wrote behind the plugin in plugstack.conf, and the socket's path that follows from it. No
 * Slurm in here. */
#ifndef DP_COMMON_CONF_PLUGIN_ARGS_H
#define DP_COMMON_CONF_PLUGIN_ARGS_H

#include "common/conf/options.h"

/* Read the arguments of the plugin. Unknown or bad ones leave the default in force.
 * returns: 0, or -1 with the first complaint in *err; *args is complete in either case. */
int dp_plugin_args_parse(int argc, char *const argv[], struct dp_plugin_args *args, struct dp_err *err);

/* The socket of one node: %n in the pattern becomes the node's name.
 * returns: 0, or -1 when the path does not fit into a socket address. */
int dp_socket_path(const char *pattern, const char *node, char *out, size_t cap, struct dp_err *err);

#endif
