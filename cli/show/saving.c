/* SPDX-License-Identifier: BSD-3-Clause */
/* See saving.h. */
#include "cli/show/saving.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/json.h"
#include "cli/show/text.h"

enum { STEP = 32, TIME = 43, DEVICE_S = 55, EACH = 77 };

static void way(struct dp_canvas *c, const char *label, const json_t *saving, const char *key, enum dp_style style)
{
    const json_t *of = dp_json_get(saving, key);
    char text[32];

    dp_canvas_put(c, DP_PLAIN, "%s", label);
    dp_canvas_right(c, STEP, style, dp_text_seconds(text, sizeof text, dp_json_number(of, "step_ms") / 1e3));
    dp_canvas_right(c, TIME, style, dp_text_seconds(text, sizeof text, dp_json_number(of, "time_s")));
    dp_canvas_right(c, DEVICE_S, style, dp_text_count(text, sizeof text, dp_json_number(of, "device_s")));
    dp_canvas_right(c, EACH, style, dp_text_count(text, sizeof text, dp_json_number(of, "tokens_per_device_s")));
    dp_canvas_line(c);
}

/* "12.0 % less", "12.0 % more"; words: for below and for above. */
static void change(char *out, size_t cap, double percent, const char *below, const char *above)
{
    snprintf(out, cap, "%.1f %% %s", fabs(percent), percent < 0 ? below : above);
}

static void verdict(struct dp_canvas *c, const json_t *saving)
{
    double packing = dp_json_number(saving, "packing_percent"), pruning = dp_json_number(saving, "pruning_percent");
    char time[48], gpus[48], text[320], lent[32], by[32];
    bool is_pruned;

    change(time, sizeof time, dp_json_number(saving, "later_percent"), "earlier", "later");
    change(gpus, sizeof gpus, dp_json_number(saving, "device_s_percent"), "fewer", "more");
    snprintf(text, sizeof text, "against the fixed layout: %s, %s device-s; %s device-s are free for others before its end", time, gpus,
             dp_text_count(lent, sizeof lent, dp_json_number(saving, "lent_device_s")));
    dp_canvas_wrap(c, 0, DP_PLAIN, 4, text);
    is_pruned = !strcmp(dp_json_text(by, sizeof by, saving, "cheaper_by", "pruning"), "pruning");
    snprintf(text, sizeof text, "tokens per device-s %s: %+.1f %% by packing and balancing",
             is_pruned ? "at equal sparsity" : "with equally cheap layers", packing);
    if (isfinite(pruning))
        snprintf(text + strlen(text), sizeof text - strlen(text), "; by %s alone: %+.1f %%", by, pruning);
    dp_canvas_wrap(c, 0, DP_PLAIN, 4, text);
}

bool dp_saving_is_news(const json_t *saving)
{
    double fixed = dp_json_number(saving, "fixed.time_s"), balanced = dp_json_number(saving, "balanced.time_s");

    return isfinite(fixed) && dp_json_number(saving, "steps") > 1 && (dp_json_number(saving, "run.time_s") != fixed || balanced != fixed ||
                               dp_json_number(saving, "lent_device_s") > 0);
}

void dp_saving_show(struct dp_canvas *c, const json_t *saving)
{
    if (!isfinite(dp_json_number(saving, "fixed.time_s")))
        return;
    dp_canvas_put(c, DP_DIM, "%s", dp_json_flag(saving, "is_forecast", false) ? "to the end, as it goes" : "");
    dp_canvas_right(c, STEP, DP_DIM, "STEP");
    dp_canvas_right(c, TIME, DP_DIM, "TIME");
    dp_canvas_right(c, DEVICE_S, DP_DIM, "DEVICE-S");
    dp_canvas_right(c, EACH, DP_DIM, "TOKENS PER DEVICE-S");
    dp_canvas_line(c);
    way(c, "this run", saving, "run", DP_BOLD);
    way(c, "fixed layout", saving, "fixed", DP_PLAIN);
    way(c, "all devices balanced", saving, "balanced", DP_PLAIN);
    if (dp_saving_is_news(saving))
        verdict(c, saving);
}
