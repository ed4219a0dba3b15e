/* SPDX-License-Identifier: BSD-3-Clause */
/* The source's end of a stream (transfer.h): write the layer, tell its size and digest, send it when the
 * destination has room. One serialised layer per stream is in memory at a time. */
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "worker/handover/transfer_internal.h"

static struct dp_layer *layer_of(const struct dp_transfer *s, uint32_t index)
{
    struct dp_stage *stage = *s->args->stage;

    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++)
        if (dp_stage_layer(stage, i)->index == index)
            return dp_stage_layer(stage, i);
    return NULL;
}

/* Serialise the current layer and take its digest. */
static int write_layer(struct dp_transfer *s, struct dp_stream *st, size_t *state_bytes, struct dp_err *err)
{
    struct dp_transfer_layer *c = &s->layer[st->layer];
    struct dp_layer *layer = layer_of(s, c->move.layer);
    size_t bytes;

    if (!layer)
        return dp_err_set(err, DP_EINVAL, "layer %u should move from here but is not here", c->move.layer);
    if (dp_layer_write(layer, &st->data, &bytes, err) < 0) {
        st->data = NULL;
        return -1;
    }
    *state_bytes = dp_layer_state_bytes(layer);
    st->bytes = bytes;
    if (dp_stream_hash_begin(st, err) < 0)
        return -1;
    if (EVP_DigestUpdate(st->sha, st->data, bytes) != 1)
        return dp_err_set(err, DP_EIO, "SHA-256 of layer %u failed", c->move.layer);
    return dp_stream_hash_end(st, c->digest, err);
}

static int begin_layer(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint8_t message[MANIFEST_BYTES];
    struct dp_writer w;
    size_t state_bytes = 0;

    st->layer = dp_stream_next_layer(s, st);
    if (st->layer == s->n_layers) {
        st->state = STREAM_DONE;
        return 1;
    }
    if (write_layer(s, st, &state_bytes, err) < 0)
        return -1;
    st->posted = st->finished = 0;
    dp_writer_init(&w, message, sizeof message);
    dp_wr_u32(&w, TRANSFER_MAGIC);
    dp_wr_u64(&w, s->migration);
    dp_wr_u32(&w, s->layer[st->layer].move.layer);
    dp_wr_u64(&w, st->bytes);
    dp_wr_u64(&w, state_bytes);
    dp_wr_bytes(&w, s->layer[st->layer].digest, DP_DIGEST_BYTES);
    st->ctl_in_x = dp_transport_recv(s->args->transport, st->peer, dp_stream_tag(s, MSG_ACCEPT, st->n_begun),
                                     st->ctl_in, ACCEPT_BYTES, err);
    if (!st->ctl_in_x || dp_stream_control(s, st, MSG_MANIFEST, st->n_begun, message, sizeof message, err) < 0)
        return -1;
    st->n_begun++;
    st->state = STREAM_ACCEPT;
    return 1;
}

static int take_accept(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint32_t layer = s->layer[st->layer].move.layer;
    int rc = dp_stream_reap(s, st->peer, &st->ctl_in_x, err);
    struct dp_reader r;
    bool fits;

    if (rc <= 0)
        return rc;
    dp_reader_init(&r, st->ctl_in, ACCEPT_BYTES);
    fits = dp_rd_u32(&r) == TRANSFER_MAGIC;
    fits &= dp_rd_u64(&r) == s->migration;
    fits &= dp_rd_u32(&r) == layer;
    if (!fits)
        return dp_err_set(err, DP_EPROTO, "worker %u answers a manifest that layer %u did not send", st->peer, layer);
    if (dp_rd_u8(&r) != 1)
        return dp_err_set(err, DP_ENOMEM, "worker %u does not take layer %u", st->peer, layer);
    st->state = STREAM_CHUNKS;
    return 1;
}

static int post_chunk(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    const struct dp_handover_args *a = s->args;
    uint32_t layer = s->layer[st->layer].move.layer;
    uint64_t left = st->bytes - st->posted;
    struct dp_chunk *g = dp_stream_chunk(st, st->n_posted, err);
    struct dp_writer w;

    if (!g)
        return -1;
    g->len = left < DP_TRANSFER_CHUNK ? (uint32_t)left : DP_TRANSFER_CHUNK;
    dp_writer_init(&w, g->bytes, CHUNK_HEAD);
    dp_wr_u32(&w, TRANSFER_MAGIC);
    dp_wr_u64(&w, s->migration);
    dp_wr_u32(&w, layer);
    dp_wr_u64(&w, st->posted);
    dp_wr_u32(&w, g->len);
    dp_wr_u32(&w, dp_crc32c(0, st->data + st->posted, g->len));
    memcpy(g->bytes + CHUNK_HEAD, st->data + st->posted, g->len);
    g->x = dp_transport_send(a->transport, st->peer, dp_stream_tag(s, MSG_CHUNK, st->n_posted), g->bytes,
                             CHUNK_HEAD + g->len, err);
    if (!g->x)
        return -1;
    st->posted += g->len;
    st->n_posted++;
    return 0;
}

/* Reap what is out, in order. */
static int reap_chunks(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    int moved = 0;

    while (st->n_done < st->n_posted) {
        struct dp_chunk *g = st->window[st->n_done % DP_TRANSFER_WINDOW];
        int rc = dp_stream_reap(s, st->peer, &g->x, err);

        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        st->n_done++;
        st->finished += g->len;
        s->sent_bytes += g->len;
        moved = 1;
    }
    return moved;
}

static int move_chunks(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    int moved = reap_chunks(s, st, err);

    if (moved < 0)
        return -1;
    while (st->n_posted - st->n_done < DP_TRANSFER_WINDOW && st->posted < st->bytes) {
        if (post_chunk(s, st, err) < 0)
            return -1;
        moved = 1;
    }
    if (st->finished == st->bytes) {
        free(st->data);
        st->data = NULL;
        s->layer[st->layer].is_done = true;
        st->state = STREAM_NEXT;
        moved = 1;
    }
    return moved;
}

int dp_stream_step_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    switch (st->state) {
    case STREAM_NEXT:
        return begin_layer(s, st, err);
    case STREAM_ACCEPT:
        return take_accept(s, st, err);
    case STREAM_CHUNKS:
        return move_chunks(s, st, err);
    default:
        return 0;
    }
}

int dp_stream_stop_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint8_t message[END_BYTES];
    struct dp_writer w;
    int rc = 1;

    if (st->ctl_in_x) {
        dp_transport_cancel(s->args->transport, st->ctl_in_x);
        st->ctl_in_x = NULL;
    }
    if (st->ctl_out_x)
        rc = dp_stream_reap(s, st->peer, &st->ctl_out_x, err);
    if (rc == 1 && !st->has_end) {
        dp_writer_init(&w, message, sizeof message);
        dp_wr_u32(&w, TRANSFER_MAGIC);
        dp_wr_u64(&w, s->migration);
        dp_wr_u64(&w, st->n_posted);
        rc = dp_stream_control(s, st, MSG_END, 0, message, sizeof message, err) < 0 ? -1 : 0;
        st->has_end = true;
    }
    if (rc < 0 || reap_chunks(s, st, err) < 0)
        return -1;
    return rc == 1 && st->n_done == st->n_posted;
}
