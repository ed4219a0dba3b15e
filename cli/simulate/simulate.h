/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `dynpipe simulate` share. */
#ifndef DP_CLI_SIMULATE_SIMULATE_H
#define DP_CLI_SIMULATE_SIMULATE_H

#include <jansson.h>

#include "cli/command/command.h"
#include "policies/saving/ways.h"

/* One element of "phases" (doc/json.md), without "stages" where nobody looks at them: they are most of
 * the work of a long run. New reference; NULL: out of memory. */
json_t *dp_simulate_phase(const struct dp_sim_case *c, const struct dp_sim_phase *phase, bool with_stages);
/* The document around them. saving, trade: NULL: not known. Takes the reference to phases. */
json_t *dp_simulate_document(const struct dp_sim_case *c, const struct dp_sim_totals *totals, const struct dp_saving *saving,
                             const struct dp_trade *trade, json_t *phases);

/* Print phases, the stages of the phase that holds `iteration`, and the totals. returns -1: the format is wrong. */
int dp_simulate_print(const struct dp_cli *cli, const json_t *document, uint64_t iteration, struct dp_err *err);

#endif
