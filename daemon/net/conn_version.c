/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions of the protocol on a connection: common/message/msg.h says the rule. Frames are turned into our own version as they
 * come in and into the peer's as they go out (conn.c), so nothing else in the daemon knows of others.
 */
#include "config.h"

#include "daemon/net/conn.h"

#include "common/log.h"

/* The first frame says what the peer speaks. One that called us on TCP was told ours before, and chose. */
int dp_conn_agree(struct dp_conn *c, const struct dp_header *h, struct dp_err *err)
{
    bool is_tcp = c->role == DP_ROLE_TCP_IN || c->role == DP_ROLE_TCP_OUT;

    if (!c->version) {
        c->version = is_tcp && h->version > DP_PROTO_VERSION ? 0 : dp_proto_agree(h->version);
        c->spoken = h->version;
    }
    if (!c->version || (h->version != c->spoken && h->version != c->version))
        return dp_err_set(err, DP_EPROTO, "protocol version %u on a connection that uses version %u", h->version,
                          c->version ? c->version : DP_PROTO_VERSION);
    c->spoken = h->version;
    return 0;
}

void dp_conn_set_version(struct dp_conn *c, uint16_t version)
{
    c->version = c->spoken = version;
}

/* To whoever handles it a frame is of our own version. */
void dp_conn_hand_over(struct dp_conn *c, struct dp_header *h, const uint8_t *body)
{
    uint8_t own[DP_BODY_MAX];
    struct dp_err err = {0};
    size_t bytes;
    int rc;

    if (h->version == DP_PROTO_VERSION) {
        c->ops->frame(c, h, body);
        return;
    }
    rc = dp_msg_recode(h->type, h->version, body, h->body_len, DP_PROTO_VERSION, own, sizeof own, &bytes, &err);
    if (rc < 0) {
        dp_conn_refuse(c, err.text);
        return;
    }
    if (rc > 0) { /* a worker's on another node, whose daemon looked at it no more than we do */
        dp_debug("%s of node %s is not readable", dp_msg_name(h->type), c->node);
        return;
    }
    h->version = DP_PROTO_VERSION;
    h->body_len = (uint32_t)bytes;
    c->ops->frame(c, h, own);
}
