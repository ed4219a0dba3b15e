/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints doc/messages.md from the field lists of common/msg.h, so that the byte tables cannot differ
 * from the codecs. tests/unit/messages-doc.t compares; after a change of a message:
 *   make doc/print_messages && doc/print_messages > doc/messages.md */
#include <stdio.h>

#include "common/msg.h"

static const char *const encoding[][2] = {
    {"u8", "1"},       {"u16", "2"},           {"u32", "4"},           {"u64", "8"},
    {"f64", "8"},      {"s64", "2 + up to 63"}, {"s256", "2 + up to 255"}, {"s1k", "2 + up to 1023"},
    {"s4k", "2 + up to 4095"}, {"digest", "32"},
};

static const char *bytes_of(const char *kind)
{
    for (size_t i = 0; i < sizeof encoding / sizeof encoding[0]; i++) {
        const char *a = encoding[i][0], *b = kind;

        while (*a && *a == *b)
            a++, b++;
        if (*a == *b)
            return encoding[i][1];
    }
    return "?";
}

#define ROW(kind, name, doc) printf("| %s | %s | %s | %s |\n", #name, #kind, bytes_of(#kind), doc);

/* What later versions put behind it. */
#define LATER(version, FIELDS)                                                                     \
    printf("\nFrom version %d on, at the end:\n\n| field | kind | bytes | meaning |\n|---|---|---|---|\n", version); \
    FIELDS(ROW)

#define TABLE(type, FIELDS)                                                                        \
    printf("\n## %s (type %d, at most %u bytes%s)\n\n| field | kind | bytes | meaning |\n|---|---|---|---|\n", \
           dp_msg_name(type), type, dp_msg_max_body(type),                                         \
           dp_msg_since(type) == 3 ? ", from version 3 on" : "");                                  \
    FIELDS(ROW)

int main(void)
{
    printf("# Messages\n\n"
           "Printed by doc/print_messages from common/msg.h; do not edit. Numbers are big-endian; a text is a "
           "u16 length and that many bytes without control characters; a digest is 32 raw bytes.\n\n"
           "Every frame begins with 16 bytes: magic 0x%08x (\"DYNP\"), version u16 (%d), type u16, body_len u32, "
           "seq u32. protocol.md says how versions meet.\n",
           DP_MAGIC, DP_PROTO_VERSION);
    TABLE(DP_MSG_STEP_START, DP_STEP_START_FIELDS)
    LATER(3, DP_STEP_START_SINCE_3)
    TABLE(DP_MSG_STEP_END, DP_STEP_END_FIELDS)
    TABLE(DP_MSG_ACK, DP_ACK_FIELDS)
    TABLE(DP_MSG_TASKS, DP_TASKS_FIELDS)
    printf("\nThen count pairs of u32: rank in the step, and pid.\n");
    TABLE(DP_MSG_HELLO, DP_HELLO_FIELDS)
    printf("\nThen n_workers + 1 cuts, u32 each: the layout in force in the worker.\n");
    LATER(3, DP_HELLO_SINCE_3)
    TABLE(DP_MSG_WELCOME, DP_WELCOME_FIELDS)
    TABLE(DP_MSG_REPORT, DP_REPORT_FIELDS)
    printf("\nThen for each of the n_layers layers seven u64: fwd_ns, bwd_input_ns, bwd_weight_ns, state_bytes, "
           "act_bytes, params, nnz (struct dp_layer_load).\n");
    LATER(3, DP_REPORT_SINCE_3)
    TABLE(DP_MSG_PREPARE, DP_PREPARE_FIELDS)
    printf("\nThen n_workers + 1 cuts, u32 each, and n_workers bytes `gone`: the layout that a commit puts in force.\n");
    TABLE(DP_MSG_VOTE, DP_VOTE_FIELDS)
    TABLE(DP_MSG_DECISION, DP_DECISION_FIELDS)
    TABLE(DP_MSG_DECISION_ACK, DP_DECISION_ACK_FIELDS)
    TABLE(DP_MSG_FINISH, DP_FINISH_FIELDS)
    TABLE(DP_MSG_GOODBYE, DP_GOODBYE_FIELDS)
    LATER(3, DP_GOODBYE_SINCE_3)
    TABLE(DP_MSG_SAVE, DP_SAVE_FIELDS)
    TABLE(DP_MSG_EVENT, DP_EVENT_FIELDS)
    TABLE(DP_MSG_PING, DP_PING_FIELDS)
    TABLE(DP_MSG_PONG, DP_PONG_FIELDS)
    TABLE(DP_MSG_LIMIT, DP_LIMIT_FIELDS)
    TABLE(DP_MSG_CARD, DP_CARD_FIELDS)
    printf("\nThen key_len bytes of key and card_len bytes of card.\n");
    TABLE(DP_MSG_ROSTER, DP_ROSTER_FIELDS)
    printf("\nThen cards_len bytes: count cards, each a u16 length and that many bytes.\n");
    TABLE(DP_MSG_WIREUP, DP_WIREUP_FIELDS)
    printf("\nThen key_len bytes of key.\n");
    TABLE(DP_MSG_RELAY, DP_RELAY_FIELDS)
    printf("\nThen inner_len bytes: the body of the relayed message.\n");
    LATER(3, DP_RELAY_SINCE_3)
    TABLE(DP_MSG_WORKER_LOST, DP_WORKER_LOST_FIELDS)
    TABLE(DP_MSG_STOP_SLOT, DP_STOP_SLOT_FIELDS)
    LATER(3, DP_STOP_SLOT_SINCE_3)
    TABLE(DP_MSG_SLOT_GONE, DP_SLOT_GONE_FIELDS)
    TABLE(DP_MSG_JOIN, DP_JOIN_FIELDS)
    TABLE(DP_MSG_QUERY, DP_QUERY_FIELDS)
    TABLE(DP_MSG_ANSWER, DP_ANSWER_FIELDS)
    printf("\nThen json_len bytes of UTF-8: a piece of one JSON document.\n");
    TABLE(DP_MSG_COMMAND, DP_COMMAND_FIELDS)
    TABLE(DP_MSG_CHECK, DP_CHECK_FIELDS)
    TABLE(DP_MSG_CHALLENGE, DP_CHALLENGE_FIELDS)
    TABLE(DP_MSG_AUTH, DP_AUTH_FIELDS)
    TABLE(DP_MSG_AUTH_OK, DP_AUTH_OK_FIELDS)
    return 0;
}
