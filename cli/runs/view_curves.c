/* SPDX-License-Identifier: BSD-3-Clause */
/* Curves and the last events of the picture of a run: see view.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask/run.h"
#include "cli/runs/view.h"
#include "cli/show/bars.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

enum { LABEL = 8, MAX_WIDTH = 400 };

/* One curve with the range of its values on the left. */
struct panel {
    double value[MAX_WIDTH];
    size_t n;
    double low, high;
    char top[32], bottom[32]; /* labels */
    enum dp_style style;
};

static void panel_row(struct dp_canvas *c, const struct panel *p, size_t row, size_t rows)
{
    char text[DP_BAR_BYTES(MAX_WIDTH)];
    size_t left = c->column;

    dp_canvas_right(c, left + LABEL - 1, DP_DIM, row == 0 ? p->top : row + 1 == rows ? p->bottom : "");
    dp_canvas_to(c, left + LABEL);
    dp_curve_row(text, sizeof text, p->value, p->n, p->low, p->high, row, rows);
    dp_canvas_put(c, p->style, "%s", text);
}

static void loss_panel(struct panel *p, const struct dp_history *h, size_t columns)
{
    p->n = columns > MAX_WIDTH ? MAX_WIDTH : columns;
    p->low = INFINITY;
    p->high = -INFINITY;
    p->style = DP_CYAN;
    dp_history_loss(h, p->value, p->n);
    for (size_t i = 0; i < p->n; i++) {
        if (isfinite(p->value[i])) {
            p->low = fmin(p->low, p->value[i]);
            p->high = fmax(p->high, p->value[i]);
        }
    }
    snprintf(p->top, sizeof p->top, isfinite(p->high) ? "%.3f" : " ", p->high);
    snprintf(p->bottom, sizeof p->bottom, isfinite(p->low) ? "%.3f" : " ", p->low);
}

static void held_panel(struct panel *p, const json_t *run, size_t columns)
{
    p->n = columns > MAX_WIDTH ? MAX_WIDTH : columns;
    p->low = 0;
    p->high = fmax(dp_run_devices_at_start(run), dp_run_devices(run));
    p->style = DP_GREEN;
    dp_history_held(run, p->value, p->n);
    snprintf(p->top, sizeof p->top, isfinite(p->high) ? "%.0f" : " ", p->high);
    snprintf(p->bottom, sizeof p->bottom, "0");
}

void dp_view_curves(struct dp_canvas *c, const json_t *run, const struct dp_history *h, size_t rows)
{
    size_t split = c->columns * 3 / 5;
    struct panel loss = {.n = 0}, held = {.n = 0};
    char span[32];

    if (rows == 0 || c->columns < 40)
        return;
    loss_panel(&loss, h, split - LABEL - 3);
    held_panel(&held, run, c->columns - split - LABEL);
    dp_canvas_put(c, DP_DIM, "loss");
    if (h->n)
        dp_canvas_put(c, DP_DIM, ", steps %.0f to %.0f", h->sample[0].step, h->sample[h->n - 1].step);
    dp_canvas_to(c, split);
    dp_canvas_put(c, DP_DIM, "devices held");
    if (isfinite(dp_history_now(run)))
        dp_canvas_put(c, DP_DIM, ", %s", dp_text_seconds(span, sizeof span, dp_history_now(run)));
    dp_canvas_line(c);
    for (size_t row = 0; row < rows; row++) {
        panel_row(c, &loss, row, rows);
        dp_canvas_to(c, split);
        panel_row(c, &held, row, rows);
        dp_canvas_line(c);
    }
}

/* "label   text" in at most max_lines lines. */
static void last(struct dp_canvas *c, const char *label, enum dp_style style, const char *text, size_t max_lines)
{
    if (!*text || max_lines == 0)
        return;
    dp_canvas_put(c, DP_DIM, "%s", label);
    dp_canvas_wrap(c, 10, style, max_lines, text);
}

void dp_view_decision(struct dp_canvas *c, const json_t *run, size_t max_lines)
{
    json_t *decision = dp_json_get(run, "last_decision");
    char text[1024], step[32], line[1200];

    if (!decision)
        return;
    snprintf(line, sizeof line, "step %s: %s", dp_json_text(step, sizeof step, decision, "step", "?"),
             dp_json_text(text, sizeof text, decision, "reason|text", "-"));
    last(c, "decision", DP_PLAIN, line, max_lines);
}

void dp_view_last(struct dp_canvas *c, const json_t *run, size_t max_lines)
{
    const char *state = json_string_value(dp_json_get(run, "state"));
    char text[1024];

    last(c, "saved", DP_PLAIN, dp_json_text(text, sizeof text, run, "checkpoint", ""), max_lines);
    dp_json_text(text, sizeof text, run, "state_text", "");
    if (!state || strcmp(text, state) != 0)
        last(c, "state", dp_run_state_style(run), text, max_lines);
}
