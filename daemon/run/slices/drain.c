/* SPDX-License-Identifier: BSD-3-Clause */
/* See drain.h. */
#include "config.h"

#include "daemon/run/slices/drain.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/helper.h"
#include "daemon/child/node_state.h"
#include "daemon/coord/coordinator.h"
#include "daemon/run/relay.h"
#include "daemon/run/run.h"
#include "daemon/run/worker.h"

#define DEADLINE_S 70.0 /* a dead controller answers after 10 to 60 s */
#define SAY_AGAIN_NS (5 * DP_SECOND_NS) /* a word may be lost, and a coordinator be restarted */

static void on_looked(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_daemon *d = arg;
    bool was_draining = d->is_draining;

    (void)why;
    d->drain_look = NULL;
    d->drain_ask_ns = dp_now_ns() + (uint64_t)(d->config->poll_s * 1e9);
    if (!result || bytes != 1 || result[0] == DP_NODE_UNKNOWN)
        return; /* as before */
    d->is_draining = result[0] == DP_NODE_DRAINS;
    if (d->is_draining != was_draining)
        dp_info("node=%s %s", d->node, d->is_draining ? "is being drained: runs are asked to leave it" : "is not drained any more");
}

/* Is there anywhere else to go for this worker? */
static bool may_leave(const struct dp_run *run, const struct dp_worker *w)
{
    return w->slice || run->job.n_nodes > 1;
}

static bool has_any(const struct dp_daemon *d)
{
    for (const struct dp_run *run = d->runs; run; run = run->next)
        for (const struct dp_worker *w = run->workers; w; w = w->next)
            if (may_leave(run, w))
                return true;
    return false;
}

/* As if the worker said so itself. */
static void tell(struct dp_run *run, const struct dp_worker *w, uint64_t now_ns)
{
    struct dp_msg_event m = {.kind = DP_EV_LEAVE, .value = DP_LEAVE_DRAINED};
    uint8_t body[64 + sizeof m.text];
    struct dp_writer out;

    if (run->coord) {
        dp_coord_event(run->coord, now_ns, w->rank, &m);
        return;
    }
    dp_writer_init(&out, body, sizeof body);
    dp_msg_event_encode(&out, &m);
    dp_run_relay_up(run, w, DP_MSG_EVENT, body, dp_writer_used(&out));
}

void dp_drain_tick(struct dp_daemon *d, uint64_t now_ns)
{
    struct dp_err err = {0};

    if (!d->config->slurm || !has_any(d)) {
        d->is_draining = false;
        return;
    }
    if (!d->drain_look && now_ns >= d->drain_ask_ns) {
        d->drain_ask_ns = now_ns + (uint64_t)(d->config->poll_s * 1e9);
        d->drain_look = dp_helper_start(d->base, dp_node_state_work, d->node, strlen(d->node) + 1, DEADLINE_S, on_looked, d, &err);
    }
    if (!d->is_draining || now_ns - d->drain_said_ns < SAY_AGAIN_NS)
        return;
    d->drain_said_ns = now_ns;
    for (struct dp_run *run = d->runs; run; run = run->next)
        for (const struct dp_worker *w = run->workers; w; w = w->next)
            if (may_leave(run, w) && w->conn && !w->is_waiting)
                tell(run, w, now_ns);
}

void dp_drain_end(struct dp_daemon *d)
{
    dp_helper_cancel(d->drain_look);
    d->drain_look = NULL;
}
