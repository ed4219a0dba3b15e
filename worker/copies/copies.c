/* SPDX-License-Identifier: BSD-3-Clause */
/* See copies.h: from one opening to the next. */
#include "worker/copies/copies.h"

#include <stdlib.h>

#include "worker/copies/copies_internal.h"

struct dp_copies *dp_copies_create(const struct dp_copies_args *args, struct dp_err *err)
{
    struct dp_copies *c = calloc(1, sizeof *c);

    if (!c) {
        dp_err_set(err, DP_ENOMEM, "no memory for copies of layers");
        return NULL;
    }
    c->args = *args;
    c->holder = DP_COPY_NOWHERE;
    return c;
}

void dp_copies_destroy(struct dp_copies *c)
{
    if (!c)
        return;
    dp_copy_streams_close(c);
    for (uint32_t i = 0; i < DP_MAX_LAYERS && !dp_transport_is_unsafe(c->args.transport); i++)
        dp_copy_drop(c, i);
    if (c->scalars)
        c->args.backend->ops->free(c->args.backend, c->scalars);
    free(c);
}

static bool can_go_on(const struct dp_copy *copy, const struct dp_copies_opening *at)
{
    return copy->is_whole || (copy->n_units && !copy->is_failed && !at->are_changed);
}

/* Copies that this worker has no business with any more, or that cannot go on. */
static void drop_others(struct dp_copies *c, const struct dp_copies_opening *at)
{
    dp_copy_note_crossed_out(c);
    for (uint32_t i = 0; i < DP_MAX_LAYERS; i++) {
        bool is_mine = i < c->layout.n_layers && at->place->holder[dp_layout_owner(&c->layout, i)] == c->args.rank;

        if (!is_mine || !can_go_on(&c->held[i], at) || c->n_steps != at->step)
            dp_copy_drop(c, i);
    }
}

int dp_copies_open(struct dp_copies *c, const struct dp_copies_opening *at, struct dp_err *err)
{
    c->room_bytes = at->room_bytes;
    dp_copy_streams_note_parts(c);
    dp_copy_streams_close(c);
    c->layout = *at->layout;
    c->stage = at->stage;
    drop_others(c, at);
    c->n_steps = at->step;
    c->has_arrived = c->wants_opening = false;
    c->step_bytes = 0;
    return dp_copy_streams_open(c, at->place, err);
}

static uint64_t sent_bytes(const struct dp_copies *c)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < c->n_streams; i++)
        n += c->stream[i].s.sums.sent_bytes;
    return n;
}

int dp_copies_gradients(struct dp_copies *c, uint64_t step, uint64_t step_ns, const double *squares, struct dp_err *err)
{
    if (step != c->n_steps)
        return dp_err_set(err, DP_EINVAL, "copies have done %llu steps, and gradients of step %llu come", (unsigned long long)c->n_steps,
                          (unsigned long long)step + 1);
    if (dp_copy_streams_gradients(c, step, step_ns, squares, err) < 0)
        return -1;
    c->has_arrived = true;
    c->step_bytes = sent_bytes(c);
    for (uint32_t i = 0; i < c->n_streams; i++)
        c->stream[i].s.sums.sent_bytes = 0;
    return 0;
}

bool dp_copies_want_opening(const struct dp_copies *c)
{
    return c && c->wants_opening;
}

const char *dp_copies_take_trouble(struct dp_copies *c, uint32_t *layer)
{
    if (!c || !c->has_trouble)
        return NULL;
    c->has_trouble = false;
    *layer = c->trouble_layer;
    return c->trouble;
}

static bool may_go(const struct dp_copies *c, uint32_t layer, const bool *keep)
{
    return c->held[layer].layer && !keep[layer];
}

uint64_t dp_copies_give_up(struct dp_copies *c, uint64_t bytes, const bool *keep)
{
    uint64_t all = 0, freed = 0;

    for (uint32_t i = 0; c && i < c->layout.n_layers; i++)
        all += may_go(c, i, keep) ? c->held[i].bytes : 0;
    if (all < bytes || !bytes)
        return 0;
    dp_copy_streams_note_parts(c);
    dp_copy_streams_close(c); /* they know the arrays of copies */
    for (int is_whole = 0; is_whole < 2; is_whole++)
        for (uint32_t i = c->layout.n_layers; i-- > 0 && freed < bytes;) {
            if (!may_go(c, i, keep) || c->held[i].is_whole != is_whole)
                continue;
            freed += c->held[i].bytes;
            dp_copy_drop(c, i);
        }
    return freed;
}

void dp_copies_break_off(struct dp_copies *c)
{
    if (!c)
        return;
    dp_copy_streams_close(c);
    dp_copy_note_crossed_out(c);
    for (uint32_t i = 0; i < DP_MAX_LAYERS && !dp_transport_is_unsafe(c->args.transport); i++)
        if (!c->held[i].is_whole)
            dp_copy_drop(c, i);
}

uint64_t dp_copies_step(const struct dp_copies *c)
{
    return c ? c->n_steps : 0;
}

bool dp_copies_can_step(const struct dp_copies *c, uint64_t step)
{
    return c && c->has_arrived && step == c->n_steps;
}

struct dp_copies_cost dp_copies_info(const struct dp_copies *c)
{
    struct dp_copies_cost info = {.holder = DP_COPY_NOWHERE};

    if (!c)
        return info;
    info.holder = c->holder;
    info.step_bytes = c->step_bytes;
    if (c->holder != DP_COPY_NOWHERE)
        info.n_own = c->layout.cut[c->args.rank + 1] - c->layout.cut[c->args.rank];
    for (uint32_t i = 0; i < c->n_streams; i++) {
        info.n_own_whole += c->stream[i].st.is_out ? c->stream[i].n_whole : 0;
        info.held_bytes += c->stream[i].buffer_bytes;
    }
    for (uint32_t i = 0; i < c->layout.n_layers; i++) {
        const struct dp_copy *copy = &c->held[i];

        info.n_held += copy->layer != NULL;
        info.n_held_whole += copy->is_whole;
        info.held_bytes += copy->bytes;
        info.coming_bytes += copy->is_whole ? 0 : copy->bytes;
    }
    return info;
}
