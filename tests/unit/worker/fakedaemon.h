/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon's end of the control connection for tests: a real unix socket, real frames, no opinion. */
#ifndef DP_TESTS_FAKEDAEMON_H
#define DP_TESTS_FAKEDAEMON_H

#include <sys/types.h>

#include "common/message/msg.h"

struct fake_daemon {
    char dir[64], path[96];
    int listen_fd;
};

/* One worker's connection, with what it has sent so far. */
struct fake_peer {
    int fd;
    uint32_t seq, last_seq; /* of what we send, of what it sent */
    uint16_t version;       /* of what we send, 0: our own */
    size_t used, frame;
    uint8_t rx[2 * 65536];
};

/* A socket in a new directory under $TMPDIR or /tmp. */
void fake_daemon_start(struct fake_daemon *d);
void fake_daemon_stop(struct fake_daemon *d);    /* closes and removes */
/* The daemon dies: the path stays, and nobody listens once every process that has inherited the socket has called this. */
void fake_daemon_close(struct fake_daemon *d);
bool fake_daemon_is_dead(const struct fake_daemon *d); /* would a worker that connects be refused? */
void fake_daemon_relisten(struct fake_daemon *d);

/* Accept within ms; -1 when nobody came. */
int fake_accept(struct fake_daemon *d, struct fake_peer *p, int ms);
void fake_close(struct fake_peer *p);

/* The next frame that the worker sent: 1, 0 when none came within ms, -1 closed. body is borrowed. */
int fake_next(struct fake_peer *p, int ms, struct dp_header *h, const uint8_t **body);

/* Build a frame into out (DP_HEADER_BYTES + DP_BODY_MAX bytes); returns its size. */
size_t fake_frame(struct fake_peer *p, uint16_t type, const void *body, size_t bytes, uint8_t *out);
void fake_send_raw(struct fake_peer *p, const void *data, size_t bytes);
void fake_send_body(struct fake_peer *p, uint16_t type, const void *body, size_t bytes);

#define FAKE_SEND(peer, name, type, msg)                                                           \
    do {                                                                                           \
        static uint8_t fake_body[DP_BODY_MAX];                                                     \
        struct dp_writer fake_w;                                                                   \
        dp_writer_init(&fake_w, fake_body, sizeof fake_body);                                      \
        fake_w.version = (peer)->version;                                                          \
        dp_msg_##name##_encode(&fake_w, (msg));                                                    \
        fake_send_body((peer), (type), fake_body, dp_writer_used(&fake_w));                        \
    } while (0)

void fake_welcome(struct fake_peer *p, uint8_t verdict, const char *lock, const char *text);

#endif
