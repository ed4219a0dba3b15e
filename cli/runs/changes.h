/* SPDX-License-Identifier: BSD-3-Clause */
/* What differs between two documents of a run, as lines for people. */
#ifndef DP_CLI_RUNS_CHANGES_H
#define DP_CLI_RUNS_CHANGES_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/show/canvas.h"

/* at_s: when, in the run's own clock; NaN: at the time of the document. */
typedef void (*dp_change_fn)(void *arg, double at_s, enum dp_style style, const char *text);

/* Two sentences that differ in their numbers only say the same. */
bool dp_changes_same_but_numbers(const char *a, const char *b);

/* Call fn for each change from `before` (NULL: the run was not seen yet) to `now`. Progress in steps,
 * loss and speed is no change. */
void dp_changes(const json_t *before, const json_t *now, dp_change_fn fn, void *arg);

#endif
