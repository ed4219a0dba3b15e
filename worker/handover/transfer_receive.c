/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination's end of a stream (transfer.h): look at the manifest, say whether there is room, take the
 * chunks in order into a buffer, verify, and read the layer back into a shadow. Nothing of the stage
 * is touched. */
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "worker/handover/transfer_internal.h"

static int begin_layer(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    st->layer = dp_stream_next_layer(s, st);
    if (st->layer == s->n_layers) {
        st->state = STREAM_DONE;
        return 1;
    }
    st->ctl_in_x = dp_transport_recv(s->args->transport, st->peer, dp_stream_tag(s, MSG_MANIFEST, st->n_begun),
                                     st->ctl_in, MANIFEST_BYTES, err);
    if (!st->ctl_in_x)
        return -1;
    st->state = STREAM_MANIFEST;
    return 1;
}

/* Is there memory for the stream of bytes and the layer that it becomes? */
static int make_room(struct dp_transfer *s, struct dp_stream *st, uint64_t state_bytes, struct dp_err *err)
{
    uint32_t layer = s->layer[st->layer].move.layer;
    uint64_t limit = s->args->mem_limit_bytes;

    if (st->bytes == 0 || st->bytes > (uint64_t)1 << 40 || state_bytes > (uint64_t)1 << 40)
        return dp_err_set(err, DP_EPROTO, "manifest of layer %u: %llu bytes", layer, (unsigned long long)st->bytes);
    if (limit && s->mem_bytes + st->bytes + state_bytes > limit)
        return dp_err_set(err, DP_ENOMEM, "layer %u: %llu bytes held, %llu more needed, the limit is %llu", layer,
                          (unsigned long long)s->mem_bytes, (unsigned long long)(st->bytes + state_bytes),
                          (unsigned long long)limit);
    st->data = malloc(st->bytes);
    if (!st->data)
        return dp_err_set(err, DP_ENOMEM, "layer %u: no memory for %llu bytes", layer, (unsigned long long)st->bytes);
    s->mem_bytes += state_bytes;
    return 0;
}

/* Answer a manifest; the answer is sent even when it is no, so that the source need not wait. */
static int answer(struct dp_transfer *s, struct dp_stream *st, bool yes, struct dp_err *err)
{
    uint8_t message[ACCEPT_BYTES];
    struct dp_writer w;

    dp_writer_init(&w, message, sizeof message);
    dp_wr_u32(&w, TRANSFER_MAGIC);
    dp_wr_u64(&w, s->migration);
    dp_wr_u32(&w, s->layer[st->layer].move.layer);
    dp_wr_u8(&w, yes);
    return dp_stream_control(s, st, MSG_ACCEPT, st->n_begun, message, sizeof message, err);
}

static int take_manifest(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint32_t layer = s->layer[st->layer].move.layer;
    int rc = dp_stream_reap(s, st->peer, &st->ctl_in_x, err);
    struct dp_reader r;
    uint64_t state_bytes;
    bool fits;

    if (rc <= 0)
        return rc;
    dp_reader_init(&r, st->ctl_in, MANIFEST_BYTES);
    fits = dp_rd_u32(&r) == TRANSFER_MAGIC;
    fits &= dp_rd_u64(&r) == s->migration;
    fits &= dp_rd_u32(&r) == layer;
    st->bytes = dp_rd_u64(&r);
    state_bytes = dp_rd_u64(&r);
    dp_rd_bytes(&r, st->digest, sizeof st->digest);
    if (!fits)
        return dp_err_set(err, DP_EPROTO, "worker %u sent a manifest that is not layer %u's", st->peer, layer);
    if (make_room(s, st, state_bytes, err) < 0 || dp_stream_hash_begin(st, err) < 0) {
        answer(s, st, false, NULL);
        return -1;
    }
    st->posted = st->finished = 0;
    if (answer(s, st, true, err) < 0)
        return -1;
    st->n_begun++;
    st->state = STREAM_CHUNKS;
    return 1;
}

static int post_chunk(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint64_t left = st->bytes - st->posted;
    struct dp_chunk *g = dp_stream_chunk(st, st->n_posted, err);

    if (!g)
        return -1;
    g->len = left < DP_TRANSFER_CHUNK ? (uint32_t)left : DP_TRANSFER_CHUNK;
    g->x = dp_transport_recv(s->args->transport, st->peer, dp_stream_tag(s, MSG_CHUNK, st->n_posted), g->bytes,
                             CHUNK_HEAD + g->len, err);
    if (!g->x)
        return -1;
    st->posted += g->len;
    st->n_posted++;
    return 0;
}

static int take_chunk(struct dp_transfer *s, struct dp_stream *st, const struct dp_chunk *g, struct dp_err *err)
{
    uint32_t layer = s->layer[st->layer].move.layer;
    const uint8_t *payload = g->bytes + CHUNK_HEAD;
    struct dp_reader r;
    bool fits;

    dp_reader_init(&r, g->bytes, CHUNK_HEAD);
    fits = dp_rd_u32(&r) == TRANSFER_MAGIC;
    fits &= dp_rd_u64(&r) == s->migration;
    fits &= dp_rd_u32(&r) == layer;
    fits &= dp_rd_u64(&r) == st->finished;
    fits &= dp_rd_u32(&r) == g->len;
    if (!fits)
        return dp_err_set(err, DP_EPROTO, "worker %u: chunk out of place, wanted layer %u at %llu", st->peer, layer,
                          (unsigned long long)st->finished);
    if (dp_rd_u32(&r) != dp_crc32c(0, payload, g->len))
        return dp_err_set(err, DP_ECORRUPT, "layer %u from worker %u: chunk at %llu is damaged (CRC-32C)", layer,
                          st->peer, (unsigned long long)st->finished);
    memcpy(st->data + st->finished, payload, g->len);
    if (EVP_DigestUpdate(st->sha, payload, g->len) != 1)
        return dp_err_set(err, DP_EIO, "SHA-256 of layer %u failed", layer);
    st->finished += g->len;
    s->received_bytes += g->len;
    return 0;
}

/* All bytes are here: do they hash to what the manifest says, and are they this layer? */
static int finish_layer(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    const struct dp_handover_args *a = s->args;
    struct dp_transfer_layer *c = &s->layer[st->layer];

    if (dp_stream_hash_end(st, c->digest, err) < 0)
        return -1;
    if (memcmp(c->digest, st->digest, sizeof c->digest) != 0)
        return dp_err_set(err, DP_ECORRUPT, "layer %u from worker %u: SHA-256 does not match", c->move.layer, st->peer);
    c->shadow = dp_layer_read(a->config, a->backend, a->tune, st->data, st->bytes, err);
    if (!c->shadow)
        return -1;
    if (c->shadow->index != c->move.layer)
        return dp_err_set(err, DP_ECORRUPT, "worker %u sent layer %u as layer %u", st->peer, c->shadow->index,
                          c->move.layer);
    free(st->data);
    st->data = NULL;
    c->is_done = true;
    st->state = STREAM_NEXT;
    return 0;
}

static int move_chunks(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    int moved = 0;

    if (st->ctl_out_x && dp_stream_reap(s, st->peer, &st->ctl_out_x, err) < 0)
        return -1;
    while (st->n_done < st->n_posted) {
        struct dp_chunk *g = st->window[st->n_done % DP_TRANSFER_WINDOW];
        int rc = dp_stream_reap(s, st->peer, &g->x, err);

        if (rc < 0) {
            st->n_done++; /* it came, and it was bad */
            return -1;
        }
        if (rc == 0)
            break;
        st->n_done++;
        if (take_chunk(s, st, g, err) < 0)
            return -1;
        moved = 1;
    }
    while (st->n_posted - st->n_done < DP_TRANSFER_WINDOW && st->posted < st->bytes) {
        if (post_chunk(s, st, err) < 0)
            return -1;
        moved = 1;
    }
    if (st->finished == st->bytes)
        return finish_layer(s, st, err) < 0 ? -1 : 1;
    return moved;
}

int dp_stream_step_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    switch (st->state) {
    case STREAM_NEXT:
        return begin_layer(s, st, err);
    case STREAM_MANIFEST:
        return take_manifest(s, st, err);
    case STREAM_CHUNKS:
        return move_chunks(s, st, err);
    default:
        return 0;
    }
}

/* How many chunks did the source send? 1 known, 0 not yet, -1. */
static int learn_total(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    struct dp_transport *t = s->args->transport;
    struct dp_reader r;
    bool fits;
    int rc;

    if (!st->has_end) {
        dp_transport_cancel(t, st->ctl_in_x); /* a manifest that may never come */
        st->ctl_in_x = dp_transport_recv(t, st->peer, dp_stream_tag(s, MSG_END, 0), st->ctl_in, END_BYTES, err);
        if (!st->ctl_in_x)
            return -1;
        st->has_end = true;
    }
    if (st->has_total)
        return 1;
    rc = dp_stream_reap(s, st->peer, &st->ctl_in_x, err);
    if (rc <= 0)
        return rc;
    dp_reader_init(&r, st->ctl_in, END_BYTES);
    fits = dp_rd_u32(&r) == TRANSFER_MAGIC;
    fits &= dp_rd_u64(&r) == s->migration;
    st->n_total = dp_rd_u64(&r);
    if (!fits || st->n_total < st->n_done)
        return dp_err_set(err, DP_EPROTO, "worker %u ends its stream wrongly", st->peer);
    st->has_total = true;
    return 1;
}

int dp_stream_stop_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    struct dp_transport *t = s->args->transport;
    int rc;

    if (st->state == STREAM_DONE)
        return 1;
    rc = learn_total(s, st, err);
    if (rc <= 0)
        return rc;
    while (st->n_posted > st->n_total) { /* those will not come */
        struct dp_chunk *g = st->window[--st->n_posted % DP_TRANSFER_WINDOW];

        dp_transport_cancel(t, g->x);
        g->x = NULL;
        st->posted -= g->len;
    }
    while (st->n_posted < st->n_total && st->n_posted - st->n_done < DP_TRANSFER_WINDOW && st->posted < st->bytes)
        if (post_chunk(s, st, err) < 0)
            return -1;
    while (st->n_done < st->n_posted) {
        rc = dp_stream_reap(s, st->peer, &st->window[st->n_done % DP_TRANSFER_WINDOW]->x, NULL);
        if (rc == 0)
            return 0;
        st->n_done++; /* damaged or not: it is out of the way */
    }
    return st->n_done >= st->n_total;
}
