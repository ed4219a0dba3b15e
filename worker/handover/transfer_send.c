/* SPDX-License-Identifier: BSD-3-Clause */
/* The source's end of a stream (transfer.h): say what a layer is, send its arrays when the destination has room. */
#include <stdlib.h>
#include <string.h>

#include "worker/handover/transfer_internal.h"

static int open_way(struct dp_transfer *s, struct dp_transfer_layer *c, struct dp_err *err)
{
    const struct dp_handover_args *a = s->args;
    struct dp_layer *layer = a->held ? a->held[c->move.layer] : dp_stage_find(*a->stage, c->move.layer);
    struct dp_way *w;

    if (!layer)
        return dp_err_set(err, DP_EINVAL, "layer %u should move from here but is not here", c->move.layer);
    w = c->way = calloc(1, sizeof *w);
    if (!w)
        return dp_err_set(err, DP_ENOMEM, "no memory to send layer %u", c->move.layer);
    w->layer = layer;
    w->is_shadowed = dp_shadowing_has(s->args->shadowing, layer->index);
    w->head_bytes = dp_layer_head_write(layer, w->head);
    return dp_way_fill(w, err);
}

static int send_manifest(struct dp_transfer *s, struct dp_stream *st, struct dp_way *w, struct dp_err *err)
{
    bool is_followed = !w->is_shadowed && dp_copies_is_followed(s->args->copies, w->layer->index, st->peer);
    uint8_t message[MANIFEST_BYTES] = {0}, digest[DP_DIGEST_BYTES] = {0};
    struct dp_writer out;

    if (is_followed && dp_way_copy_digest(w, digest, err) < 0)
        return -1;
    dp_writer_init(&out, message, sizeof message);
    dp_wr_u32(&out, TRANSFER_MAGIC);
    dp_wr_u64(&out, s->migration);
    dp_wr_u32(&out, w->layer->index);
    dp_wr_u64(&out, w->bytes);
    dp_wr_u64(&out, dp_layer_state_bytes(w->layer));
    dp_wr_u32(&out, w->is_shadowed ? PRESENT_SHADOW : is_followed ? PRESENT_COPY : PRESENT_NOT);
    dp_wr_bytes(&out, digest, sizeof digest);
    dp_wr_u32(&out, (uint32_t)w->head_bytes);
    dp_wr_bytes(&out, w->head, w->head_bytes);
    return dp_stream_control(s, st, MSG_MANIFEST, st->n_begun, message, sizeof message, err);
}

/* The next layer, unless enough are open. */
static int open_next(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint32_t next = dp_stream_next_layer(s, st, st->opened);

    if (next == s->n_layers) {
        st->opening = OPENING_OVER;
        return 1;
    }
    if (st->n_begun - st->n_finished == DP_TRANSFER_AHEAD)
        return 0;
    st->opened = next;
    if (open_way(s, &s->layer[next], err) < 0)
        return -1;
    st->ctl_in_x = dp_transport_recv(s->args->transport, st->peer, dp_stream_tag(s, MSG_ACCEPT, st->n_begun),
                                     st->ctl_in, ACCEPT_BYTES, err);
    if (!st->ctl_in_x || send_manifest(s, st, s->layer[next].way, err) < 0)
        return -1;
    st->n_begun++;
    st->opening = OPENING_WAITS;
    return 1;
}

static int take_accept(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    struct dp_way *w = s->layer[st->opened].way;
    uint32_t layer = s->layer[st->opened].move.layer;
    int rc = dp_stream_reap(s, st->peer, &st->ctl_in_x, err);
    uint8_t answer;
    char text[ACCEPT_TEXT + 1];
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
    answer = dp_rd_u8(&r);
    if (answer != ACCEPT_SEND && (answer != ACCEPT_COPY || !w->is_checked)) {
        dp_rd_str(&r, text, sizeof text);
        return dp_err_set(err, DP_ENOMEM, "worker %u does not take layer %u: %s", st->peer, layer, text);
    }
    w->is_copy = answer == ACCEPT_COPY;
    w->is_shadowed |= w->is_copy;
    w->is_accepted = true;
    st->opening = OPENING_NEXT;
    return 1;
}

static int post_chunks(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    struct dp_chunk *g;
    void *data;
    int moved = 0, rc;

    while ((rc = dp_stream_next_chunk(s, st, &g, &data, err)) > 0) {
        struct dp_way *w = s->layer[g->layer].way;

        if (dp_way_is_buffered(w, &g->piece) && dp_way_gather(w, &g->piece, data, err) < 0)
            return -1;
        g->x = dp_transport_send(s->args->transport, st->peer, dp_stream_tag(s, MSG_CHUNK, st->n_posted), data, g->piece.bytes,
                                 err);
        if (!g->x)
            return -1;
        dp_way_note(w, &g->piece, dp_transport_crc(g->x));
        dp_stream_posted(st, g);
        moved = 1;
    }
    return rc < 0 ? -1 : moved;
}

static int finish_layer(struct dp_transfer *s, struct dp_stream *st, struct dp_transfer_layer *c, struct dp_err *err)
{
    if (dp_way_digest(c->way, c->digest, err) < 0)
        return -1;
    s->sent_bytes += dp_way_copied(c->way);
    dp_way_free(c->way);
    c->way = NULL;
    c->is_done = true;
    st->n_finished++;
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
        s->sent_bytes += g->piece.bytes;
        if (g->is_last && finish_layer(s, st, &s->layer[g->layer], err) < 0)
            return -1;
        moved = 1;
    }
    return moved;
}

int dp_stream_step_out(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    int opened = 0, reaped, posted;

    if (st->state != STREAM_OPEN)
        return 0;
    if (st->opening != OPENING_OVER)
        opened = st->opening == OPENING_NEXT ? open_next(s, st, err) : take_accept(s, st, err);
    reaped = opened < 0 ? -1 : reap_chunks(s, st, err);
    posted = reaped < 0 ? -1 : post_chunks(s, st, err);
    return posted < 0 ? -1 : opened | reaped | posted;
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
