/* SPDX-License-Identifier: BSD-3-Clause */
/* What the slurmd of this node goes by: its own slurm.conf, which need not be the controller's. */
#ifndef DP_DAEMON_QUERY_SLURMD_CONF_H
#define DP_DAEMON_QUERY_SLURMD_CONF_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* Path of the slurm.conf that the running slurmd was started with. controller_port: 0, or where several slurmd run
 * on this machine: the one of `node` whose file names this SlurmctldPort. returns: 0, or -1 with DP_EGONE: none
 * runs. */
int dp_slurmd_find_conf(const char *node, unsigned controller_port, char *out, size_t cap, struct dp_err *err);

/* Value of a key of that file or of what it includes, whatever the case of its letters; "" where there is none. */
void dp_slurm_conf_value(const char *path, const char *key, char *out, size_t cap);

#endif
