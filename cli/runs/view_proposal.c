/* SPDX-License-Identifier: BSD-3-Clause */
/* What an observed run should begin again with, and what is expected of steps to come: see view.h. The
 * same labels as of `dynpipe simulate --advise`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/runs/view.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

enum { INDENT = 4, VALUE = 15 };

static void notation(struct dp_canvas *c, const json_t *proposal, const char *key, const char *label)
{
    const char *value = json_string_value(json_object_get(proposal, key));
    size_t cap = value ? 4 * strlen(value) + 1 : 0;
    char *text = value && *value ? malloc(cap) : NULL;

    if (!text)
        return;
    dp_canvas_to(c, INDENT);
    dp_canvas_put(c, DP_DIM, "%s", label);
    dp_canvas_wrap(c, VALUE, DP_PLAIN, 64, dp_text_clean(text, cap, value));
    free(text);
}

#define STEPS 8 /* lines of what is expected */

void dp_view_expected(struct dp_canvas *c, const json_t *run)
{
    json_t *list = dp_json_list(run, "expected");
    const json_t *e;
    size_t i;

    json_array_foreach(list, i, e) {
        char step[32];

        if (i == STEPS) {
            dp_canvas_to(c, INDENT);
            dp_canvas_put(c, DP_DIM, "and of %zu steps more", json_array_size(list) - i);
            dp_canvas_line(c);
            return;
        }
        dp_canvas_to(c, INDENT);
        dp_canvas_put(c, DP_DIM, "expected ");
        dp_canvas_put(c, DP_PLAIN, "from step %s on: %.3f ms a microbatch on %.0f layers",
                      dp_text_count(step, sizeof step, dp_json_number(e, "step")), dp_json_number(e, "microbatch_ms"),
                      dp_json_number(e, "layers"));
        dp_canvas_line(c);
    }
}

void dp_view_proposal(struct dp_canvas *c, const json_t *run)
{
    const json_t *p = dp_json_get(run, "proposal");
    double now = dp_json_number(p, "now_ms"), then = dp_json_number(p, "then_ms");
    char text[1024];

    if (!json_is_object(p))
        return;
    dp_canvas_line(c);
    dp_canvas_put(c, DP_BOLD, "begin again with ");
    dp_canvas_put(c, DP_CYAN, "%s", dp_json_text(text, sizeof text, p, "text", "?"));
    dp_canvas_put(c, DP_PLAIN, ", on %.0f workers", dp_json_number(p, "workers"));
    if (isfinite(now) && isfinite(then))
        dp_canvas_put(c, DP_PLAIN, ": %.3f ms a step predicted, now %.3f ms", then, now);
    dp_canvas_line(c);
    notation(c, p, "megatron_layout", "Megatron");
    notation(c, p, "megatron_options", "or");
    notation(c, p, "deepspeed_parts", "DeepSpeed");
    notation(c, p, "torch_split_points", "PyTorch");
}
