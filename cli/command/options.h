/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line into struct dp_cli, and the help texts. */
#ifndef DP_CLI_COMMAND_OPTIONS_H
#define DP_CLI_COMMAND_OPTIONS_H

#include "cli/command/command.h"

enum dp_parsed { DP_PARSED_RUN, DP_PARSED_DONE, DP_PARSED_WRONG };

/* Read argv. DP_PARSED_DONE: help or version was printed; DP_PARSED_WRONG: the error was printed. */
enum dp_parsed dp_cli_parse(int argc, char **argv, struct dp_cli *out);

/* "8", or "4x2" for 2 machines of 4: into devices[2]. returns: how many numbers, -1: it is none of these, or one is not from
 * 1 to `most`. */
int dp_cli_devices(const char *text, uint32_t most, uint32_t devices[2]);

#endif
