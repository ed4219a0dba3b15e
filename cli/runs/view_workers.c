/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers, layout and slots of the picture of a run: see view.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask/run.h"
#include "cli/runs/view.h"
#include "cli/show/bars.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

/* Columns of the table of workers; what does not fit into a narrow screen is left out. */
struct columns {
    size_t node, layers, bar, bar_width, busy, wait, memory, kept;
};

static struct columns place(const struct dp_canvas *c)
{
    struct columns k = {.node = 8, .layers = 19, .bar = 31};
    size_t right = c->columns;

    if (c->columns >= 92) {
        k.kept = right;
        right -= 9;
    }
    if (c->columns >= 76) {
        k.memory = right;
        right -= 10;
    }
    k.wait = right;
    k.busy = right - 10;
    k.bar_width = k.busy > k.bar + 20 ? k.busy - k.bar - 17 : 4;
    return k;
}

static enum dp_style load_style(double load)
{
    return load >= 0.8 ? DP_GREEN : load >= 0.5 ? DP_YELLOW : DP_RED;
}

static void heading(struct dp_canvas *c, const struct columns *k)
{
    dp_canvas_put(c, DP_DIM, "worker");
    dp_canvas_to(c, k->node);
    dp_canvas_put(c, DP_DIM, "node");
    dp_canvas_to(c, k->layers);
    dp_canvas_put(c, DP_DIM, "layers");
    dp_canvas_to(c, k->bar);
    dp_canvas_put(c, DP_DIM, "load");
    dp_canvas_right(c, k->busy, DP_DIM, "device time");
    dp_canvas_right(c, k->wait, DP_DIM, "waits");
    if (k->memory)
        dp_canvas_right(c, k->memory, DP_DIM, "memory");
    if (k->kept)
        dp_canvas_right(c, k->kept, DP_DIM, "weights");
    dp_canvas_line(c);
}

/* Load of a worker: told, or its busy time over the slowest's. */
static double load_of(const json_t *run, const json_t *worker)
{
    double load = dp_json_number(worker, "load"), slowest = 0;
    const json_t *w;
    size_t i;

    if (isfinite(load))
        return load;
    json_array_foreach(dp_json_list(run, "workers"), i, w)
        slowest = fmax(slowest, dp_json_number(w, "busy_ms"));
    return dp_json_number(worker, "busy_ms") / slowest;
}

static bool is_gone(const json_t *worker)
{
    return dp_json_is(worker, "state", "left") || dp_json_is(worker, "state", "gone") ||
           dp_json_is(worker, "state", "lost");
}

/* State of the slot that holds a node, "" when it says nothing. */
static const char *slot_state(const json_t *run, const json_t *worker, char *out, size_t cap)
{
    const char *node = json_string_value(dp_json_get(worker, "node"));
    const json_t *s;
    size_t i;

    out[0] = '\0';
    json_array_foreach(dp_json_list(run, "slots"), i, s) {
        if (node && dp_json_is(s, "node", node))
            dp_json_text(out, cap, s, "state", "");
    }
    return out;
}

static void bar(struct dp_canvas *c, const struct columns *k, double load)
{
    char full[DP_BAR_BYTES(256)], rest[DP_BAR_BYTES(256)];
    size_t width = k->bar_width > 256 ? 256 : k->bar_width;

    dp_bar_rest(rest, sizeof rest, width - dp_bar(full, sizeof full, load, width));
    dp_canvas_put(c, load_style(load), "%s", full);
    dp_canvas_put(c, DP_DIM, "%s", rest);
    dp_canvas_put(c, load_style(load), " %3.0f %%", 100 * load);
}

static void numbers(struct dp_canvas *c, const struct columns *k, const json_t *w)
{
    double kept = dp_json_number(w, "nnz") / dp_json_number(w, "params");
    char text[32];

    dp_canvas_right(c, k->busy, DP_PLAIN, dp_text_seconds(text, sizeof text, dp_json_number(w, "busy_ms") / 1e3));
    dp_canvas_right(c, k->wait, DP_DIM, dp_text_seconds(text, sizeof text, dp_json_number(w, "wait_ms") / 1e3));
    if (k->memory)
        dp_canvas_right(c, k->memory, DP_PLAIN, dp_text_bytes(text, sizeof text, dp_json_number(w, "mem_bytes")));
    if (k->kept)
        dp_canvas_right(c, k->kept, DP_DIM, dp_text_percent(text, sizeof text, kept));
}

static void worker(struct dp_canvas *c, const struct columns *k, const json_t *run, const json_t *w)
{
    double n = dp_run_worker_layers(w), first = dp_json_number(w, "first_layer"), load = load_of(run, w);
    bool gone = is_gone(w);
    char text[96], slot[64];

    snprintf(text, sizeof text, "%.8s", dp_json_text(slot, sizeof slot, w, "rank", "?"));
    dp_canvas_right(c, 6, gone ? DP_DIM : DP_BOLD, text);
    dp_canvas_to(c, k->node);
    dp_json_text(text, sizeof text, w, "node", "-");
    text[dp_text_fit(text, k->layers - k->node - 1)] = '\0';
    dp_canvas_put(c, gone ? DP_DIM : DP_PLAIN, "%s", text);
    dp_canvas_to(c, k->layers);
    if (n > 1)
        dp_canvas_put(c, DP_CYAN, "%.0f-%.0f", first, first + n - 1);
    else if (n == 1)
        dp_canvas_put(c, DP_CYAN, "%.0f", first);
    else
        dp_canvas_put(c, DP_DIM, "none");
    dp_canvas_to(c, k->bar);
    if (!gone && (dp_json_is(w, "state", "unknown") || dp_json_is(w, "state", "disconnected"))) {
        dp_canvas_put(c, DP_RED, "%s", dp_json_is(w, "state", "unknown") ? "not heard from yet" : "not heard from now");
    } else if (gone || !(n > 0)) {
        slot_state(run, w, slot, sizeof slot);
        dp_canvas_put(c, DP_DIM, "%s%s%s", dp_json_text(text, sizeof text, w, "state", "idle"),
                      *slot ? ", node " : "", slot);
    } else {
        bar(c, k, load);
        numbers(c, k, w);
    }
    dp_canvas_line(c);
}

void dp_view_workers(struct dp_canvas *c, const json_t *run, size_t first, size_t rows)
{
    json_t *workers = dp_json_list(run, "workers");
    size_t n = json_array_size(workers), shown = rows ? rows - 1 : 0;
    struct columns k = place(c);
    bool more;

    if (n == 0 || rows < 2)
        return;
    if (shown < n - first && shown > 1)
        shown--; /* room for the line that says how many more there are */
    heading(c, &k);
    for (size_t i = first; i < n && i - first < shown; i++)
        worker(c, &k, run, json_array_get(workers, i));
    more = first + shown < n;
    if (more) {
        dp_canvas_put(c, DP_DIM, "        %zu more of %zu workers", n - first - shown, n);
        dp_canvas_line(c);
    }
}

/* One segment "|- 0: 0-4 -" of `width` columns. */
static void segment(struct dp_canvas *c, const char *edge, const char *dash, size_t rank, double first, double n,
                    size_t width)
{
    char label[64];
    size_t w, left;

    snprintf(label, sizeof label, n > 1 ? " %zu: %.0f-%.0f " : " %zu: %.0f ", rank, first, first + n - 1);
    w = dp_text_width(label);
    if (w + 1 > width) {
        label[0] = '\0';
        w = 0;
    }
    left = (width - 1 - w) / 2;
    dp_canvas_put(c, DP_DIM, "%s", edge);
    for (size_t i = 1 + w; i < width; i++) {
        if (i == 1 + w + left)
            dp_canvas_put(c, DP_CYAN, "%s", label);
        dp_canvas_put(c, DP_DIM, "%s", dash);
    }
    if (left >= width - 1 - w)
        dp_canvas_put(c, DP_CYAN, "%s", label);
}

void dp_view_layout(struct dp_canvas *c, const json_t *run)
{
    json_t *cuts = dp_json_list(run, "cuts|layout.cuts");
    size_t workers = json_array_size(cuts) ? json_array_size(cuts) - 1 : 0, at = 8, room;
    double layers = json_number_value(json_array_get(cuts, workers)), done = 0;
    bool utf8 = dp_text_is_utf8();
    bool any = false;

    if (workers == 0 || !(layers > 0) || c->columns < 30)
        return;
    room = c->columns - at - 1;
    dp_canvas_put(c, DP_DIM, "layout");
    dp_canvas_to(c, at);
    for (size_t s = 0; s < workers; s++) {
        double first = json_number_value(json_array_get(cuts, s));
        double n = json_number_value(json_array_get(cuts, s + 1)) - first;
        size_t from = (size_t)(done / layers * (double)room), to;

        if (!(n > 0))
            continue;
        done += n;
        to = (size_t)(done / layers * (double)room);
        if (to > from)
            segment(c, utf8 ? any ? "┼" : "├" : any ? "+" : "|", utf8 ? "─" : "-", s, first, n, to - from);
        any = true;
    }
    dp_canvas_put(c, DP_DIM, "%s", utf8 ? "┤" : "|");
    dp_canvas_line(c);
}

static enum dp_style slot_style(const json_t *slot)
{
    if (dp_json_is(slot, "state", "released"))
        return DP_GREEN;
    if (dp_json_is(slot, "state", "held"))
        return DP_RED;
    return dp_json_is(slot, "state", "active") ? DP_PLAIN : DP_YELLOW;
}

void dp_view_slots(struct dp_canvas *c, const json_t *run)
{
    const json_t *s;
    size_t i;

    if (json_array_size(dp_json_list(run, "slots")) == 0)
        return;
    dp_canvas_put(c, DP_DIM, "nodes");
    dp_canvas_to(c, 8);
    json_array_foreach(dp_json_list(run, "slots"), i, s) {
        char node[96], state[64];

        dp_json_text(node, sizeof node, s, "node", "?");
        dp_json_text(state, sizeof state, s, "state", "?");
        dp_canvas_put(c, slot_style(s), "%s %s", node, state);
        dp_canvas_put(c, DP_PLAIN, "   ");
    }
    dp_canvas_line(c);
}

void dp_view_missing(struct dp_canvas *c, const json_t *run, size_t max_lines)
{
    json_t *list = dp_json_list(run, "missing");
    size_t n = json_array_size(list), shown = n <= max_lines ? n : max_lines ? max_lines - 1 : 0;

    for (size_t i = 0; i < shown; i++) {
        const json_t *m = json_array_get(list, i);
        char node[96], text[512], since[32];

        dp_canvas_put(c, DP_RED, "missing");
        dp_canvas_to(c, 8);
        dp_canvas_put(c, DP_RED, "%s", dp_json_text(node, sizeof node, m, "node", "?"));
        dp_canvas_put(c, DP_PLAIN, " for %s: ", dp_text_seconds(since, sizeof since, dp_json_number(m, "for_s")));
        dp_canvas_wrap(c, 10, DP_PLAIN, 3, dp_json_text(text, sizeof text, m, "text", ""));
    }
    if (n > shown && max_lines) {
        dp_canvas_put(c, DP_RED, "missing %zu %snodes", n - shown, shown ? "more " : "");
        dp_canvas_line(c);
    }
}

void dp_view_losses(struct dp_canvas *c, const json_t *run)
{
    const json_t *l;
    size_t i;

    json_array_foreach(dp_json_list(run, "losses"), i, l) {
        char text[512], line[640], when[32];

        snprintf(line, sizeof line, "at %s: %s", dp_text_seconds(when, sizeof when, dp_json_number(l, "at_s")),
                 dp_json_text(text, sizeof text, l, "text", "?"));
        dp_canvas_put(c, DP_RED, "lost");
        dp_canvas_to(c, 8);
        dp_canvas_wrap(c, 10, DP_PLAIN, 3, line);
    }
}
