/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection of the daemon: frames in, frames out, limits and deadlines. */
#ifndef DP_DAEMON_NET_CONN_H
#define DP_DAEMON_NET_CONN_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/message/msg.h"
#include "common/message/session.h"
#include "daemon/net/roles.h"
#include "daemon/net/share.h"

struct dp_conn;
struct dp_conn_set;

struct dp_conn_ops {
    /* A frame that this role may send, in our own version. body is valid during the call only. */
    void (*frame)(struct dp_conn *c, const struct dp_header *h, const uint8_t *body);
    /* Called once, when the connection ends for whatever reason; c is freed a little later. */
    void (*closed)(struct dp_conn *c, const char *why);
    /* An outgoing connection is up. May be NULL. */
    void (*connected)(struct dp_conn *c);
    /* All that was queued has been sent. May be NULL. */
    void (*drained)(struct dp_conn *c);
    /* What a caller said of who it is may be looked at. NULL where there are none. */
    void (*turn)(struct dp_conn *c);
};

struct dp_conn {
    struct dp_conn *next, *prev;
    struct dp_conn_set *set;
    const struct dp_conn_ops *ops;
    void *owner;          /* of whoever made it */
    void *data;           /* the worker or peer behind it */
    enum dp_role role;
    uid_t uid;
    pid_t pid;
    char node[64];        /* peers: name that their credential sealed */
    bool is_closed, has_session, is_finishing;
    bool is_held, is_throttled; /* not read from: until whoever made it says so; until its user's share is refilled */
    bool is_in_line, is_in_turn; /* a caller who has said who it is: waits to be looked at, is looked at */
    bool has_asked;             /* and has its answer, unless it is held */
    struct dp_share *share;     /* of its user, or of the address that a caller is from; NULL: not held to one */
    uint64_t heard_ns;          /* last whole frame, or accepted */
    uint32_t address;           /* IPv4 of a TCP connection that was accepted, network order; else 0 */
    uint32_t seq_out;
    uint16_t version;     /* that is spoken here, 0: nothing was heard so far */
    uint16_t spoken;      /* of the peer's newest frame: a newer one, until it has our first answer */
    struct dp_session session;
    struct bufferevent *bev;
    struct event *deadline;
};

/* All connections, for the caps. Daemons and root have places of their own; a quarter of what is for users is kept for
 * those who own a run here. Where there is no place left the oldest connection goes that nobody uses. */
struct dp_conn_set {
    struct event_base *base;
    struct dp_conn *first;
    uint32_t n, max, max_per_uid; /* max: of users */
    uid_t daemon_uid;
    bool (*owns_run)(void *arg, uid_t uid); /* NULL: nobody does */
    void *arg;                              /* of owns_run */
    struct dp_share *shares, *sources; /* of users; of IPv4 addresses */
    uint32_t n_in_line; /* callers */
    bool is_serving;    /* them */
    uint64_t n_refused;
    uint64_t log_from_ns; /* refusals are logged at a limited rate: peers can cause them */
    uint32_t n_logged;
};

/* Take over a connected (or connecting) socket. returns NULL, with the socket closed, when memory or
 * the caps say so. */
struct dp_conn *dp_conn_create(struct dp_conn_set *set, int fd, enum dp_role role, uid_t uid,
                               const struct dp_conn_ops *ops, void *owner);
void dp_conn_close(struct dp_conn *c, const char *why);
/* Now it is known who it is. returns false when he has no place; the caller refuses it then. */
bool dp_conn_set_uid(struct dp_conn *c, uid_t uid);
void dp_conn_leave_place(struct dp_conn *c); /* it is closed, or counts against somebody else from now on */
/* A caller from this address, who has not said yet who he is: is there a place? A silent one may go for it. */
bool dp_conn_has_place_for(struct dp_conn_set *set, uint32_t address);
void dp_conn_set_address(struct dp_conn *c, uint32_t address); /* he has it */
/* He has said who he is, and waits for his turn (ops), which may come at once. Each address has its own line, those
 * where daemons have come from are served first. */
void dp_conn_line_up(struct dp_conn *c);
void dp_conn_serve_line(struct dp_conn_set *set);
bool dp_conn_has_frame(const struct dp_conn *c); /* a whole frame has come that we have not looked at */
void dp_conn_know_address(struct dp_conn_set *set, uint32_t address); /* a daemon has been heard from there */
/* Called about every 100 ms: who waited for his share goes on. */
void dp_conn_tick(struct dp_conn_set *set);
/* Is this the warning about peers that may still be logged this second? The caller logs it then. */
bool dp_conn_may_warn(struct dp_conn_set *set);
/* The same for a peer that did wrong: counted, and logged at a limited rate. */
void dp_conn_refuse(struct dp_conn *c, const char *why);
/* The same, and tell the peer why in an ACK before. */
void dp_conn_refuse_telling(struct dp_conn *c, const char *why);
/* Close when everything queued has been sent, read nothing more. */
void dp_conn_finish(struct dp_conn *c);
void dp_conn_close_all(struct dp_conn_set *set, const char *why);

/* The peer must send its next whole frame within so many seconds, 0: no deadline. */
void dp_conn_set_deadline(struct dp_conn *c, double seconds);
#define DP_CONN_DEADLINE "deadline passed" /* why a connection is closed that missed it */
/* Stop and go on reading: what arrives meanwhile waits in the kernel. */
void dp_conn_hold(struct dp_conn *c);
void dp_conn_resume(struct dp_conn *c);

/* Queue a frame, in the peer's version (msg.h); what that has not is left out. A peer that does not read is closed. */
void dp_conn_send(struct dp_conn *c, enum dp_msg_type type, const void *body, size_t bytes);
size_t dp_conn_unsent(const struct dp_conn *c); /* bytes that are queued */
/* The peer that we called speaks this. */
void dp_conn_set_version(struct dp_conn *c, uint16_t version);
/* For conn.c: is this frame of the version that is spoken here? The first one settles it. And give it to whoever handles
 * it, in our own version. */
int dp_conn_agree(struct dp_conn *c, const struct dp_header *h, struct dp_err *err);
void dp_conn_hand_over(struct dp_conn *c, struct dp_header *h, const uint8_t *body);
/* From the next frame on, in both directions, frames carry tags. */
void dp_conn_start_session(struct dp_conn *c, const struct dp_handshake *hs, bool is_acceptor);

/* Encode and queue: DP_CONN_SEND(conn, ack, DP_MSG_ACK, &ack). */
#define DP_CONN_SEND(conn, name, type, msg)                                                        \
    do {                                                                                           \
        uint8_t dp_frame_body[DP_BODY_MAX];                                                        \
        struct dp_writer dp_frame_writer;                                                          \
        dp_writer_init(&dp_frame_writer, dp_frame_body, sizeof dp_frame_body);                     \
        dp_msg_##name##_encode(&dp_frame_writer, (msg));                                           \
        dp_conn_send((conn), (type), dp_frame_body, dp_writer_used(&dp_frame_writer));             \
    } while (0)

#endif
