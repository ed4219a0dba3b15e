/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints doc/messages.md from the field lists of common/message/msg.h, so that the byte tables cannot differ
 * from the codecs. tests/unit/messages-doc.t compares; after a change of a message:
 *   make doc/print_messages && doc/print_messages > doc/messages.md */
#include <stdio.h>

#include "common/message/msg.h"

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

#define TABLE(NAME)                                                                                \
    printf("\n## %s (type %d, at most %u bytes%s)\n\n| field | kind | bytes | meaning |\n|---|---|---|---|\n", \
           dp_msg_name(DP_MSG_##NAME), DP_MSG_##NAME, dp_msg_max_body(DP_MSG_##NAME),              \
           dp_msg_since(DP_MSG_##NAME) == 3 ? ", from version 3 on" : "");                         \
    DP_##NAME##_FIELDS(ROW)

/* More than a table. */
#define PRINT_ACK                                                                                  \
    TABLE(ACK)
#define PRINT_TASKS                                                                                \
    TABLE(TASKS)                                                                                   \
    printf("\nThen count pairs of u32: rank in the step, and pid.\n");
#define PRINT_HELLO                                                                                \
    TABLE(HELLO)                                                                                   \
    printf("\nThen n_workers + 1 cuts, u32 each: the layout in force in the worker.\n");           \
    LATER(3, DP_HELLO_SINCE_3)                                                                     \
    printf("\nThen n_changes changes, by step: kind u8 (1: prune, value: sparsity of the prunable weights from then on; 2: freeze, " \
           "value: layers from layer 0 on that only go forward from then on), step u64, value f64. Of a HELLO of version 1 the " \
           "list is made: prunings from prune_begin to prune_end, by a cubic from 0 to final_sparsity.\n");
#define PRINT_REPORT                                                                               \
    TABLE(REPORT)                                                                                  \
    printf("\nThen for each of the n_layers layers seven u64: fwd_ns, bwd_input_ns, bwd_weight_ns, state_bytes, " \
           "act_bytes, params, nnz (struct dp_layer_load).\n");                                    \
    LATER(3, DP_REPORT_SINCE_3)
#define PRINT_PREPARE                                                                              \
    TABLE(PREPARE)                                                                                 \
    printf("\nThen n_workers + 1 cuts, u32 each, and n_workers bytes `gone`: the layout that a commit puts in force.\n"); \
    LATER(3, DP_PREPARE_SINCE_3)
#define PRINT_REGROUP                                                                              \
    TABLE(REGROUP)                                                                                 \
    printf("\nThen n_workers + 1 cuts, u32 each, and n_workers bytes `gone`.\n");
#define PRINT_EXPECT                                                                               \
    TABLE(EXPECT)                                                                                  \
    printf("\nThen for each of the n_layers layers seven u64, as in REPORT.\n");
#define PRINT_PROPOSAL                                                                             \
    TABLE(PROPOSAL)                                                                                \
    printf("\nThen n_workers + 1 cuts, u32 each, and n_workers bytes `gone`.\n");
#define PRINT_GOODBYE                                                                              \
    TABLE(GOODBYE)                                                                                 \
    LATER(3, DP_GOODBYE_SINCE_3)
#define PRINT_CARD                                                                                 \
    TABLE(CARD)                                                                                    \
    printf("\nThen key_len bytes of key and card_len bytes of card.\n");
#define PRINT_ROSTER                                                                               \
    TABLE(ROSTER)                                                                                  \
    printf("\nThen cards_len bytes: count cards, each a u16 length and that many bytes.\n");
#define PRINT_WIREUP                                                                               \
    TABLE(WIREUP)                                                                                  \
    printf("\nThen key_len bytes of key.\n");
#define PRINT_RELAY                                                                                \
    TABLE(RELAY)                                                                                   \
    printf("\nThen inner_len bytes: the body of the relayed message.\n");                          \
    LATER(3, DP_RELAY_SINCE_3)
#define PRINT_ANSWER                                                                               \
    TABLE(ANSWER)                                                                                  \
    printf("\nThen json_len bytes of UTF-8: a piece of one JSON document.\n");

#define PRINT_PLAIN(NAME) TABLE(NAME)
#define PRINT_PLAIN_3(NAME) TABLE(NAME) LATER(3, DP_##NAME##_SINCE_3)
#define PRINT_OWN(NAME) PRINT_##NAME
#define PRINT(name, NAME, number, since, kind) PRINT_##kind(NAME)

int main(void)
{
    printf("# Messages\n\n"
           "Printed by doc/print_messages from common/message/msg.h; do not edit. Numbers are big-endian; a text is a "
           "u16 length and that many bytes without control characters; a digest is 32 raw bytes.\n\n"
           "Every frame begins with 16 bytes: magic 0x%08x (\"DYNP\"), version u16 (%d), type u16, body_len u32, "
           "seq u32. protocol.md says how versions meet.\n",
           DP_MAGIC, DP_PROTO_VERSION);
    DP_MESSAGES(PRINT)
    return 0;
}
