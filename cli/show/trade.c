/* SPDX-License-Identifier: BSD-3-Clause */
/* See trade.h. */
#include "cli/show/trade.h"

#include <math.h>
#include <stdio.h>

#include "cli/show/json.h"
#include "cli/show/text.h"

enum { DEVICES = 7, STEP = 18, TIME = 29, LATER = 40, DEVICE_S = 52, FEWER = 63, WHY = 65 };

static void percent(struct dp_canvas *c, size_t column, double value)
{
    char text[32];

    snprintf(text, sizeof text, "%+.1f %%", value);
    dp_canvas_right(c, column, value > 0 ? DP_YELLOW : DP_GREEN, isfinite(value) ? text : "-");
}

static void row(struct dp_canvas *c, const json_t *r)
{
    enum dp_style style = dp_json_flag(r, "chosen", false) ? DP_BOLD : DP_PLAIN;
    char text[128];

    dp_canvas_right(c, DEVICES, style, dp_text_count(text, sizeof text, dp_json_number(r, "devices")));
    dp_canvas_right(c, STEP, style, dp_text_seconds(text, sizeof text, dp_json_number(r, "step_ms") / 1e3));
    dp_canvas_right(c, TIME, style, dp_text_seconds(text, sizeof text, dp_json_number(r, "time_s")));
    percent(c, LATER, dp_json_number(r, "later_percent"));
    dp_canvas_right(c, DEVICE_S, style, dp_text_count(text, sizeof text, dp_json_number(r, "device_s")));
    percent(c, FEWER, dp_json_number(r, "device_s_percent"));
    dp_canvas_to(c, WHY);
    if (*dp_json_text(text, sizeof text, r, "why", ""))
        dp_canvas_wrap(c, WHY, style, 3, text);
    else
        dp_canvas_line(c);
}

void dp_trade_show(struct dp_canvas *c, const json_t *trade, const char *title)
{
    const json_t *r;
    size_t i;

    if (json_array_size(trade) < 2)
        return;
    dp_canvas_put(c, DP_DIM, "%s", title);
    dp_canvas_line(c);
    dp_canvas_right(c, DEVICES, DP_DIM, "DEVICES");
    dp_canvas_right(c, STEP, DP_DIM, "STEP");
    dp_canvas_right(c, TIME, DP_DIM, "TIME");
    dp_canvas_right(c, LATER, DP_DIM, "LATER");
    dp_canvas_right(c, DEVICE_S, DP_DIM, "DEVICE-S");
    dp_canvas_right(c, FEWER, DP_DIM, "MORE");
    dp_canvas_line(c);
    json_array_foreach((json_t *)trade, i, r)
        row(c, r);
}
