/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the transfer: one stream, what its two ends (transfer_send.c, transfer_receive.c) and transfer.c share. */
#ifndef DP_WORKER_HANDOVER_TRANSFER_INTERNAL_H
#define DP_WORKER_HANDOVER_TRANSFER_INTERNAL_H

#include <openssl/evp.h>

#include "worker/handover/transfer.h"

#define CHUNK_HEAD 32u    /* magic u32, migration u64, layer u32, offset u64, len u32, crc32c u32 */
#define MANIFEST_BYTES 64u /* magic u32, migration u64, layer u32, bytes u64, state u64, digest */
#define ACCEPT_BYTES 17u  /* magic u32, migration u64, layer u32, yes u8 */
#define END_BYTES 20u     /* magic u32, migration u64, chunks u64 */
#define TRANSFER_MAGIC 0x44505348u /* "DPSH" */

/* One chunk in flight; outlives its stream when a stuck peer still holds on to it. */
struct dp_chunk {
    struct dp_chunk *next;
    struct dp_transport_request *x; /* NULL: not in flight */
    uint32_t len;      /* payload bytes */
    uint8_t bytes[CHUNK_HEAD + DP_TRANSFER_CHUNK];
};

enum stream_state {
    STREAM_NEXT,     /* between two layers */
    STREAM_MANIFEST, /* in: waits for it */
    STREAM_ACCEPT,   /* out: waits for it */
    STREAM_CHUNKS,
    STREAM_DONE,
    STREAM_FAILED,
};

struct dp_stream {
    bool is_out, has_end; /* has_end: stopping, and END was posted (in) or sent (out) */
    bool has_total;       /* in: END came, n_total is the number of chunks to take */
    uint32_t peer;
    enum stream_state state;
    uint32_t layer;   /* index of the current layer; n_layers before the first */
    uint32_t n_begun; /* layers, the current one included */
    uint64_t n_posted, n_done, n_total; /* chunks since the stream began */
    uint64_t bytes, posted, finished;   /* of the current layer */
    uint64_t begin_chunk;               /* n_posted when the layer began */
    uint8_t *data;                      /* the current layer */
    uint8_t digest[DP_DIGEST_BYTES];    /* what the manifest says */
    EVP_MD_CTX *sha;
    struct dp_chunk *window[DP_TRANSFER_WINDOW];
    uint8_t ctl_in[MANIFEST_BYTES];
    uint8_t ctl_out[MANIFEST_BYTES];
    struct dp_transport_request *ctl_in_x, *ctl_out_x;
};

/* Index part of a tag: which message of the stream. */
enum stream_message { MSG_CHUNK, MSG_MANIFEST, MSG_ACCEPT, MSG_END };
/* n: of chunks the position in the stream, of manifests and acceptances the layer's turn. Unlike any other tag under
 * way: positions repeat after 2,048 and 512, far beyond DP_TRANSFER_WINDOW, migrations after 16, and epoch and step
 * are in the tag, too. */
uint64_t dp_stream_tag(const struct dp_transfer *s, enum stream_message what, uint64_t n);

/* Is the transfer over? 1: yes, fine, *x is NULL now; 0: not yet; -1: it failed, *x is NULL. */
int dp_stream_reap(struct dp_transfer *s, uint32_t peer, struct dp_transport_request **x, struct dp_err *err);
/* Send a short message (copied), after the one before it is out. */
int dp_stream_control(struct dp_transfer *s, struct dp_stream *st, enum stream_message what, uint64_t n,
                      const void *message, uint32_t bytes, struct dp_err *err);
/* The chunk buffer of position n, made on first use. */
struct dp_chunk *dp_stream_chunk(struct dp_stream *st, uint64_t n, struct dp_err *err);
/* Index of the stream's next layer after st->layer, n_layers when there is none. */
uint32_t dp_stream_next_layer(const struct dp_transfer *s, const struct dp_stream *st);
int dp_stream_hash_begin(struct dp_stream *st, struct dp_err *err);
int dp_stream_hash_end(struct dp_stream *st, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err);

/* One step of one end: 1 when something happened, 0 nothing now, -1 failed. */
int dp_stream_step_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);
int dp_stream_step_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);
/* Stopping: 1 when this end is done with the stream, 0 not yet, -1 failed. */
int dp_stream_stop_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);
int dp_stream_stop_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);

#endif
