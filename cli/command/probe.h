/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that may hang or end the process (libslurm does both), done in a child with a deadline. */
#ifndef DP_CLI_COMMAND_PROBE_H
#define DP_CLI_COMMAND_PROBE_H

#include <stdio.h>

#include "common/err.h"

/* Runs in the child; writes its answer to out. returns the exit status, 0: fine. */
typedef int (*dp_probe_fn)(void *arg, FILE *out);

/* *text: what the child wrote, NUL-terminated, at most 4 MiB; the caller frees it.
 * returns: 0, or -1: DP_ETIMEOUT when it ran past the deadline, DP_EIO with its last line on stderr
 * when it ended with another status than 0 or by a signal. */
int dp_probe(dp_probe_fn work, void *arg, double deadline_s, char **text, struct dp_err *err);

/* The same for a program found in PATH; argv ends with NULL. No shell is involved. */
int dp_probe_program(const char *const argv[], double deadline_s, char **text, struct dp_err *err);

#endif
