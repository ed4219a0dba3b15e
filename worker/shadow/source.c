/* SPDX-License-Identifier: BSD-3-Clause */
/* See shadowing_internal.h: the source's end of a stream. What it sends of a layer's state goes from where it lies, because nothing
 * changes it before the next optimizer step; gradients go from a copy, because the next backward overwrites them. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/wire.h"
#include "worker/shadow/shadowing_internal.h"

static int post(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_shadow_message *m, uint64_t tag, const void *data,
                size_t bytes, struct dp_err *err)
{
    m->x = dp_transport_send(s->args.transport, st->peer, tag, data, bytes, err);
    st->moved_bytes += bytes;
    s->sums.sent_bytes += bytes;
    return m->x ? 0 : -1;
}

int dp_shadow_send_head(struct dp_shadowing *s, struct dp_shadow_stream *st, uint32_t i, uint64_t step, struct dp_err *err)
{
    struct dp_shadow_layer *l = &st->layer[i];
    uint8_t head[DP_LAYER_HEAD_MAX];
    size_t n = l->layer ? dp_layer_head_write(l->layer, head) : 0;
    struct dp_writer w;

    memset(l->head, 0, sizeof l->head);
    dp_writer_init(&w, l->head, sizeof l->head);
    dp_wr_u32(&w, DP_SHADOW_MAGIC);
    dp_wr_u64(&w, s->args.migration);
    dp_wr_u32(&w, l->index);
    dp_wr_u64(&w, l->state_bytes);
    dp_wr_u32(&w, (uint32_t)n);
    dp_wr_bytes(&w, head, n);
    l->head_x = dp_transport_send(s->args.transport, st->peer, dp_shadow_tag(s, step, DP_SHADOW_HEAD, i), l->head, sizeof l->head, err);
    return l->head_x ? 0 : -1;
}

int dp_shadow_send_heads(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    struct dp_err local = {0};
    uint64_t floats = 0;

    for (uint32_t i = 0; i < st->n_layers; i++)
        if (dp_shadow_send_head(s, st, i, s->args.step, err) < 0)
            return -1;
    if (dp_shadow_units(st, &local) < 0) {
        dp_shadow_fail(s, local.text);
        return 0;
    }
    for (uint32_t i = 0; i < st->n_units; i++)
        floats += st->unit[i].param ? st->unit[i].bytes : 0;
    if (s->held_bytes + floats > s->args.room_bytes)
        dp_shadow_fail(s, "no room for copies of gradients");
    s->held_bytes += floats;
    return 0;
}

static uint64_t step_bytes(const struct dp_unit *u)
{
    return u->param ? 3 * u->bytes : u->bytes;
}

/* Units whose state goes at the coming boundary: at least one, so that it comes to an end. */
static void choose(const struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step_ns)
{
    uint64_t budget = dp_pace_budget(&st->pace, step_ns, st->gradient_bytes), bytes = 0;

    st->n_new = 0;
    if (s->has_failed || !st->is_open)
        return;
    while (st->n_copied + st->n_new < st->n_units) {
        bytes += step_bytes(&st->unit[st->n_copied + st->n_new]);
        if (st->n_new && bytes > budget)
            break;
        st->n_new++;
    }
}

static int send_gradient(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, uint32_t i, struct dp_err *err)
{
    struct dp_unit *u = &st->unit[i];
    struct dp_shadow_message *m = dp_shadow_slot(st, err);

    if (!m)
        return -1;
    if (!u->buffer)
        u->buffer = malloc(u->bytes);
    if (!u->buffer)
        return dp_err_set(err, DP_ENOMEM, "no memory for a copy of gradients");
    if (s->args.backend->ops->get(s->args.backend, u->buffer, u->param->g + u->first, u->bytes, err) < 0)
        return -1;
    return post(s, st, m, dp_shadow_tag(s, step, DP_SHADOW_GRADIENT, i), u->buffer, u->bytes, err);
}

/* What the destination took, and this end: the pace is that of the slower one. */
static int learn_pace(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err)
{
    uint64_t busy_ns = 0;

    if (st->peer_news_x) {
        if (dp_shadow_read_news(s, st, step - 1, &busy_ns, err) < 0)
            return -1;
        dp_pace_measured(&st->pace, st->moved_bytes, busy_ns > st->busy_ns ? busy_ns : st->busy_ns);
    }
    st->moved_bytes = st->busy_ns = 0;
    return dp_shadow_ask_news(s, st, step, DP_SHADOW_PACE, err);
}

int dp_shadow_send_gradients(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, uint64_t step_ns, struct dp_err *err)
{
    uint64_t start_ns;

    for (uint32_t i = 0; i < st->n_layers; i++)
        if (st->layer[i].head_x && dp_shadow_wait(s, &st->layer[i].head_x, NULL, err) < 0)
            return -1;
    st->is_open = st->unit != NULL;
    if (dp_shadow_settle(s, st, err) < 0 || learn_pace(s, st, step, err) < 0)
        return -1;
    start_ns = dp_now_ns();
    choose(s, st, step_ns);
    if (dp_shadow_send_news(s, st, step, DP_SHADOW_NEWS, st->n_new, err) < 0)
        return -1;
    for (uint32_t i = 0; i < st->n_copied; i++)
        if (st->unit[i].param && send_gradient(s, st, step, i, err) < 0)
            return -1;
    dp_shadow_was_busy(s, st, start_ns);
    return 0;
}

static int send_state(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, uint32_t i, struct dp_err *err)
{
    const struct dp_unit *u = &st->unit[i];
    struct dp_backend *be = s->args.backend;

    for (int at = 0; at < 3; at++) {
        void *data = dp_unit_state(u, at);
        struct dp_shadow_message *m = data ? dp_shadow_slot(st, err) : NULL;

        if (!data)
            break;
        if (!m)
            return -1;
        if (u->is_device && !be->ops->host_memory) {
            m->buffer = malloc(u->bytes);
            if (!m->buffer)
                return dp_err_set(err, DP_ENOMEM, "no memory to copy a layer");
            if (be->ops->get(be, m->buffer, data, u->bytes, err) < 0)
                return -1;
        }
        if (post(s, st, m, dp_shadow_tag(s, step, DP_SHADOW_STATE, 3 * i + (uint32_t)at), m->buffer ? m->buffer : data, u->bytes, err) < 0)
            return -1;
    }
    return 0;
}

int dp_shadow_send_states(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err)
{
    uint64_t start_ns = dp_now_ns();

    for (uint64_t k = 0; k < st->n_new; k++) {
        const struct dp_unit *u = &st->unit[st->n_copied];

        if (send_state(s, st, step, st->n_copied, err) < 0)
            return -1;
        st->gradient_bytes += u->param ? u->bytes : 0;
        st->n_copied++;
    }
    dp_shadow_was_busy(s, st, start_ns);
    return 0;
}
