/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the nodes of a run. Up: a worker's frame in a RELAY from its node to the batch host. Down:
 * the coordinator's in a RELAY to the worker's node. A frame is taken only from a node that the job
 * has, and orders only from its batch host: both as Slurm says, whatever the frame says.
 */
#include "config.h"

#include "daemon/run/relay.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/job/seek.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slices/take_over.h"
#include "daemon/run/wireup/missing.h"
#include "daemon/run/wireup/wireup.h"
#include "daemon/run/worker.h"

void dp_run_relay_up(struct dp_run *run, const struct dp_worker *w, enum dp_msg_type type, const uint8_t *body,
                     size_t bytes)
{
    struct dp_msg_relay relay = {.job_id = run->job_id, .rank = w->rank, .pid = w->pid, .restarts = run->job.restart_count,
                                 .inner_type = (uint16_t)type, .inner_len = (uint32_t)bytes, .inner = body};

    if (type == DP_MSG_HELLO || dp_run_takes(run, w->rank, type))
        (void)DP_PEER_SEND(run->daemon, run->job.batch_host, relay, DP_MSG_RELAY, &relay);
}

static void welcome_down(struct dp_conn *c, const struct dp_run *run, uint32_t rank,
                         const struct dp_msg_welcome *welcome)
{
    uint8_t body[1024];
    struct dp_writer w;
    struct dp_msg_relay relay = {.job_id = run->job_id, .rank = rank, .restarts = run->job.restart_count,
                                 .inner_type = DP_MSG_WELCOME, .inner = body};

    dp_writer_init(&w, body, sizeof body);
    dp_msg_welcome_encode(&w, welcome);
    relay.inner_len = (uint32_t)dp_writer_used(&w);
    DP_CONN_SEND(c, relay, DP_MSG_RELAY, &relay);
}

static void hello_up(struct dp_conn *c, struct dp_run *run, const struct dp_msg_relay *m)
{
    struct dp_msg_welcome welcome;
    struct dp_msg_hello hello;
    struct dp_err err = {0};
    struct dp_reader r;

    dp_reader_init(&r, m->inner, m->inner_len);
    if (dp_msg_hello_decode(&r, &hello, &err) < 0 || hello.rank != m->rank ||
        (dp_slices_are(run) ? !dp_slices_have(run, m->rank, c->node, hello.job_id) : hello.job_id != m->job_id)) {
        DP_RUN_LOG(run, dp_warn, "job=%u node=%s: bad HELLO in a relay %s", m->job_id, c->node, err.text);
        return;
    }
    dp_run_coord_hello(run, c->node, m->pid, &hello, &welcome);
    welcome_down(c, run, m->rank, &welcome);
}

/* The coordinator is lost, and may be made here. What a daemon says of slices that Slurm does not show on its node counts for nothing. */
static void gather_hello(struct dp_conn *c, struct dp_run *run, const struct dp_msg_relay *m)
{
    struct dp_msg_hello hello;
    struct dp_reader r;

    dp_reader_init(&r, m->inner, m->inner_len);
    if (dp_msg_hello_decode(&r, &hello, NULL) == 0 && hello.rank == m->rank)
        (void)dp_take_over_hello(run, c->node, m->pid, &hello);
}

static void up(struct dp_conn *c, struct dp_run *run, const struct dp_msg_relay *m)
{
    struct dp_err err = {0};

    if (!dp_run_has_member(run, c->node)) {
        dp_warn("job=%u does not have node %s, relay refused", run->job_id, c->node);
        return;
    }
    if ((m->inner_type == DP_MSG_HELLO || m->inner_type == DP_MSG_CARD) && dp_run_is_asking(run))
        return; /* as for workers of this node */
    if (m->inner_type == DP_MSG_CARD)
        dp_wireup_relayed(c, run, m);
    else if (m->inner_type == DP_MSG_HELLO)
        hello_up(c, run, m);
    else if (dp_run_coord_frame(run, c->node, m->rank, (enum dp_msg_type)m->inner_type, m->inner, m->inner_len,
                                &err) < 0)
        DP_RUN_LOG(run, dp_warn, "job=%u node=%s rank=%u: %s", run->job_id, c->node, m->rank, err.text);
}

static bool is_order(uint16_t type)
{
    return type == DP_MSG_PREPARE || type == DP_MSG_DECISION || type == DP_MSG_FINISH || type == DP_MSG_SAVE ||
           type == DP_MSG_PING || type == DP_MSG_REGROUP || type == DP_MSG_CARD || type == DP_MSG_PROPOSAL ||
           type == DP_MSG_LIMIT;
}

static void welcome_here(struct dp_run *run, const struct dp_msg_relay *m)
{
    struct dp_msg_welcome welcome;
    struct dp_reader r;

    dp_reader_init(&r, m->inner, m->inner_len);
    if (dp_msg_welcome_decode(&r, &welcome, NULL) < 0)
        return;
    if (welcome.verdict == DP_VERDICT_OK)
        dp_take_over_proved(run);
    for (struct dp_worker *w = run->workers; w; w = w->next)
        if (w->rank == m->rank && w->is_waiting) {
            dp_worker_welcome(w, &welcome);
            return;
        }
}

void dp_run_relay(struct dp_conn *c, const struct dp_msg_relay *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);

    if (!run || run->role == DP_RUN_LOOKUP || !dp_run_is_same_life(run, m->restarts))
        return; /* it is sent again when both sides know the job */
    if (run->role == DP_RUN_COORD) {
        up(c, run, m);
        return;
    }
    if (m->inner_type == DP_MSG_HELLO) {
        gather_hello(c, run, m);
        return;
    }
    if (strcmp(c->node, run->job.batch_host)) {
        dp_warn("job=%u: node %s is not its batch host, order refused", run->job_id, c->node);
        return;
    }
    if (m->inner_type == DP_MSG_WELCOME)
        welcome_here(run, m);
    else if (m->inner_type == DP_MSG_WIREUP)
        dp_wireup_refused(run, m);
    else if (is_order(m->inner_type))
        dp_worker_send(run, m->rank, (enum dp_msg_type)m->inner_type, m->inner, m->inner_len);
}

void dp_run_join(struct dp_conn *c, const struct dp_msg_join *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);

    dp_debug("job=%u joined by node %s%s", m->job_id, c->node, run ? "" : ", not known here");
    if (run)
        dp_run_joined(run, c->node);
    else
        dp_seek_join(c->owner, c->node, m->job_id);
}

void dp_run_worker_lost(struct dp_conn *c, const struct dp_msg_worker_lost *m)
{
    struct dp_run *run = dp_run_find(c->owner, m->job_id);

    if (run && run->role == DP_RUN_COORD)
        dp_run_coord_lost(run, c->node, m);
}

void dp_run_find_worker(struct dp_conn *c, const struct dp_msg_find_worker *m)
{
    struct dp_msg_worker_lost lost = {m->job_id, m->rank, m->pid, 1};
    struct dp_run *run = dp_run_find(c->owner, m->job_id);

    if (!run || run->role != DP_RUN_RELAY || !dp_run_is_same_life(run, m->restarts) || strcmp(c->node, run->job.batch_host))
        return;
    if (dp_worker_is_gone(run, m->rank, m->pid))
        DP_CONN_SEND(c, worker_lost, DP_MSG_WORKER_LOST, &lost);
}

static void join(struct dp_run *run)
{
    struct dp_msg_join m = {run->job_id};

    (void)DP_PEER_SEND(run->daemon, run->job.batch_host, join, DP_MSG_JOIN, &m);
    dp_workers_serve(run);
}

void dp_run_peer_up(struct dp_daemon *d, const char *node)
{
    for (struct dp_run *run = d->runs; run; run = run->next) {
        if (run->role == DP_RUN_RELAY && !strcmp(run->job.batch_host, node))
            join(run);
        dp_wireup_peer_up(run, node);
    }
}

void dp_run_peer_down(struct dp_daemon *d, const char *node)
{
    for (struct dp_run *run = d->runs; run; run = run->next) {
        dp_wireup_peer_down(run, node);
        if (run->role == DP_RUN_RELAY && !strcmp(run->job.batch_host, node))
            dp_workers_hang_up(run, "the batch host's daemon is away");
        else if (run->role == DP_RUN_COORD)
            dp_run_coord_node_lost(run, node);
    }
}
