/* SPDX-License-Identifier: BSD-3-Clause */
/* What `dynpipe` asks: jobs, one job's status, decisions and report, this node; and its commands.
 * Everybody may ask; answers are about the asker's own jobs, root's about all. A node that is not a
 * job's batch host names the one that is. All but what this node says of itself is worked out in a child (ask.c).
 */
#include "config.h"

#include "daemon/query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/slurm/libslurm.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/run/run.h"
#include "daemon/run/runs.h"
#include "daemon/run/slices/companions.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/state/history.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/wireup/wireup.h"

void dp_query_refuse(struct dp_conn *c, enum dp_verdict verdict, const char *text)
{
    struct dp_msg_answer a = {.verdict = (uint8_t)verdict, .last = 1, .json = ""};

    snprintf(a.text, sizeof a.text, "%s", text);
    DP_CONN_SEND(c, answer, DP_MSG_ANSWER, &a);
}

static json_t *jobs_json(const struct dp_daemon *d, uid_t uid)
{
    json_t *jobs = dp_runs_json(d, uid), *finished = dp_history_list(d, uid);

    json_array_extend(jobs, finished);
    json_decref(finished);
    return json_pack("{s:s, s:o}", "node", d->node, "jobs", jobs);
}

/* The first journal of this daemon that cannot be written. NULL: none. */
static const char *journal_trouble(const struct dp_daemon *d)
{
    const char *text = dp_node_journal_trouble(d->log);

    for (const struct dp_run *r = d->runs; r && !text; r = r->next)
        text = r->journal ? dp_journal_trouble(r->journal) : NULL;
    return text;
}

static void set_text(json_t *doc, const char *key, const char *text)
{
    json_t *value = json_string(text); /* NULL: quotes bytes that are no UTF-8 */

    json_object_set_new(doc, key, value ? value : json_string("its log says what is wrong"));
}

json_t *dp_query_node(const struct dp_daemon *d)
{
    json_int_t n_runs = 0;
    json_t *doc;

    for (const struct dp_run *r = d->runs; r; r = r->next)
        n_runs++;
    doc = json_pack("{s:s, s:s, s:I, s:s, s:f, s:b, s:s, s:s, s:I, s:I, s:I, s:I}", "node", d->node, "version",
                    PACKAGE_VERSION, "pid", (json_int_t)getpid(), "boot_id", d->boot_id, "uptime_s",
                    (double)(dp_now_ns() - d->start_ns) / 1e9, "slurm", d->config->slurm, "slurm_built_for",
                    dp_slurm_built_for(), "socket", d->config->socket, "runs", n_runs, "connections",
                    (json_int_t)d->conns.n, "refused", (json_int_t)d->conns.n_refused, "protocol",
                    (json_int_t)DP_PROTO_VERSION);
    if (d->trouble[0])
        set_text(doc, "trouble", d->trouble);
    if (journal_trouble(d))
        set_text(doc, "journal_error", journal_trouble(d));
    return doc;
}

static bool may_see(const struct dp_conn *c, json_int_t owner)
{
    return c->uid == 0 || (json_int_t)c->uid == owner;
}

/* No coordinator here: say where, or why there is none yet. */
static json_t *absence(const struct dp_run *run, enum dp_verdict *verdict, char text[256])
{
    json_t *waiting = dp_wireup_waiting(run);
    const char *why = json_string_value(json_object_get(waiting, "state_text"));

    *verdict = DP_VERDICT_UNKNOWN;
    if (dp_slice_tell(run, text, 256))
        ;
    else if (why)
        snprintf(text, 256, "%s", why);
    else if (run->role == DP_RUN_RELAY)
        snprintf(text, 256, "ask the daemon of node %s, the job's batch host", run->job.batch_host);
    else
        snprintf(text, 256, "%s", run->role == DP_RUN_LOOKUP ? "waiting for Slurm's answer about this job"
                                                             : "no worker has connected yet");
    json_decref(waiting);
    return NULL;
}

static json_t *refused(enum dp_verdict *verdict, enum dp_verdict what, char text[256], const char *why)
{
    *verdict = what;
    snprintf(text, 256, "%s", why);
    return NULL;
}

static json_t *past_document(const struct dp_daemon *d, const struct dp_past *past, enum dp_query what,
                             enum dp_verdict *verdict, char text[256])
{
    static const char *const member[] = {[DP_QUERY_STATUS] = "status", [DP_QUERY_EXPLAIN] = "explain",
                                         [DP_QUERY_REPORT] = "report"};
    json_t *doc = dp_history_load(d, past), *part = json_incref(json_object_get(doc, member[what]));

    json_decref(doc);
    return part ? part : refused(verdict, DP_VERDICT_UNKNOWN, text, "the report of this run cannot be read");
}

/* The coordinator knows slices, and not who asked Slurm for them. */
static json_t *with_companions(json_t *doc, const struct dp_run *run)
{
    json_t *companions = dp_companions_json(run);

    if (companions)
        json_object_set_new(doc, "companions", companions);
    return doc;
}

static json_t *job_document(const struct dp_conn *c, const struct dp_msg_query *q, enum dp_verdict *verdict, char text[256])
{
    const struct dp_daemon *d = c->owner;
    const struct dp_run *run = dp_run_find(d, q->job_id);
    const struct dp_past *past = !run || (!run->coord && run->role == DP_RUN_COORD) ? dp_history_find(d, q->job_id) : NULL;

    if (run && !may_see(c, run->uid))
        return refused(verdict, DP_VERDICT_DENIED, text, "the job belongs to another user");
    if (run && run->coord)
        return with_companions(dp_coord_json(run->coord, dp_now_ns(), (enum dp_query)q->what), run);
    if (run && !past)
        return absence(run, verdict, text);
    if (!past)
        return refused(verdict, DP_VERDICT_UNKNOWN, text, "this job is not known here");
    if (!may_see(c, past->uid))
        return refused(verdict, DP_VERDICT_DENIED, text, "the job belongs to another user");
    return past_document(d, past, (enum dp_query)q->what, verdict, text);
}

json_t *dp_query_document(const struct dp_conn *c, const struct dp_msg_query *q, enum dp_verdict *verdict, char text[256])
{
    *verdict = DP_VERDICT_OK;
    text[0] = '\0';
    switch (q->what) {
    case DP_QUERY_JOBS:
        return jobs_json(c->owner, c->uid);
    case DP_QUERY_STATUS:
    case DP_QUERY_EXPLAIN:
    case DP_QUERY_REPORT:
        return job_document(c, q, verdict, text);
    default:
        return refused(verdict, DP_VERDICT_UNKNOWN, text, "unknown query");
    }
}

void dp_query_send(struct dp_conn *c, json_t *doc)
{
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    struct dp_msg_answer a = {.verdict = DP_VERDICT_OK, .last = 1, .json = text};

    json_decref(doc);
    if (text && (a.json_len = (uint32_t)strlen(text)) <= DP_ANSWER_CHUNK)
        DP_CONN_SEND(c, answer, DP_MSG_ANSWER, &a);
    else
        dp_query_refuse(c, DP_VERDICT_UNKNOWN, "the answer could not be built");
    free(text);
}

void dp_query_answer_node(struct dp_conn *c)
{
    dp_query_send(c, dp_query_node(c->owner));
}

void dp_query_command(struct dp_conn *c, const struct dp_msg_command *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);
    struct dp_err err = {0};

    char text[256];
    enum dp_verdict verdict;

    if (!run)
        dp_query_refuse(c, DP_VERDICT_UNKNOWN, "this job is not known here");
    else if (!may_see(c, run->uid))
        dp_query_refuse(c, DP_VERDICT_DENIED, "the job belongs to another user");
    else if (!run->coord) {
        (void)absence(run, &verdict, text);
        dp_query_refuse(c, verdict, text);
    } else if (dp_coord_command(run->coord, dp_now_ns(), (enum dp_verb)m->verb, m->argument, &err) < 0)
        dp_query_refuse(c, DP_VERDICT_DENIED, err.text);
    else
        dp_query_refuse(c, DP_VERDICT_OK, "");
    dp_conn_set_deadline(c, 60);
}
