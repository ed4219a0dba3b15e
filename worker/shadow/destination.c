/* SPDX-License-Identifier: BSD-3-Clause */
/* See shadowing_internal.h: the destination's end of a stream. Messages go from the wire into the shadow's arrays. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/wire.h"
#include "worker/shadow/shadowing_internal.h"

int dp_shadow_ask_head(struct dp_shadowing *s, struct dp_shadow_stream *st, uint32_t i, uint64_t step, struct dp_err *err)
{
    struct dp_shadow_layer *l = &st->layer[i];

    l->head_x = dp_transport_recv(s->args.transport, st->peer, dp_shadow_tag(s, step, DP_SHADOW_HEAD, i), l->head, sizeof l->head, err);
    return l->head_x ? 0 : -1;
}

int dp_shadow_ask_heads(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    for (uint32_t i = 0; i < st->n_layers; i++)
        if (dp_shadow_ask_head(s, st, i, s->args.step, err) < 0)
            return -1;
    return 0;
}

int dp_shadow_read_head(const struct dp_shadowing *s, const struct dp_shadow_stream *st, struct dp_shadow_layer *l, const uint8_t **head,
                        size_t *bytes, struct dp_err *err)
{
    struct dp_reader r;
    uint64_t migration;
    uint32_t magic, index;

    dp_reader_init(&r, l->head, sizeof l->head);
    magic = dp_rd_u32(&r);
    migration = dp_rd_u64(&r);
    index = dp_rd_u32(&r);
    l->state_bytes = dp_rd_u64(&r);
    *bytes = dp_rd_u32(&r);
    *head = l->head + (4 + 8 + 4 + 8 + 4);
    if (magic != DP_SHADOW_MAGIC || migration != s->args.migration || index != l->index || *bytes > DP_LAYER_HEAD_MAX)
        return dp_err_set(err, DP_EPROTO, "worker %u sent a head that is not layer %u's", st->peer, l->index);
    return 0;
}

int dp_shadow_make(struct dp_shadowing *s, struct dp_shadow_layer *l, const uint8_t *head, size_t bytes, struct dp_err *err)
{
    if (l->state_bytes > s->args.room_bytes || s->held_bytes > s->args.room_bytes - l->state_bytes)
        return dp_err_set(err, DP_ENOMEM, "layer %u takes %llu bytes, and there is room for %llu", l->index,
                          (unsigned long long)l->state_bytes, (unsigned long long)(s->args.room_bytes - s->held_bytes));
    l->layer = dp_layer_from_head(s->args.config, s->args.backend, s->args.tune, head, bytes, l->state_bytes, err);
    if (!l->layer)
        return -1;
    if (l->layer->index != l->index)
        return dp_err_set(err, DP_ECORRUPT, "layer %u was sent as layer %u", l->layer->index, l->index);
    s->held_bytes += l->state_bytes;
    return dp_layer_clear_gradients(l->layer, err);
}

static int read_and_make(struct dp_shadowing *s, const struct dp_shadow_stream *st, struct dp_shadow_layer *l, struct dp_err *err)
{
    const uint8_t *head;
    size_t bytes;

    return dp_shadow_read_head(s, st, l, &head, &bytes, err) < 0 ? -1 : dp_shadow_make(s, l, head, bytes, err);
}

static int open_stream(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    struct dp_err local = {0};
    bool is_bad = false;
    int rc = 0;

    for (uint32_t i = 0; i < st->n_layers; i++)
        if (st->layer[i].head_x && dp_shadow_wait(s, &st->layer[i].head_x, &is_bad, err) < 0)
            return -1;
    for (uint32_t i = 0; i < st->n_layers && rc == 0 && !s->has_failed && !is_bad; i++)
        rc = read_and_make(s, st, &st->layer[i], &local);
    if (rc == 0 && !s->has_failed && !is_bad)
        rc = dp_shadow_units(st, &local);
    if (rc < 0 || is_bad)
        dp_shadow_fail(s, rc < 0 ? local.text : "a head was damaged");
    st->is_open = true;
    return 0;
}

static int ask(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t tag, void *data, const struct dp_unit *u, struct dp_err *err)
{
    struct dp_shadow_message *m = dp_shadow_slot(st, err);

    if (!m)
        return -1;
    m->bytes = u->bytes;
    if (u->is_device && !s->args.backend->ops->host_memory) {
        m->buffer = malloc(u->bytes);
        m->device = data;
        if (!m->buffer)
            return dp_err_set(err, DP_ENOMEM, "no memory for a layer that comes");
    }
    m->x = dp_transport_recv(s->args.transport, st->peer, tag, m->buffer ? m->buffer : data, u->bytes, err);
    st->moved_bytes += u->bytes;
    s->sums.received_bytes += u->bytes;
    return m->x ? 0 : -1;
}

int dp_shadow_ask_gradients(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err)
{
    uint64_t start_ns;

    if (!st->is_open && open_stream(s, st, err) < 0)
        return -1;
    start_ns = dp_now_ns();
    if (dp_shadow_settle(s, st, err) < 0 || dp_shadow_send_news(s, st, step, DP_SHADOW_PACE, st->busy_ns, err) < 0 ||
        dp_shadow_ask_news(s, st, step, DP_SHADOW_NEWS, err) < 0)
        return -1;
    st->busy_ns = 0;
    for (uint32_t i = 0; i < st->n_copied; i++) {
        const struct dp_unit *u = &st->unit[i];

        if (u->param && ask(s, st, dp_shadow_tag(s, step, DP_SHADOW_GRADIENT, i), u->param->g + u->first, u, err) < 0)
            return -1;
    }
    dp_shadow_was_busy(s, st, start_ns);
    return 0;
}

/* All parts that no step changes have arrived: look at them, and build what kernels need, while training goes on. */
static int prepare(struct dp_shadow_stream *st, struct dp_err *err)
{
    for (uint32_t i = 0; i < st->n_layers; i++) {
        struct dp_shadow_layer *l = &st->layer[i];
        bool is_there = true;

        for (uint32_t k = st->n_copied; k < st->n_units; k++)
            is_there &= st->unit[k].layer != l->layer || st->unit[k].param;
        if (!is_there || l->is_prepared)
            continue;
        if (dp_layer_patterns_arrived(l->layer, err) < 0 || dp_layer_plan(l->layer, err) < 0)
            return -1;
        l->is_prepared = true;
    }
    return 0;
}

static int step_again(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, double grad_scale, struct dp_err *err)
{
    if (!s->scalars) {
        void *mem = NULL;

        if (s->args.backend->ops->alloc(s->args.backend, sizeof *s->scalars, &mem, err) < 0)
            return -1;
        s->scalars = mem;
    }
    if (dp_step_scalars_put(s->args.config, s->args.backend, s->scalars, step, grad_scale, err) < 0)
        return -1;
    for (uint32_t i = 0; i < st->n_copied; i++) {
        const struct dp_unit *u = &st->unit[i];

        if (u->param && dp_param_step(u->layer, u->param, u->first, u->n, s->scalars, err) < 0)
            return -1;
    }
    return prepare(st, err);
}

int dp_shadow_arrived(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err)
{
    if (dp_shadow_read_news(s, st, step, &st->n_new, err) < 0 || dp_shadow_settle(s, st, err) < 0)
        return -1;
    if (st->n_new > st->n_units - st->n_copied) {
        dp_shadow_fail(s, "more is announced than there is");
        st->n_new = 0;
    }
    return 0;
}

int dp_shadow_replay(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, double grad_scale, struct dp_err *err)
{
    uint64_t start_ns = dp_now_ns();
    struct dp_err local = {0};

    if (dp_shadow_arrived(s, st, step, err) < 0)
        return -1;
    if (!s->has_failed && st->n_copied && step_again(s, st, step, grad_scale, &local) < 0)
        dp_shadow_fail(s, local.text);
    dp_shadow_was_busy(s, st, start_ns);
    return 0;
}

int dp_shadow_ask_states(struct dp_shadowing *s, struct dp_shadow_stream *st, uint64_t step, struct dp_err *err)
{
    for (uint64_t k = 0; k < st->n_new; k++, st->n_copied++) {
        const struct dp_unit *u = &st->unit[st->n_copied];
        void *data;

        for (int at = 0; at < 3 && (data = dp_unit_state(u, at)); at++)
            if (ask(s, st, dp_shadow_tag(s, step, DP_SHADOW_STATE, 3 * st->n_copied + (uint32_t)at), data, u, err) < 0)
                return -1;
    }
    return 0;
}
