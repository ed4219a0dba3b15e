/* SPDX-License-Identifier: BSD-3-Clause */
/* See shadowing.h: the streams of one worker, what both ends have in common, and what a hand-over takes of it. */
#include "worker/shadow/shadowing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/wire.h"
#include "worker/shadow/shadowing_internal.h"

#define HEADS 2u       /* numbers of messages, in 16 bits: news, pace, then a head for each layer */
#define GRADIENTS (HEADS + DP_MAX_LAYERS)
#define STATES (GRADIENTS + DP_UNITS_MAX)
#define ANSWER (STATES + 3 * DP_UNITS_MAX) /* and squares behind it: of copies (worker/copies/) */
_Static_assert(ANSWER + 4 <= 65536, "each message has a number of its own");

uint64_t dp_shadow_tag(const struct dp_shadowing *s, uint64_t step, enum dp_shadow_kind kind, uint32_t number)
{
    static const uint32_t base[] = {[DP_SHADOW_NEWS] = 0, [DP_SHADOW_PACE] = 1, [DP_SHADOW_HEAD] = HEADS,
                                    [DP_SHADOW_GRADIENT] = GRADIENTS, [DP_SHADOW_STATE] = STATES,
                                    [DP_SHADOW_ANSWER] = ANSWER, [DP_SHADOW_SQUARES] = ANSWER + 1, [DP_SHADOW_BITS] = ANSWER + 2,
                                    [DP_SHADOW_FOLLOWED] = ANSWER + 3};

    return dp_tag(s->channel, s->args.layout->epoch, step, base[kind] + number);
}

void dp_shadow_was_busy(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t since_ns)
{
    uint64_t ns = dp_now_ns() - since_ns;

    st->busy_ns += ns;
    s->sums.busy_ns += ns;
}

void dp_shadow_fail(struct dp_shadowing *s, const char *why)
{
    if (!s->has_failed)
        snprintf(s->why, sizeof s->why, "%.255s", why);
    s->has_failed = true;
}

/* ---- messages ---- */

struct dp_shadow_message *dp_shadow_slot(struct dp_shadow_stream *st, struct dp_err *err)
{
    if (st->n_messages == st->room) {
        uint32_t room = st->room ? 2 * st->room : 64;
        struct dp_shadow_message *more = realloc(st->message, room * sizeof *more);

        if (!more) {
            dp_err_set(err, DP_ENOMEM, "no memory for %u messages", room);
            return NULL;
        }
        st->message = more;
        st->room = room;
    }
    st->message[st->n_messages] = (struct dp_shadow_message){0};
    return &st->message[st->n_messages++];
}

int dp_shadow_wait(struct dp_shadowing *s, struct dp_transport_request **x, bool *bad, struct dp_err *err)
{
    struct dp_err local = {0};
    int rc = dp_transport_wait(s->args.transport, *x, 0, NULL, &local);

    *x = NULL;
    if (rc == 0)
        return 0;
    if (local.code == DP_ECORRUPT && bad) {
        *bad = true;
        return 0;
    }
    if (err)
        *err = local;
    return -1;
}

int dp_shadow_settle(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    struct dp_backend *be = s->args.backend;
    bool is_bad = false;

    for (uint32_t i = 0; i < st->n_messages; i++) {
        struct dp_shadow_message *m = &st->message[i];

        if (m->x && dp_shadow_wait(s, &m->x, st->is_out ? NULL : &is_bad, err) < 0)
            return -1;
        if (m->device && be->ops->put(be, m->device, m->buffer, m->bytes, err) < 0)
            return -1;
        free(m->buffer);
        m->buffer = NULL;
    }
    st->n_messages = 0;
    if (is_bad)
        dp_shadow_fail(s, "a part of a layer was damaged on its way");
    return 0;
}

int dp_shadow_send_news(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, enum dp_shadow_kind kind, uint64_t number,
                        struct dp_err *err)
{
    struct dp_writer w;

    if (st->news_x && dp_shadow_wait(s, &st->news_x, NULL, err) < 0)
        return -1;
    memset(st->news, 0, sizeof st->news);
    dp_writer_init(&w, st->news, sizeof st->news);
    dp_wr_u32(&w, DP_SHADOW_MAGIC);
    dp_wr_u64(&w, s->args.migration);
    dp_wr_u64(&w, step);
    dp_wr_u64(&w, number);
    st->news_x = dp_transport_send(s->args.transport, st->peer, dp_shadow_tag(s, step, kind, 0), st->news, sizeof st->news, err);
    return st->news_x ? 0 : -1;
}

int dp_shadow_ask_news(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, enum dp_shadow_kind kind, struct dp_err *err)
{
    st->peer_news_x = dp_transport_recv(s->args.transport, st->peer, dp_shadow_tag(s, step, kind, 0), st->peer_news,
                                        sizeof st->peer_news, err);
    return st->peer_news_x ? 0 : -1;
}

int dp_shadow_read_news(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, uint64_t *number, struct dp_err *err)
{
    struct dp_reader r;
    bool fits;

    if (dp_shadow_wait(s, &st->peer_news_x, NULL, err) < 0)
        return -1;
    dp_reader_init(&r, st->peer_news, sizeof st->peer_news);
    fits = dp_rd_u32(&r) == DP_SHADOW_MAGIC;
    fits &= dp_rd_u64(&r) == s->args.migration;
    fits &= dp_rd_u64(&r) == step;
    *number = dp_rd_u64(&r);
    if (!fits)
        return dp_err_set(err, DP_EPROTO, "worker %u copies for another hand-over or step", st->peer);
    return 0;
}

/* ---- streams ---- */

static struct dp_shadow_stream *need_stream(struct dp_shadowing *s, bool is_out, uint32_t peer)
{
    struct dp_shadow_stream *st = s->stream;

    for (uint32_t i = 0; i < s->n_streams; i++, st++)
        if (st->is_out == is_out && st->peer == peer)
            return st;
    *st = (struct dp_shadow_stream){.is_out = is_out, .peer = peer};
    st->pace.max_bytes_ns = s->args.config->handover.max_rate / 1e3; /* MB in a second */
    s->n_streams++;
    return st;
}

static int add_layer(struct dp_shadowing *s, const struct dp_move *m, struct dp_err *err)
{
    bool is_out = m->from == s->args.rank;
    struct dp_shadow_stream *st = need_stream(s, is_out, is_out ? m->to : m->from);
    struct dp_shadow_layer *l;

    if (!st->layer)
        st->layer = calloc(DP_MAX_LAYERS, sizeof *st->layer);
    if (!st->layer)
        return dp_err_set(err, DP_ENOMEM, "no memory to shadow layer %u", m->layer);
    l = &st->layer[st->n_layers];
    l->index = m->layer;
    if (is_out) {
        l->layer = dp_stage_find(s->args.stage, m->layer);
        if (!l->layer)
            return dp_err_set(err, DP_EINVAL, "layer %u should move from here but is not here", m->layer);
        l->state_bytes = dp_layer_state_bytes(l->layer);
    }
    st->n_layers++;
    return 0;
}

static int load(struct dp_shadowing *s, struct dp_err *err)
{
    struct dp_moves moves;

    dp_layout_moves(s->args.layout, &s->next, &moves);
    s->stream = calloc(moves.n + 1, sizeof *s->stream);
    if (!s->stream)
        return dp_err_set(err, DP_ENOMEM, "no memory to shadow %u layers", moves.n);
    for (uint32_t i = 0; i < moves.n; i++)
        if ((moves.move[i].from == s->args.rank || moves.move[i].to == s->args.rank) && add_layer(s, &moves.move[i], err) < 0)
            return -1;
    for (uint32_t i = 0; i < s->n_streams; i++)
        if ((s->stream[i].is_out ? dp_shadow_send_heads(s, &s->stream[i], err) : dp_shadow_ask_heads(s, &s->stream[i], err)) < 0)
            return -1;
    return 0;
}

struct dp_shadowing *dp_shadowing_create(const struct dp_shadowing_args *args, struct dp_err *err)
{
    struct dp_shadowing *s = calloc(1, sizeof *s);

    if (!s) {
        dp_err_set(err, DP_ENOMEM, "no memory to copy layers while training goes on");
        return NULL;
    }
    s->args = *args;
    s->channel = DP_CH_SHADOW;
    s->next = *args->next;
    s->args.next = &s->next;
    if (load(s, err) == 0)
        return s;
    dp_shadowing_destroy(s, false);
    return NULL;
}

int dp_shadowing_gradients(struct dp_shadowing *s, uint64_t step, uint64_t step_ns, struct dp_err *err)
{
    int rc = dp_shadowing_follow(s, err);

    for (uint32_t i = 0; i < s->n_streams && rc == 0; i++) {
        struct dp_shadow_stream *st = &s->stream[i];

        rc = st->is_out ? dp_shadow_send_gradients(s, st, step, step_ns, err) : dp_shadow_ask_gradients(s, st, step, err);
    }
    return rc;
}

int dp_shadowing_boundary(struct dp_shadowing *s, uint64_t step, double grad_scale, bool goes_on, struct dp_err *err)
{
    int rc = 0;

    s->sums.n_steps++;
    for (uint32_t i = 0; i < s->n_streams && rc == 0; i++) /* sources first: somebody may wait for them */
        if (s->stream[i].is_out && goes_on)
            rc = dp_shadow_send_states(s, &s->stream[i], step + 1, err);
    for (uint32_t i = 0; i < s->n_streams && rc == 0; i++) {
        struct dp_shadow_stream *st = &s->stream[i];

        if (!st->is_out)
            rc = dp_shadow_replay(s, st, step, grad_scale, err);
        if (!st->is_out && goes_on && rc == 0)
            rc = dp_shadow_ask_states(s, st, step + 1, err);
    }
    return rc;
}

/* ---- what it has ---- */

static bool is_whole(const struct dp_shadow_stream *st)
{
    return st->is_open && st->n_copied == st->n_units;
}

bool dp_shadowing_is_complete(const struct dp_shadowing *s)
{
    bool is = !s->has_failed;

    for (uint32_t i = 0; i < s->n_streams; i++)
        is &= is_whole(&s->stream[i]);
    return is;
}

const char *dp_shadowing_failure(const struct dp_shadowing *s)
{
    return s->has_failed ? s->why : NULL;
}

static struct dp_shadow_layer *find(const struct dp_shadowing *s, uint32_t layer)
{
    for (uint32_t i = 0; i < s->n_streams; i++)
        for (uint32_t k = 0; k < s->stream[i].n_layers; k++)
            if (s->stream[i].layer[k].index == layer)
                return &s->stream[i].layer[k];
    return NULL;
}

bool dp_shadowing_has(const struct dp_shadowing *s, uint32_t layer)
{
    return s && dp_shadowing_is_complete(s) && find(s, layer);
}

struct dp_layer *dp_shadowing_take(struct dp_shadowing *s, uint32_t layer, const uint8_t *head, size_t bytes, struct dp_err *err)
{
    struct dp_shadow_layer *l = find(s, layer);
    struct dp_layer *shadow = l ? l->layer : NULL;

    if (!shadow || dp_layer_take_head(shadow, head, bytes, err) < 0)
        return NULL;
    l->layer = NULL;
    return shadow;
}

struct dp_shadowing_sums dp_shadowing_total(const struct dp_shadowing *s)
{
    return s ? s->sums : (struct dp_shadowing_sums){0};
}

/* ---- end ---- */

static void give_up(struct dp_shadowing *s, struct dp_transport_request **x, bool is_in_step)
{
    struct dp_err ignored = {0};

    if (!*x)
        return;
    if (!is_in_step || dp_transport_wait(s->args.transport, *x, 5 * DP_SECOND_NS, NULL, &ignored) < 0)
        if (!is_in_step || ignored.code == DP_ETIMEOUT)
            dp_transport_cancel(s->args.transport, *x);
    *x = NULL;
}

bool dp_shadow_end_messages(struct dp_shadowing *s, struct dp_shadow_stream *st, bool is_in_step)
{
    struct dp_transport_request **change = dp_shadow_change_request(st);
    bool is_safe;

    if (change)
        give_up(s, change, is_in_step);
    give_up(s, &st->news_x, is_in_step);
    give_up(s, &st->peer_news_x, is_in_step);
    for (uint32_t i = 0; i < st->n_messages; i++)
        give_up(s, &st->message[i].x, is_in_step);
    for (uint32_t i = 0; i < st->n_layers; i++)
        give_up(s, &st->layer[i].head_x, is_in_step);
    is_safe = !dp_transport_is_unsafe(s->args.transport);
    for (uint32_t i = 0; i < st->n_messages && is_safe; i++)
        free(st->message[i].buffer);
    for (uint32_t i = 0; i < st->n_units && is_safe; i++)
        free(st->unit[i].buffer);
    if (is_safe)
        dp_shadow_end_change(st);
    free(st->message);
    free(st->unit);
    return is_safe;
}

static void close_stream(struct dp_shadowing *s, struct dp_shadow_stream *st, bool is_in_step)
{
    if (!dp_shadow_end_messages(s, st, is_in_step))
        return;
    for (uint32_t i = 0; i < st->n_layers && !st->is_out; i++)
        dp_layer_destroy(st->layer[i].layer);
    free(st->layer);
}

void dp_shadowing_destroy(struct dp_shadowing *s, bool is_in_step)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n_streams; i++)
        close_stream(s, &s->stream[i], is_in_step);
    if (s->scalars)
        s->args.backend->ops->free(s->args.backend, s->scalars);
    if (!dp_transport_is_unsafe(s->args.transport))
        free(s->stream);
    free(s);
}
