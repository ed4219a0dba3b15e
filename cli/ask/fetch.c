/* SPDX-License-Identifier: BSD-3-Clause */
/* See fetch.h. */
#include "cli/ask/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "cli/ask/link.h"
#include "cli/ask/run.h"
#include "cli/show/json.h"

static json_t *last_of_file(const char *path, enum dp_query what, struct dp_err *err)
{
    FILE *file = dp_replay_open(path, err);
    json_t *doc = NULL, *next;
    struct dp_err why;

    if (!file)
        return NULL;
    while ((next = dp_replay_next(file, path, !doc, what, &why))) {
        json_decref(doc);
        doc = next;
    }
    if (why.code != DP_OK) {
        dp_err_set(err, why.code, "%s", why.text);
        json_decref(doc);
        doc = NULL;
    }
    if (file != stdin)
        fclose(file);
    return doc;
}

static json_t *parse(const char *text, struct dp_err *err)
{
    json_error_t bad;
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &bad);

    if (!doc)
        dp_err_set(err, DP_EPROTO, "the daemon's answer is not valid JSON: %s", bad.text);
    return doc;
}

json_t *dp_fetch_document(const struct dp_cli *cli, enum dp_query what, uint32_t job_id, struct dp_err *err)
{
    char *text = NULL;
    json_t *doc;

    if (cli->from)
        return last_of_file(cli->from, what, err);
    if (dp_link_query(cli, what, job_id, &text, err) < 0)
        return NULL;
    doc = parse(text, err);
    free(text);
    return doc;
}

json_t *dp_fetch_runs(const json_t *document)
{
    return json_is_array(document) ? (json_t *)document : dp_json_list(document, "runs|jobs");
}

uint32_t dp_fetch_env_job(void)
{
    const char *text = getenv("SLURM_JOB_ID");
    char *end;
    unsigned long v;

    if (!text || *text < '0' || *text > '9')
        return 0;
    v = strtoul(text, &end, 10);
    return *end || v >= 0xfffffffeul ? 0 : (uint32_t)v;
}

/* Count the runs that are over, or that are not; the last one's job and a list of all for messages. */
static size_t count_runs(const json_t *runs, bool over, uint32_t *job_id, char *ids, size_t cap)
{
    const json_t *run;
    size_t i, n = 0;

    json_array_foreach(runs, i, run) {
        if (dp_run_is_over(run) != over)
            continue;
        *job_id = (uint32_t)dp_json_count(run, "job_id|job.id", 0);
        snprintf(ids + strlen(ids), cap - strlen(ids), "%s%u", *ids ? ", " : "", *job_id);
        n++;
    }
    return n;
}

/* The only run that goes on; where none does, the only one that is still remembered. */
static int only_run(const struct dp_cli *cli, uint32_t *job_id, struct dp_err *err)
{
    json_t *doc = dp_fetch_document(cli, DP_QUERY_JOBS, 0, err), *runs;
    char ids[256] = "";
    size_t n;

    if (!doc)
        return -1;
    runs = dp_fetch_runs(doc);
    n = count_runs(runs, false, job_id, ids, sizeof ids);
    if (n == 0)
        n = count_runs(runs, true, job_id, ids, sizeof ids);
    json_decref(doc);
    if (n == 0)
        return dp_err_set(err, DP_EGONE, "no run on this node; name one with --job, or ask another node with --node");
    if (n > 1)
        return dp_err_set(err, DP_EINVAL, "%zu runs on this node (%s); choose one with --job", n, ids);
    return 0;
}

int dp_fetch_job(const struct dp_cli *cli, uint32_t *job_id, struct dp_err *err)
{
    *job_id = cli->job_id ? cli->job_id : dp_fetch_env_job();
    if (*job_id || cli->from)
        return 0;
    return only_run(cli, job_id, err);
}

int dp_fetch_command(const struct dp_cli *cli, enum dp_verb verb, uint32_t job_id, const char *argument,
                     struct dp_err *err)
{
    return dp_link_command(cli, verb, job_id, argument, err);
}
