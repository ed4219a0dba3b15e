/* SPDX-License-Identifier: BSD-3-Clause */
/* See shadowing.h: layers that change while they are copied. What pruning leaves the source tells: a bit for each block that a matrix had
 * before. The destination does the same to what it has, by the same function, and sees by the layer's new head whether the same came out.
 * Freezing needs no more than that head.
 *
 * Of a layer that is not all there yet a part goes on: a matrix lies row of blocks after row of blocks, before and after, so what was
 * copied of its beginning is what it begins with. Both ends count alike how many units that is. */
#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "worker/shadow/shadowing_internal.h"

/* A layer before the change: its arrays, and what was copied of them. */
struct dp_shadow_mark {
    struct dp_tensor_head tensor[DP_LAYER_MAX_PARAMS];
    bool is_frozen;
    uint32_t n_units, n_copied;
    bool is_begun; /* its patterns are there, all params before `param`, and of that one `n` elements, `rows` whole rows of blocks */
    uint32_t param;
    int64_t n, rows;
};

/* Bits that are left of a param. */
struct dp_shadow_bits {
    uint32_t layer, param; /* of the stream's layers; of that layer */
    size_t bytes;
    uint8_t *bits;         /* owned */
};

/* From a change until the destination has done the same. */
struct dp_shadow_change {
    uint64_t step; /* optimizer steps completed */
    struct dp_shadow_mark *mark; /* [layers of the stream] */
    struct dp_shadow_bits *bits; /* source, in the order of layers and params */
    uint32_t n_bits;
    uint8_t *message; /* those of params that did change */
    struct dp_transport_request *x;
};

/* ---- how much of a layer goes on ---- */

static uint32_t ranges_of(const struct dp_param *p)
{
    return p->m ? (uint32_t)((p->n + DP_UNIT_FLOATS - 1) / DP_UNIT_FLOATS) : 0;
}

static uint32_t count_patterns(struct dp_layer *l)
{
    uint32_t n = dp_shadow_count_units(l);

    for (uint32_t i = 0; i < l->n_params; i++)
        n -= ranges_of(&l->param[i]);
    return n;
}

static int64_t rows_within(const struct dp_param *p, int64_t block, int64_t n)
{
    int64_t rows = 0;

    if (!p->sparse)
        return n / (block * p->cols);
    while (rows < p->rows / block && p->sparse->row_ptr[rows + 1] * dp_block_weights(block) <= n)
        rows++;
    return rows;
}

static void mark(const struct dp_shadow_stream *st, uint32_t first, struct dp_layer *l, struct dp_shadow_mark *m)
{
    uint32_t come = st->n_copied > first ? st->n_copied - first : 0;
    const struct dp_unit *next = &st->unit[first + come];

    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < l->n_params; i++)
        m->tensor[i] = dp_tensor_head_of(&l->param[i]);
    m->is_frozen = l->is_frozen;
    m->n_units = dp_shadow_count_units(l);
    m->n_copied = come < m->n_units ? come : m->n_units;
    m->is_begun = m->n_copied && m->n_copied >= count_patterns(l);
    if (!m->is_begun || m->n_copied == m->n_units)
        return;
    m->param = (uint32_t)(next->param - l->param);
    m->n = next->first;
    m->rows = next->param->prunable ? rows_within(next->param, dp_train_block_rows(l->config), m->n) : 0;
}

static bool is_pruned(const struct dp_tensor_head *before, const struct dp_tensor_head *now)
{
    return before->n != now->n || before->nnz != now->nnz || before->format != now->format;
}

static bool is_changed(const struct dp_shadow_mark *m, const struct dp_tensor_head *now, uint32_t n, bool is_frozen)
{
    bool is = m->is_frozen != is_frozen;

    for (uint32_t i = 0; i < n; i++)
        is |= is_pruned(&m->tensor[i], &now[i]);
    return is;
}

/* What is there of it is of use when it has changed so? A part of a layer that is frozen is not: its units are in another order then. */
static bool goes_on(const struct dp_shadow_mark *m, bool is_frozen)
{
    return m->n_copied == m->n_units || (m->is_begun && m->is_frozen == is_frozen);
}

/* Units of the changed layer that are there. */
static uint32_t left(const struct dp_shadow_mark *m, struct dp_layer *l)
{
    struct dp_tensor_head now[DP_LAYER_MAX_PARAMS];
    const struct dp_param *p = &l->param[m->param];
    uint32_t n;

    for (uint32_t i = 0; i < l->n_params; i++)
        now[i] = dp_tensor_head_of(&l->param[i]);
    if (!is_changed(m, now, l->n_params, l->is_frozen))
        return m->n_copied;
    if (!goes_on(m, l->is_frozen))
        return 0;
    if (m->n_copied == m->n_units)
        return dp_shadow_count_units(l);
    n = count_patterns(l);
    for (uint32_t i = 0; i < m->param; i++)
        n += ranges_of(&l->param[i]);
    return n + (uint32_t)((p->sparse ? p->sparse->row_ptr[m->rows] * dp_block_weights(dp_sparse_block(p->sparse)) : m->n) / DP_UNIT_FLOATS);
}

/* Units of the changed layers, of which the first so many are there. */
static int count_again(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    uint64_t buffers = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < st->n_units; i++) {
        buffers += st->unit[i].param ? st->unit[i].bytes : 0;
        free(st->unit[i].buffer);
    }
    for (uint32_t i = 0; i < st->n_layers; i++)
        n += left(&st->change->mark[i], st->layer[i].layer);
    free(st->unit);
    st->unit = NULL;
    st->n_units = st->n_copied = 0;
    st->gradient_bytes = 0;
    if (dp_shadow_units(st, err) < 0)
        return -1;
    st->n_copied = n;
    for (uint32_t i = 0; i < n; i++)
        st->gradient_bytes += st->unit[i].param ? st->unit[i].bytes : 0;
    if (!st->is_out)
        return 0;
    s->held_bytes -= buffers;
    for (uint32_t i = 0; i < st->n_units; i++)
        s->held_bytes += st->unit[i].param ? st->unit[i].bytes : 0;
    return s->held_bytes > s->args.room_bytes ? dp_err_set(err, DP_ENOMEM, "no room for copies of gradients") : 0;
}

/* Nothing of it is there any more, at either end. */
static void empty(struct dp_shadow_stream *st)
{
    for (uint32_t i = 0; i < st->n_units; i++)
        free(st->unit[i].buffer);
    st->n_units = st->n_copied = 0;
    st->gradient_bytes = 0;
}

static int begin(struct dp_shadow_stream *st, struct dp_err *err)
{
    uint32_t first = 0;

    st->change = calloc(1, sizeof *st->change);
    if (st->change)
        st->change->mark = calloc(st->n_layers, sizeof *st->change->mark);
    if (!st->change || !st->change->mark)
        return dp_err_set(err, DP_ENOMEM, "no memory to follow a change of %u layers", st->n_layers);
    for (uint32_t i = 0; i < st->n_layers && st->n_units; i++) {
        mark(st, first, st->layer[i].layer, &st->change->mark[i]);
        first += st->change->mark[i].n_units;
    }
    return 0;
}

void dp_shadow_end_change(struct dp_shadow_stream *st)
{
    struct dp_shadow_change *c = st->change;

    if (!c)
        return;
    for (uint32_t i = 0; i < c->n_bits; i++)
        free(c->bits[i].bits);
    free(c->bits);
    free(c->message);
    free(c->mark);
    free(c);
    st->change = NULL;
}

struct dp_transport_request **dp_shadow_change_request(struct dp_shadow_stream *st)
{
    return st->change ? &st->change->x : NULL;
}

/* ---- the source's end ---- */

int dp_shadowing_before_change(struct dp_shadowing *s, struct dp_err *err)
{
    for (uint32_t i = 0; i < s->n_streams; i++) {
        struct dp_shadow_stream *st = &s->stream[i];

        if (st->is_out && (dp_shadow_settle(s, st, err) < 0 || begin(st, err) < 0))
            return -1;
    }
    return 0;
}

static int keep_bits(struct dp_shadow_stream *st, uint32_t layer, const struct dp_param *p, const uint64_t *bits, int64_t n,
                     struct dp_err *err)
{
    const struct dp_layer *l = st->layer[layer].layer;
    struct dp_shadow_change *c = st->change;
    struct dp_shadow_bits *b;

    if (!c->mark[layer].is_begun)
        return 0;
    if (!c->bits)
        c->bits = calloc((size_t)st->n_layers * DP_LAYER_MAX_PARAMS, sizeof *c->bits);
    if (!c->bits)
        return dp_err_set(err, DP_ENOMEM, "no memory to tell what is pruned");
    b = &c->bits[c->n_bits];
    b->layer = layer;
    b->param = (uint32_t)(p - l->param);
    b->bytes = dp_bits_words(n) * sizeof *bits;
    b->bits = malloc(b->bytes + 1);
    if (!b->bits)
        return dp_err_set(err, DP_ENOMEM, "no memory to tell what is pruned of layer %u", l->index);
    c->n_bits++;
    return l->be->ops->get(l->be, b->bits, bits, b->bytes, err);
}

int dp_shadowing_chosen(void *arg, const struct dp_layer *l, const struct dp_param *p, const uint64_t *bits, int64_t n, struct dp_err *err)
{
    struct dp_shadowing *s = arg;

    for (uint32_t i = 0; i < s->n_streams; i++)
        for (uint32_t k = 0; s->stream[i].is_out && k < s->stream[i].n_layers; k++)
            if (s->stream[i].layer[k].layer == l)
                return keep_bits(&s->stream[i], k, p, bits, n, err);
    return 0;
}

static bool takes_bits(const struct dp_shadow_stream *st, const struct dp_shadow_bits *b)
{
    const struct dp_shadow_mark *m = &st->change->mark[b->layer];
    const struct dp_layer *l = st->layer[b->layer].layer;
    struct dp_tensor_head now = dp_tensor_head_of(&l->param[b->param]);

    return goes_on(m, l->is_frozen) && is_pruned(&m->tensor[b->param], &now);
}

static int send_bits(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    struct dp_shadow_change *c = st->change;
    size_t bytes = 0;

    for (uint32_t i = 0; i < c->n_bits; i++)
        bytes += takes_bits(st, &c->bits[i]) ? c->bits[i].bytes : 0;
    if (!bytes)
        return 0;
    c->message = malloc(bytes);
    if (!c->message)
        return dp_err_set(err, DP_ENOMEM, "no memory to tell what is pruned");
    bytes = 0;
    for (uint32_t i = 0; i < c->n_bits; i++) {
        if (takes_bits(st, &c->bits[i])) {
            memcpy(c->message + bytes, c->bits[i].bits, c->bits[i].bytes);
            bytes += c->bits[i].bytes;
        }
        free(c->bits[i].bits);
        c->bits[i].bits = NULL;
    }
    s->sums.sent_bytes += bytes;
    c->x = dp_transport_send(s->args.transport, st->peer, dp_shadow_tag(s, c->step, DP_SHADOW_BITS, 0), c->message, bytes, err);
    return c->x ? 0 : -1;
}

static int tell_change(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    for (uint32_t i = 0; i < st->n_layers; i++) {
        st->layer[i].state_bytes = dp_layer_state_bytes(st->layer[i].layer);
        if (dp_shadow_send_head(s, st, i, st->change->step, err) < 0)
            return -1;
    }
    return send_bits(s, st, err);
}

static int end_at_source(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    struct dp_shadow_change *c = st->change;
    struct dp_err local = {0};
    uint64_t is_done = 0;

    for (uint32_t i = 0; i < st->n_layers; i++)
        if (dp_shadow_wait(s, &st->layer[i].head_x, NULL, err) < 0)
            return -1;
    if (st->peer_news_x && dp_shadow_wait(s, &st->peer_news_x, NULL, err) < 0) /* what it took for the step before is no matter now */
        return -1;
    if (dp_shadow_ask_news(s, st, c->step, DP_SHADOW_FOLLOWED, err) < 0 || dp_shadow_read_news(s, st, c->step, &is_done, err) < 0)
        return -1;
    if (c->x && dp_shadow_wait(s, &c->x, NULL, err) < 0)
        return -1;
    if (is_done) {
        if (count_again(s, st, &local) < 0)
            dp_shadow_fail(s, local.text);
    } else {
        empty(st);
        dp_shadow_fail(s, "its destination could not change it likewise");
    }
    return 0;
}

/* ---- the destination's ---- */

/* What a head says of a layer's arrays. */
static int read_tensors(const struct dp_layer *l, const uint8_t *head, size_t bytes, struct dp_tensor_head *out, bool *is_frozen,
                        struct dp_err *err)
{
    const uint8_t *at = head, *end = head + bytes;
    struct dp_layer *other = dp_layer_header_decode(&at, end, l->config, l->be, l->tune, err);
    int rc = 0;

    if (!other)
        return -1;
    *is_frozen = other->is_frozen;
    if (other->index != l->index || other->n_params != l->n_params || end - at != (ptrdiff_t)(l->n_params * DP_TENSOR_HEAD_BYTES))
        rc = dp_err_set(err, DP_ECORRUPT, "layer %u: another head came", l->index);
    for (uint32_t i = 0; i < l->n_params && rc == 0; i++, at += DP_TENSOR_HEAD_BYTES)
        rc = dp_tensor_head_decode(at, &l->param[i], l->param[i].m && !other->is_frozen, &out[i], err);
    dp_layer_destroy(other);
    return rc;
}

/* A layer whose head is here. */
struct dp_shadow_news_of_layer {
    const uint8_t *head;
    size_t bytes;
    struct dp_tensor_head tensor[DP_LAYER_MAX_PARAMS];
    bool is_frozen, is_changed;
    uint64_t old_bytes; /* that its state took */
};

static size_t bits_of(const struct dp_param *p, const struct dp_layer *l)
{
    return dp_bits_words(dp_param_blocks(p, dp_train_block_rows(l->config))) * sizeof(uint64_t);
}

static int read_news_of(struct dp_shadowing *s, const struct dp_shadow_stream *st, struct dp_shadow_layer *l,
                        const struct dp_shadow_mark *m, struct dp_shadow_news_of_layer *n, size_t *bits, struct dp_err *err)
{
    n->old_bytes = l->state_bytes;
    if (dp_shadow_read_head(s, st, l, &n->head, &n->bytes, err) < 0 ||
        read_tensors(l->layer, n->head, n->bytes, n->tensor, &n->is_frozen, err) < 0)
        return -1;
    n->is_changed = is_changed(m, n->tensor, l->layer->n_params, n->is_frozen);
    for (uint32_t j = 0; j < l->layer->n_params && goes_on(m, n->is_frozen); j++)
        *bits += is_pruned(&m->tensor[j], &n->tensor[j]) ? bits_of(&l->layer->param[j], l->layer) : 0;
    return 0;
}

/* The same by the same function. New arrays are made beside the old ones, one param after the other. */
static int prune_param(struct dp_shadowing *s, struct dp_layer *l, struct dp_param *p, const struct dp_tensor_head *to, uint8_t *bits,
                       struct dp_err *err)
{
    const int64_t n = dp_param_blocks(p, dp_train_block_rows(l->config));
    const size_t bytes = bits_of(p, l);
    void *chosen = NULL;
    uint64_t last;

    if (!p->prunable)
        return dp_err_set(err, DP_ECORRUPT, "layer %u: %s is said to be pruned", l->index, p->name);
    if (s->args.room_bytes != UINT64_MAX && s->held_bytes + (uint64_t)to->n * 4 * sizeof(float) > s->args.room_bytes)
        return dp_err_set(err, DP_ENOMEM, "no room to prune what was copied of layer %u", l->index);
    if (n % 64) { /* behind the last block there is none */
        memcpy(&last, bits + bytes - sizeof last, sizeof last);
        last &= ((uint64_t)1 << n % 64) - 1;
        memcpy(bits + bytes - sizeof last, &last, sizeof last);
    }
    if (l->be->ops->alloc(l->be, bytes, &chosen, err) < 0)
        return -1;
    if (l->be->ops->put(l->be, chosen, bits, bytes, err) < 0) {
        l->be->ops->free(l->be, chosen);
        return -1;
    }
    return dp_param_keep_chosen(l, p, chosen, err);
}

static int change_layer(struct dp_shadowing *s, struct dp_shadow_layer *l, const struct dp_shadow_mark *m,
                        const struct dp_shadow_news_of_layer *n, uint8_t **bits, struct dp_err *err)
{
    if (!n->is_changed)
        return 0;
    if (!goes_on(m, n->is_frozen)) {
        dp_layer_destroy(l->layer);
        l->layer = NULL;
        l->is_prepared = false;
        s->held_bytes -= n->old_bytes;
        return dp_shadow_make(s, l, n->head, n->bytes, err);
    }
    for (uint32_t j = 0; j < l->layer->n_params; j++) {
        struct dp_param *p = &l->layer->param[j];
        size_t bytes = bits_of(p, l->layer);

        if (!is_pruned(&m->tensor[j], &n->tensor[j]))
            continue;
        if (prune_param(s, l->layer, p, &n->tensor[j], *bits, err) < 0)
            return -1;
        *bits += bytes;
    }
    if (n->is_frozen && dp_layer_freeze(l->layer, err) < 0)
        return -1;
    s->held_bytes += l->state_bytes - n->old_bytes;
    if (s->held_bytes > s->args.room_bytes)
        return dp_err_set(err, DP_ENOMEM, "no room for layer %u as it was changed", l->index);
    if (dp_layer_clear_gradients(l->layer, err) < 0)
        return -1;
    return dp_layer_take_head(l->layer, n->head, n->bytes, err);
}

static int change_layers(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_shadow_news_of_layer *news, bool *is_bad,
                         struct dp_err *local, struct dp_err *err)
{
    struct dp_shadow_change *c = st->change;
    size_t bytes = 0;
    uint8_t *at;
    int rc = 0;

    for (uint32_t i = 0; i < st->n_layers && rc == 0; i++)
        rc = read_news_of(s, st, &st->layer[i], &c->mark[i], &news[i], &bytes, local);
    if (rc < 0)
        return 0;
    c->message = malloc(bytes + 1);
    if (!c->message)
        return dp_err_set(err, DP_ENOMEM, "no memory for what is pruned");
    if (bytes) {
        c->x = dp_transport_recv(s->args.transport, st->peer, dp_shadow_tag(s, c->step, DP_SHADOW_BITS, 0), c->message, bytes, err);
        if (!c->x || dp_shadow_wait(s, &c->x, is_bad, err) < 0)
            return -1;
        s->sums.received_bytes += bytes;
    }
    at = c->message;
    for (uint32_t i = 0; i < st->n_layers && rc == 0 && !*is_bad && !s->has_failed; i++)
        rc = change_layer(s, &st->layer[i], &c->mark[i], &news[i], &at, local);
    if (rc == 0 && !*is_bad && !s->has_failed)
        (void)count_again(s, st, local);
    return 0;
}

static int end_at_destination(struct dp_shadowing *s, struct dp_shadow_stream *st, struct dp_err *err)
{
    struct dp_shadow_news_of_layer *news = calloc(st->n_layers, sizeof *news);
    struct dp_err local = {0};
    bool is_bad = false;
    int rc = 0;

    if (!news)
        return dp_err_set(err, DP_ENOMEM, "no memory to follow a change of %u layers", st->n_layers);
    for (uint32_t i = 0; i < st->n_layers && rc == 0; i++)
        rc = dp_shadow_wait(s, &st->layer[i].head_x, &is_bad, err);
    if (rc == 0 && !is_bad)
        rc = change_layers(s, st, news, &is_bad, &local, err);
    free(news);
    if (rc < 0)
        return -1;
    if (is_bad || local.code)
        dp_shadow_fail(s, is_bad ? "what changes a layer was damaged on its way" : local.text);
    if (s->has_failed)
        empty(st);
    return dp_shadow_send_news(s, st, st->change->step, DP_SHADOW_FOLLOWED, !s->has_failed, err);
}

/* ---- both ---- */

int dp_shadowing_changed(struct dp_shadowing *s, uint64_t step, struct dp_err *err)
{
    for (uint32_t i = 0; i < s->n_streams; i++) {
        struct dp_shadow_stream *st = &s->stream[i];

        if (!st->is_out && begin(st, err) < 0)
            return -1;
        st->change->step = step;
        for (uint32_t k = 0; k < st->n_layers && !st->is_out; k++)
            if (dp_shadow_ask_head(s, st, k, step, err) < 0)
                return -1;
        if (st->is_out && tell_change(s, st, err) < 0)
            return -1;
    }
    s->sums.n_changes++;
    return 0;
}

int dp_shadowing_follow(struct dp_shadowing *s, struct dp_err *err)
{
    /* Destinations first: nobody waits for an answer before it has given its own. */
    for (int is_out = 0; is_out < 2; is_out++)
        for (uint32_t i = 0; i < s->n_streams; i++) {
            struct dp_shadow_stream *st = &s->stream[i];

            if (st->is_out != is_out || !st->change)
                continue;
            if ((is_out ? end_at_source(s, st, err) : end_at_destination(s, st, err)) < 0)
                return -1;
            dp_shadow_end_change(st);
        }
    return 0;
}
