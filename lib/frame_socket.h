/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection to the daemon: a non-blocking unix stream that carries frames (common/message/msg.h).
 *
 * Knows framing and buffers, nothing of what the messages mean; lib/control_receive.c does. Both buffers
 * are bounded: a frame that finds no room is not queued, and the caller decides what that means.
 */
#ifndef DP_LIB_FRAME_SOCKET_H
#define DP_LIB_FRAME_SOCKET_H

#include <stdbool.h>

#include "common/message/msg.h"

#define DP_FRAME_SOCKET_RX_BYTES (DP_HEADER_BYTES + DP_BODY_MAX)
#define DP_FRAME_SOCKET_TX_BYTES (2 * (DP_HEADER_BYTES + DP_BODY_MAX)) /* two of the largest frames */

struct dp_frame_socket {
    int fd; /* -1: closed */
    uint16_t version; /* that is spoken; until the daemon has said a word, the one that is tried */
    uint16_t offered; /* the daemon's highest, 0: it is of release 0.1.0, or has not said a word */
    bool has_heard;
    uint32_t seq;
    size_t rx_used, tx_begin, tx_end;
    size_t rx_frame;       /* bytes of the frame that dp_frame_socket_next() gave out last */
    uint64_t queued, sent; /* bytes since the connection was opened */
    uint8_t rx[DP_FRAME_SOCKET_RX_BYTES], tx[DP_FRAME_SOCKET_TX_BYTES];
};

/* Closed, nothing queued, in our own version. Frees nothing: one that is open is closed first. */
void dp_frame_socket_init(struct dp_frame_socket *l);
/* version: to begin with (msg.h).
 * Connect; a unix socket connects or refuses at once. The plugin may have seen nobody there, so who serves it is looked
 * at here, too (common/file/trust.h). */
int dp_frame_socket_open(struct dp_frame_socket *l, const char *path, uint16_t version, struct dp_err *err);
/* What is queued and what has come is lost. Closing what is closed does nothing. */
void dp_frame_socket_close(struct dp_frame_socket *l);

/* Take what has arrived, as far as it fits. -1: the peer closed or the socket failed. */
int dp_frame_socket_read(struct dp_frame_socket *l, struct dp_err *err);

typedef bool dp_frame_allow_fn(void *arg, uint16_t type);

/* The next whole frame. The type is asked of `allow` as soon as the header is there, before the body
 * is waited for. returns 1 and *h, *body (borrowed until the next call), 0 when more bytes are
 * needed, -1 with DP_EPROTO. */
int dp_frame_socket_next(struct dp_frame_socket *l, dp_frame_allow_fn *allow, void *arg, struct dp_header *h,
                         const uint8_t **body, struct dp_err *err);

/* Queue a frame: begin, encode the body into *w, end. returns false when it does not fit. What the daemon's version has
 * not is left out. */
void dp_frame_socket_begin(struct dp_frame_socket *l, struct dp_writer *w);
bool dp_frame_socket_end(struct dp_frame_socket *l, const struct dp_writer *w, uint16_t type);

/* Write what is queued, as far as the socket takes it. */
int dp_frame_socket_flush(struct dp_frame_socket *l, struct dp_err *err);
bool dp_frame_socket_has_output(const struct dp_frame_socket *l);

#endif
