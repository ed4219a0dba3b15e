/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe layout: show the layout of a run, or ask for another one. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "cli/ask/fetch.h"
#include "cli/ask/run.h"
#include "cli/command/command.h"
#include "cli/show/json.h"
#include "common/run/layout.h"
#include "common/run/megatron.h"

/* The layout in force as the daemon tells it. returns: 0, or -1 where the document lacks it. */
static int layout_of(const json_t *run, struct dp_layout *out)
{
    json_t *cuts = dp_json_list(run, "cuts|layout.cuts");
    size_t n = json_array_size(cuts);
    char text[8 * DP_MAX_WORKERS], *rest = text, *field;

    memset(out, 0, sizeof *out);
    if (n < 2 || n > DP_MAX_WORKERS + 1)
        return -1;
    out->n_workers = (uint32_t)n - 1;
    for (size_t s = 0; s < n; s++)
        out->cut[s] = (uint32_t)json_integer_value(json_array_get(cuts, s));
    out->n_layers = out->cut[n - 1];
    dp_run_layout(text, sizeof text, run);
    for (uint32_t w = 0; (field = strsep(&rest, "|")) && w < out->n_workers; w++)
        out->gone[w] = !strcmp(field, "x");
    return dp_layout_check(out, NULL);
}

/* Say early, with the place of the mistake, what the daemon would refuse. */
static enum dp_exit ask(const struct dp_cli *cli, uint32_t job, const json_t *run)
{
    struct dp_layout now, wanted;
    struct dp_err err;

    if (layout_of(run, &now) == 0 && dp_layout_parse(cli->set, &now, &wanted, &err) < 0) {
        dp_cmd_fail(cli, &err);
        return DP_EXIT_USAGE;
    }
    if (dp_fetch_command(cli, DP_VERB_LAYOUT, job, cli->set, &err) < 0)
        return dp_cmd_fail(cli, &err);
    if (!cli->json)
        printf("job %u: asked for %s; `dynpipe watch -j %u` shows the hand-over\n", job, cli->set, job);
    return DP_EXIT_OK;
}

/* As Megatron writes it; null where the document does not have the cuts. */
static json_t *megatron_text(const json_t *run)
{
    char text[8 * DP_MAX_WORKERS];
    struct dp_layout l;

    if (layout_of(run, &l) < 0)
        return json_null();
    dp_megatron_format(&l, text, sizeof text);
    return json_string(text);
}

static void show(const struct dp_cli *cli, const json_t *run)
{
    char text[8 * DP_MAX_WORKERS], epoch[32];

    if (cli->json) {
        json_t *value = json_object(), *doc = dp_json_envelope("layout", "layout", value);

        json_object_set_new(value, "text", json_string(dp_run_layout(text, sizeof text, run)));
        json_object_set_new(value, "megatron", megatron_text(run));
        json_object_set(value, "cuts", dp_json_list(run, "cuts|layout.cuts"));
        json_object_set(value, "epoch", dp_json_get(run, "epoch|layout.epoch"));
        json_object_set(value, "job_id", dp_json_get(run, "job_id|job.id"));
        if (cli->set)
            json_object_set_new(value, "asked", json_string(cli->set));
        dp_json_print(doc, false);
        json_decref(doc);
    } else if (cli->megatron) {
        json_t *m = megatron_text(run);

        printf("%s\n", json_is_string(m) ? json_string_value(m) : "?");
        json_decref(m);
    } else if (!cli->set) {
        printf("%s  epoch %s\n", dp_run_layout(text, sizeof text, run),
               dp_json_text(epoch, sizeof epoch, run, "epoch|layout.epoch", "?"));
    }
}

enum dp_exit dp_cmd_layout(const struct dp_cli *cli)
{
    enum dp_exit code = DP_EXIT_OK;
    uint32_t job;
    struct dp_err err;
    json_t *run;

    if (cli->set && (cli->from || cli->megatron)) {
        dp_err_set(&err, DP_EINVAL, "--set and %s contradict each other", cli->from ? "--from" : "--megatron");
        dp_cmd_fail(cli, &err);
        return DP_EXIT_USAGE;
    }
    if (dp_fetch_job(cli, &job, &err) < 0)
        return dp_cmd_fail(cli, &err);
    run = dp_fetch_document(cli, DP_QUERY_STATUS, job, &err);
    if (!run)
        return dp_cmd_fail(cli, &err);
    if (cli->set)
        code = ask(cli, job, run);
    if (code == DP_EXIT_OK)
        show(cli, run);
    json_decref(run);
    return code;
}
