/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination's end of a stream (transfer.h): look at the manifest, say whether there is room, make a shadow of its head, and
 * take the chunks in order into the shadow's arrays. Nothing of the stage is touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "worker/handover/transfer_internal.h"

#define MOST_BYTES ((uint64_t)1 << 40) /* of a layer: what is larger is a lie, and sums of it stay numbers */

static int open_next(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    uint32_t next = dp_stream_next_layer(s, st, st->opened);

    if (next == s->n_layers) {
        st->opening = OPENING_OVER;
        return 1;
    }
    st->ctl_in_x = dp_transport_recv(s->args->transport, st->peer, dp_stream_tag(s, MSG_MANIFEST, st->n_begun),
                                     st->ctl_in, MANIFEST_BYTES, err);
    if (!st->ctl_in_x)
        return -1;
    st->opened = next;
    st->opening = OPENING_WAITS;
    return 1;
}

/* What a manifest says. */
struct manifest {
    uint64_t bytes, state_bytes;
    uint32_t presence;
    uint8_t digest[DP_DIGEST_BYTES];
    uint32_t head_bytes;
    const uint8_t *head;
};

static int read_manifest(const struct dp_transfer *s, const struct dp_stream *st, struct manifest *m, struct dp_err *err)
{
    uint32_t layer = s->layer[st->opened].move.layer;
    struct dp_reader r;
    bool fits;

    dp_reader_init(&r, st->ctl_in, MANIFEST_BYTES);
    fits = dp_rd_u32(&r) == TRANSFER_MAGIC;
    fits &= dp_rd_u64(&r) == s->migration;
    fits &= dp_rd_u32(&r) == layer;
    m->bytes = dp_rd_u64(&r);
    m->state_bytes = dp_rd_u64(&r);
    m->presence = dp_rd_u32(&r);
    dp_rd_bytes(&r, m->digest, sizeof m->digest);
    m->head_bytes = dp_rd_u32(&r);
    m->head = st->ctl_in + MANIFEST_BEFORE_HEAD;
    if (!fits)
        return dp_err_set(err, DP_EPROTO, "worker %u sent a manifest that is not layer %u's", st->peer, layer);
    if (m->bytes == 0 || m->bytes > MOST_BYTES || m->state_bytes < m->bytes || m->state_bytes > MOST_BYTES ||
        m->head_bytes > DP_LAYER_HEAD_MAX)
        return dp_err_set(err, DP_EPROTO, "manifest of layer %u: %llu bytes, %llu as a layer", layer,
                          (unsigned long long)m->bytes, (unsigned long long)m->state_bytes);
    return 0;
}

static struct dp_way *way_of(const struct manifest *m)
{
    struct dp_way *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    memcpy(w->head, m->head, m->head_bytes);
    w->head_bytes = m->head_bytes;
    w->is_shadowed = m->presence == PRESENT_SHADOW;
    return w;
}

/* The copy of that layer that is here, if it is the layer. Its source only knows that it was sent: none here is no error. */
static bool take_copy(struct dp_transfer *s, struct dp_transfer_layer *c, const struct manifest *m)
{
    struct dp_copies *copies = s->args->copies;
    struct dp_layer *copy = dp_copies_lend(copies, c->move.layer, s->args->step, m->head, m->head_bytes);
    struct dp_way *w = copy ? way_of(m) : NULL;
    uint8_t digest[DP_DIGEST_BYTES];

    if (!w)
        return false;
    w->layer = copy;
    if (dp_way_fill(w, NULL) < 0 || w->bytes != m->bytes || dp_way_copy_digest(w, digest, NULL) < 0) {
        dp_way_free(w);
        return false;
    }
    if (memcmp(digest, m->digest, sizeof digest) != 0) {
        dp_warn("worker %u: the copy of layer %u that is here is not what the layer is: it is sent", s->args->rank, c->move.layer);
        dp_copies_differ(copies, c->move.layer);
        dp_way_free(w);
        return false;
    }
    w->is_copy = w->is_shadowed = true;
    c->way = w;
    c->shadow = copy;
    c->is_copy = true;
    return true;
}

/* Copies of others' layers make room for a layer. Those of layers that come here become these layers. */
static void let_copies_go(struct dp_transfer *s, uint64_t bytes)
{
    bool keep[DP_MAX_LAYERS] = {false};
    uint64_t freed;

    for (uint32_t i = 0; i < s->n_layers; i++)
        keep[s->layer[i].move.layer] |= s->layer[i].move.to == s->args->rank;
    freed = dp_copies_give_up(s->args->copies, bytes, keep);
    s->spared_bytes += freed;
    if (freed)
        dp_warn("worker %u: copies of others' layers, %llu bytes, are let go of for layers that come", s->args->rank,
                (unsigned long long)freed);
}

static uint64_t limit(const struct dp_transfer *s)
{
    const struct dp_handover_args *a = s->args;
    uint64_t bytes = a->mem_limit_bytes + s->spared_bytes;

    return a->mem_most_bytes && bytes > a->mem_most_bytes ? a->mem_most_bytes : bytes;
}

static bool is_room(struct dp_transfer *s, uint64_t bytes)
{
    if (s->args->mem_limit_bytes && s->mem_bytes + bytes > limit(s))
        let_copies_go(s, s->mem_bytes + bytes - limit(s));
    return !s->args->mem_limit_bytes || s->mem_bytes + bytes <= limit(s);
}

/* Is there memory for the layer? Then make it, with everything but content. */
static int make_room(struct dp_transfer *s, struct dp_transfer_layer *c, const struct manifest *m, struct dp_err *err)
{
    const struct dp_handover_args *a = s->args;
    struct dp_way *w;

    if (m->presence == PRESENT_COPY && take_copy(s, c, m))
        return 0;
    if (!is_room(s, m->state_bytes))
        return dp_err_set(err, DP_ENOMEM, "layer %u: %llu bytes held, %llu more needed, the limit is %llu", c->move.layer,
                          (unsigned long long)s->mem_bytes, (unsigned long long)m->state_bytes,
                          (unsigned long long)limit(s));
    w = c->way = way_of(m);
    if (!w)
        return dp_err_set(err, DP_ENOMEM, "no memory to receive layer %u", c->move.layer);
    if (w->is_shadowed && !dp_shadowing_has(a->shadowing, c->move.layer))
        return dp_err_set(err, DP_EPROTO, "layer %u was not copied before", c->move.layer);
    w->layer = c->shadow = w->is_shadowed ? dp_shadowing_take(a->shadowing, c->move.layer, w->head, w->head_bytes, err)
                                          : dp_layer_from_head(a->config, a->backend, a->tune, w->head, w->head_bytes, m->state_bytes, err);
    if (!w->layer || dp_way_fill(w, err) < 0)
        return -1;
    if (w->layer->index != c->move.layer)
        return dp_err_set(err, DP_ECORRUPT, "layer %u was sent as layer %u", w->layer->index, c->move.layer);
    if (w->bytes != m->bytes)
        return dp_err_set(err, DP_EPROTO, "manifest of layer %u: %llu bytes, its head is of %llu", c->move.layer,
                          (unsigned long long)m->bytes, (unsigned long long)w->bytes);
    s->mem_bytes += m->state_bytes;
    return 0;
}

/* Answer a manifest: yes, and whether it is here already, or why not. A no is sent, too, so that the source need not wait, and can say
 * what the matter is if it is the first to tell. */
static int answer(struct dp_transfer *s, struct dp_stream *st, const char *why_not, struct dp_err *err)
{
    uint8_t message[ACCEPT_BYTES] = {0};
    char text[ACCEPT_TEXT + 1];
    struct dp_writer w;

    dp_writer_init(&w, message, sizeof message);
    dp_wr_u32(&w, TRANSFER_MAGIC);
    dp_wr_u64(&w, s->migration);
    dp_wr_u32(&w, s->layer[st->opened].move.layer);
    dp_wr_u8(&w, why_not ? ACCEPT_NO : s->layer[st->opened].is_copy ? ACCEPT_COPY : ACCEPT_SEND);
    snprintf(text, sizeof text, "%s", why_not ? why_not : "");
    dp_wr_str(&w, text);
    return dp_stream_control(s, st, MSG_ACCEPT, st->n_begun, message, sizeof message, err);
}

static int take_manifest(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    struct dp_transfer_layer *c = &s->layer[st->opened];
    int rc = dp_stream_reap(s, st->peer, &st->ctl_in_x, err);
    struct dp_err local = {0};
    struct manifest m;

    if (rc <= 0)
        return rc;
    if (read_manifest(s, st, &m, &local) < 0 || make_room(s, c, &m, &local) < 0) {
        answer(s, st, local.text, NULL);
        if (err)
            *err = local;
        return -1;
    }
    if (answer(s, st, NULL, err) < 0)
        return -1;
    c->way->is_accepted = true;
    st->n_begun++;
    st->opening = OPENING_NEXT;
    return 1;
}

static int post_chunks(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    struct dp_chunk *g;
    void *data;
    int moved = 0, rc;

    while ((rc = dp_stream_next_chunk(s, st, &g, &data, err)) > 0) {
        g->x = dp_transport_recv(s->args->transport, st->peer, dp_stream_tag(s, MSG_CHUNK, st->n_posted), data, g->piece.bytes,
                                 err);
        if (!g->x)
            return -1;
        dp_stream_posted(st, g);
        moved = 1;
    }
    return rc < 0 ? -1 : moved;
}

/* All bytes are here, and each chunk is as it left: are they a layer, and which digest has it? Nobody waits here for plans of sparse
 * matrices: dp_layer_complete() makes them when the others train again. Those of a layer that was copied before are there. */
static int finish_layer(struct dp_transfer *s, struct dp_stream *st, struct dp_transfer_layer *c, struct dp_err *err)
{
    if (dp_way_digest(c->way, c->digest, err) < 0 ||
        (c->way->is_shadowed ? dp_layer_weights_arrived(c->shadow, err) : dp_layer_patterns_arrived(c->shadow, err)) < 0)
        return -1;
    s->received_bytes += dp_way_copied(c->way);
    dp_way_free(c->way);
    c->way = NULL;
    c->is_done = true;
    st->n_finished++;
    return 0;
}

/* A chunk is in memory, and its check is right: the transport has seen to it. */
static int take_chunk(struct dp_transfer *s, struct dp_stream *st, const struct dp_chunk *g, uint32_t crc, struct dp_err *err)
{
    struct dp_transfer_layer *c = &s->layer[g->layer];

    if (dp_way_is_buffered(c->way, &g->piece) && dp_way_scatter(c->way, &g->piece, g->buffer, err) < 0)
        return -1;
    dp_way_note(c->way, &g->piece, crc);
    s->received_bytes += g->piece.bytes;
    return g->is_last ? finish_layer(s, st, c, err) : 0;
}

static int take_chunks(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    int moved = 0;

    while (st->n_done < st->n_posted) {
        struct dp_chunk *g = st->window[st->n_done % DP_TRANSFER_WINDOW];
        uint32_t crc, layer = s->layer[g->layer].move.layer;
        int rc;

        dp_transport_test(s->args->transport, g->x);
        crc = dp_transport_crc(g->x);
        rc = dp_stream_reap(s, st->peer, &g->x, err);
        if (rc == 0)
            break;
        st->n_done++;
        if (rc < 0) /* it came, and it was bad */
            return dp_err_prefix(err, "layer %u from worker %u", layer, st->peer);
        if (take_chunk(s, st, g, crc, err) < 0)
            return -1;
        moved = 1;
    }
    return moved;
}

int dp_stream_step_in(struct dp_transfer *s, struct dp_stream *st, struct dp_err *err)
{
    int opened = 0, taken, posted;

    if (st->state != STREAM_OPEN)
        return 0;
    if (st->opening != OPENING_OVER)
        opened = st->opening == OPENING_NEXT ? open_next(s, st, err) : take_manifest(s, st, err);
    taken = opened < 0 ? -1 : take_chunks(s, st, err);
    posted = taken < 0 ? -1 : post_chunks(s, st, err);
    return posted < 0 ? -1 : opened | taken | posted;
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
    }
    if (st->n_posted < st->n_total && post_chunks(s, st, err) < 0)
        return -1;
    while (st->n_done < st->n_posted) {
        rc = dp_stream_reap(s, st->peer, &st->window[st->n_done % DP_TRANSFER_WINDOW]->x, NULL);
        if (rc == 0)
            return 0;
        st->n_done++; /* damaged or not: it is out of the way */
    }
    return st->n_done >= st->n_total;
}
