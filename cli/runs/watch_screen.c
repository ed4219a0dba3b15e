/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe watch on a terminal. Each frame is drawn whole into a canvas and shown with one write; the
 * rows are shared out between workers, curves and events by the size of the screen. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask/run.h"
#include "cli/runs/view.h"
#include "cli/runs/watch.h"
#include "cli/show/canvas.h"
#include "cli/show/json.h"
#include "cli/show/terminal.h"
#include "cli/show/text.h"
#include "common/clock.h"

struct screen {
    struct dp_watch *w;
    size_t first_worker;
    bool has_ended;
};

enum { HEAD_ROWS = 6, MIN_LOG_ROWS = 3, MAX_CURVE_ROWS = 8 };

/* Rows for the table of workers (heading included) and for the curves (heading excluded). */
static void share_rows(size_t rows, size_t n_workers, size_t *workers, size_t *curves)
{
    size_t fixed = HEAD_ROWS + 4 /* layout, slots, decision, promise */ + 1 + 1 + MIN_LOG_ROWS + 1 /* foot */;
    size_t room = rows > fixed ? rows - fixed : 0;

    *workers = n_workers + 1;
    if (*workers + 5 > room) /* keep four rows of curve where there are many workers */
        *workers = room > 8 ? room - 5 : room < 3 ? room : 3;
    if (*workers > n_workers + 1)
        *workers = n_workers + 1;
    *curves = room > *workers + 1 ? room - *workers - 1 : 0;
    if (*curves > MAX_CURVE_ROWS)
        *curves = MAX_CURVE_ROWS;
    if (*curves < 2)
        *curves = 0;
}

static void blank(struct dp_canvas *c)
{
    dp_canvas_line(c);
}

/* The newest events that fit, the newest at the bottom. */
static void events(struct dp_canvas *c, const struct dp_watch *w, size_t rows)
{
    size_t kept = w->log.n < DP_WATCH_LINES ? w->log.n : DP_WATCH_LINES;
    size_t n = kept < rows ? kept : rows;

    for (size_t k = w->log.n - n; k < w->log.n; k++) {
        size_t i = k % DP_WATCH_LINES;

        dp_canvas_put(c, DP_DIM, "%s", w->log.line[i].time);
        dp_canvas_to(c, 9);
        dp_canvas_put(c, (enum dp_style)w->log.line[i].style, "%s", w->log.line[i].text);
        dp_canvas_line(c);
    }
}

static void foot(struct dp_canvas *c, const struct screen *s)
{
    if (*s->w->trouble) {
        dp_canvas_put(c, DP_RED, "no answer: %s", s->w->trouble);
        dp_canvas_put(c, DP_DIM, " (training goes on with the last layout)");
    } else {
        dp_canvas_put(c, DP_DIM, s->has_ended ? "the run has ended" : "q quits");
        if (json_array_size(dp_json_list(s->w->run, "workers")) > 8)
            dp_canvas_put(c, DP_DIM, dp_text_is_utf8() ? ", ↑ ↓ scroll the workers" : ", j k scroll the workers");
    }
}

static void draw_run(struct dp_canvas *c, const struct screen *s, size_t rows)
{
    const json_t *run = s->w->run;
    size_t workers, curves;

    share_rows(rows, json_array_size(dp_json_list(run, "workers")), &workers, &curves);
    dp_view_head(c, run);
    blank(c);
    dp_view_workers(c, run, s->first_worker, workers);
    dp_view_layout(c, run);
    dp_view_slots(c, run);
    dp_view_missing(c, run, 2);
    dp_view_copies(c, run, 1);
    dp_view_decision(c, run, 1);
    dp_view_promise(c, run, 1);
    dp_view_growth(c, run, 1);
    if (curves) {
        blank(c);
        dp_view_curves(c, run, &s->w->history, curves);
    }
    if (rows > c->lines + 3)
        blank(c);
    if (rows > c->lines + 1)
        events(c, s->w, rows - c->lines - 1);
}

/* A frame never ends with a line feed in the last row: the screen would scroll. */
static void draw(const struct screen *s)
{
    struct dp_canvas c;
    size_t rows, columns;

    dp_terminal_size(&rows, &columns);
    dp_canvas_init(&c, columns, s->w->cli->color, true);
    c.max_lines = rows - 1;
    if (s->w->run) {
        draw_run(&c, s, rows);
    } else {
        dp_canvas_put(&c, DP_BOLD, "waiting for job %u to begin", s->w->job_id);
        blank(&c);
    }
    while (c.lines + 1 < rows)
        blank(&c);
    c.max_lines = 0;
    foot(&c, s);
    dp_canvas_put(&c, DP_PLAIN, " ");
    if (c.text)
        dp_terminal_show(c.text, c.used);
    dp_canvas_release(&c);
}

/* Leave the last picture on the ordinary screen. */
static void print_last(const struct screen *s)
{
    struct dp_canvas c;
    size_t rows, columns;

    dp_terminal_size(&rows, &columns);
    dp_canvas_init(&c, columns, s->w->cli->color, false);
    if (s->w->run)
        draw_run(&c, s, rows > 4 ? rows - 2 : rows);
    fputs(c.text ? c.text : "", stdout);
    dp_canvas_release(&c);
}

static void scroll(struct screen *s, enum dp_key key)
{
    size_t n = json_array_size(dp_json_list(s->w->run, "workers"));
    size_t by = key == DP_KEY_PAGE_UP || key == DP_KEY_PAGE_DOWN ? 10 : 1;

    if (key == DP_KEY_UP || key == DP_KEY_PAGE_UP)
        s->first_worker -= s->first_worker < by ? s->first_worker : by;
    else
        s->first_worker = s->first_worker + by < n ? s->first_worker + by : n ? n - 1 : 0;
}

/* Draw and take keys until the next question is due. returns: false when the user has had enough. */
static bool show_until(struct screen *s, uint64_t until_ns)
{
    for (;;) {
        enum dp_key key;

        draw(s);
        key = dp_terminal_wait(until_ns);
        if (key == DP_KEY_QUIT)
            return false;
        if (key == DP_KEY_NONE)
            return true;
        if (key != DP_KEY_RESIZE)
            scroll(s, key);
    }
}

static enum dp_watch_state loop(struct screen *s, struct dp_err *err)
{
    enum dp_watch_state state;

    do {
        uint64_t next = dp_now_ns() + (uint64_t)(s->w->cli->interval_s * 1e9);

        state = dp_watch_poll(s->w, err);
        s->has_ended = state == DP_WATCH_OVER;
        if (state == DP_WATCH_ERROR || s->has_ended)
            break;
        if (!show_until(s, next))
            return DP_WATCH_NONE;
    } while (true);
    return state;
}

enum dp_exit dp_watch_screen(struct dp_watch *w)
{
    struct screen s = {.w = w};
    struct dp_err err;
    enum dp_watch_state end;

    if (dp_terminal_open(&err) < 0)
        return dp_cmd_fail(w->cli, &err);
    end = loop(&s, &err);
    dp_terminal_close();
    if (end == DP_WATCH_ERROR)
        return dp_cmd_fail(w->cli, &err);
    print_last(&s);
    if (dp_terminal_signal()) {
        fflush(stdout);
        signal(dp_terminal_signal(), SIG_DFL);
        raise(dp_terminal_signal());
    }
    return DP_EXIT_OK;
}
