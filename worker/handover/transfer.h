/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer of a hand-over: layers on their way from source to destination, all at once.
 *
 * Between each pair of workers that exchange layers runs one stream. Layers are opened in their order, and some of them ahead,
 * so that no chunk waits for a manifest:
 *
 *   source        MANIFEST(layer, bytes, head)     CHUNK CHUNK CHUNK ...
 *   destination                        ACCEPT(yes)                    (checks: a shadow)
 *
 * A chunk is a message from where an array lies to where it will lie: nothing is serialised and nothing copied, but for small
 * arrays, which go together, and for devices whose memory the host cannot reach. The transport checks each chunk by its
 * CRC-32C, in memory, at both ends. Those numbers are a layer's checks: its digest is SHA-256 over the head and over a CRC-32C
 * for each DP_TRANSFER_CHUNK bytes of each array, so both ends vote for the same bytes, and no byte is hashed twice. Of a
 * device's arrays the device computes them, where they lie.
 *
 * The workers of a run are of one release: manifests have no version.
 *
 * A layer that its destination follows with a whole copy (worker/copies/) is not sent: the manifest has the digest of what the copy has,
 * and where the copy has the same one, ACCEPT says so. What no copy has, the tied head's copy of the embedding, is sent, and the least
 * array, because each layer has one message. Until a commit the copy stays a copy: what arrives goes through a buffer, so nothing that
 * is damaged on its way comes into it.
 *
 * At most DP_TRANSFER_WINDOW chunks are in flight per stream. All streams of a worker advance together in dp_transfer_step(),
 * none waits for another, so shifts over many workers can neither deadlock nor queue up behind each other. An abort that both
 * ends know of ends a stream in order: the source says how many chunks it sent, the destination takes them. A destination that
 * is stuck may still read the arrays of a source that has given up, as of any message that was not fetched: what it reads then
 * is worth nothing to anybody.
 */
#ifndef DP_WORKER_HANDOVER_TRANSFER_H
#define DP_WORKER_HANDOVER_TRANSFER_H

#include "common/run/layout.h"
#include "worker/handover/handover.h"

#define DP_TRANSFER_CHUNK ((size_t)1 << 20) /* bytes: its check finds it in the cache, and a message costs little beside it */
#define DP_TRANSFER_WINDOW 4 /* chunks under way: the source checks one while others travel */
#define DP_TRANSFER_AHEAD 3 /* layers of a stream that are open at once */

/* One layer that this worker sends or receives. */
struct dp_transfer_layer {
    struct dp_move move;
    bool is_done;                     /* sent, or received and verified */
    uint8_t digest[DP_DIGEST_BYTES];  /* where is_done: see above */
    struct dp_layer *shadow;          /* destination: the layer that comes, or has come; owned by the transfer. Where it has come, and
                                       * before it is used: dp_layer_complete() */
    bool is_copy;                     /* destination: the shadow is lent by args->copies: whoever takes it says dp_copies_give() */
    struct dp_way *way;               /* while it is open */
};

struct dp_transfer {
    const struct dp_handover_args *args;
    uint64_t migration;
    uint32_t n_layers; /* in layer order */
    struct dp_transfer_layer *layer;
    uint32_t n_streams;
    struct dp_stream *stream;
    uint64_t mem_bytes; /* the stage and what was accepted, without copies: they have their memory */
    uint64_t spared_bytes; /* of copies that were let go of, for what comes */
    uint64_t sent_bytes, received_bytes; /* of arrays */
    uint64_t moved_ns; /* when something moved last */
    bool is_busy;      /* something moved in the last step: there may be more to do at once */
};

/* Streams for all layers of `moves` that this worker sends or receives; nothing is posted before the first step. args
 * are borrowed as long as it lives, moves are copied. next: the layout that they lead to. NULL with DP_ENOMEM. */
struct dp_transfer *dp_transfer_create(const struct dp_handover_args *args, uint64_t migration,
                                       const struct dp_moves *moves, const struct dp_layout *next, struct dp_err *err);

/* Advance all streams, without blocking but for what a device is asked. returns 1 when all layers are done, 0 when there is
 * more to do (with is_busy: at once, do not sleep), -1 with the reason when this worker cannot complete its part. */
int dp_transfer_step(struct dp_transfer *s, struct dp_err *err);

/* End all streams after an abort that every worker was told of; at most timeout_ns. */
void dp_transfer_stop(struct dp_transfer *s, uint64_t timeout_ns);

struct dp_chunk;
/* Cancels what is in flight and destroys shadows that were not taken. A buffer that a peer may still be
 * reading (it is stuck, not dead) is not freed but put on *stuck. */
void dp_transfer_destroy(struct dp_transfer *s, struct dp_chunk **stuck);
void dp_chunks_free(struct dp_chunk *stuck); /* once the transport is destroyed */

#endif
