/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run saved, as text: the run, a fixed layout and all devices balanced side by side. */
#ifndef DP_CLI_SHOW_SAVING_H
#define DP_CLI_SHOW_SAVING_H

#include <jansson.h>

#include "cli/show/canvas.h"

/* saving: as policies/saving/saving_json.h makes it; NULL, or without numbers: nothing is printed. */
void dp_saving_show(struct dp_canvas *c, const json_t *saving);

/* A run that did nothing, and could have done nothing, is its own fixed run. */
bool dp_saving_is_news(const json_t *saving);

#endif
