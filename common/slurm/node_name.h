/* SPDX-License-Identifier: BSD-3-Clause */
/* Which names of nodes are taken. Slurm takes any: under 22.05.8 nodes of 300 characters, "n+1" and "-n1" register and are
 * IDLE. Here they become part of paths, log lines and command lines. */
#ifndef DP_COMMON_SLURM_NODE_NAME_H
#define DP_COMMON_SLURM_NODE_NAME_H

#include <stdbool.h>

/* 1 to 63 of A-Z a-z 0-9 . _ -, neither "." nor "-" in front. 63: the longest that DNS has for a host without its
 * domain, and what a name's 64 bytes hold everywhere. Neither allocates nor locks: slurmstepd calls it. */
bool dp_is_node_name(const char *name);

#endif
