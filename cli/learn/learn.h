/* SPDX-License-Identifier: BSD-3-Clause */
/* The pieces of `dynpipe learn`. */
#ifndef DP_CLI_LEARN_LEARN_H
#define DP_CLI_LEARN_LEARN_H

#include "cli/command/command.h"

/* Plan every graph of the command line by the networks of a file and by other searches, and print a table and a verdict. returns
 * 0, or -1: a file. */
int dp_learn_evaluate(const struct dp_cli *cli, struct dp_err *err);

#endif
