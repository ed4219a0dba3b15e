/* SPDX-License-Identifier: BSD-3-Clause */
/* From a frame to the function that means it. The role's table (net/roles.c) was asked before; what does
 * not decode ends the connection. */
#include "config.h"

#include "daemon/dispatch.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/query/ask.h"
#include "daemon/query/node_check.h"
#include "daemon/query/query.h"
#include "daemon/run/relay.h"
#include "daemon/run/run.h"
#include "daemon/run/slot.h"
#include "daemon/run/step.h"
#include "daemon/run/wireup.h"
#include "daemon/run/worker.h"

/* Decode into m and go on, or close. */
#define DECODE(name)                                                                               \
    struct dp_msg_##name m;                                                                        \
    if (dp_msg_##name##_decode(&r, &m, &err) < 0)                                                  \
        break

static void on_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body)
{
    struct dp_err err = {0};
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    switch (h->type) {
    case DP_MSG_STEP_START: {
        DECODE(step_start);
        dp_run_step_start(c, &m);
        return;
    }
    case DP_MSG_STEP_END: {
        DECODE(step_end);
        dp_run_step_end(c, &m);
        return;
    }
    case DP_MSG_TASKS: {
        DECODE(tasks);
        dp_wireup_tasks(c, &m);
        return;
    }
    case DP_MSG_CARD: {
        DECODE(card);
        dp_wireup_card(c, &m);
        return;
    }
    case DP_MSG_ROSTER: {
        DECODE(roster);
        dp_wireup_roster(c, &m);
        return;
    }
    case DP_MSG_WIREUP: {
        DECODE(wireup);
        dp_wireup_take_state(c, &m);
        return;
    }
    case DP_MSG_HELLO: {
        DECODE(hello);
        dp_worker_hello(c, &m, body, h->body_len);
        return;
    }
    case DP_MSG_REPORT:
    case DP_MSG_VOTE:
    case DP_MSG_DECISION_ACK:
    case DP_MSG_GOODBYE:
    case DP_MSG_EVENT:
    case DP_MSG_PONG:
        dp_worker_frame(c, (enum dp_msg_type)h->type, body, h->body_len);
        return;
    case DP_MSG_RELAY: {
        DECODE(relay);
        dp_run_relay(c, &m);
        return;
    }
    case DP_MSG_WORKER_LOST: {
        DECODE(worker_lost);
        dp_run_worker_lost(c, &m);
        return;
    }
    case DP_MSG_STOP_SLOT: {
        DECODE(stop_slot);
        dp_slot_stop(c->owner, c->node, &m);
        return;
    }
    case DP_MSG_SLOT_GONE: {
        DECODE(slot_gone);
        dp_run_slot_gone(c, &m);
        return;
    }
    case DP_MSG_JOIN: {
        DECODE(join);
        dp_run_join(c, &m);
        return;
    }
    case DP_MSG_QUERY: {
        DECODE(query);
        dp_ask_add(c, &m);
        return;
    }
    case DP_MSG_CHECK: {
        DECODE(check);
        dp_node_check_start(c, &m);
        return;
    }
    case DP_MSG_COMMAND: {
        DECODE(command);
        dp_query_command(c, &m);
        return;
    }
    default:
        dp_err_set(&err, DP_EPROTO, "%s is not expected here", dp_msg_name(h->type));
    }
    dp_conn_refuse(c, err.text);
}

static void on_closed(struct dp_conn *c, const char *why)
{
    dp_ask_forget(c->owner, c);
    dp_step_forget(c->owner, c);
    dp_node_check_forget(c);
    if (c->role == DP_ROLE_WORKER)
        dp_worker_closed(c, why);
    if (c->role == DP_ROLE_WIRER)
        dp_wireup_closed(c);
}

static void on_drained(struct dp_conn *c)
{
    dp_ask_drained(c);
    dp_wireup_drained(c);
}

const struct dp_net_events dp_dispatch_events = {
    .frame = on_frame,
    .closed = on_closed,
    .drained = on_drained,
    .peer_up = dp_run_peer_up,
    .peer_down = dp_run_peer_down,
};
