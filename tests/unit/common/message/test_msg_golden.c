/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message against the bytes in messages_golden.h, both ways: what another release, or another program, relies on
 * does not change unnoticed. */
#include "common/message/msg.h"
#include "tests/unit/common/message/messages_golden.h"
#include "tests/unit/golden.h"

static uint8_t buf[DP_BODY_MAX], want[DP_BODY_MAX];

static size_t encoded(void (*encode)(struct dp_writer *, const void *), const void *message, uint16_t version)
{
    struct dp_writer w;

    dp_writer_init(&w, buf, sizeof buf);
    w.version = version;
    encode(&w, message);
    assert_false(w.bad);
    return dp_writer_used(&w);
}

/* Those of which messages_v1.h has the bytes, because version 3 has more fields. */
static bool has_other_bytes_in_v1(uint16_t type)
{
    return type == DP_MSG_STEP_START || type == DP_MSG_HELLO || type == DP_MSG_REPORT || type == DP_MSG_PREPARE ||
           type == DP_MSG_DECISION_ACK || type == DP_MSG_GOODBYE || type == DP_MSG_RELAY || type == DP_MSG_STOP_SLOT ||
           type == DP_MSG_WELCOME;
}

static void check(uint16_t type, void (*encode)(struct dp_writer *, const void *),
                  int (*decode)(struct dp_reader *, void *, struct dp_err *), void *back)
{
    const char *name = dp_msg_name(type);
    const struct golden *g = type < N_GOLDEN ? &golden[type] : NULL;
    struct dp_err err = {0};
    struct dp_reader r;
    size_t n;

    assert_non_null(back);
    if (!g || !g->message) {
        fail_msg("%s (type %u) has no row in messages_golden.h", name, type);
        return;
    }
    n = unhex(g->bytes, want);
    same_bytes(name, buf, encoded(encode, g->message, 0), want, n);
    same_bytes(name, buf, encoded(encode, g->message, DP_PROTO_VERSION), want, n);
    dp_reader_init(&r, want, n);
    if (decode(&r, back, &err) < 0)
        fail_msg("%s: the golden bytes are refused: %s", name, err.text);
    for (size_t i = 0; i < g->plain; i++)
        if (((const uint8_t *)back)[i] != ((const uint8_t *)g->message)[i])
            fail_msg("%s: decoded, byte %zu of the struct differs", name, i);
    same_bytes(name, buf, encoded(encode, back, 0), want, n);
    if (dp_msg_since(type) == 1 && !has_other_bytes_in_v1(type))
        same_bytes(name, buf, encoded(encode, g->message, 1), want, n);
}

#define TEST_OF(name, NAME, type, since, kind)                                                     \
    static void encode_##name(struct dp_writer *w, const void *m)                                  \
    {                                                                                              \
        dp_msg_##name##_encode(w, m);                                                              \
    }                                                                                              \
    static int decode_##name(struct dp_reader *r, void *m, struct dp_err *err)                     \
    {                                                                                              \
        return dp_msg_##name##_decode(r, m, err);                                                  \
    }                                                                                              \
    static void golden_bytes_of_##name(void **state)                                               \
    {                                                                                              \
        struct dp_msg_##name *back = malloc(sizeof *back);                                         \
                                                                                                   \
        (void)state;                                                                               \
        check(type, encode_##name, decode_##name, back);                                           \
        free(back);                                                                                \
    }
DP_MESSAGES(TEST_OF)

/* A type that exists, but is not in DP_MESSAGES, would be walked by no test. */
static void every_type_has_golden_bytes(void **state)
{
    (void)state;
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        if (dp_msg_max_body((uint16_t)type) && (type >= N_GOLDEN || !golden[type].message))
            fail_msg("%s (type %u) has no row in messages_golden.h", dp_msg_name((uint16_t)type), type);
        if (type < N_GOLDEN && golden[type].message && !dp_msg_max_body((uint16_t)type))
            fail_msg("messages_golden.h has a row for type %u, which does not exist", type);
    }
}

static void the_header_has_its_bytes(void **state)
{
    struct dp_header h = {.version = DP_PROTO_VERSION, .type = DP_MSG_VOTE, .body_len = 0x0110, .seq = 0x00030007}, back = {0};
    struct dp_err err;
    uint8_t is[DP_HEADER_BYTES], should[DP_HEADER_BYTES];

    (void)state;
    assert_int_equal(unhex("44594e50" /* DYNP */ "0003" /* version */ "000e" /* VOTE */ "00000110" /* body_len */ "00030007" /* seq */,
                           should), sizeof should);
    dp_header_encode(is, &h);
    same_bytes("the header", is, sizeof is, should, sizeof should);
    assert_int_equal(dp_header_decode(should, &back, &err), 0);
    assert_true(back.version == h.version && back.type == h.type && back.body_len == h.body_len && back.seq == h.seq);
}

#define ROW_OF(name, NAME, type, since, kind) cmocka_unit_test(golden_bytes_of_##name),
static const struct CMUnitTest tests[] = {
    DP_MESSAGES(ROW_OF)
    cmocka_unit_test(every_type_has_golden_bytes),
    cmocka_unit_test(the_header_has_its_bytes),
};
TEST_MAIN("msg_golden", tests)
