/* SPDX-License-Identifier: BSD-3-Clause */
/* From a frame to the function that means it. The role's table (net/roles.c) was asked before; what does
 * not decode ends the connection. */
#include "config.h"

#include "daemon/dispatch.h"
#include "daemon/net/daemon_state.h"
#include "daemon/query/ask.h"
#include "daemon/query/node_check.h"
#include "daemon/query/query.h"
#include "daemon/run/job/step.h"
#include "daemon/run/relay.h"
#include "daemon/run/run.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slot.h"
#include "daemon/run/wireup/wireup.h"
#include "daemon/run/worker.h"

/* What a frame makes happen. returns -1: it does not decode. */
typedef int (*handle_fn)(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes, struct dp_err *err);

static void stop_slot(struct dp_conn *c, const struct dp_msg_stop_slot *m)
{
    dp_slot_stop(c->owner, c->node, m);
}

/* Messages that are decoded here, and who means them. */
#define DECODED(M)                                  \
    M(step_start, STEP_START, dp_run_step_start)    \
    M(step_end, STEP_END, dp_run_step_end)          \
    M(tasks, TASKS, dp_wireup_tasks)                \
    M(card, CARD, dp_wireup_card)                   \
    M(roster, ROSTER, dp_wireup_roster)             \
    M(wireup, WIREUP, dp_wireup_take_state)         \
    M(relay, RELAY, dp_run_relay)                   \
    M(worker_lost, WORKER_LOST, dp_run_worker_lost) \
    M(find_worker, FIND_WORKER, dp_run_find_worker) \
    M(slice, SLICE, dp_slice_asked)                 \
    M(slice_rank, SLICE_RANK, dp_slice_answered)    \
    M(stop_slot, STOP_SLOT, stop_slot)              \
    M(slot_gone, SLOT_GONE, dp_run_slot_gone)       \
    M(join, JOIN, dp_run_join)                      \
    M(query, QUERY, dp_ask_add)                     \
    M(check, CHECK, dp_node_check_start)            \
    M(command, COMMAND, dp_query_command)

#define DECODE_AND_HAND_ON(name, NAME, function)                                                                       \
    static int on_##name(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes, struct dp_err *err) \
    {                                                                                                                  \
        struct dp_msg_##name m;                                                                                        \
        struct dp_reader r;                                                                                            \
                                                                                                                       \
        (void)type;                                                                                                    \
        dp_reader_init(&r, body, bytes);                                                                               \
        if (dp_msg_##name##_decode(&r, &m, err) < 0)                                                                   \
            return -1;                                                                                                 \
        function(c, &m);                                                                                               \
        return 0;                                                                                                      \
    }
DECODED(DECODE_AND_HAND_ON)

/* Its bytes go on to the batch host, as they came. */
static int on_hello(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes, struct dp_err *err)
{
    struct dp_msg_hello m;
    struct dp_reader r;

    (void)type;
    dp_reader_init(&r, body, bytes);
    if (dp_msg_hello_decode(&r, &m, err) < 0)
        return -1;
    dp_worker_hello(c, &m, body, bytes);
    return 0;
}

/* Decoded where the run is coordinated. */
static int on_worker(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes, struct dp_err *err)
{
    (void)err;
    dp_worker_frame(c, type, body, bytes);
    return 0;
}

#define ENTRY(name, NAME, function) [DP_MSG_##NAME] = on_##name,
static const handle_fn handlers[] = {
    DECODED(ENTRY)
    [DP_MSG_HELLO] = on_hello,
    [DP_MSG_REPORT] = on_worker,
    [DP_MSG_VOTE] = on_worker,
    [DP_MSG_DECISION_ACK] = on_worker,
    [DP_MSG_GOODBYE] = on_worker,
    [DP_MSG_EVENT] = on_worker,
    [DP_MSG_PONG] = on_worker,
    [DP_MSG_EXPECT] = on_worker,
};

static void on_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body)
{
    handle_fn handle = h->type < sizeof handlers / sizeof handlers[0] ? handlers[h->type] : NULL;
    struct dp_err err = {0};

    if (!handle)
        dp_err_set(&err, DP_EPROTO, "%s is not expected here", dp_msg_name(h->type));
    else if (handle(c, (enum dp_msg_type)h->type, body, h->body_len, &err) == 0)
        return;
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
