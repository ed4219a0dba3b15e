/* SPDX-License-Identifier: BSD-3-Clause */
/* See roles.h: what is not in the table is refused. */
#include "daemon/net/roles.h"

#include "common/message/msg.h"

#define BIT(type) (UINT64_C(1) << (type))

static const struct {
    const char *name;
    uint64_t may_send;
} roles[DP_N_ROLES] = {
    [DP_ROLE_LOCAL] = {"local", BIT(DP_MSG_HELLO) | BIT(DP_MSG_CARD) | BIT(DP_MSG_QUERY) | BIT(DP_MSG_COMMAND) |
                                    BIT(DP_MSG_CHECK)},
    [DP_ROLE_PLUGIN] = {"plugin", BIT(DP_MSG_STEP_START) | BIT(DP_MSG_STEP_END) | BIT(DP_MSG_TASKS) |
                                      BIT(DP_MSG_HELLO) | BIT(DP_MSG_CARD) | BIT(DP_MSG_QUERY) | BIT(DP_MSG_COMMAND) | BIT(DP_MSG_CHECK)},
    [DP_ROLE_WORKER] = {"worker", BIT(DP_MSG_HELLO) | BIT(DP_MSG_REPORT) | BIT(DP_MSG_VOTE) |
                                      BIT(DP_MSG_DECISION_ACK) | BIT(DP_MSG_GOODBYE) | BIT(DP_MSG_EVENT) |
                                      BIT(DP_MSG_PONG) | BIT(DP_MSG_CARD) | BIT(DP_MSG_EXPECT)},
    [DP_ROLE_WIRER] = {"worker to be", BIT(DP_MSG_CARD)},
    [DP_ROLE_TCP_IN] = {"caller", BIT(DP_MSG_AUTH)},
    [DP_ROLE_TCP_OUT] = {"listener", BIT(DP_MSG_CHALLENGE) | BIT(DP_MSG_AUTH_OK) | BIT(DP_MSG_ACK)},
    [DP_ROLE_PEER] = {"daemon", BIT(DP_MSG_RELAY) | BIT(DP_MSG_WORKER_LOST) | BIT(DP_MSG_STOP_SLOT) |
                                    BIT(DP_MSG_SLOT_GONE) | BIT(DP_MSG_JOIN) | BIT(DP_MSG_TASKS) |
                                    BIT(DP_MSG_ROSTER) | BIT(DP_MSG_WIREUP) | BIT(DP_MSG_FIND_WORKER) |
                                    BIT(DP_MSG_SLICE) | BIT(DP_MSG_SLICE_RANK)},
    [DP_ROLE_CLI] = {"command", BIT(DP_MSG_QUERY) | BIT(DP_MSG_COMMAND) | BIT(DP_MSG_CHECK)},
};

bool dp_role_may_send(enum dp_role role, uint16_t type)
{
    return role < DP_N_ROLES && type < 64 && (roles[role].may_send & BIT(type)) != 0;
}

const char *dp_role_name(enum dp_role role)
{
    return role < DP_N_ROLES ? roles[role].name : "?";
}
