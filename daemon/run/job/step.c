/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps that start and end on this node, as the plugin tells. A step of a job that is known already may be of the
 * same job after a requeue, which only Slurm knows: so it is asked, and no worker is answered before it has said.
 * Where this node was fenced not even a task may start before: the answer to STEP_START waits, too. slurmstepd waits
 * in it meanwhile, for 500 ms in all (spank_plugin/daemon_link.h): where Slurm takes longer it hears LATER, and each
 * task asks again before its program starts.
 */
#include "config.h"

#include "daemon/run/job/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/conf/options.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/cards.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/run.h"
#include "daemon/run/run_life.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/wireup/wireup.h"

/* Looked at every 100 ms, so the answer leaves 50 ms before the plugin gives up at the latest. */
#define HOLD_NS UINT64_C(350000000)

struct dp_step_wait {
    struct dp_step_wait *next;
    struct dp_conn *conn;
    struct dp_msg_step_start start;
    uint64_t since_ns;
};

static void acknowledge(struct dp_conn *c, enum dp_verdict verdict, const char *text)
{
    struct dp_msg_ack ack = {.verdict = (uint8_t)verdict};

    snprintf(ack.text, sizeof ack.text, "%s", text);
    DP_CONN_SEND(c, ack, DP_MSG_ACK, &ack);
}

static void admit(struct dp_conn *c, struct dp_run *run, const struct dp_msg_step_start *m)
{
    const struct dp_daemon *d = c->owner;
    struct dp_run_limits limits;
    char note[256];

    dp_config_limits(d->config, run->job.partition, m, &limits, note);
    DP_RUN_LOG(run, dp_info, "job=%u step=%u uid=%u registered mode=%s policy=%s", m->job_id, m->step_id, m->uid,
               dp_mode_name(limits.mode), limits.policy);
    acknowledge(c, DP_VERDICT_OK, note);
}

static int wait_for_slurm(struct dp_conn *c, const struct dp_msg_step_start *m)
{
    struct dp_daemon *d = c->owner;
    struct dp_step_wait *w = calloc(1, sizeof *w);

    if (!w)
        return -1;
    w->conn = c;
    w->start = *m;
    w->since_ns = dp_now_ns();
    w->next = d->waits;
    d->waits = w;
    return 0;
}

static const char *given_back = "this node was given back by the job";

static void answer(struct dp_step_wait *w)
{
    struct dp_run *run = dp_run_find(w->conn->owner, w->start.job_id);

    if (!run)
        acknowledge(w->conn, DP_VERDICT_UNKNOWN, "Slurm says that the job is not running on this node");
    else if (run->is_fenced && dp_run_is_asking(run))
        acknowledge(w->conn, DP_VERDICT_LATER, "Slurm has not said yet whether the job was requeued");
    else if (run->is_fenced)
        acknowledge(w->conn, DP_VERDICT_FENCED, given_back);
    else
        admit(w->conn, run, &w->start);
}

/* Take off the list, and answer, who waits for this job; job_id 0: who has waited long enough. */
static void answer_those(struct dp_daemon *d, uint32_t job_id, uint64_t now_ns)
{
    for (struct dp_step_wait **at = &d->waits; *at;) {
        struct dp_step_wait *w = *at;

        if (job_id ? w->start.job_id != job_id : now_ns - w->since_ns < HOLD_NS) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        answer(w);
        free(w);
    }
}

void dp_steps_answer(struct dp_daemon *d, uint32_t job_id)
{
    answer_those(d, job_id, 0);
}

void dp_steps_tick(struct dp_daemon *d, uint64_t now_ns)
{
    answer_those(d, 0, now_ns);
}

void dp_step_forget(struct dp_daemon *d, const struct dp_conn *c)
{
    for (struct dp_step_wait **at = &d->waits; *at;) {
        struct dp_step_wait *w = *at;

        if (w->conn != c) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
}

/* The same id again: requeued? A task that asks again (LATER) does not make the question a new one, or no answer would
 * ever be new enough. */
static void ask_anew(struct dp_run *run, const struct dp_msg_step_start *m)
{
    bool is_asked = run->is_unsure && !memcmp(&run->start, m, sizeof *m);

    run->start = *m;
    if (!run->daemon->config->slurm || is_asked)
        return;
    run->is_unsure = true;
    dp_run_read_soon(run);
}

int dp_step_from_hello(const struct dp_msg_hello *m, struct dp_msg_step_start *start)
{
    static const struct dp_plugin_args any = {.default_mode = DP_MODE_OFF};
    struct dp_msg_step_start told;

    if (!m->options[0] || dp_options_parse(m->options, &any, &told, NULL) < 0 || told.mode == DP_MODE_OFF)
        return -1;
    told.job_id = m->job_id;
    told.step_id = m->step_id;
    told.uid = start->uid;
    told.gid = start->gid;
    memcpy(told.node, start->node, sizeof told.node);
    *start = told;
    return 0;
}

/* The options of the step that this worker is of: as the plugin told here, else as the worker brings them. Which of the
 * job's steps was told last here, if any, is chance. */
void dp_step_take_options(struct dp_run *run, const struct dp_msg_hello *m)
{
    struct dp_msg_step_start start = run->start;
    struct dp_err err = {0};

    if (start.step_id == m->step_id || dp_step_from_hello(m, &start) < 0)
        return;
    if (dp_node_journal_adopt(run->daemon->log, &start, &err) < 0)
        DP_RUN_LOG(run, dp_error, "job=%u %s", run->job_id, err.text);
    run->start = start;
}

void dp_run_step_start(struct dp_conn *c, const struct dp_msg_step_start *m)
{
    struct dp_daemon *d = c->owner;
    struct dp_run *run = dp_run_find(d, m->job_id);
    struct dp_err err = {0};

    if (m->node[0] && strcmp(m->node, d->node)) {
        acknowledge(c, DP_VERDICT_DENIED, "this daemon serves another node");
        return;
    }
    if (run && run->uid != m->uid) {
        acknowledge(c, DP_VERDICT_DENIED, "the job was registered by another owner");
        return;
    }
    if (run && run->is_home_over) {
        acknowledge(c, DP_VERDICT_DENIED, "a run that began in an earlier life of this job goes on without it");
        return;
    }
    if (run)
        ask_anew(run, m); /* also where it cannot be written down: its workers come all the same */
    if (dp_node_journal_adopt(d->log, m, &err) < 0) {
        acknowledge(c, DP_VERDICT_UNKNOWN, err.text);
        return;
    }
    if (!run && (run = dp_run_create(d, m)))
        dp_run_cards_look(run);
    if (run && m->step_id != DP_STEP_BATCH)
        dp_tasks_expect(&run->tasks, m->step_id, dp_now_ns());
    if (run && run->is_fenced && d->config->slurm && wait_for_slurm(c, m) == 0)
        return;
    if (!run || run->is_fenced)
        acknowledge(c, run ? DP_VERDICT_FENCED : DP_VERDICT_UNKNOWN,
                    run ? given_back : "out of memory");
    else
        admit(c, run, m);
}

void dp_run_step_end(struct dp_conn *c, const struct dp_msg_step_end *m)
{
    struct dp_daemon *d = c->owner;
    struct dp_run *run = dp_run_find(d, m->job_id);

    acknowledge(c, run ? DP_VERDICT_OK : DP_VERDICT_UNKNOWN, "");
    if (!run)
        return;
    dp_wireup_step_end(run, m->step_id);
    if (run->coord && run->step_id == m->step_id)
        run->step_ended_ns = dp_now_ns();
    if (d->config->slurm)
        dp_run_read_soon(run);
}
