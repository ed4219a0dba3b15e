/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of layers on other workers, in the picture of a run: see view.h. */
#include <stdio.h>

#include "cli/runs/view.h"
#include "cli/show/json.h"
#include "cli/show/text.h"
#include "common/numbers.h"

enum { LABEL = 10, TEXT = 320 };

/* "14 of 14 layers, no step behind; 1.2 GiB held, 310 MiB sent a step" */
static void all(struct dp_canvas *c, const json_t *k, size_t max_lines)
{
    unsigned long layers = (unsigned long)dp_json_count(k, "layers", 0), whole = (unsigned long)dp_json_count(k, "whole", 0);
    char held[32], sent[32], text[TEXT], line[2 * TEXT];

    snprintf(line, sizeof line, "%lu of %lu layer%s%s; %s held, %s sent a step", whole, layers, dp_plural(layers),
             layers && whole == layers ? ", no step behind" : "", dp_text_bytes(held, sizeof held, dp_json_number(k, "bytes")),
             dp_text_bytes(sent, sizeof sent, dp_json_number(k, "step_bytes")));
    dp_canvas_put(c, DP_DIM, "copies");
    dp_canvas_wrap(c, LABEL, layers && whole == layers ? DP_GREEN : DP_YELLOW, max_lines, line);
    if (max_lines > 1 && *dp_json_text(text, sizeof text, k, "text", ""))
        dp_canvas_wrap(c, LABEL, DP_YELLOW, max_lines, text);
}

/* "worker 0: 3 of 4 layers on worker 1, the others are being copied; holds 4 of others, 310 MiB" */
static void worker(struct dp_canvas *c, const json_t *w)
{
    const json_t *k = dp_json_get(w, "copies");
    unsigned long layers = (unsigned long)dp_json_count(k, "layers", 0), whole = (unsigned long)dp_json_count(k, "whole", 0);
    unsigned long held = (unsigned long)dp_json_count(k, "held_layers", 0);
    char rank[32], holder[32], bytes[32], line[TEXT];
    int n = snprintf(line, sizeof line, "worker %s: ", dp_json_text(rank, sizeof rank, w, "rank", "?"));

    if (layers)
        n += snprintf(line + n, sizeof line - (size_t)n, "%lu of %lu layer%s on worker %s%s", whole, layers, dp_plural(layers),
                      dp_json_text(holder, sizeof holder, k, "holder", "?"), whole < layers ? ", the others are being copied" : "");
    if (held)
        snprintf(line + n, sizeof line - (size_t)n, "%sholds %lu of others, %s", layers ? "; " : "", held,
                 dp_text_bytes(bytes, sizeof bytes, dp_json_number(k, "held_bytes")));
    dp_canvas_to(c, LABEL);
    dp_canvas_wrap(c, LABEL, DP_PLAIN, 2, line);
}

void dp_view_copies(struct dp_canvas *c, const json_t *run, size_t max_lines)
{
    const json_t *k = dp_json_get(run, "copies"), *w;
    size_t i, n = 0;

    if (!k)
        return;
    all(c, k, max_lines > 2 ? 2 : max_lines);
    json_array_foreach(dp_json_list(run, "workers"), i, w)
        if (max_lines > 2 && n + 2 < max_lines && dp_json_get(w, "copies")) {
            worker(c, w);
            n++;
        }
}
