/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of a shadowing: a stream of units from one worker to another, as both its ends know it. */
#ifndef DP_WORKER_SHADOW_SHADOWING_INTERNAL_H
#define DP_WORKER_SHADOW_SHADOWING_INTERNAL_H

#include "worker/model/layer_parts.h"
#include "worker/shadow/pace.h"
#include "worker/shadow/shadowing.h"

#define DP_UNIT_FLOATS ((int64_t)1 << 18) /* of a range of weights: 1 MiB in a message; a multiple of 64, for bitmaps */
#define DP_UNITS_MAX 16000u /* of a stream: numbers of messages fill 16 bits */
#define DP_SHADOW_HEAD_BYTES 1024u /* magic u32, migration u64, layer u32, state u64, length u32 of the head, head, zeroes */
#define DP_SHADOW_NEWS_BYTES 32u   /* magic u32, migration u64, step u64, number u64 */
#define DP_SHADOW_MAGIC 0x44505357u /* "DPSW" */
_Static_assert(4 + 8 + 4 + 8 + 4 + DP_LAYER_HEAD_MAX <= DP_SHADOW_HEAD_BYTES, "any head fits");

/* What is copied at once: of a param a range of weights with their moments, which keeps step; or some bytes of a part that no step
 * changes (a pattern, a bitmap, weights of a frozen layer). */
struct dp_unit {
    struct dp_layer *layer; /* borrowed: the stage's, or the shadow */
    struct dp_param *param; /* NULL: a part that no step changes */
    int64_t first, n;       /* elements of the param */
    uint8_t *data;          /* of such a part */
    size_t bytes;           /* of a message: n floats, or that part of it */
    bool is_device;
    uint8_t *buffer;        /* source: its gradients, until they are sent. Owned */
};

/* A message under way. Through a buffer where the host does not reach what it is of. */
struct dp_shadow_message {
    struct dp_transport_request *x;
    uint8_t *buffer; /* owned; NULL: none */
    void *device;    /* destination: where the buffer goes */
    size_t bytes;
};

struct dp_shadow_layer {
    uint32_t index;
    struct dp_layer *layer;  /* source: the stage's; destination: the shadow, owned until it is taken; NULL: none yet */
    uint64_t state_bytes;
    uint8_t head[DP_SHADOW_HEAD_BYTES];
    struct dp_transport_request *head_x;
    bool is_prepared; /* destination: its patterns were looked at, and what kernels need is built */
};

struct dp_shadow_change;

struct dp_shadow_stream {
    bool is_out;
    uint32_t peer;
    uint32_t n_layers;
    struct dp_shadow_layer *layer; /* in layer order */
    bool is_open; /* heads have arrived, units are known */
    uint32_t n_units;
    struct dp_unit *unit;
    uint32_t n_copied;          /* of them, whose state was sent, or asked for */
    uint64_t n_new;             /* whose state goes at the coming boundary */
    uint64_t gradient_bytes;    /* of the copied ones */
    struct dp_shadow_message *message; /* under way */
    uint32_t n_messages, room;
    uint8_t news[DP_SHADOW_NEWS_BYTES], peer_news[DP_SHADOW_NEWS_BYTES]; /* this end's, the other one's */
    struct dp_transport_request *news_x, *peer_news_x;
    uint64_t moved_bytes, busy_ns; /* of this end, since the last call of gradients */
    struct dp_pace pace;           /* source */
    struct dp_shadow_change *change; /* of its layers, which the destination has not done yet; owned. NULL: none */
};

struct dp_shadowing {
    struct dp_shadowing_args args;
    enum dp_channel channel; /* of all its messages */
    struct dp_layout next;
    uint32_t n_streams;
    struct dp_shadow_stream *stream;
    struct dp_step_scalars *scalars; /* [device], of the step that is done again; NULL: none was yet */
    struct dp_shadowing_sums sums;
    uint64_t held_bytes;
    bool has_failed;
    char why[256];
};

enum dp_shadow_kind {
    DP_SHADOW_NEWS,
    DP_SHADOW_PACE,
    DP_SHADOW_HEAD,
    DP_SHADOW_GRADIENT,
    DP_SHADOW_STATE,
    DP_SHADOW_ANSWER,  /* this and the next: of copies (worker/copies/) */
    DP_SHADOW_SQUARES,
    DP_SHADOW_BITS,     /* what pruning leaves of its layers, */
    DP_SHADOW_FOLLOWED, /* and whether the destination has done the same */
};
/* number: of a layer in its stream, of a unit, of a unit times three. */
uint64_t dp_shadow_tag(const struct dp_shadowing *s, uint64_t step, enum dp_shadow_kind kind, uint32_t number);

/* This end did something for that stream since then. */
void dp_shadow_was_busy(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t since_ns);

/* This end can make nothing of it any more. *why: borrowed for the call. */
void dp_shadow_fail(struct dp_shadowing *s, const char *why);

/* How many units that layer has. */
uint32_t dp_shadow_count_units(struct dp_layer *l);
/* The units of all layers of the stream, which are there. DP_ENOMEM; DP_EINVAL: too many. */
int dp_shadow_units(struct dp_shadow_stream *st, struct dp_err *err);
/* A part of its state: at: 0, 1, 2: weights and both moments; 0: of a part that no step changes. NULL: it has no such part. */
void *dp_unit_state(const struct dp_unit *u, int at);

/* Room for one message more; its slot, with nothing in it. */
struct dp_shadow_message *dp_shadow_slot(struct dp_shadow_stream *st, struct dp_err *err);
/* Wait for all messages under way; what came goes to where it belongs. A damaged one is a failure of s, and no error. */
int dp_shadow_settle(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err);
/* The end of a stream: its messages are waited for where is_in_step, else given up, and what is theirs is freed. returns: may the rest
 * be freed, layers and st->layer? false: UCX may still write there, and the process is to end. */
bool dp_shadow_end_messages(struct dp_shadowing *s, struct dp_shadow_stream *st, bool is_in_step);
/* Wait for one request, and forget it. *bad, where not NULL: it was damaged, which is no error then. */
int dp_shadow_wait(struct dp_shadowing *s, struct dp_transport_request **x, bool *bad, struct dp_err *err);

/* A word to the other end, of that step; and wait for the other one's. */
int dp_shadow_send_news(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, enum dp_shadow_kind kind, uint64_t number,
                        struct dp_err *err);
int dp_shadow_ask_news(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, enum dp_shadow_kind kind, struct dp_err *err);
int dp_shadow_read_news(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, uint64_t *number, struct dp_err *err);

/* The source's end. */
/* Of the i-th layer of the stream, at that step. layer NULL: no layer follows. */
int dp_shadow_send_head(struct dp_shadowing *s, struct dp_shadow_stream *st, uint32_t i, uint64_t step, struct dp_err *err);
int dp_shadow_send_heads(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err);
int dp_shadow_send_gradients(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, uint64_t step_ns, struct dp_err *err);
int dp_shadow_send_states(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err);

/* The destination's. */
int dp_shadow_ask_head(struct dp_shadowing *s, struct dp_shadow_stream *st, uint32_t i, uint64_t step, struct dp_err *err);
int dp_shadow_ask_heads(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err);
/* What has arrived as the head of l. *head: borrowed from l; *bytes 0: no layer follows. DP_EPROTO: it is no head of that layer. */
int dp_shadow_read_head(const struct dp_shadowing *s, const struct dp_shadow_stream *st, struct dp_shadow_layer *l, const uint8_t **head,
                        size_t *bytes, struct dp_err *err);
/* The shadow of that head, with room for everything and zero gradients. DP_ENOMEM: or there is no room (dp_shadowing_args). */
int dp_shadow_make(struct dp_shadowing *s, struct dp_shadow_layer *l, const uint8_t *head, size_t bytes, struct dp_err *err);
int dp_shadow_ask_gradients(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err);
/* Gradients of that step, and what was announced with them: wait until all are here. */
int dp_shadow_arrived(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err);
/* Do step `step` again on what was copied. */
int dp_shadow_replay(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, double grad_scale, struct dp_err *err);
int dp_shadow_ask_states(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err);

/* Changes of layers (change.c). */
/* The message of a change that is under way; NULL: there is no change. */
struct dp_transport_request **dp_shadow_change_request(struct dp_shadow_stream *st);
/* Forget the change; no message of it is under way. */
void dp_shadow_end_change(struct dp_shadow_stream *st);

#endif
