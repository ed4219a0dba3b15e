/* SPDX-License-Identifier: BSD-3-Clause */
/* STOP_SLOT: end everything of the run on this node and prove it (doc/protocol.md, release, steps b
 * and c). The FENCE is journalled before the first look, so nothing that says HELLO while we look is
 * let in; the proof is what empty_slot.c sees afterwards. Only the batch host of the job may ask, and an
 * older incarnation of its coordinator is not listened to.
 */
#include "config.h"

#include "daemon/run/slot.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/release/privileged.h"
#include "daemon/run/cards.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/relay.h"
#include "daemon/run/run.h"
#include "daemon/run/run_life.h"
#include "daemon/run/state/node_journal.h"
#include "daemon/run/worker.h"

#define MARGIN_S 15.0 /* for Slurm to say whose job it is */

static void answer(struct dp_run *run, bool gone, uint64_t took_ns, const char *text)
{
    struct dp_msg_slot_gone m = {.job_id = run->job_id, .incarnation = run->stop.incarnation, .gone = gone,
                                 .took_ns = took_ns};

    snprintf(m.text, sizeof m.text, "%s", text);
    dp_info("job=%u node %s: %s", run->job_id, gone ? "is empty" : "is held", text);
    if (run->role == DP_RUN_COORD && run->coord)
        dp_coord_slot_gone(run->coord, dp_now_ns(), run->daemon->node, &m);
    else if (run->role == DP_RUN_RELAY)
        (void)DP_PEER_SEND(run->daemon, run->stop_from, slot_gone, DP_MSG_SLOT_GONE, &m);
}

static void on_fenced(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_empty_result r = {0};
    struct dp_run *run = arg;

    run->fencer = NULL;
    if (result && bytes == sizeof r)
        memcpy(&r, result, sizeof r);
    else
        snprintf(r.text, sizeof r.text, "no proof: %s", why);
    r.text[sizeof r.text - 1] = '\0';
    dp_run_cards_note(run, r.hung);
    answer(run, r.gone, r.took_ns, r.text);
    if (run->must_stop)
        dp_slot_serve(run);
}

static void fill_request(const struct dp_run *run, struct dp_empty_request *q)
{
    struct dp_run_limits limits;
    char note[256];

    memset(q, 0, sizeof *q);
    dp_config_limits(run->daemon->config, run->job.partition, &run->start, &limits, note);
    q->job_id = run->job_id;
    q->restart_count = run->job.restart_count;
    q->grace_ms = run->stop.grace_ms;
    q->timeout_ms = (uint32_t)(limits.gone_timeout_s * 1000);
    q->hung = dp_run_cards_hung(run);
    q->before = run->before;
    for (const struct dp_worker *w = run->workers; w && q->n_workers < DP_EMPTY_MAX_PIDS; w = w->next)
        q->worker[q->n_workers++] = (struct dp_empty_worker){w->pid, w->start_ticks};
}

static int fence_now(struct dp_run *run, struct dp_err *err)
{
    struct dp_daemon *d = run->daemon;
    struct dp_empty_request q;

    if (dp_node_journal_fence(d->log, run->job_id, run->job.restart_count, run->stop.incarnation, err) < 0)
        return -1;
    run->is_fenced = true;
    fill_request(run, &q);
    run->fencer = dp_priv_start(d->priv, d->base, DP_PRIV_EMPTY, &q, sizeof q, q.timeout_ms / 1e3 + MARGIN_S,
                                on_fenced, run, err);
    return run->fencer ? 0 : -1;
}

static void serve_later(evutil_socket_t fd, short what, void *arg)
{
    struct dp_daemon *d = arg;

    (void)fd;
    (void)what;
    for (struct dp_run *run = d->runs; run; run = run->next)
        if (run->must_stop)
            dp_slot_serve(run);
}

void dp_slot_serve(struct dp_run *run)
{
    struct dp_err err = {0};

    if (!run->must_stop || dp_run_is_asking(run) || run->fencer)
        return;
    run->must_stop = false;
    if (!dp_run_is_same_life(run, run->stop.restarts)) {
        dp_warn("job=%u: STOP_SLOT belongs to another restart of the job, ignored", run->job_id); /* it is sent again */
        if (dp_peer_is_old(run->daemon, run->stop_from))
            answer(run, false, 0, "the daemon of the batch host is too old to tell a requeued job from its life before: "
                                  "upgrade it");
        return;
    }
    if (strcmp(run->stop_from, run->job.batch_host)) {
        dp_warn("job=%u: node %s is not its batch host, STOP_SLOT refused", run->job_id, run->stop_from);
        return;
    }
    if (fence_now(run, &err) < 0)
        answer(run, false, 0, err.text);
}

static bool is_stale(const struct dp_run *run, const struct dp_msg_stop_slot *m)
{
    const struct dp_node_job *known = dp_node_journal_find(run->daemon->log, run->job_id);

    return m->incarnation < run->stop.incarnation ||
           (known && known->is_fenced && known->fence_restart == run->job.restart_count &&
            m->incarnation < known->fence_incarnation);
}

void dp_slot_stop(struct dp_daemon *d, const char *from, const struct dp_msg_stop_slot *m)
{
    static const struct timeval now = {0};
    struct dp_msg_step_start start = {.job_id = m->job_id, .uid = m->uid};
    struct dp_run *run = dp_run_find(d, m->job_id);

    if (!run && d->config->slurm)
        run = dp_run_create(d, &start); /* nothing ever ran here; Slurm must confirm the owner first */
    if (!run || run->uid != m->uid || is_stale(run, m)) {
        dp_warn("job=%u STOP_SLOT from node %s ignored", m->job_id, from);
        return;
    }
    if (run->fencer) {
        run->stop.incarnation = m->incarnation; /* its answer is under way */
        return;
    }
    dp_info("job=%u node %s asks to empty this node, grace_ms=%u", m->job_id, from, m->grace_ms);
    run->stop = *m;
    run->must_stop = true;
    snprintf(run->stop_from, sizeof run->stop_from, "%s", from);
    event_base_once(d->base, -1, EV_TIMEOUT, serve_later, d, &now);
}

void dp_run_slot_gone(struct dp_conn *c, const struct dp_msg_slot_gone *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);

    if (dp_peer_is_old(c->owner, c->node))
        dp_debug("job=%u node=%s: a proof of release 0.1.0 was not asked for", m->job_id, c->node);
    else if (run && run->coord)
        dp_coord_slot_gone(run->coord, dp_now_ns(), c->node, m);
}
