/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe simulate --advise: how many devices to ask for, and the layouts for other programs. */
#ifndef DP_CLI_SIMULATE_ADVICE_H
#define DP_CLI_SIMULATE_ADVICE_H

#include <jansson.h>

#include "cli/command/command.h"
#include "policies/saving/advice.h"

/* "advice" of doc/json.md. New reference; NULL: out of memory. */
json_t *dp_advice_json(const struct dp_sim_case *c, const struct dp_advice *a);

/* Print that of a document for people. returns 0, or -1: the format is wrong. */
int dp_advice_print(const struct dp_cli *cli, const json_t *document, struct dp_err *err);

#endif
