/* SPDX-License-Identifier: BSD-3-Clause */
/* See copies_internal.h: streams of copies. What goes over them is a shadowing's (worker/shadow/); here is how they are opened, with what
 * goes on in front, and what a step has more: gradients are waited for, and their squares come along, of which schemes take note. */
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"
#include "worker/copies/copies_internal.h"

/* ---- opening ---- */

static int add_stream(struct dp_copies *c, bool is_out, uint32_t owner, uint32_t holder, struct dp_err *err)
{
    struct dp_copy_stream *x = &c->stream[c->n_streams];
    uint32_t first = c->layout.cut[owner], n = c->layout.cut[owner + 1] - first;

    *x = (struct dp_copy_stream){.is_opening = true, .st = {.is_out = is_out, .peer = is_out ? holder : owner}};
    c->n_streams++;
    x->s.channel = DP_CH_COPY;
    x->s.args = (struct dp_shadowing_args){.transport = c->args.transport, .rank = c->args.rank, .layout = &c->layout,
                                           .config = c->args.config, .backend = c->args.backend, .tune = c->args.tune,
                                           .step = c->n_steps};
    x->st.pace.max_bytes_ns = c->args.config->handover.max_rate / 1e3; /* MB in a second */
    x->st.layer = calloc(n, sizeof *x->st.layer);
    x->answer = calloc(DP_COPY_ANSWER_BYTES(n), sizeof *x->answer);
    x->squares = calloc(n + 1, sizeof *x->squares);
    if (!x->st.layer || !x->answer || !x->squares)
        return dp_err_set(err, DP_ENOMEM, "no memory to copy %u layers", n);
    x->st.n_layers = n;
    for (uint32_t i = 0; i < n; i++)
        x->st.layer[i].index = first + i;
    return 0;
}

static uint64_t gradient_bytes(const struct dp_layer *l)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < l->n_params; i++)
        n += l->param[i].m ? (uint64_t)l->param[i].n * sizeof(float) : 0;
    return n;
}

/* A layer whose gradients this worker has no room for is not copied. */
static int send_heads(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    for (uint32_t i = 0; i < x->st.n_layers; i++) {
        struct dp_shadow_layer *l = &x->st.layer[i];
        struct dp_layer *layer = dp_stage_find(c->stage, l->index);
        uint64_t bytes = layer ? gradient_bytes(layer) : 0;

        if (layer && bytes <= c->room_bytes) {
            l->layer = layer;
            l->state_bytes = dp_layer_state_bytes(layer);
            x->buffer_bytes += bytes;
            if (c->room_bytes != UINT64_MAX)
                c->room_bytes -= bytes;
        } else {
            dp_copy_trouble(c, l->index, "no room for its gradients on their way");
        }
        if (dp_shadow_send_head(&x->s, &x->st, i, c->n_steps, err) < 0)
            return -1;
    }
    x->answer_x = dp_transport_recv(c->args.transport, x->st.peer, dp_shadow_tag(&x->s, c->n_steps, DP_SHADOW_ANSWER, 0), x->answer,
                                    DP_COPY_ANSWER_BYTES(x->st.n_layers), err);
    return x->answer_x ? 0 : -1;
}

static int ask_heads(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    for (uint32_t i = 0; i < x->st.n_layers; i++)
        if (dp_shadow_ask_head(&x->s, &x->st, i, c->n_steps, err) < 0)
            return -1;
    return 0;
}

int dp_copy_streams_open(struct dp_copies *c, const struct dp_copy_place *place, struct dp_err *err)
{
    const struct dp_layout *l = &c->layout;
    uint32_t me = c->args.rank;
    int rc = 0;

    c->stream = calloc(l->n_workers + 1, sizeof *c->stream);
    if (!c->stream)
        return dp_err_set(err, DP_ENOMEM, "no memory for the streams of copies");
    c->holder = place->holder[me];
    for (uint32_t r = 0; r < l->n_workers && rc == 0; r++)
        if (place->holder[r] != DP_COPY_NOWHERE && (r == me || place->holder[r] == me))
            rc = add_stream(c, r == me, r, place->holder[r], err);
    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++)
        rc = c->stream[i].st.is_out ? send_heads(c, &c->stream[i], err) : ask_heads(c, &c->stream[i], err);
    return rc;
}

static int send_small(struct dp_copy_stream *x, uint64_t step, enum dp_shadow_kind kind, const void *data, size_t bytes, struct dp_err *err)
{
    struct dp_shadow_message *m = dp_shadow_slot(&x->st, err);

    if (m)
        m->x = dp_transport_send(x->s.args.transport, x->st.peer, dp_shadow_tag(&x->s, step, kind, 0), data, bytes, err);
    return m && m->x ? 0 : -1;
}

/* Holder: all heads are here, or will be soon. */
static int answer(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    struct dp_writer w;

    for (uint32_t i = 0; i < x->st.n_layers; i++) {
        struct dp_shadow_layer *l = &x->st.layer[i];
        bool is_bad = false;

        if (dp_shadow_wait(&x->s, &l->head_x, &is_bad, err) < 0)
            return -1;
        if (is_bad)
            dp_copy_fail(c, l->index, "its head was damaged on its way");
        else
            x->answer[i] = (uint8_t)dp_copy_decide(c, x, l);
        if (x->answer[i] == DP_COPY_REFUSED)
            dp_copy_drop(c, l->index);
    }
    dp_writer_init(&w, x->answer + x->st.n_layers, 4);
    dp_wr_u32(&w, x->part_units);
    return send_small(x, x->s.args.step, DP_SHADOW_ANSWER, x->answer, DP_COPY_ANSWER_BYTES(x->st.n_layers), err);
}

/* Owner: is that what a holder may say of these layers? */
static int check_answer(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    uint32_t n_parts = 0, units = 0;
    struct dp_reader r;

    dp_reader_init(&r, x->answer + x->st.n_layers, 4);
    x->part_units = dp_rd_u32(&r);
    for (uint32_t i = 0; i < x->st.n_layers; i++) {
        if (x->answer[i] > DP_COPY_GOES_ON || (x->answer[i] != DP_COPY_REFUSED && !x->st.layer[i].layer))
            return dp_err_set(err, DP_EPROTO, "worker %u gave no answer for the copy of layer %u", c->holder, x->st.layer[i].index);
        if (x->answer[i] != DP_COPY_FROM_A_PART)
            continue;
        n_parts++;
        units = dp_shadow_count_units(x->st.layer[i].layer);
    }
    if (n_parts > 1 || (n_parts == 1) != (x->part_units > 0) || x->part_units > units)
        return dp_err_set(err, DP_EPROTO, "worker %u says that it has %u of %u units of a copy", c->holder, x->part_units, units);
    return 0;
}

/* Owner. */
static int await_answer(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    for (uint32_t i = 0; i < x->st.n_layers; i++)
        if (dp_shadow_wait(&x->s, &x->st.layer[i].head_x, NULL, err) < 0)
            return -1;
    return dp_shadow_wait(&x->s, &x->answer_x, NULL, err) < 0 ? -1 : check_answer(c, x, err);
}

/* Both ends: layers that go on, then one of which a part is there, then those whose state is to be sent. What was refused is forgotten. */
static int arrange(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    struct dp_shadow_layer *all = calloc(x->st.n_layers, sizeof *all);
    uint32_t n = 0;

    if (!all)
        return dp_err_set(err, DP_ENOMEM, "no memory to copy %u layers", x->st.n_layers);
    for (int what = DP_COPY_GOES_ON; what > DP_COPY_REFUSED; what--) {
        for (uint32_t i = 0; i < x->st.n_layers; i++)
            if (x->answer[i] == what)
                all[n++] = x->st.layer[i];
        x->n_whole = what == DP_COPY_GOES_ON ? n : x->n_whole;
    }
    free(x->st.layer);
    x->st.layer = all;
    x->st.n_layers = n;
    for (uint32_t i = 0; i < n && !x->st.is_out; i++)
        all[i].layer = c->held[all[i].index].layer;
    for (uint32_t i = 0; i < x->n_whole; i++)
        x->whole_units += dp_shadow_count_units(all[i].layer);
    x->st.n_copied = x->whole_units + x->part_units;
    x->st.is_open = true;
    x->is_opening = false;
    return dp_shadow_units(&x->st, err);
}

/* ---- a step ---- */

static size_t squares_bytes(const struct dp_copy_stream *x)
{
    return x->st.n_layers * sizeof *x->squares + DP_COPY_CHECK_BYTES;
}

static int send_gradients(struct dp_copies *c, struct dp_copy_stream *x, uint64_t step, uint64_t step_ns, const double *squares,
                          struct dp_err *err)
{
    uint32_t first = c->layout.cut[c->args.rank];

    if (x->is_opening && (await_answer(c, x, err) < 0 || arrange(c, x, err) < 0))
        return -1;
    if (!x->st.n_layers)
        return 0;
    x->st.gradient_bytes = 0; /* the pace is that of states alone: gradients go in any case, and for ever */
    if (dp_shadow_send_gradients(&x->s, &x->st, step, step_ns, err) < 0)
        return -1;
    for (uint32_t i = 0; i < x->st.n_layers; i++)
        x->squares[i] = squares[x->st.layer[i].index - first];
    if (dp_copy_check_write(x, step_ns, x->squares + x->st.n_layers, err) < 0)
        return -1;
    return send_small(x, step, DP_SHADOW_SQUARES, x->squares, squares_bytes(x), err);
}

static int ask_gradients(struct dp_copies *c, struct dp_copy_stream *x, uint64_t step, struct dp_err *err)
{
    struct dp_shadow_message *m;

    if (x->is_opening && arrange(c, x, err) < 0)
        return -1;
    if (!x->st.n_layers)
        return 0;
    if (dp_shadow_ask_gradients(&x->s, &x->st, step, err) < 0)
        return -1;
    m = dp_shadow_slot(&x->st, err);
    if (m)
        m->x = dp_transport_recv(c->args.transport, x->st.peer, dp_shadow_tag(&x->s, step, DP_SHADOW_SQUARES, 0), x->squares,
                                 squares_bytes(x), err);
    return m && m->x ? 0 : -1;
}

/* With what kernels need of its patterns, because schemes may change it at the coming boundary. */
static void make_whole(struct dp_copies *c, const struct dp_shadow_layer *l)
{
    struct dp_copy *copy = &c->held[l->index];
    struct dp_err err = {0};

    if (copy->is_failed)
        return;
    if (dp_layer_patterns_arrived(l->layer, &err) < 0 || dp_layer_plan(l->layer, &err) < 0) {
        dp_copy_fail(c, l->index, err.text);
        return;
    }
    copy->is_whole = true;
    copy->n_failed = 0;
}

/* Layers all of whose units have been copied. */
static void count_whole(struct dp_copies *c, struct dp_copy_stream *x)
{
    while (x->n_whole < x->st.n_layers) {
        struct dp_shadow_layer *l = &x->st.layer[x->n_whole];
        uint32_t end = x->whole_units + dp_shadow_count_units(l->layer);

        if (end > x->st.n_copied)
            return;
        x->whole_units = end;
        x->n_whole++;
        if (!x->st.is_out)
            make_whole(c, l);
    }
}

static int arrived(struct dp_copies *c, struct dp_copy_stream *x, uint64_t step, struct dp_err *err)
{
    if (!x->st.n_layers)
        return 0;
    if (dp_shadow_arrived(&x->s, &x->st, step, err) < 0)
        return -1;
    for (uint32_t i = 0; i < x->st.n_layers && x->s.has_failed && !x->has_failed; i++)
        dp_copy_fail(c, x->st.layer[i].index, x->s.why);
    x->has_failed = x->s.has_failed;
    for (uint32_t i = 0; i < x->st.n_layers; i++)
        c->held[x->st.layer[i].index].squares = x->squares[i];
    if (!x->has_failed && dp_copy_check_read(c, x, x->squares + x->st.n_layers, err) < 0)
        return -1;
    count_whole(c, x);
    return 0;
}

int dp_copy_streams_gradients(struct dp_copies *c, uint64_t step, uint64_t step_ns, const double *squares, struct dp_err *err)
{
    int rc = 0;

    /* Nobody waits in a loop for what another one does in a later loop: answers, what is sent, what is received. */
    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++)
        if (!c->stream[i].st.is_out && c->stream[i].is_opening)
            rc = answer(c, &c->stream[i], err);
    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++)
        if (c->stream[i].st.is_out)
            rc = send_gradients(c, &c->stream[i], step, step_ns, squares, err);
    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++)
        if (!c->stream[i].st.is_out)
            rc = ask_gradients(c, &c->stream[i], step, err);
    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++) {
        if (!c->stream[i].st.is_out)
            rc = arrived(c, &c->stream[i], step, err);
        else if (c->stream[i].st.n_layers)
            count_whole(c, &c->stream[i]);
    }
    return rc;
}

int dp_copies_send_states(struct dp_copies *c, struct dp_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++) {
        struct dp_copy_stream *x = &c->stream[i];

        rc = x->st.is_out ? dp_shadow_send_states(&x->s, &x->st, c->n_steps, err) : dp_shadow_ask_states(&x->s, &x->st, c->n_steps, err);
    }
    return rc;
}

bool dp_copies_is_followed(const struct dp_copies *c, uint32_t layer, uint32_t by)
{
    for (uint32_t i = 0; c && i < c->n_streams; i++) {
        const struct dp_copy_stream *x = &c->stream[i];

        for (uint32_t k = 0; x->st.is_out && x->st.peer == by && k < x->n_whole; k++)
            if (x->st.layer[k].index == layer)
                return true;
    }
    return false;
}

/* ---- the end of it ---- */

/* Of a stream in which no step was made the answers are not known yet: what was noted before is so still. */
static void note_parts(struct dp_copies *c, const struct dp_copy_stream *x)
{
    uint32_t before = x->whole_units;

    for (uint32_t i = x->n_whole; i < x->st.n_layers; i++) {
        struct dp_copy *copy = &c->held[x->st.layer[i].index];
        uint32_t n = copy->layer ? dp_shadow_count_units(copy->layer) : 0, come = x->st.n_copied > before ? x->st.n_copied - before : 0;

        copy->n_units = come < n ? come : n;
        before += n;
    }
}

void dp_copy_streams_note_parts(struct dp_copies *c)
{
    for (uint32_t i = 0; i < c->n_streams; i++)
        if (!c->stream[i].st.is_out && !c->stream[i].is_opening)
            note_parts(c, &c->stream[i]);
}

static void give_up(struct dp_copies *c, struct dp_transport_request **x)
{
    if (*x)
        dp_transport_cancel(c->args.transport, *x);
    *x = NULL;
}

static int settle(struct dp_copies *c, struct dp_copy_stream *x, struct dp_err *err)
{
    if (x->is_opening) { /* no step came between: nobody answers any more */
        for (uint32_t i = 0; i < x->st.n_layers; i++)
            give_up(c, &x->st.layer[i].head_x);
        give_up(c, &x->answer_x);
        return 0;
    }
    if (dp_shadow_settle(&x->s, &x->st, err) < 0 || (x->st.news_x && dp_shadow_wait(&x->s, &x->st.news_x, NULL, err) < 0))
        return -1;
    return x->st.peer_news_x ? dp_shadow_wait(&x->s, &x->st.peer_news_x, NULL, err) : 0;
}

int dp_copies_settle(struct dp_copies *c, struct dp_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < c->n_streams && rc == 0; i++)
        rc = settle(c, &c->stream[i], err);
    return rc;
}

static void close_stream(struct dp_copies *c, struct dp_copy_stream *x)
{
    give_up(c, &x->answer_x);
    if (!dp_shadow_end_messages(&x->s, &x->st, false))
        return;
    if (c->room_bytes != UINT64_MAX)
        c->room_bytes += x->buffer_bytes;
    free(x->st.layer);
    free(x->answer);
    free(x->squares);
}

void dp_copy_streams_close(struct dp_copies *c)
{
    for (uint32_t i = 0; i < c->n_streams; i++)
        close_stream(c, &c->stream[i]);
    if (!dp_transport_is_unsafe(c->args.transport))
        free(c->stream);
    c->stream = NULL;
    c->n_streams = 0;
}
