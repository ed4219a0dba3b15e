/* SPDX-License-Identifier: BSD-3-Clause */
/* A report as a picture: which node had which layers when, and what the run did meanwhile. */
#ifndef DP_CLI_RUNS_REPORT_SVG_H
#define DP_CLI_RUNS_REPORT_SVG_H

#include <jansson.h>

#include "common/err.h"

/* doc: the value of `report` in what `dynpipe report --json` prints. Writes the file, all or nothing.
 * returns 0, or -1: no node is named in it, or the file cannot be written. */
int dp_report_svg(const json_t *doc, const char *path, struct dp_err *err);

#endif
