/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the copies of one worker: what it holds of others, and its streams. */
#ifndef DP_WORKER_COPIES_COPIES_INTERNAL_H
#define DP_WORKER_COPIES_COPIES_INTERNAL_H

#include "worker/copies/copies.h"
#include "worker/shadow/shadowing_internal.h"

#define DP_COPY_CHECKED_NS 0.01 /* bytes in a nanosecond of training: a thousandth of the time at 10 GB/s, which each core has */
#define DP_COPY_TRIES 3u /* one after the other; then a layer is left out until the end of the run */

/* Of a layer that another worker has. */
struct dp_copy {
    struct dp_layer *layer; /* owned; NULL: none */
    bool is_whole;
    bool is_failed;    /* what still comes of it is of no use */
    bool is_told;      /* that there is no room for it */
    uint32_t n_units;  /* that have come of it, where it is not whole: as of the last opening */
    uint64_t bytes;    /* that were counted for it */
    uint32_t n_failed; /* times, since it was whole */
    double squares;    /* of its gradients in the step that has arrived */
};

/* What the holder says of each layer, when it has the heads. */
enum dp_copy_answer { DP_COPY_REFUSED, DP_COPY_FROM_THE_START, DP_COPY_FROM_A_PART, DP_COPY_GOES_ON };
#define DP_COPY_ANSWER_BYTES(n_layers) ((n_layers) + 4u) /* u8 of each, then u32: part_units */

/* Behind the squares: u32: which layer of the stream is checked, from 1, 0: none; u32: its check. */
#define DP_COPY_CHECK_BYTES 8u

/* A worker's layers on their way to their holder; each worker has one out, and any number in. */
struct dp_copy_stream {
    struct dp_shadowing s; /* arguments and failure; its list of streams is not used */
    struct dp_shadow_stream st;
    bool is_opening;       /* until all that are copied are known */
    bool has_failed;       /* holder: and all copies of it were told to */
    uint8_t *answer;       /* [DP_COPY_ANSWER_BYTES(layers at the opening)] enum dp_copy_answer of each, and part_units */
    uint32_t part_units;   /* that the holder has of the one layer that goes on from a part; 0: of none */
    struct dp_transport_request *answer_x; /* owner's */
    double *squares;       /* likewise, on their way; behind them, in the place of one more, DP_COPY_CHECK_BYTES */
    uint32_t next_check;   /* owner: the layer whose turn it is */
    double check_bytes;    /* that may be looked at meanwhile */
    uint32_t n_whole;      /* the first so many of its layers; of the next one a part may be there, of the others nothing is */
    uint32_t whole_units;  /* and what they have */
    uint64_t buffer_bytes; /* owner: for gradients */
};

struct dp_copies {
    struct dp_copies_args args;
    struct dp_layout layout;
    struct dp_stage *stage;
    uint64_t n_steps;
    bool has_arrived; /* the gradients of the next one */
    bool wants_opening;
    uint64_t room_bytes;
    uint32_t holder;  /* of this worker's layers */
    uint32_t n_streams;
    struct dp_copy_stream *stream;
    struct dp_copy held[DP_MAX_LAYERS]; /* by number in the model */
    uint32_t n_listed;
    uint32_t listed[DP_MAX_LAYERS];
    struct dp_layer *list[DP_MAX_LAYERS];
    struct dp_step_scalars *scalars; /* [device] NULL: none yet */
    uint64_t step_bytes;
    bool has_trouble;
    uint32_t trouble_layer;
    char trouble[256];
};

/* ---- held.c: copies that are here ---- */

/* There is none of that layer any more. */
void dp_copy_drop(struct dp_copies *c, uint32_t layer);
/* It comes to nothing: why; it is begun anew at the next opening. What was received for it may still be. */
void dp_copy_fail(struct dp_copies *c, uint32_t layer, const char *why);
/* Copies that a scheme has crossed out of the list are whole no more; the list is empty then. */
void dp_copy_note_crossed_out(struct dp_copies *c);
/* For people. */
void dp_copy_trouble(struct dp_copies *c, uint32_t layer, const char *why);
/* What the holder makes of a head that has arrived for a layer of that stream. */
enum dp_copy_answer dp_copy_decide(struct dp_copies *c, struct dp_copy_stream *x, struct dp_shadow_layer *l);

/* ---- check.c: is a copy what its layer is? ---- */

/* Owner, with the gradients of a step: the check of a layer whose turn it is, or that there is none. out: DP_COPY_CHECK_BYTES. */
int dp_copy_check_write(struct dp_copy_stream *x, uint64_t step_ns, void *out, struct dp_err *err);
/* Holder, when they have arrived, before any other layer becomes whole: a copy that is not that layer fails. DP_EPROTO: no such layer. */
int dp_copy_check_read(struct dp_copies *c, const struct dp_copy_stream *x, const void *in, struct dp_err *err);

/* ---- streams.c: what is sent and received ---- */

/* All streams of the layout, with heads under way. */
int dp_copy_streams_open(struct dp_copies *c, const struct dp_copy_place *place, struct dp_err *err);
/* Before they are closed in good order, with no message under way: how much has come of each copy that is not whole. */
void dp_copy_streams_note_parts(struct dp_copies *c);
/* As dp_copies_gradients(). */
int dp_copy_streams_gradients(struct dp_copies *c, uint64_t step, uint64_t step_ns, const double *squares, struct dp_err *err);
/* Gives up what is under way. */
void dp_copy_streams_close(struct dp_copies *c);

#endif
