/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the transfer: one stream, what its two ends (transfer_send.c, transfer_receive.c) and transfer.c share. */
#ifndef DP_WORKER_HANDOVER_TRANSFER_INTERNAL_H
#define DP_WORKER_HANDOVER_TRANSFER_INTERNAL_H

#include "worker/handover/transfer.h"
#include "worker/model/layer_parts.h"

/* magic u32, migration u64, layer u32, bytes u64, state u64, u32: enum presence, digest of a copy or zeroes, length u32 of the head,
 * head, zeroes */
#define MANIFEST_BYTES 1088u
#define ACCEPT_BYTES 192u  /* magic u32, migration u64, layer u32, u8: enum accept_answer, text of a no, zeroes */
#define ACCEPT_TEXT 172u   /* bytes of the text, at most */
#define END_BYTES 20u     /* magic u32, migration u64, chunks u64 */
#define TRANSFER_MAGIC 0x44505348u /* "DPSH" */
#define MANIFEST_BEFORE_HEAD (4 + 8 + 4 + 8 + 8 + 4 + DP_DIGEST_BYTES + 4)
_Static_assert(MANIFEST_BEFORE_HEAD + DP_LAYER_HEAD_MAX <= MANIFEST_BYTES, "any head fits");

/* What its destination has of a layer, as its source knows: nothing; all, from before (worker/shadow/); a copy, perhaps. */
enum presence { PRESENT_NOT, PRESENT_SHADOW, PRESENT_COPY };
/* What the destination says: no; send it; the copy here is that layer. */
enum accept_answer { ACCEPT_NO, ACCEPT_SEND, ACCEPT_COPY };

/* What goes in one message: of one part, or several small parts that follow each other. Zeroes: before the first. */
struct dp_piece {
    uint32_t part, n_parts;
    size_t offset, bytes; /* offset: in the part, 0 where there are several */
};

/* A layer under way, as both its ends know it. */
struct dp_way {
    struct dp_layer *layer; /* borrowed: the stage's, or the shadow */
    bool is_accepted;
    bool is_shadowed; /* it was copied while training went on: only what is not replayed is sent, and the least part */
    bool is_copy;     /* so it was, and the shadow is a copy, which may stay one: messages go through buffers */
    bool is_checked;  /* crc is right for what is replayed */
    uint32_t least; /* of its parts: each layer has one message at least */
    uint8_t head[DP_LAYER_HEAD_MAX];
    size_t head_bytes;
    uint64_t bytes; /* of all parts */
    uint32_t n_parts;
    struct dp_layer_part part[DP_LAYER_MAX_PARTS];
    size_t first_crc[DP_LAYER_MAX_PARTS]; /* of a part, in crc */
    size_t n_crc;
    uint32_t *crc; /* of each DP_TRANSFER_CHUNK bytes of a part */
};

/* w->layer and its head are set; the rest is made of them. */
int dp_way_fill(struct dp_way *w, struct dp_err *err);
void dp_way_free(struct dp_way *w); /* NULL is fine */
/* *p = the piece behind *p. returns: is there one? */
bool dp_way_next(const struct dp_way *w, struct dp_piece *p);
/* Bytes of it that are not sent, because they were copied before. */
uint64_t dp_way_copied(const struct dp_way *w);
/* Does the piece go through a buffer, or straight from and to where it lies? */
bool dp_way_is_buffered(const struct dp_way *w, const struct dp_piece *p);
int dp_way_gather(const struct dp_way *w, const struct dp_piece *p, uint8_t *out, struct dp_err *err);
int dp_way_scatter(const struct dp_way *w, const struct dp_piece *p, const uint8_t *in, struct dp_err *err);
/* Note the checks of a piece that has its place in memory; crc: the message's. */
void dp_way_note(struct dp_way *w, const struct dp_piece *p, uint32_t crc);
/* The digest of what a copy has of it: the head, and all that is replayed. */
int dp_way_copy_digest(struct dp_way *w, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err);
/* The layer's digest, once all pieces are where they belong; a device is asked for its checks. */
int dp_way_digest(struct dp_way *w, uint8_t out[DP_DIGEST_BYTES], struct dp_err *err);

/* One chunk in flight; outlives its stream when a stuck peer still holds on to it. */
struct dp_chunk {
    struct dp_chunk *next;
    struct dp_transport_request *x; /* NULL: not in flight */
    uint32_t layer;                 /* index in the transfer */
    struct dp_piece piece;
    bool is_last; /* of its layer */
    size_t room;
    uint8_t *buffer; /* NULL: none was needed yet; room bytes */
};

enum stream_state { STREAM_OPEN, STREAM_DONE, STREAM_FAILED };
enum stream_opening { OPENING_NEXT, OPENING_WAITS, OPENING_OVER }; /* a manifest, or its answer, is waited for; all are open */
#define NO_LAYER UINT32_MAX /* before the first one of a stream */

struct dp_stream {
    bool is_out, has_end; /* has_end: stopping, and END was posted (in) or sent (out) */
    bool has_total;       /* in: END came, n_total is the number of chunks to take */
    uint32_t peer;
    enum stream_state state;
    enum stream_opening opening;
    uint32_t opened, posting; /* index of the layer that was opened last; of that whose chunks are posted; or NO_LAYER */
    struct dp_piece posted;   /* the last one of it */
    uint32_t n_begun, n_finished; /* layers */
    uint64_t n_posted, n_done, n_total; /* chunks since the stream began */
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
/* The chunk that is posted next: a slot of the window with its layer and piece, and memory for it in *data. 1: there it is,
 * 0: the window is full, or nothing is open; -1. Where it was posted, dp_stream_posted() takes it over. */
int dp_stream_next_chunk(struct dp_transfer *s, struct dp_stream *st, struct dp_chunk **out, void **data, struct dp_err *err);
void dp_stream_posted(struct dp_stream *st, const struct dp_chunk *g);
/* Index of the stream's next layer after `index` (or NO_LAYER), n_layers when there is none. */
uint32_t dp_stream_next_layer(const struct dp_transfer *s, const struct dp_stream *st, uint32_t index);

/* One step of one end: 1 when something happened, 0 nothing now, -1 failed. */
int dp_stream_step_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);
int dp_stream_step_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);
/* Stopping: 1 when this end is done with the stream, 0 not yet, -1 failed. */
int dp_stream_stop_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);
int dp_stream_stop_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err);

#endif
