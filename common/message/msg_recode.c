/* SPDX-License-Identifier: BSD-3-Clause */
/* See msg.h: bodies of other versions. Whoever passes bodies on without reading them (the daemon, between workers and
 * other daemons) turns them into its own version where they come in and into the peer's where they go out, so
 * nothing in between knows of versions. */
#include "common/message/msg.h"

#include <string.h>

union message {
#define MEMBER(name, NAME, type, since, kind) struct dp_msg_##name name;
    DP_MESSAGES(MEMBER)
};

/* The inner body, which must outlive the RELAY's encoding. It is whatever a worker said, who may mean harm. */
static int recode_inner(struct dp_msg_relay *m, uint16_t from, uint16_t to, uint8_t room[DP_BODY_MAX])
{
    size_t bytes;

    if (dp_msg_since(m->inner_type) > from ||
        dp_msg_recode(m->inner_type, from, m->inner, m->inner_len, to, room, DP_BODY_MAX, &bytes, NULL) != 0)
        return 1;
    m->inner = room;
    m->inner_len = (uint32_t)bytes;
    return 0;
}

int dp_msg_recode(uint16_t type, uint16_t from, const uint8_t *body, size_t bytes, uint16_t to, uint8_t *out, size_t cap,
                  size_t *out_bytes, struct dp_err *err)
{
    uint8_t inner[DP_BODY_MAX];
    union message m;
    struct dp_reader r;
    struct dp_writer w;
    int rc;

    if (dp_msg_since(type) > to)
        return 1;
    dp_writer_init(&w, out, cap);
    w.version = to;
    if (from == to) {
        dp_wr_bytes(&w, body, bytes);
        *out_bytes = dp_writer_used(&w);
        return w.bad ? dp_err_set(err, DP_EPROTO, "%s: %zu bytes", dp_msg_name(type), bytes) : 0;
    }
    dp_reader_init(&r, body, bytes);
    r.version = from;
    switch (type) {
#define CASE(name, NAME, number, since, kind)                                                      \
    case number:                                                                                   \
        rc = dp_msg_##name##_decode(&r, &m.name, err);                                             \
        if (rc == 0 && (number) == DP_MSG_RELAY)                                                   \
            rc = recode_inner(&m.relay, from, to, inner);                                          \
        if (rc == 0)                                                                               \
            dp_msg_##name##_encode(&w, &m.name);                                                   \
        break;
        DP_MESSAGES(CASE)
    default:
        rc = dp_err_set(err, DP_EPROTO, "unknown message type %u", type);
    }
    *out_bytes = dp_writer_used(&w);
    if (rc == 0 && w.bad)
        rc = dp_err_set(err, DP_EPROTO, "%s: does not fit", dp_msg_name(type));
    return rc;
}
