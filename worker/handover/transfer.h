/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer of a hand-over: layers on their way from source to destination, all at once.
 *
 * Between each pair of workers that exchange layers runs one stream, layer after layer:
 *
 *   source        MANIFEST(layer, bytes, SHA-256)     CHUNK CHUNK CHUNK ...
 *   destination                         ACCEPT(yes)                      (verify, read into a shadow)
 *
 * At most DP_TRANSFER_WINDOW chunks of DP_TRANSFER_CHUNK bytes are in flight per stream. All streams of a
 * worker advance together in dp_transfer_step(), none waits for another, so shifts over many workers can
 * neither deadlock nor queue up behind each other. An abort that both ends know of ends a stream in
 * order: the source says how many chunks it sent, the destination takes them.
 */
#ifndef DP_WORKER_HANDOVER_TRANSFER_H
#define DP_WORKER_HANDOVER_TRANSFER_H

#include "common/run/layout.h"
#include "worker/handover/handover.h"

#define DP_TRANSFER_CHUNK (512u * 1024) /* each has a checksum of its own */
#define DP_TRANSFER_WINDOW 4 /* chunks under way: one is hashed while others travel */

/* One layer that this worker sends or receives. */
struct dp_transfer_layer {
    struct dp_move move;
    bool is_done;                     /* sent, or received and verified */
    uint8_t digest[DP_DIGEST_BYTES];  /* SHA-256 of the layer's byte stream, where is_done */
    struct dp_layer *shadow;          /* destination: the layer read back; owned by the transfer */
};

struct dp_transfer {
    const struct dp_handover_args *args;
    uint64_t migration;
    uint32_t n_layers; /* in layer order */
    struct dp_transfer_layer *layer;
    uint32_t n_streams;
    struct dp_stream *stream;
    uint64_t mem_bytes; /* the stage and what was accepted */
    uint64_t sent_bytes, received_bytes;
    uint64_t moved_ns; /* when something moved last */
};

/* Streams for all layers of `moves` that this worker sends or receives; nothing is posted before the first step. args
 * are borrowed as long as it lives, moves are copied. next: the layout that they lead to. NULL with DP_ENOMEM. */
struct dp_transfer *dp_transfer_create(const struct dp_handover_args *args, uint64_t migration,
                                       const struct dp_moves *moves, const struct dp_layout *next, struct dp_err *err);

/* Advance all streams without blocking. returns 1 when all layers are done, 0 when there is more to do,
 * -1 with the reason when this worker cannot complete its part. */
int dp_transfer_step(struct dp_transfer *s, struct dp_err *err);

/* End all streams after an abort that every worker was told of; at most timeout_ns. */
void dp_transfer_stop(struct dp_transfer *s, uint64_t timeout_ns);

struct dp_chunk;
/* Cancels what is in flight and destroys shadows that were not taken. A buffer that a peer may still be
 * reading (it is stuck, not dead) is not freed but put on *stuck. */
void dp_transfer_destroy(struct dp_transfer *s, struct dp_chunk **stuck);
void dp_chunks_free(struct dp_chunk *stuck); /* once the transport is destroyed */

#endif
