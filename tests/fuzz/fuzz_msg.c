/* SPDX-License-Identifier: BSD-3-Clause */
/* Frame header and body of every message, in every version: the header says which. What decodes must encode to the very
 * bytes it came from: there is one form of each message in a version, so nothing in it is skipped or read twice. Only a
 * newer peer's may go on behind that. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/message/msg.h"

const char fuzz_name[] = "fuzz_msg";

static uint8_t encoded[DP_BODY_MAX];

static void check_same(uint16_t version, const uint8_t *body, size_t bytes, const struct dp_writer *w)
{
    size_t used = dp_writer_used(w);

    if (version > DP_PROTO_VERSION && bytes > used)
        bytes = used;
    if (w->bad || used != bytes || (bytes && memcmp(encoded, body, bytes)))
        fuzz_die("a decoded message encodes to other bytes");
}

static void decode(uint16_t version, uint16_t type, const uint8_t *body, size_t bytes)
{
    struct dp_reader r;
    struct dp_writer w;
    struct dp_err err;

    dp_reader_init(&r, body, bytes);
    r.version = version;
    dp_writer_init(&w, encoded, sizeof encoded);
    w.version = version;
    switch (type) {
#define CASE(name, NAME, number, since, kind)                                                      \
    case number: {                                                                                 \
        static struct dp_msg_##name m;                                                             \
        if (dp_msg_##name##_decode(&r, &m, &err) == 0) {                                           \
            dp_msg_##name##_encode(&w, &m);                                                        \
            if (version >= 3 || (number) != DP_MSG_ACK || encoded[0] == body[0]) /* LATER: msg.c */ \
                check_same(version, body, bytes, &w);                                              \
        }                                                                                          \
        break;                                                                                     \
    }
        DP_MESSAGES(CASE)
    default:
        fuzz_die("a header with a type that does not exist passed");
    }
}

/* As a daemon passes it on: into its own version, and into that of a peer. */
static void recode(uint16_t version, uint16_t type, const uint8_t *body, size_t bytes)
{
    static uint8_t own[DP_BODY_MAX], theirs[DP_BODY_MAX];
    struct dp_err err;
    size_t n, k;

    if (dp_msg_recode(type, version, body, bytes, DP_PROTO_VERSION, own, sizeof own, &n, &err) != 0)
        return;
    if (n > dp_msg_max_body(type))
        fuzz_die("a body grew beyond what its type may have");
    if (dp_msg_since(type) <= DP_PROTO_MIN &&
        dp_msg_recode(type, DP_PROTO_VERSION, own, n, DP_PROTO_MIN, theirs, sizeof theirs, &k, &err) < 0 &&
        version != DP_PROTO_VERSION)
        fuzz_die("a body cannot be told to an older peer");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct dp_header h;
    struct dp_err err;

    if (bytes < DP_HEADER_BYTES || dp_header_decode(data, &h, &err) < 0)
        return 0;
    if (h.body_len > bytes - DP_HEADER_BYTES)
        h.body_len = (uint32_t)(bytes - DP_HEADER_BYTES);
    decode(h.version, h.type, data + DP_HEADER_BYTES, h.body_len);
    recode(h.version, h.type, data + DP_HEADER_BYTES, h.body_len);
    return 0;
}

/* A frame whose body is that of m, in the oldest version, ours and a newer one. */
static void seed_frame(uint16_t type, uint8_t *frame, const struct dp_writer *w)
{
    static uint8_t old[DP_HEADER_BYTES + DP_BODY_MAX];
    struct dp_header h = {DP_PROTO_VERSION, type, (uint32_t)dp_writer_used(w), 7};
    size_t bytes;

    dp_header_encode(frame, &h);
    fuzz_seed(frame, DP_HEADER_BYTES + h.body_len);
    h.version = DP_PROTO_VERSION + 1;
    h.body_len += h.body_len + 4 <= DP_BODY_MAX ? 4 : 0;
    dp_header_encode(frame, &h);
    fuzz_seed(frame, DP_HEADER_BYTES + h.body_len);
    if (dp_msg_recode(type, DP_PROTO_VERSION, frame + DP_HEADER_BYTES, dp_writer_used(w), DP_PROTO_MIN,
                      old + DP_HEADER_BYTES, DP_BODY_MAX, &bytes, NULL) != 0)
        return;
    h.version = DP_PROTO_MIN;
    h.body_len = (uint32_t)bytes;
    dp_header_encode(old, &h);
    fuzz_seed(old, DP_HEADER_BYTES + h.body_len);
}

/* Counts that lead to trailing parts. */
static struct dp_msg_hello full_hello(void)
{
    struct dp_msg_hello m = {.job_id = 7, .n_workers = 4, .n_layers = 8, .steps_total = 100, .microbatches = 4};

    for (uint32_t i = 0; i <= m.n_workers; i++)
        m.cut[i] = 2 * i;
    return m;
}

static struct dp_msg_prepare full_prepare(void)
{
    struct dp_msg_prepare m = {.incarnation = 1, .migration = 2, .epoch = 3, .n_workers = 3, .n_layers = 6, .gone = {0, 0, 1}};

    for (uint32_t i = 0; i <= m.n_workers; i++)
        m.cut[i] = i < 2 ? 3 * i : 6;
    return m;
}

static struct dp_msg_regroup full_regroup(void)
{
    struct dp_msg_regroup m = {.incarnation = 1, .migration = 2, .go = 1, .epoch = 3, .n_workers = 3, .n_layers = 6, .gone = {0, 0, 1}};

    for (uint32_t i = 0; i <= m.n_workers; i++)
        m.cut[i] = i < 2 ? 3 * i : 6;
    return m;
}

void fuzz_make_seeds(void)
{
    static uint8_t frame[DP_HEADER_BYTES + DP_BODY_MAX];
    struct dp_writer w;

#define SEED(name, NAME, number, since, kind)                                                      \
    {                                                                                              \
        static struct dp_msg_##name m;                                                             \
        dp_writer_init(&w, frame + DP_HEADER_BYTES, DP_BODY_MAX);                                  \
        dp_msg_##name##_encode(&w, &m);                                                            \
        seed_frame(number, frame, &w);                                                             \
    }
#define SEED_OF(name, number, value)                                                               \
    {                                                                                              \
        const struct dp_msg_##name m = value;                                                      \
        dp_writer_init(&w, frame + DP_HEADER_BYTES, DP_BODY_MAX);                                  \
        dp_msg_##name##_encode(&w, &m);                                                            \
        seed_frame(number, frame, &w);                                                             \
    }
    DP_MESSAGES(SEED)
    SEED_OF(hello, DP_MSG_HELLO, full_hello())
    SEED_OF(prepare, DP_MSG_PREPARE, full_prepare())
    SEED_OF(regroup, DP_MSG_REGROUP, full_regroup())
    SEED_OF(report, DP_MSG_REPORT, ((struct dp_msg_report){.rank = 1, .epoch = 1, .loss = 2.5, .n_layers = 3}))
    SEED_OF(relay, DP_MSG_RELAY,
            ((struct dp_msg_relay){.job_id = 7, .inner_type = DP_MSG_VOTE, .inner_len = 4, .inner = (const uint8_t *)"abcd"}))
    SEED_OF(answer, DP_MSG_ANSWER, ((struct dp_msg_answer){.last = 1, .json_len = 2, .json = "{}"}))
    SEED_OF(check, DP_MSG_CHECK, ((struct dp_msg_check){.job_id = 7, .target = "n1"}))
    SEED_OF(command, DP_MSG_COMMAND, ((struct dp_msg_command){.verb = DP_VERB_LAYOUT, .job_id = 7, .argument = "0-3|4-7"}))
    SEED_OF(step_start, DP_MSG_STEP_START,
            ((struct dp_msg_step_start){.job_id = 7, .uid = 1000, .policy = "time", .node = "n0"}))
}
