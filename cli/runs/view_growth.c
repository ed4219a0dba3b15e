/* SPDX-License-Identifier: BSD-3-Clause */
/* Growth in the picture of a run: see view.h. */
#include <stdio.h>
#include <string.h>

#include "cli/runs/view.h"
#include "cli/show/json.h"
#include "cli/show/text.h"
#include "common/numbers.h"

enum { LABEL = 10, TEXT = 320 };

static enum dp_style style_of(const json_t *g)
{
    if (dp_json_is(g, "state", "joined"))
        return DP_GREEN;
    return dp_json_is(g, "state", "none") || dp_json_is(g, "state", "asked") ? DP_PLAIN : DP_YELLOW;
}

/* "asked for 2 slices more, withdrawn: not all of them have come in 600 s; 4 instead of 2, for speed: ..." */
static void request(char *out, size_t cap, const json_t *g)
{
    unsigned long more = (unsigned long)dp_json_count(g, "asked", 0), held = (unsigned long)dp_json_count(g, "held", 0);
    char state[32], text[TEXT], reason[TEXT];

    more = more > held ? more - held : 0;
    dp_json_text(state, sizeof state, g, "state", "?");
    dp_json_text(text, sizeof text, g, "text", "");
    dp_json_text(reason, sizeof reason, g, "reason", "");
    snprintf(out, cap, "asked for %lu slice%s more, %s%s%s; %s", more, dp_plural(more),
             strcmp(state, "asked") ? state : "they are to come", *text ? ": " : "", text, reason);
}

void dp_view_growth(struct dp_canvas *c, const json_t *run, size_t max_lines)
{
    const json_t *g = dp_json_get(run, "growth");
    char line[3 * TEXT], decision[TEXT];

    if (!g)
        return;
    dp_json_text(decision, sizeof decision, g, "decision", "");
    if (dp_json_count(g, "requests", 0) > 0)
        request(line, sizeof line, g);
    else if (*decision)
        snprintf(line, sizeof line, "up to %lu slices; %s", (unsigned long)dp_json_count(g, "max_gpus", 0), decision);
    else
        return;
    dp_canvas_put(c, DP_DIM, "growth");
    dp_canvas_wrap(c, LABEL, style_of(g), max_lines, line);
    if (max_lines > 2 && *decision && dp_json_count(g, "requests", 0) > 0 && !dp_json_is(g, "state", "asked"))
        dp_canvas_wrap(c, LABEL, DP_PLAIN, max_lines, decision);
}
