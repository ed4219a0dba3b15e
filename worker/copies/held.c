/* SPDX-License-Identifier: BSD-3-Clause */
/* See copies_internal.h: copies that are here, from the head of their layer on until they are dropped or taken. */
#include <stdio.h>

#include "worker/copies/copies_internal.h"
#include "worker/scheme/scheme.h"

void dp_copy_drop(struct dp_copies *c, uint32_t layer)
{
    struct dp_copy *copy = &c->held[layer];

    dp_layer_destroy(copy->layer);
    if (c->room_bytes != UINT64_MAX)
        c->room_bytes += copy->bytes;
    copy->layer = NULL;
    copy->is_whole = copy->is_failed = false;
    copy->bytes = 0;
    copy->n_units = 0;
}

void dp_copy_trouble(struct dp_copies *c, uint32_t layer, const char *why)
{
    if (c->has_trouble)
        return;
    c->has_trouble = true;
    c->trouble_layer = layer;
    snprintf(c->trouble, sizeof c->trouble, "%.255s", why);
}

void dp_copy_fail(struct dp_copies *c, uint32_t layer, const char *why)
{
    struct dp_copy *copy = &c->held[layer];

    copy->is_whole = false;
    copy->is_failed = true;
    copy->n_failed++;
    c->wants_opening = true;
    dp_copy_trouble(c, layer, why);
}

void dp_copy_note_crossed_out(struct dp_copies *c)
{
    for (uint32_t i = 0; i < c->n_listed; i++)
        if (!c->list[i])
            dp_copy_fail(c, c->listed[i], "it could not be changed as its layer was");
    c->n_listed = 0;
}

/* ---- opening ---- */

/* Messages of a stream are of its first so many units, so of one layer at most a part may be there. */
static bool goes_on(const struct dp_copy *copy, const struct dp_copy_stream *x, const uint8_t *head, size_t bytes)
{
    bool is_there = copy->is_whole || (copy->n_units && !x->part_units);

    return is_there && dp_layer_take_head(copy->layer, head, bytes, NULL) == 0;
}

static uint32_t units_before(const struct dp_copies *c, const struct dp_copy_stream *x)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < x->st.n_layers; i++) {
        const struct dp_copy *copy = &c->held[x->st.layer[i].index];

        n += copy->layer && x->answer[i] != DP_COPY_REFUSED ? dp_shadow_count_units(copy->layer) : 0;
    }
    return n;
}

/* No room is no failure: it may be there at the next opening. */
static int begin(struct dp_copies *c, struct dp_copy_stream *x, struct dp_shadow_layer *l, const uint8_t *head, size_t bytes,
                 struct dp_err *err)
{
    struct dp_copy *copy = &c->held[l->index];

    if (copy->n_failed >= DP_COPY_TRIES)
        return dp_err_set(err, DP_EINVAL, "it failed %u times", copy->n_failed);
    x->s.args.room_bytes = c->room_bytes;
    x->s.held_bytes = 0;
    if (dp_shadow_make(&x->s, l, head, bytes, err) < 0) {
        dp_layer_destroy(l->layer);
        l->layer = NULL;
        return -1;
    }
    copy->layer = l->layer;
    copy->bytes = l->state_bytes;
    if (c->room_bytes != UINT64_MAX)
        c->room_bytes -= copy->bytes;
    if (units_before(c, x) + dp_shadow_count_units(copy->layer) <= DP_UNITS_MAX)
        return 0;
    dp_copy_drop(c, l->index);
    return dp_err_set(err, DP_EINVAL, "more than %u units would be copied between two workers", DP_UNITS_MAX);
}

enum dp_copy_answer dp_copy_decide(struct dp_copies *c, struct dp_copy_stream *x, struct dp_shadow_layer *l)
{
    struct dp_copy *copy = &c->held[l->index];
    struct dp_err err = {0};
    const uint8_t *head;
    size_t bytes;

    if (dp_shadow_read_head(&x->s, &x->st, l, &head, &bytes, &err) < 0) {
        dp_copy_drop(c, l->index);
        dp_copy_fail(c, l->index, err.text);
        return DP_COPY_REFUSED;
    }
    if (bytes && goes_on(copy, x, head, bytes)) {
        x->part_units = copy->is_whole ? x->part_units : copy->n_units;
        return copy->is_whole ? DP_COPY_GOES_ON : DP_COPY_FROM_A_PART;
    }
    dp_copy_drop(c, l->index);
    if (!bytes)
        return DP_COPY_REFUSED;
    if (begin(c, x, l, head, bytes, &err) == 0) {
        copy->is_told = false;
        return DP_COPY_FROM_THE_START;
    }
    if (!copy->is_told)
        dp_copy_trouble(c, l->index, err.text);
    copy->is_told = true;
    return DP_COPY_REFUSED;
}

/* ---- steps ---- */

static int step_whole(struct dp_copies *c, struct dp_layer *l, struct dp_err *err)
{
    for (uint32_t i = 0; i < l->n_params; i++)
        if (l->param[i].m && dp_param_step(l, &l->param[i], 0, l->param[i].n, c->scalars, err) < 0)
            return -1;
    return 0;
}

/* What has arrived of layers that are not whole. */
static void step_parts(struct dp_copies *c, struct dp_copy_stream *x)
{
    struct dp_err err = {0};

    for (uint32_t i = x->whole_units; i < x->st.n_copied; i++) {
        const struct dp_unit *u = &x->st.unit[i];

        if (u->param && !c->held[u->layer->index].is_failed &&
            dp_param_step(u->layer, u->param, u->first, u->n, c->scalars, &err) < 0)
            dp_copy_fail(c, u->layer->index, err.text);
    }
}

static int put_scalars(struct dp_copies *c, uint64_t step, double grad_scale, struct dp_err *err)
{
    struct dp_backend *be = c->args.backend;
    void *mem = NULL;

    if (!c->scalars && be->ops->alloc(be, sizeof *c->scalars, &mem, err) < 0)
        return -1;
    c->scalars = c->scalars ? c->scalars : mem;
    return dp_step_scalars_put(c->args.config, be, c->scalars, step, grad_scale, err);
}

int dp_copies_step_again(struct dp_copies *c, uint64_t step, double grad_scale, struct dp_err *err)
{
    if (!dp_copies_can_step(c, step))
        return dp_err_set(err, DP_EINVAL, "copies have done %llu steps, and the gradients of step %llu are not here",
                          (unsigned long long)c->n_steps, (unsigned long long)step + 1);
    if (put_scalars(c, step, grad_scale, err) < 0)
        return -1;
    for (uint32_t i = 0; i < c->layout.n_layers; i++) {
        struct dp_copy *copy = &c->held[i];
        struct dp_err local = {0};

        if (copy->layer)
            dp_schemes_observe_layer(copy->layer, c->args.config, step + 1, copy->squares, grad_scale);
        if (copy->is_whole && step_whole(c, copy->layer, &local) < 0)
            dp_copy_fail(c, i, local.text);
    }
    for (uint32_t i = 0; i < c->n_streams; i++)
        if (!c->stream[i].st.is_out)
            step_parts(c, &c->stream[i]);
    c->n_steps++;
    c->has_arrived = false;
    return 0;
}

/* ---- what others do with them ---- */

uint32_t dp_copies_list(struct dp_copies *c, struct dp_layer ***list)
{
    if (!c)
        return 0;
    dp_copy_note_crossed_out(c);
    for (uint32_t i = 0; i < c->layout.n_layers; i++)
        if (c->held[i].is_whole) {
            c->listed[c->n_listed] = i;
            c->list[c->n_listed++] = c->held[i].layer;
        }
    *list = c->list;
    return c->n_listed;
}

bool dp_copies_has(const struct dp_copies *c, uint32_t layer)
{
    return c && layer < DP_MAX_LAYERS && c->held[layer].is_whole;
}

struct dp_layer *dp_copies_lend(struct dp_copies *c, uint32_t layer, uint64_t step, const uint8_t *head, size_t bytes)
{
    struct dp_layer *l;

    if (!c)
        return NULL;
    dp_copy_note_crossed_out(c);
    if (c->n_steps != step || !dp_copies_has(c, layer))
        return NULL;
    l = c->held[layer].layer;
    return dp_layer_take_head(l, head, bytes, NULL) == 0 && dp_layer_clear_gradients(l, NULL) == 0 ? l : NULL;
}

void dp_copies_give(struct dp_copies *c, uint32_t layer)
{
    c->held[layer].layer = NULL;
    dp_copy_drop(c, layer);
}

void dp_copies_differ(struct dp_copies *c, uint32_t layer)
{
    dp_copy_fail(c, layer, "it is not what the layer is, and begins anew");
}

struct dp_layer *dp_copies_take(struct dp_copies *c, uint32_t layer, struct dp_err *err)
{
    struct dp_layer *l;

    if (!dp_copies_has(c, layer)) {
        dp_err_set(err, DP_EINVAL, "there is no whole copy of layer %u here", layer);
        return NULL;
    }
    l = c->held[layer].layer;
    c->held[layer].layer = NULL;
    dp_copy_drop(c, layer);
    if (dp_layer_clear_gradients(l, err) == 0 && dp_layer_weights_arrived(l, err) == 0)
        return l;
    dp_layer_destroy(l);
    return NULL;
}
