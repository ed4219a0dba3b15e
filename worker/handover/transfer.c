/* SPDX-License-Identifier: BSD-3-Clause */
/* See transfer.h: the set of streams of one worker, and what both ends of a stream have in common. */
#include "worker/handover/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/handover/transfer_internal.h"

/* Low 16 bits of a tag: 4 of the migration, so that a leftover of another attempt at the same boundary
 * is not taken for this one's, and 12 that name the message. Chunks count modulo 2048: far more than
 * are in flight. */
uint64_t dp_stream_tag(const struct dp_transfer *s, enum stream_message what, uint64_t n)
{
    static const uint32_t base[] = {
        [MSG_CHUNK] = 0, [MSG_MANIFEST] = 2048, [MSG_ACCEPT] = 2560, [MSG_END] = 4095};
    uint32_t room = what == MSG_CHUNK ? 2048 : 512;
    uint32_t index = base[what] + (what == MSG_END ? 0 : (uint32_t)(n % room));

    return dp_tag(DP_CH_LAYER, s->args->layout->epoch, s->args->step, (uint32_t)(s->migration & 15) << 12 | index);
}

int dp_stream_reap(struct dp_transfer *s, uint32_t peer, struct dp_transport_request **x, struct dp_err *err)
{
    struct dp_transport *t = s->args->transport;
    int rc;

    if (!dp_transport_test(t, *x) && !dp_transport_is_gone(t, peer))
        return 0;
    rc = dp_transport_wait(t, *x, 1000000000u, NULL, err);
    *x = NULL;
    return rc < 0 ? -1 : 1;
}

int dp_stream_control(struct dp_transfer *s, struct dp_stream *st, enum stream_message what, uint64_t n,
                      const void *message, uint32_t bytes, struct dp_err *err)
{
    if (st->ctl_out_x) {
        int rc = dp_transport_wait(s->args->transport, st->ctl_out_x, 1000000000u, NULL, err);

        if (rc < 0)
            return -1;
        st->ctl_out_x = NULL;
    }
    memcpy(st->ctl_out, message, bytes);
    st->ctl_out_x = dp_transport_send(s->args->transport, st->peer, dp_stream_tag(s, what, n), st->ctl_out, bytes, err);
    return st->ctl_out_x ? 0 : -1;
}

/* A slot of the window with a buffer of that many bytes at least, 0: none. */
static struct dp_chunk *take_slot(struct dp_stream *st, size_t room, struct dp_err *err)
{
    struct dp_chunk **g = &st->window[st->n_posted % DP_TRANSFER_WINDOW];

    if (!*g)
        *g = calloc(1, sizeof **g);
    if (*g && (*g)->room < room) {
        free((*g)->buffer);
        (*g)->buffer = malloc(room);
        (*g)->room = (*g)->buffer ? room : 0;
    }
    if (!*g || (*g)->room < room) {
        dp_err_set(err, DP_ENOMEM, "no memory for a chunk");
        return NULL;
    }
    return *g;
}

/* Where the stream goes on: the layer, which is open, and its next piece. */
static bool find_next(const struct dp_transfer *s, struct dp_stream *st, struct dp_piece *p)
{
    if (st->posting == NO_LAYER)
        st->posting = dp_stream_next_layer(s, st, NO_LAYER);
    while (st->posting < s->n_layers) {
        const struct dp_transfer_layer *c = &s->layer[st->posting];

        if (!c->is_done && (!c->way || !c->way->is_accepted))
            return false;
        *p = st->posted;
        if (!c->is_done && dp_way_next(c->way, p))
            return true;
        st->posting = dp_stream_next_layer(s, st, st->posting);
        st->posted = (struct dp_piece){0};
    }
    return false;
}

int dp_stream_next_chunk(struct dp_transfer *s, struct dp_stream *st, struct dp_chunk **out, void **data, struct dp_err *err)
{
    const struct dp_way *w;
    struct dp_piece p, behind;
    struct dp_chunk *g;
    bool is_buffered;

    if (st->n_posted - st->n_done >= DP_TRANSFER_WINDOW || !find_next(s, st, &p))
        return 0;
    w = s->layer[st->posting].way;
    is_buffered = dp_way_is_buffered(w, &p);
    g = take_slot(st, is_buffered ? p.bytes : 0, err);
    if (!g)
        return -1;
    behind = p;
    g->layer = st->posting;
    g->piece = p;
    g->is_last = !dp_way_next(w, &behind);
    *data = is_buffered ? g->buffer : (uint8_t *)w->part[p.part].data + p.offset;
    *out = g;
    return 1;
}

void dp_stream_posted(struct dp_stream *st, const struct dp_chunk *g)
{
    st->posted = g->piece;
    st->n_posted++;
}

uint32_t dp_stream_next_layer(const struct dp_transfer *s, const struct dp_stream *st, uint32_t index)
{
    uint32_t i = index == NO_LAYER ? 0 : index + 1;

    for (; i < s->n_layers; i++) {
        const struct dp_move *m = &s->layer[i].move;

        if (st->is_out ? m->from == s->args->rank && m->to == st->peer
                       : m->to == s->args->rank && m->from == st->peer)
            break;
    }
    return i;
}

/* The stream with this peer in this direction, made when there is none. */
static void need_stream(struct dp_transfer *s, bool is_out, uint32_t peer)
{
    for (uint32_t i = 0; i < s->n_streams; i++)
        if (s->stream[i].is_out == is_out && s->stream[i].peer == peer)
            return;
    s->stream[s->n_streams++] =
        (struct dp_stream){.is_out = is_out, .peer = peer, .opened = NO_LAYER, .posting = NO_LAYER};
}

static void load(struct dp_transfer *s, const struct dp_moves *moves)
{
    uint32_t rank = s->args->rank;

    for (uint32_t i = 0; i < moves->n; i++)
        if (moves->move[i].from == rank || moves->move[i].to == rank)
            s->layer[s->n_layers++].move = moves->move[i];
    for (uint32_t i = 0; i < s->n_layers; i++) {
        const struct dp_move *m = &s->layer[i].move;

        need_stream(s, m->from == rank, m->from == rank ? m->to : m->from);
    }
}

/* What this worker has without the layers that come. */
static uint64_t held_bytes(const struct dp_handover_args *a, const struct dp_layout *next)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; a->held && i < next->n_layers; i++)
        bytes += a->held[i] ? dp_layer_state_bytes(a->held[i]) : 0;
    if (a->held)
        return bytes + dp_stage_activation_bytes(a->config, a->backend, next, a->rank, a->frozen);
    return dp_stage_bytes(*a->stage, NULL) + dp_stage_activation_growth(a->config, a->backend, a->layout, next, a->rank, a->frozen);
}

struct dp_transfer *dp_transfer_create(const struct dp_handover_args *args, uint64_t migration,
                                       const struct dp_moves *moves, const struct dp_layout *next, struct dp_err *err)
{
    struct dp_transfer *s = calloc(1, sizeof *s);

    if (s) {
        s->layer = calloc(moves->n + 1, sizeof *s->layer);
        s->stream = calloc(moves->n + 1, sizeof *s->stream);
    }
    if (!s || !s->layer || !s->stream) {
        dp_transfer_destroy(s, NULL);
        dp_err_set(err, DP_ENOMEM, "no memory to move %u layers", moves->n);
        return NULL;
    }
    s->args = args;
    s->migration = migration;
    s->mem_bytes = held_bytes(args, next);
    s->moved_ns = dp_now_ns();
    load(s, moves);
    return s;
}

int dp_transfer_step(struct dp_transfer *s, struct dp_err *err)
{
    uint32_t done = 0;

    s->is_busy = false;
    for (uint32_t i = 0; i < s->n_streams; i++) {
        struct dp_stream *st = &s->stream[i];
        int rc = st->is_out ? dp_stream_step_out(s, st, err) : dp_stream_step_in(s, st, err);

        if (rc < 0) {
            st->state = STREAM_FAILED;
            return -1;
        }
        if (st->opening == OPENING_OVER && st->n_finished == st->n_begun)
            st->state = STREAM_DONE;
        s->is_busy |= rc > 0;
        done += st->state == STREAM_DONE;
    }
    if (s->is_busy)
        s->moved_ns = dp_now_ns();
    return done == s->n_streams;
}

void dp_transfer_stop(struct dp_transfer *s, uint64_t timeout_ns)
{
    uint64_t end = dp_now_ns() + timeout_ns;
    uint32_t open;

    do {
        open = 0;
        for (uint32_t i = 0; i < s->n_streams; i++) {
            struct dp_stream *st = &s->stream[i];

            if (dp_transport_is_gone(s->args->transport, st->peer))
                continue;
            if ((st->is_out ? dp_stream_stop_out(s, st, NULL) : dp_stream_stop_in(s, st, NULL)) == 0)
                open++;
        }
        if (open)
            dp_transport_idle(s->args->transport, 20000000u);
    } while (open && dp_now_ns() < end);
}

static void destroy_stream(struct dp_transfer *s, struct dp_stream *st, struct dp_chunk **stuck)
{
    struct dp_transport *t = s->args->transport;

    if (st->ctl_in_x)
        dp_transport_cancel(t, st->ctl_in_x);
    if (st->ctl_out_x)
        dp_transport_cancel(t, st->ctl_out_x);
    for (uint32_t i = 0; i < DP_TRANSFER_WINDOW; i++) {
        struct dp_chunk *g = st->window[i];

        if (g && g->x) {
            dp_transport_cancel(t, g->x);
            g->next = *stuck;
            *stuck = g;
        } else {
            dp_chunks_free(g);
        }
    }
}

void dp_transfer_destroy(struct dp_transfer *s, struct dp_chunk **stuck)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n_streams; i++)
        destroy_stream(s, &s->stream[i], stuck);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        dp_way_free(s->layer[i].way);
        /* If it is unsafe, UCX may still write into it, and the process is to end. */
        if (!s->layer[i].is_copy && !dp_transport_is_unsafe(s->args->transport))
            dp_layer_destroy(s->layer[i].shadow);
    }
    free(s->stream);
    free(s->layer);
    free(s);
}

void dp_chunks_free(struct dp_chunk *stuck)
{
    while (stuck) {
        struct dp_chunk *next = stuck->next;

        free(stuck->buffer);
        free(stuck);
        stuck = next;
    }
}
