/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe status: a table of runs, or one run in detail. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/ask/fetch.h"
#include "cli/ask/run.h"
#include "cli/command/command.h"
#include "cli/runs/view.h"
#include "cli/show/json.h"
#include "cli/show/screen.h"
#include "cli/show/text.h"

/* What became of the slices that home has asked Slurm for, where that is not that they are there. */
static void show_companions(struct dp_canvas *c, const json_t *run)
{
    char text[300], line[360];

    if (!dp_json_text(text, sizeof text, run, "companions.text", "")[0])
        return;
    snprintf(line, sizeof line, "slices: %s", text);
    dp_canvas_wrap(c, 0, DP_YELLOW, 3, line);
    dp_canvas_line(c);
}

static enum dp_exit show_detail(const struct dp_cli *cli, const json_t *run)
{
    struct dp_canvas c;

    dp_canvas_init(&c, dp_screen_columns(), cli->color, false);
    dp_view_head(&c, run);
    dp_canvas_line(&c);
    dp_view_workers(&c, run, 0, (size_t)-1);
    dp_view_layout(&c, run);
    dp_view_slots(&c, run);
    dp_view_missing(&c, run, 16);
    dp_view_copies(&c, run, 16);
    show_companions(&c, run);
    dp_view_losses(&c, run);
    dp_view_decision(&c, run, 4);
    dp_view_promise(&c, run, 4);
    dp_view_growth(&c, run, 4);
    dp_view_last(&c, run, 4);
    fputs(c.text ? c.text : "", stdout);
    dp_canvas_release(&c);
    return DP_EXIT_OK;
}

/* What no column has room for. */
static void show_missing(const json_t *runs)
{
    const json_t *run;
    char job[32], text[600], clean[600];
    size_t i;

    json_array_foreach(runs, i, run) {
        if (json_array_size(dp_json_list(run, "missing")) > 0)
            printf("job %s: %s\n", dp_json_text(job, sizeof job, run, "job_id|job.id", "?"),
                   dp_text_clean(clean, sizeof clean, dp_json_text(text, sizeof text, run, "state_text", "")));
    }
}

static enum dp_exit show_table(const struct dp_cli *cli, const json_t *runs)
{
    struct dp_err err;

    if (dp_table_print(dp_run_columns, cli->format ? cli->format : dp_run_format, cli->no_header, runs, &err) < 0) {
        fprintf(stderr, "dynpipe status: %s\n", err.text);
        return DP_EXIT_USAGE;
    }
    if (!cli->format && !cli->no_header)
        show_missing(runs);
    return DP_EXIT_OK;
}

/* Takes the reference to runs. */
static enum dp_exit show(const struct dp_cli *cli, json_t *runs, bool one)
{
    enum dp_exit code = DP_EXIT_OK;

    if (cli->json) {
        json_t *doc = one ? dp_json_envelope("status", "run", json_incref(json_array_get(runs, 0)))
                          : dp_json_envelope("status", "runs", json_incref(runs));

        dp_json_print(doc, false);
        json_decref(doc);
    } else if (one && !cli->format) {
        code = show_detail(cli, json_array_get(runs, 0));
    } else {
        code = show_table(cli, runs);
    }
    json_decref(runs);
    return code;
}

/* The daemon's list says little about each run: ask for the rest. Runs that are over only with --all. */
static json_t *complete(const struct dp_cli *cli, json_t *list)
{
    json_t *runs = json_array(), *run;
    size_t i;

    json_array_foreach(list, i, run) {
        uint32_t id = (uint32_t)dp_json_count(run, "job_id|job.id", 0);
        json_t *full = NULL;

        if (!cli->from && !cli->all && dp_run_is_over(run))
            continue;
        if (!cli->from)
            full = dp_fetch_document(cli, DP_QUERY_STATUS, id, NULL);

        json_object_del(full, "meta");
        json_array_append_new(runs, full ? full : json_incref(run));
    }
    return runs;
}

enum dp_exit dp_cmd_status(const struct dp_cli *cli)
{
    uint32_t job = cli->all ? 0 : cli->job_id ? cli->job_id : dp_fetch_env_job();
    bool one = job != 0;
    struct dp_err err;
    json_t *doc, *runs;

    doc = dp_fetch_document(cli, one ? DP_QUERY_STATUS : DP_QUERY_JOBS, job, &err);
    if (!doc)
        return dp_cmd_fail(cli, &err);
    runs = dp_fetch_runs(doc);
    if (runs && !one) {
        json_t *all = complete(cli, runs);

        json_decref(doc);
        return show(cli, all, false);
    }
    runs = json_array(); /* a document of one run */
    json_array_append_new(runs, doc);
    return show(cli, runs, true);
}
