/* Steps that start and end on this node, as the plugin tells. A step of a run whose node was fenced may be of the
 * same job after a requeue: only Slurm knows, so its start is answered when Slurm has been read. slurmstepd
 * waits in it meanwhile, for 500 ms in all (spank_plugin/daemon_link.h): what is not known by then stays
 * refused, because nothing of a run may start where it gave a node back.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/node_log.h"
#include "daemon/peer.h"
#include "daemon/run.h"

#define BATCH_STEP 0xfffffffbu
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

static void answer(struct dp_step_wait *w, const char *why_fenced)
{
    struct dp_run *run = dp_run_find(w->conn->owner, w->start.job_id);

    if (!run)
        acknowledge(w->conn, DP_VERDICT_UNKNOWN, "Slurm says that the job is not running on this node");
    else if (run->is_fenced)
        acknowledge(w->conn, DP_VERDICT_FENCED, why_fenced);
    else
        admit(w->conn, run, &w->start);
}

/* Take off the list, and answer, who waits for this job; job_id 0: who has waited long enough. */
static void answer_those(struct dp_daemon *d, uint32_t job_id, uint64_t now_ns, const char *why_fenced)
{
    for (struct dp_step_wait **at = &d->waits; *at;) {
        struct dp_step_wait *w = *at;

        if (job_id ? w->start.job_id != job_id : now_ns - w->since_ns < HOLD_NS) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        answer(w, why_fenced);
        free(w);
    }
}

void dp_steps_answer(struct dp_daemon *d, uint32_t job_id)
{
    answer_those(d, job_id, 0, "this node was given back by the job");
}

void dp_steps_tick(struct dp_daemon *d, uint64_t now_ns)
{
    answer_those(d, 0, now_ns, "this node was given back by the job, and Slurm does not say in time whether it was requeued");
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
    if (dp_node_log_adopt(d->log, m, &err) < 0) {
        acknowledge(c, DP_VERDICT_UNKNOWN, err.text);
        return;
    }
    if (!run) {
        run = dp_run_create(d, m);
    } else {
        run->start = *m;
        if (d->config->slurm && (m->step_id == BATCH_STEP || run->is_fenced))
            dp_run_read_soon(run); /* the same id again: requeued? */
    }
    if (run && run->is_fenced && d->config->slurm && wait_for_slurm(c, m) == 0)
        return;
    if (!run || run->is_fenced)
        acknowledge(c, run ? DP_VERDICT_FENCED : DP_VERDICT_UNKNOWN,
                    run ? "this node was given back by the job" : "out of memory");
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
    if (run->coord && run->step_id == m->step_id)
        run->step_ended_ns = dp_now_ns();
    if (d->config->slurm)
        dp_run_read_soon(run);
}
