/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe report: what a run gave back, and what that cost, beside the runs that it could have been. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask/fetch.h"
#include "cli/ask/run.h"
#include "cli/command/command.h"
#include "cli/runs/report_svg.h"
#include "cli/runs/view.h"
#include "cli/show/canvas.h"
#include "cli/show/json.h"
#include "cli/show/saving.h"
#include "cli/show/screen.h"
#include "cli/show/table.h"
#include "cli/show/text.h"
#include "cli/show/units.h"

/* "label   before   after   change": one line of the summary. */
static void row(struct dp_canvas *c, const char *label, const char *before, const char *after, double change)
{
    char text[32];

    dp_canvas_put(c, DP_PLAIN, "%s", label);
    dp_canvas_right(c, 42, DP_PLAIN, before);
    dp_canvas_right(c, 57, DP_BOLD, after);
    if (isfinite(change)) {
        snprintf(text, sizeof text, "%+.1f %%", 100 * change);
        dp_canvas_right(c, 70, change < 0 ? DP_YELLOW : DP_GREEN, text);
    }
    dp_canvas_line(c);
}

static void count_row(struct dp_canvas *c, const char *label, double before, double after, bool less_is_good)
{
    char a[32], b[32], text[32];
    double change = after / before - 1;

    if (!isfinite(before) && !isfinite(after))
        return;
    if (!less_is_good) {
        row(c, label, dp_text_count(a, sizeof a, before), dp_text_count(b, sizeof b, after), change);
        return;
    }
    dp_canvas_put(c, DP_PLAIN, "%s", label);
    dp_canvas_right(c, 42, DP_PLAIN, dp_text_count(a, sizeof a, before));
    dp_canvas_right(c, 57, DP_BOLD, dp_text_count(b, sizeof b, after));
    snprintf(text, sizeof text, "%+.1f %%", 100 * change);
    if (isfinite(change))
        dp_canvas_right(c, 70, change <= 0 ? DP_GREEN : DP_YELLOW, text);
    dp_canvas_line(c);
}

static void heading(struct dp_canvas *c, const char *before, const char *after)
{
    dp_canvas_line(c);
    dp_canvas_right(c, 42, DP_DIM, before);
    dp_canvas_right(c, 57, DP_DIM, after);
    dp_canvas_right(c, 70, DP_DIM, "change");
    dp_canvas_line(c);
}

static void title(struct dp_canvas *c, const json_t *doc)
{
    char job[32], name[256], state[64], time[32], step[32], total[32];

    dp_canvas_put(c, DP_BOLD, "DynPipe report  ");
    dp_canvas_put(c, DP_CYAN, "job %s", dp_json_text(job, sizeof job, doc, "job_id|job.id", "?"));
    dp_canvas_put(c, DP_PLAIN, "  %s", dp_json_text(name, sizeof name, doc, "job_name|job.name", ""));
    dp_canvas_to(c, c->column + 1);
    dp_canvas_put(c, dp_run_state_style(doc), "%s", dp_json_text(state, sizeof state, doc, "state", "?"));
    dp_canvas_put(c, DP_PLAIN, " after %s, step %s of %s",
                  dp_text_seconds(time, sizeof time, dp_json_number(doc, "now_s|elapsed_s")),
                  dp_json_text(step, sizeof step, doc, "step", "?"),
                  dp_json_text(total, sizeof total, doc, "steps_total", "?"));
    dp_canvas_line(c);
}

/* Share of a step that measuring and reporting take, of the worst worker; NaN when unknown. */
static double overhead_percent(const json_t *doc)
{
    const json_t *w;
    size_t i;
    double worst = NAN;

    json_array_foreach(dp_json_list(doc, "workers"), i, w)
        worst = fmax(worst, dp_json_number(w, "overhead_percent"));
    return worst;
}

/* The step of the first sample in which a layer was frozen; NaN: none, or the daemon kept no such number. */
static double frozen_since(const json_t *doc)
{
    const json_t *sample;
    size_t i;

    json_array_foreach(dp_json_list(doc, "samples"), i, sample)
        if (dp_json_number(sample, "frozen_layers") >= 1)
            return dp_json_number(sample, "step");
    return NAN;
}

static void model(struct dp_canvas *c, const json_t *doc)
{
    char text[64];
    double overhead = overhead_percent(doc), loss = dp_json_number(doc, "loss");
    double validation = dp_json_number(doc, "eval_loss"), sparsity = dp_json_number(doc, "sparsity");
    double since = frozen_since(doc);

    dp_canvas_line(c);
    if (isfinite(loss))
        dp_canvas_put(c, DP_PLAIN, "loss %.4f   ", loss);
    if (isfinite(validation))
        dp_canvas_put(c, DP_PLAIN, "validation %.4f   ", validation);
    if (isfinite(sparsity))
        dp_canvas_put(c, DP_PLAIN, "sparsity %s   ", dp_text_percent(text, sizeof text, sparsity));
    if (isfinite(overhead))
        dp_canvas_put(c, DP_PLAIN, "measuring and reporting %.2f %% of a step", overhead);
    dp_canvas_line(c);
    if (dp_run_frozen(doc, text, sizeof text)) {
        dp_canvas_put(c, DP_PLAIN, "frozen %s: these only go forward", text);
        if (isfinite(since))
            dp_canvas_put(c, DP_PLAIN, ", the first one since step %.0f or shortly before", since);
        dp_canvas_line(c);
    }
}

/* Speeds of now, of the run and of the layout that it started with: with the same weights left. */
static void speeds(struct dp_canvas *c, const json_t *doc)
{
    double now = dp_json_number(doc, "throughput_now.tokens_per_s"), gain = dp_run_gain(doc);
    double held = dp_json_number(doc, "throughput_now.devices"), start = dp_json_number(doc, "throughput_start.devices");
    char text[32], label[64];

    if (!isfinite(now))
        return;
    snprintf(label, sizeof label, "tokens/s, sparsity %s", dp_text_percent(text, sizeof text, dp_json_number(doc, "sparsity")));
    heading(c, "fixed layout", "this run");
    count_row(c, label, now / gain, now, false);
    count_row(c, "tokens/s per device", now / gain / start, now / held, false);
    count_row(c, "devices", start, held, true);
}

static void summary(const struct dp_cli *cli, const json_t *doc)
{
    struct dp_canvas c;

    dp_canvas_init(&c, dp_screen_columns(), cli->color, false);
    title(&c, doc);
    dp_canvas_line(&c);
    dp_saving_show(&c, dp_json_get(doc, "saving"));
    speeds(&c, doc);
    model(&c, doc);
    dp_view_copies(&c, doc, 2);
    dp_view_losses(&c, doc);
    dp_view_promise(&c, doc, 4);
    dp_view_growth(&c, doc, 4);
    fputs(c.text ? c.text : "", stdout);
    dp_canvas_release(&c);
}

#define TEXT_CELL(fn, key)                                                                                   \
    static void fn(const json_t *e, char *out, size_t cap)                                                   \
    {                                                                                                        \
        dp_json_text(out, cap, e, key, "-");                                                                 \
    }
#define UNIT_CELL(fn, key)                                                                                   \
    static void fn(const json_t *e, char *out, size_t cap)                                                   \
    {                                                                                                        \
        dp_units_value(out, cap, key, dp_json_get(e, key));                                                  \
        if (!*out)                                                                                           \
            snprintf(out, cap, "-");                                                                         \
    }
TEXT_CELL(cell_id, "id")
TEXT_CELL(cell_step, "step")
TEXT_CELL(cell_outcome, "outcome")
TEXT_CELL(cell_layout, "layout")
TEXT_CELL(cell_layers, "moved_layers")
UNIT_CELL(cell_bytes, "moved_bytes")
UNIT_CELL(cell_pause, "pause_max_ms")
UNIT_CELL(cell_transfer, "transfer_max_ms")
UNIT_CELL(cell_expected, "expected_ms")
UNIT_CELL(cell_measured, "measured_ms")
TEXT_CELL(cell_promise, "promise")

/* Of a slice also its job, as elsewhere: several are on a node. */
static void cell_node(const json_t *e, char *out, size_t cap)
{
    const json_t *job = dp_json_get(e, "job");

    dp_json_text(out, cap, e, "node", "-");
    if (json_is_integer(job))
        snprintf(out + strlen(out), cap - strlen(out), " (job %lld)", (long long)json_integer_value(job));
}

TEXT_CELL(cell_state, "state")
UNIT_CELL(cell_drained, "drained_at_s")
UNIT_CELL(cell_gone, "drain_to_gone_s")
UNIT_CELL(cell_freed, "gone_to_freed_s")
UNIT_CELL(cell_confirmed, "freed_to_confirmed_s")

static const struct dp_column handover_columns[] = {
    {"id", 'i', true, "HAND-OVER", cell_id},
    {"step", 's', true, "STEP", cell_step},
    {"outcome", 'o', false, "OUTCOME", cell_outcome},
    {"pause", 'p', true, "PAUSE", cell_pause},
    {"transfer", 't', true, "TRANSFER", cell_transfer},
    {"expected", 'e', true, "EXPECTED STEP", cell_expected},
    {"measured", 'm', true, "MEASURED", cell_measured},
    {"promise", 'r', false, "PROMISE", cell_promise},
    {"layers", 'n', true, "LAYERS", cell_layers},
    {"bytes", 'b', true, "BYTES", cell_bytes},
    {"layout", 'l', false, "LAYOUT", cell_layout},
    {0},
};

static const struct dp_column release_columns[] = {
    {"node", 'n', false, "NODE", cell_node},
    {"state", 's', false, "STATE", cell_state},
    {"drained", 'd', true, "DRAINED AT", cell_drained},
    {"gone", 'g', true, "PROVED GONE AFTER", cell_gone},
    {"freed", 'f', true, "FREED AFTER", cell_freed},
    {"confirmed", 'c', true, "CONFIRMED AFTER", cell_confirmed},
    {0},
};

static void table(const struct dp_column *columns, const char *format, const json_t *rows, const char *nothing)
{
    struct dp_err err;

    putchar('\n');
    if (json_array_size(rows) == 0)
        printf("%s\n", nothing);
    else if (dp_table_print(columns, format, false, rows, &err) < 0)
        fprintf(stderr, "dynpipe report: %s\n", err.text);
}

enum dp_exit dp_cmd_report(const struct dp_cli *cli)
{
    uint32_t job;
    struct dp_err err;
    json_t *doc;

    if (dp_fetch_job(cli, &job, &err) < 0)
        return dp_cmd_fail(cli, &err);
    doc = dp_fetch_document(cli, DP_QUERY_REPORT, job, &err);
    if (!doc)
        return dp_cmd_fail(cli, &err);
    if (cli->svg && dp_report_svg(doc, cli->svg, &err) < 0) {
        json_decref(doc);
        return dp_cmd_fail(cli, &err);
    }
    if (cli->json) {
        json_t *whole = dp_json_envelope("report", "report", doc);

        dp_json_print(whole, false);
        json_decref(whole);
        return DP_EXIT_OK;
    }
    summary(cli, doc);
    table(handover_columns, "id,step,outcome,pause,transfer,expected,measured,promise,layers,bytes,layout", dp_json_list(doc, "handovers"),
          "no hand-over");
    table(release_columns, "node,state,drained,gone,freed,confirmed", dp_json_list(doc, "releases"),
          "no node was given back");
    json_decref(doc);
    return DP_EXIT_OK;
}
