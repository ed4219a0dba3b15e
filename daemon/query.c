/* What `dynpipe` asks: jobs, one job's status, decisions and report, this node; and its commands.
 * Everybody may ask; answers are about the asker's own jobs, root's about all. A node that is not a
 * job's batch host names the one that is.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/run.h"

static void send_verdict(struct dp_conn *c, enum dp_verdict verdict, const char *text)
{
    struct dp_msg_answer a = {.verdict = (uint8_t)verdict, .last = 1, .json = ""};

    snprintf(a.text, sizeof a.text, "%s", text);
    DP_CONN_SEND(c, answer, DP_MSG_ANSWER, &a);
}

/* In pieces of DP_ANSWER_CHUNK. Takes the reference. */
static void send_json(struct dp_conn *c, json_t *doc)
{
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    size_t left = text ? strlen(text) : 0;
    const char *p = text;

    json_decref(doc);
    if (!text) {
        send_verdict(c, DP_VERDICT_UNKNOWN, "no answer could be made");
        return;
    }
    do {
        struct dp_msg_answer a = {.verdict = DP_VERDICT_OK, .json = p};

        a.json_len = left > DP_ANSWER_CHUNK ? DP_ANSWER_CHUNK : (uint32_t)left;
        left -= a.json_len;
        p += a.json_len;
        a.last = left == 0;
        DP_CONN_SEND(c, answer, DP_MSG_ANSWER, &a);
    } while (left > 0);
    free(text);
}

static json_t *jobs_json(const struct dp_daemon *d, uid_t uid)
{
    json_t *jobs = dp_runs_json(d, uid), *finished = dp_history_list(d, uid);

    json_array_extend(jobs, finished);
    json_decref(finished);
    return json_pack("{s:s, s:o}", "node", d->node, "jobs", jobs);
}

static json_t *node_json(const struct dp_daemon *d)
{
    json_int_t n_runs = 0;
    json_t *doc;

    for (const struct dp_run *r = d->runs; r; r = r->next)
        n_runs++;
    doc = json_pack("{s:s, s:s, s:I, s:s, s:f, s:b, s:s, s:I, s:I, s:I, s:I}", "node", d->node, "version",
                    PACKAGE_VERSION, "pid", (json_int_t)getpid(), "boot_id", d->boot_id, "uptime_s",
                    (double)(dp_now_ns() - d->start_ns) / 1e9, "slurm", d->config->slurm, "socket",
                    d->config->socket, "runs", n_runs, "connections", (json_int_t)d->conns.n, "refused",
                    (json_int_t)d->conns.n_refused, "protocol", (json_int_t)DP_PROTO_VERSION);
    if (d->trouble[0]) {
        json_t *text = json_string(d->trouble); /* NULL: quotes bytes that are no UTF-8 */

        json_object_set_new(doc, "trouble", text ? text : json_string("its log says what is wrong"));
    }
    return doc;
}

static bool may_see(const struct dp_conn *c, json_int_t owner)
{
    return c->uid == 0 || (json_int_t)c->uid == owner;
}

static void answer_from_history(struct dp_conn *c, const struct dp_msg_query *q)
{
    static const char *const member[] = {[DP_QUERY_STATUS] = "status", [DP_QUERY_EXPLAIN] = "explain",
                                         [DP_QUERY_REPORT] = "report"};
    json_t *doc = dp_history_load(c->owner, q->job_id);

    if (!doc)
        send_verdict(c, DP_VERDICT_UNKNOWN, "nothing is known of this job here");
    else if (!may_see(c, json_integer_value(json_object_get(doc, "uid"))))
        send_verdict(c, DP_VERDICT_DENIED, "the job belongs to somebody else");
    else
        send_json(c, json_incref(json_object_get(doc, member[q->what])));
    json_decref(doc);
}

/* No coordinator here: say where, or why there is none yet. */
static void explain_absence(struct dp_conn *c, const struct dp_run *run)
{
    char text[256];

    if (run->role == DP_RUN_RELAY)
        snprintf(text, sizeof text, "ask the daemon of node %s, the job's batch host", run->job.batch_host);
    else
        snprintf(text, sizeof text, "%s", run->role == DP_RUN_LOOKUP ? "waiting for Slurm to tell about this job"
                                                                     : "no worker has connected yet");
    send_verdict(c, DP_VERDICT_UNKNOWN, text);
}

static void answer_job(struct dp_conn *c, const struct dp_msg_query *q)
{
    const struct dp_run *run = dp_run_find(c->owner, q->job_id);

    if (run && !may_see(c, run->uid))
        send_verdict(c, DP_VERDICT_DENIED, "the job belongs to somebody else");
    else if (run && run->coord)
        send_json(c, dp_coord_json(run->coord, dp_now_ns(), (enum dp_query)q->what));
    else if (run && run->role != DP_RUN_COORD)
        explain_absence(c, run);
    else {
        json_t *doc = run ? dp_history_load(c->owner, q->job_id) : NULL;

        if (run && !doc)
            explain_absence(c, run);
        else
            answer_from_history(c, q);
        json_decref(doc);
    }
}

void dp_query_answer(struct dp_conn *c, const struct dp_msg_query *q)
{
    const struct dp_daemon *d = c->owner;

    switch (q->what) {
    case DP_QUERY_JOBS:
        send_json(c, jobs_json(d, c->uid));
        break;
    case DP_QUERY_NODE:
        send_json(c, node_json(d));
        break;
    case DP_QUERY_STATUS:
    case DP_QUERY_EXPLAIN:
    case DP_QUERY_REPORT:
        answer_job(c, q);
        break;
    default:
        send_verdict(c, DP_VERDICT_UNKNOWN, "unknown question");
    }
    dp_conn_set_deadline(c, 60);
}

void dp_query_command(struct dp_conn *c, const struct dp_msg_command *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);
    struct dp_err err = {0};

    if (!run)
        send_verdict(c, DP_VERDICT_UNKNOWN, "nothing is known of this job here");
    else if (!may_see(c, run->uid))
        send_verdict(c, DP_VERDICT_DENIED, "the job belongs to somebody else");
    else if (!run->coord)
        explain_absence(c, run);
    else if (dp_coord_command(run->coord, dp_now_ns(), (enum dp_verb)m->verb, m->argument, &err) < 0)
        send_verdict(c, DP_VERDICT_DENIED, err.text);
    else
        send_verdict(c, DP_VERDICT_OK, "");
    dp_conn_set_deadline(c, 60);
}
