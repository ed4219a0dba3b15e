/* The command line into struct dp_cli, and the help texts. */
#ifndef DP_CLI_OPTIONS_H
#define DP_CLI_OPTIONS_H

#include "cli/command.h"

enum dp_parsed { DP_PARSED_RUN, DP_PARSED_DONE, DP_PARSED_WRONG };

/* Read argv. DP_PARSED_DONE: help or version was printed; DP_PARSED_WRONG: the error was printed. */
enum dp_parsed dp_cli_parse(int argc, char **argv, struct dp_cli *out);

#endif
