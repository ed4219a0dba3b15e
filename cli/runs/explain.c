/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe explain: the last decisions with the numbers that they rest on, the hand-overs, and why a
 * node was not given back. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask/fetch.h"
#include "cli/ask/run.h"
#include "cli/command/command.h"
#include "cli/runs/view.h"
#include "cli/show/canvas.h"
#include "cli/show/json.h"
#include "cli/show/screen.h"
#include "cli/show/text.h"
#include "cli/show/trade.h"
#include "cli/show/units.h"

enum { INDENT = 4, NUMBER_WIDTH = 30 };

static bool is_one_of(const char *key, const char *const *words)
{
    for (; *words; words++) {
        if (!strcmp(key, *words))
            return true;
    }
    return false;
}

/* Every number of an object that was not shown already, in as many columns as fit. */
static void numbers(struct dp_canvas *c, const json_t *object, const char *const *shown)
{
    const char *key;
    json_t *value;
    size_t columns = c->columns > INDENT + NUMBER_WIDTH ? (c->columns - INDENT) / NUMBER_WIDTH : 1, n = 0;

    json_object_foreach((json_t *)object, key, value) {
        char label[64], text[64];

        if (is_one_of(key, shown) || !(json_is_number(value) || json_is_boolean(value)))
            continue;
        if (n && n % columns == 0)
            dp_canvas_line(c);
        dp_canvas_to(c, INDENT + n % columns * NUMBER_WIDTH);
        dp_units_label(label, sizeof label, key);
        dp_units_value(text, sizeof text, key, value);
        dp_canvas_put(c, DP_DIM, "%s ", label);
        dp_canvas_put(c, DP_PLAIN, "%s", text);
        n++;
    }
    if (n)
        dp_canvas_line(c);
}

/* "label   text" for each text of an object that was not shown already. */
static void texts(struct dp_canvas *c, const json_t *object, const char *const *shown)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value) {
        char label[64], text[1024];

        if (is_one_of(key, shown) || !json_is_string(value) || !*json_string_value(value))
            continue;
        dp_units_label(label, sizeof label, key);
        dp_units_value(text, sizeof text, key, value);
        dp_canvas_to(c, INDENT);
        dp_canvas_put(c, DP_DIM, "%s ", label);
        dp_canvas_wrap(c, c->column, DP_PLAIN, 4, text);
    }
}

static enum dp_style verdict_style(const json_t *d)
{
    return dp_json_is(d, "verdict", "move") ? DP_GREEN : DP_YELLOW;
}

static void decision(struct dp_canvas *c, const json_t *d)
{
    static const char *const shown[] = {"step",  "at_s",    "first_at_s", "verdict", "reason", "text",
                                        "count", "applied", "layout",     NULL};
    char step[32], verdict[64], text[1024], when[32];
    double t = dp_json_number(d, "at_s"), count = dp_json_number(d, "count");

    dp_canvas_put(c, DP_BOLD, "step %s", dp_json_text(step, sizeof step, d, "step", "?"));
    if (t >= 0)
        dp_canvas_put(c, DP_DIM, ", at %s", dp_text_seconds(when, sizeof when, t));
    dp_canvas_put(c, verdict_style(d), "  %s", dp_json_text(verdict, sizeof verdict, d, "verdict", ""));
    if (dp_json_is(d, "verdict", "move") && !dp_json_flag(d, "applied", true))
        dp_canvas_put(c, DP_YELLOW, ", not carried out (mode, or another hand-over under way)");
    if (count > 1)
        dp_canvas_put(c, DP_DIM, " (%.0f times the same)", count);
    if (*dp_json_text(text, sizeof text, d, "layout", ""))
        dp_canvas_put(c, DP_CYAN, "  %s", text);
    dp_canvas_line(c);
    if (*dp_json_text(text, sizeof text, d, "reason|text", ""))
        dp_canvas_wrap(c, INDENT, DP_PLAIN, 6, text);
    texts(c, d, shown);
    numbers(c, d, shown);
}

static void decisions(struct dp_canvas *c, const json_t *doc, size_t most)
{
    json_t *list = dp_json_list(doc, "decisions");
    size_t n = json_array_size(list), first = n > most ? n - most : 0;

    if (n == 0) {
        dp_canvas_put(c, DP_PLAIN, "no decision yet: the first one follows the warm-up reports of every worker");
        dp_canvas_line(c);
    }
    if (first) {
        dp_canvas_put(c, DP_DIM, "the last %zu of %zu decisions; -n shows more", n - first, n);
        dp_canvas_line(c);
    }
    if (n)
        dp_canvas_wrap(c, 0, DP_DIM, 2,
                       "predicted: device time of an iteration (corrected: as measured since a missed promise); measured, expected "
                       "and allowed: wall time of a step");
    for (size_t i = first; i < n; i++)
        decision(c, json_array_get(list, i));
}

/* State of each node, and why one that is empty has not been given back. */
static void nodes(struct dp_canvas *c, const json_t *doc)
{
    const json_t *s;
    size_t i;

    if (json_array_size(dp_json_list(doc, "slots")) == 0)
        return;
    dp_canvas_line(c);
    json_array_foreach(dp_json_list(doc, "slots"), i, s) {
        char name[96], state[64], text[512], when[32];
        double drained = dp_json_number(s, "drained_at_s");

        dp_canvas_put(c, DP_BOLD, "%s", dp_json_text(name, sizeof name, s, "node", "?"));
        dp_canvas_to(c, 12);
        dp_canvas_put(c, dp_json_is(s, "state", "held") ? DP_RED : DP_PLAIN, "%s",
                      dp_json_text(state, sizeof state, s, "state", "?"));
        dp_canvas_to(c, 23);
        dp_json_text(text, sizeof text, s, "text", "");
        if (dp_json_flag(s, "batch_host", false))
            dp_canvas_put(c, DP_DIM, "%s%s",
                          dp_json_get(s, "job") ? "beside the coordinator" : "the batch host, which Slurm never takes back",
                          *text ? "; " : "");
        if (isfinite(drained))
            dp_canvas_put(c, DP_DIM, "empty since %s%s", dp_text_seconds(when, sizeof when, drained),
                          *text ? ", " : "");
        if (*text)
            dp_canvas_wrap(c, 23, DP_PLAIN, 8, text);
        else
            dp_canvas_line(c);
    }
    dp_view_missing(c, doc, (size_t)-1);
}

/* What the decisions are held to. */
static void limits(struct dp_canvas *c, const json_t *doc)
{
    static const char *const shown[] = {NULL};
    json_t *limits_of = dp_json_get(doc, "limits");

    if (!limits_of)
        return;
    texts(c, limits_of, shown);
    numbers(c, limits_of, shown);
}

static void print(const struct dp_cli *cli, const json_t *doc)
{
    size_t most = cli->count ? cli->count : 5;
    struct dp_canvas c;
    char job[32], policy[64], mode[32], layout[1024], state[600];

    dp_canvas_init(&c, dp_screen_columns(), cli->color, false);
    dp_canvas_put(&c, DP_CYAN, "job %s", dp_json_text(job, sizeof job, doc, "job_id|job.id", "?"));
    dp_canvas_put(&c, DP_PLAIN, "  policy %s, mode %s", dp_json_text(policy, sizeof policy, doc, "policy", "-"),
                  dp_json_text(mode, sizeof mode, doc, "mode", "-"));
    if (strcmp(dp_run_layout(layout, sizeof layout, doc), "-") != 0)
        dp_canvas_put(&c, DP_PLAIN, ", layout %s", layout);
    dp_canvas_line(&c);
    dp_canvas_wrap(&c, 0, dp_run_state_style(doc), 3, dp_json_text(state, sizeof state, doc, "state_text|state", ""));
    dp_view_trainer(&c, doc);
    dp_view_losses(&c, doc);
    dp_view_promise(&c, doc, 6);
    dp_view_growth(&c, doc, 6);
    limits(&c, doc);
    dp_view_expected(&c, doc);
    dp_view_proposal(&c, doc);
    if (json_array_size(dp_json_list(doc, "trade")) > 1) {
        dp_canvas_line(&c);
        dp_trade_show(&c, dp_json_list(doc, "trade"), "from here to the end, pruning foreseen; against the layout of the start");
    }
    dp_canvas_line(&c);
    decisions(&c, doc, most);
    nodes(&c, doc);
    fputs(c.text ? c.text : "", stdout);
    dp_canvas_release(&c);
}

enum dp_exit dp_cmd_explain(const struct dp_cli *cli)
{
    uint32_t job;
    struct dp_err err;
    json_t *doc;

    if (dp_fetch_job(cli, &job, &err) < 0)
        return dp_cmd_fail(cli, &err);
    doc = dp_fetch_document(cli, DP_QUERY_EXPLAIN, job, &err);
    if (!doc)
        return dp_cmd_fail(cli, &err);
    if (!cli->from && !dp_json_list(doc, "slots")) { /* why a node is held stands in the status */
        json_t *status = dp_fetch_document(cli, DP_QUERY_STATUS, job, NULL);

        json_object_update_missing(doc, status);
        json_decref(status);
    }
    if (cli->json) {
        json_t *whole = dp_json_envelope("explain", "explain", doc);

        dp_json_print(whole, false);
        json_decref(whole);
        return DP_EXIT_OK;
    }
    print(cli, doc);
    json_decref(doc);
    return DP_EXIT_OK;
}
