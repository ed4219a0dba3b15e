/* SPDX-License-Identifier: BSD-3-Clause */
/* See neighbours.h. */
#include "worker/step/neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

#define LOOK_NS 50000u /* asleep for a message, before the next look at copies of others that go */
#define PLACE_ALIGN 256u /* of places: what kernels read in one go, and more */
#define TURNS 2 /* places of messages that are not kept: one is used while the other is copied */
#define GIVE_UP_NS 5000000000u /* for copies to end when a run does; memory of one that does not is left */

static void no_neighbours(struct dp_neighbours *n)
{
    n->sending_end = &n->sending;
    for (int side = 0; side < DP_N_SIDES; side++)
        n->link[side].with = -1;
}

void dp_neighbours_init(struct dp_neighbours *n, const struct dp_device_wait *wait, size_t bytes, uint32_t rank, bool may_link)
{
    *n = (struct dp_neighbours){.wait = wait, .bytes = bytes, .rank = rank, .may_link = may_link, .said_with = -1};
    no_neighbours(n);
}

static bool is_host(const struct dp_neighbours *n)
{
    return n->wait->be->ops->host_memory;
}

/* Where a neighbour's messages of a channel come from, and where this worker's go to. */
static struct dp_device_link *link_from(struct dp_neighbours *n, enum dp_channel channel)
{
    return &n->link[channel == DP_CH_ACTIVATION ? DP_SIDE_PREV : DP_SIDE_NEXT];
}

static struct dp_device_link *link_to(struct dp_neighbours *n, enum dp_channel channel)
{
    return &n->link[channel == DP_CH_ACTIVATION ? DP_SIDE_NEXT : DP_SIDE_PREV];
}

/* ---- release ---- */

static void cancel(struct dp_neighbours *n, struct dp_transport_request **x)
{
    if (*x)
        dp_transport_cancel(n->wait->transport, *x);
    *x = NULL;
}

/* Not those that are places. */
static void destroy_all(struct dp_neighbours *n, struct dp_stage_message *m, bool is_idle)
{
    struct dp_backend *be = n->wait->be;

    while (m) {
        struct dp_stage_message *next = m->next;

        cancel(n, &m->request);
        if (m->host) {
            if (!m->device && is_idle)
                be->ops->free_staging(be, m->host);
            be->ops->free(be, m->device);
            free(m);
        }
        m = next;
    }
}

/* No copying lane uses them any more. */
static void free_places(struct dp_neighbours *n, enum dp_place place)
{
    for (uint32_t i = 0; i < n->n_places[place]; i++)
        cancel(n, &n->place[place][i].free_request);
    n->wait->be->ops->free(n->wait->be, n->area[place]);
    free(n->place[place]);
    n->area[place] = NULL;
    n->area_bytes[place] = 0;
    n->place[place] = NULL;
    n->n_places[place] = 0;
}

void dp_neighbours_release(struct dp_neighbours *n)
{
    bool is_idle = true;

    if (!n->wait || !n->wait->be)
        return;
    for (int lane = 0; lane < DP_N_LANES; lane++)
        is_idle &= dp_device_drain(n->wait, (enum dp_lane)lane, GIVE_UP_NS);
    destroy_all(n, n->sending, is_idle);
    destroy_all(n, n->spare, is_idle);
    for (int side = 0; side < DP_N_SIDES; side++)
        dp_device_link_drop(&n->link[side], n->wait, is_idle);
    for (int place = 0; place < DP_N_PLACES; place++)
        free_places(n, (enum dp_place)place);
    dp_neighbours_init(n, n->wait, n->bytes, n->rank, n->may_link);
}

size_t dp_neighbours_bytes(const struct dp_neighbours *n)
{
    size_t bytes = n->n_messages * n->bytes;

    for (int place = 0; place < DP_N_PLACES; place++)
        bytes += n->area_bytes[place];
    return bytes;
}

/* ---- memory ---- */

static size_t stride(const struct dp_neighbours *n)
{
    return (n->bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
}

/* One piece of memory for all of them: with nothing else in it where neighbours may open it. */
static int make_places(struct dp_neighbours *n, enum dp_place place, uint32_t count, struct dp_err *err)
{
    struct dp_backend *be = n->wait->be;
    const bool is_shown = n->may_link && be->ops->link && place != DP_PLACE_OUTPUT;
    const size_t unit = is_shown ? be->ops->link->unit : PLACE_ALIGN, bytes = (count * stride(n) + unit - 1) / unit * unit;

    if (n->n_places[place] == count)
        return 0;
    for (uint32_t i = 0; i < n->n_places[place]; i++)
        if (dp_device_await(n->wait, n->place[place][i].ticket, err) < 0)
            return -1;
    free_places(n, place);
    if (!count)
        return 0;
    n->place[place] = calloc(count, sizeof *n->place[place]);
    if (!n->place[place])
        return dp_err_set(err, DP_ENOMEM, "no memory for %u messages", count);
    if (be->ops->alloc(be, bytes, &n->area[place], err) < 0) {
        n->area[place] = NULL;
        return dp_err_prefix(err, "%u stage messages of %zu bytes", count, n->bytes);
    }
    n->area_bytes[place] = bytes;
    n->n_places[place] = count;
    for (uint32_t i = 0; i < count; i++)
        n->place[place][i].device = (char *)n->area[place] + i * stride(n);
    return 0;
}

/* On the device where that is host memory, else staging memory. */
static struct dp_stage_message *make(struct dp_neighbours *n, struct dp_err *err)
{
    struct dp_backend *be = n->wait->be;
    struct dp_stage_message *m = calloc(1, sizeof *m);

    if (!m)
        dp_err_set(err, DP_ENOMEM, "no memory");
    if (!m || (is_host(n) ? be->ops->alloc : be->ops->alloc_staging)(be, n->bytes, &m->host, err) < 0) {
        dp_err_prefix(err, "a stage message of %zu bytes", n->bytes);
        free(m);
        return NULL;
    }
    m->device = is_host(n) ? m->host : NULL;
    n->n_messages++;
    return m;
}

/* As much as a pass usually has on its way: it is slow to make. */
static int make_staging(struct dp_neighbours *n, uint32_t count, struct dp_err *err)
{
    while (n->n_messages < count) {
        struct dp_stage_message *m = make(n, err);

        if (!m)
            return -1;
        m->next = n->spare;
        n->spare = m;
    }
    return 0;
}

/* Said by the worker in front, once for each neighbour and way. */
static void say_way(struct dp_neighbours *n)
{
    const struct dp_device_link *l = &n->link[DP_SIDE_NEXT];

    if (l->with < 0 || (n->said_with == l->with && n->said_on == l->is_on))
        return;
    n->said_with = l->with;
    n->said_on = l->is_on;
    if (l->is_on)
        dp_info("messages between workers %u and %d go from device to device", n->rank, l->with);
    else
        dp_info("messages between workers %u and %d go through staging memory: %s", n->rank, l->with, l->why);
}

static int meet(struct dp_neighbours *n, int prev, int next, struct dp_err *err)
{
    const enum dp_place place[DP_N_SIDES] = {[DP_SIDE_PREV] = DP_PLACE_INPUT, [DP_SIDE_NEXT] = DP_PLACE_GRADIENT};

    if (n->has_met)
        return 0;
    for (int side = 0; side < DP_N_SIDES; side++)
        n->link[side] = (struct dp_device_link){
            .with = side == DP_SIDE_PREV ? prev : next,
            .mine = {.memory = n->area[place[side]], .n_places = n->n_places[place[side]], .stride = stride(n)}};
    if (dp_device_links_meet(n->link, n->wait, n->bytes, n->may_link, n->epoch, n->step, err) < 0)
        return -1;
    n->has_met = true;
    say_way(n);
    return 0;
}

int dp_neighbours_reserve(struct dp_neighbours *n, uint32_t in_flight, int prev, int next, struct dp_err *err)
{
    const bool has_prev = prev >= 0, has_next = next >= 0;

    if (is_host(n))
        return 0;
    if (make_places(n, DP_PLACE_INPUT, has_prev ? in_flight : 0, err) < 0 ||
        make_places(n, DP_PLACE_OUTPUT, has_next ? TURNS : 0, err) < 0)
        return -1;
    if (make_places(n, DP_PLACE_GRADIENT, has_prev || has_next ? TURNS : 0, err) < 0 || meet(n, prev, next, err) < 0)
        return -1;
    return make_staging(n, (has_prev && !n->link[DP_SIDE_PREV].is_on ? DP_INBOX_AHEAD + TURNS : 0) +
                               (has_next && !n->link[DP_SIDE_NEXT].is_on ? DP_INBOX_AHEAD + in_flight : 0), err);
}

/* 1 passed, 0 not yet, -1. */
static int is_reached(const struct dp_neighbours *n, dp_ticket t, struct dp_err *err)
{
    return t ? n->wait->be->ops->reached(n->wait->be, t, err) : 1;
}

/* The last one given back, if no lane uses it any more; else an older one, or a new one. */
static struct dp_stage_message *spare_message(struct dp_neighbours *n, struct dp_err *err)
{
    for (struct dp_stage_message **link = &n->spare; *link; link = &(*link)->next) {
        struct dp_stage_message *m = *link;
        int rc = is_reached(n, m->ticket, err);

        if (rc < 0)
            return NULL;
        if (rc == 0)
            continue;
        *link = m->next;
        m->next = NULL;
        m->ticket = 0;
        return m;
    }
    return make(n, err);
}

static struct dp_stage_message *place_of(const struct dp_neighbours *n, enum dp_place place, uint32_t mb)
{
    return &n->place[place][mb % n->n_places[place]];
}

static void put_back(struct dp_neighbours *n, struct dp_stage_message *m)
{
    if (!m->host) /* a place stays where it is */
        return;
    m->next = n->spare;
    n->spare = m;
}

/* ---- places that neighbours wait for ---- */

/* The lanes have been told all that uses a place. */
static void owe(struct dp_neighbours *n, struct dp_stage_message *m)
{
    if (!m->came_by || m->is_owed)
        return;
    m->is_owed = true;
    n->n_owed++;
}

/* Tell the neighbour that its place is free, if it is. returns 0, or -1 and err. */
static int pay(struct dp_neighbours *n, struct dp_stage_message *m, struct dp_err *err)
{
    struct dp_transport *t = n->wait->transport;
    enum dp_place place;
    int rc;

    if (m->free_request && !dp_transport_test(t, m->free_request) && !dp_transport_is_gone(t, (uint32_t)m->came_by->with))
        return 0;
    rc = is_reached(n, m->ticket, err);
    if (rc <= 0)
        return rc < 0 ? -1 : 0;
    if (m->free_request) { /* the time before */
        struct dp_transport_request *x = m->free_request;

        m->free_request = NULL;
        if (dp_transport_wait(t, x, 0, NULL, err) < 0)
            return -1;
    }
    place = m->came_by == &n->link[DP_SIDE_PREV] ? DP_PLACE_INPUT : DP_PLACE_GRADIENT;
    m->free_word = dp_device_link_my_word(m->came_by, (uint32_t)(m - n->place[place]));
    m->free_request = dp_transport_send(t, (uint32_t)m->came_by->with, m->came_tag, &m->free_word, sizeof m->free_word, err);
    if (!m->free_request)
        return -1;
    m->came_by = NULL;
    m->is_owed = false;
    n->n_owed--;
    return 0;
}

static int pay_all(struct dp_neighbours *n, struct dp_err *err)
{
    for (int place = 0; n->n_owed && place < DP_N_PLACES; place++)
        for (uint32_t i = 0; i < n->n_places[place]; i++)
            if (n->place[place][i].is_owed && pay(n, &n->place[place][i], err) < 0)
                return -1;
    return 0;
}

int dp_neighbours_give(struct dp_neighbours *n, struct dp_stage_message *m, struct dp_err *err)
{
    struct dp_backend *be = n->wait->be;

    if (!m)
        return 0;
    put_back(n, m);
    if (be->ops->mark(be, DP_LANE_COMPUTE, &m->ticket, err) < 0)
        return -1;
    owe(n, m);
    return pay_all(n, err);
}

/* ---- sending ---- */

static uint64_t tag_of(const struct dp_neighbours *n, enum dp_channel channel, uint32_t mb)
{
    return dp_tag(channel, n->epoch, n->step, n->index_base | (mb & (DP_EVAL_INDEX - 1)));
}

/* Have the device write a place into the neighbour's, if that is free. returns: 1 it has been told, 0 not yet, -1. */
static int tell_copy(struct dp_neighbours *n, struct dp_device_link *l, struct dp_stage_message *m, struct dp_err *err)
{
    struct dp_backend *be = n->wait->be;
    int rc = m->is_told ? 1 : dp_device_link_is_free(l, n->wait, m->word.place, err);

    if (rc <= 0 || m->is_told)
        return rc;
    if (be->ops->after(be, DP_LANE_OUT, m->ticket, err) < 0 ||
        be->ops->move(be, DP_LANE_OUT, dp_device_link_at(l, m->word.place), m->device, n->bytes, err) < 0 ||
        be->ops->mark(be, DP_LANE_OUT, &m->ticket, err) < 0)
        return -1;
    m->is_told = true;
    owe(n, m);
    return 1;
}

/* Begin to send m, if it is where the neighbour finds it. returns: 1 sent, 0 not yet, -1. */
static int begin_sending(struct dp_neighbours *n, struct dp_stage_message *m, struct dp_err *err)
{
    struct dp_device_link *l = link_to(n, (enum dp_channel)(m->tag >> 52));
    int rc = m->host ? 1 : tell_copy(n, l, m, err);

    if (rc > 0)
        rc = is_reached(n, m->ticket, err);
    if (rc <= 0)
        return rc;
    if (m->sent_ns)
        *m->sent_ns = dp_now_ns();
    m->request = dp_transport_send(n->wait->transport, m->to, m->tag, m->host ? m->host : &m->word,
                                   m->host ? n->bytes : sizeof m->word, err);
    if (!m->request || (!m->host && dp_device_link_expect(l, n->wait, m->word.place, m->tag, err) < 0))
        return -1;
    n->n_unsent--;
    return 1;
}

/* Whatever can go on: what is to be sent, each way in its order, and words that places are free. */
static int go_on(struct dp_neighbours *n, struct dp_err *err)
{
    bool is_held[2] = {false, false}; /* activations, gradients */

    for (struct dp_stage_message *m = n->sending; m && n->n_unsent; m = m->next) {
        bool *held = &is_held[(m->tag >> 52) == DP_CH_GRADIENT];
        int rc;

        if (m->request || *held)
            continue;
        rc = begin_sending(n, m, err);
        if (rc < 0)
            return -1;
        *held = rc == 0;
    }
    return pay_all(n, err);
}

/* Wait for a transfer, which is over in any case afterwards. */
static int wait_for(struct dp_neighbours *n, struct dp_transport_request *x, struct dp_err *err)
{
    struct dp_transport *t = n->wait->transport;

    for (;;) {
        struct dp_err local = {0};

        if (go_on(n, err) < 0) {
            dp_transport_cancel(t, x);
            return -1;
        }
        if (dp_transport_wait(t, x, n->n_unsent || n->n_owed ? LOOK_NS : 0, n->wait_ns, &local) == 0)
            return 0;
        if (local.code != DP_ETIMEOUT) {
            if (err)
                *err = local;
            return -1;
        }
    }
}

/* Take out of the list, not in flight any more; link: to it. */
static void finish_sending(struct dp_neighbours *n, struct dp_stage_message **link)
{
    struct dp_stage_message *m = *link;

    *link = m->next;
    if (!*link)
        n->sending_end = link;
    m->request = NULL;
    m->is_going = false;
    if (m->host) /* else: a place, whose last use it was */
        m->ticket = 0;
    put_back(n, m);
}

/* Take back what was fetched. */
static int collect_sent(struct dp_neighbours *n, struct dp_err *err)
{
    struct dp_stage_message **link = &n->sending;

    if (go_on(n, err) < 0)
        return -1;
    while (*link) {
        struct dp_stage_message *m = *link;
        int rc;

        if (!m->request || !dp_transport_test(n->wait->transport, m->request)) {
            link = &m->next;
            continue;
        }
        rc = wait_for(n, m->request, err);
        finish_sending(n, link);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Wait until m, which is in the list, has been fetched and is out of it. */
static int settle(struct dp_neighbours *n, struct dp_stage_message *m, struct dp_err *err)
{
    struct dp_stage_message **link = &n->sending;
    int rc;

    while (!m->request) {
        if (go_on(n, err) < 0)
            return -1;
        if (!m->request && (m->host || m->is_told) && dp_device_await(n->wait, m->ticket, err) < 0)
            return -1;
        if (!m->request && !m->host && !m->is_told) {
            const uint64_t start_ns = dp_now_ns();

            dp_transport_idle(n->wait->transport, LOOK_NS); /* for the word that the place is free */
            *n->wait_ns += dp_now_ns() - start_ns;
        }
    }
    rc = wait_for(n, m->request, err);
    while (*link != m)
        link = &(*link)->next;
    finish_sending(n, link);
    return rc;
}

int dp_neighbours_settle(struct dp_neighbours *n, struct dp_err *err)
{
    while (n->sending)
        if (settle(n, n->sending, err) < 0)
            return -1;
    return 0;
}

int dp_neighbours_part(struct dp_neighbours *n, struct dp_err *err)
{
    if (!n->has_met)
        return 0;
    for (int place = 0; place < DP_N_PLACES; place++)
        for (uint32_t i = 0; i < n->n_places[place]; i++) {
            struct dp_stage_message *m = &n->place[place][i];

            if (m->is_owed && dp_device_await(n->wait, m->ticket, err) < 0)
                return -1;
            while (m->is_owed) {
                if (pay(n, m, err) < 0)
                    return -1;
                if (m->is_owed)
                    dp_transport_idle(n->wait->transport, LOOK_NS);
            }
        }
    n->has_met = false;
    return dp_device_links_part(n->link, n->wait, err);
}

struct dp_stage_message *dp_neighbours_room(struct dp_neighbours *n, enum dp_place place, uint32_t mb, struct dp_err *err)
{
    struct dp_backend *be = n->wait->be;
    struct dp_stage_message *m;

    if (is_host(n))
        return spare_message(n, err);
    m = place_of(n, place, mb);
    if (m->is_going && settle(n, m, err) < 0)
        return NULL;
    return be->ops->after(be, DP_LANE_COMPUTE, m->ticket, err) < 0 ? NULL : m;
}

/* m, or where its contents will be on the host: `ticket` says when. NULL and err on failure; m is given back. */
static struct dp_stage_message *on_host(struct dp_neighbours *n, struct dp_stage_message *m, struct dp_err *err)
{
    struct dp_backend *be = n->wait->be;
    struct dp_stage_message *out = spare_message(n, err);

    if (!out)
        return NULL;
    if (be->ops->after(be, DP_LANE_OUT, m->ticket, err) < 0 ||
        be->ops->move(be, DP_LANE_OUT, out->host, m->device, n->bytes, err) < 0 ||
        be->ops->mark(be, DP_LANE_OUT, &out->ticket, err) < 0) {
        put_back(n, out);
        return NULL;
    }
    m->ticket = out->ticket;
    owe(n, m);
    return out;
}

int dp_neighbours_send(struct dp_neighbours *n, uint32_t to, enum dp_channel channel, uint32_t mb,
                       struct dp_stage_message *m, uint64_t *sent_ns, struct dp_err *err)
{
    struct dp_device_link *l = link_to(n, channel);

    if (n->wait->be->ops->mark(n->wait->be, DP_LANE_COMPUTE, &m->ticket, err) < 0) {
        put_back(n, m);
        return -1;
    }
    if (l->is_on)
        m->word = dp_device_link_other_word(l, mb % l->other.n_places);
    else if (!m->host && !(m = on_host(n, m, err)))
        return -1;
    m->to = to;
    m->tag = tag_of(n, channel, mb);
    m->sent_ns = sent_ns;
    m->is_going = true;
    m->is_told = false;
    m->next = NULL;
    *n->sending_end = m;
    n->sending_end = &m->next;
    n->n_unsent++;
    return collect_sent(n, err);
}

/* ---- receiving ---- */

static int post_word(struct dp_neighbours *n, struct dp_inbox *in, struct dp_err *err)
{
    uint32_t i = in->n_posted % DP_INBOX_AHEAD;

    in->request[i] = dp_transport_recv(n->wait->transport, (uint32_t)in->from, tag_of(n, in->channel, in->n_posted),
                                       &in->word[i], sizeof in->word[i], err);
    return in->request[i] ? 0 : -1;
}

static int post_message(struct dp_neighbours *n, struct dp_inbox *in, struct dp_err *err)
{
    struct dp_stage_message *m = spare_message(n, err);

    if (!m)
        return -1;
    m->request = dp_transport_recv(n->wait->transport, (uint32_t)in->from, tag_of(n, in->channel, in->n_posted),
                                   m->host, n->bytes, err);
    if (!m->request) {
        put_back(n, m);
        return -1;
    }
    in->posted[in->n_posted % DP_INBOX_AHEAD] = m;
    return 0;
}

int dp_neighbours_post(struct dp_neighbours *n, struct dp_inbox *in, struct dp_err *err)
{
    while (in->from >= 0 && in->n_posted < in->total && in->n_posted - in->n_taken < DP_INBOX_AHEAD) {
        if ((link_from(n, in->channel)->is_on ? post_word : post_message)(n, in, err) < 0)
            return -1;
        in->n_posted++;
    }
    return 0;
}

/* Into its place, before what the computing lane is told next. NULL and err on failure; m is given back in any case. */
static struct dp_stage_message *on_device(struct dp_neighbours *n, struct dp_stage_message *m, enum dp_place place,
                                          uint32_t mb, struct dp_err *err)
{
    struct dp_stage_message *at = place_of(n, place, mb);
    struct dp_backend *be = n->wait->be;
    int rc = be->ops->after(be, DP_LANE_IN, at->ticket, err);

    if (rc == 0)
        rc = be->ops->move(be, DP_LANE_IN, at->device, m->host, n->bytes, err);
    if (rc == 0)
        rc = be->ops->mark(be, DP_LANE_IN, &m->ticket, err);
    if (rc == 0)
        rc = be->ops->after(be, DP_LANE_COMPUTE, m->ticket, err);
    put_back(n, m);
    return rc < 0 ? NULL : at;
}

static int lap(struct dp_neighbours *n, uint64_t *sum_ns, struct dp_err *err)
{
    return n->border_ns ? n->wait->be->ops->lap(n->wait->be, sum_ns, err) : 0;
}

/* The word came: the message is in its place. NULL and err: it cannot be. */
static struct dp_stage_message *by_link(struct dp_neighbours *n, struct dp_device_link *l, const struct dp_inbox *in, uint32_t i,
                                        enum dp_place place, uint32_t mb, struct dp_err *err)
{
    struct dp_stage_message *m = place_of(n, place, mb);
    const struct dp_link_word want = dp_device_link_my_word(l, mb % n->n_places[place]);

    if (dp_device_link_check(l, &in->word[i], &want, err) < 0 || (m->is_going && settle(n, m, err) < 0))
        return NULL;
    if (m->came_by) {
        dp_err_set(err, DP_ECORRUPT, "worker %d wrote over place %u of this worker's memory, which is in use", l->with, want.place);
        return NULL;
    }
    m->came_by = l;
    m->came_tag = tag_of(n, in->channel, mb);
    return m;
}

int dp_neighbours_take(struct dp_neighbours *n, struct dp_inbox *in, enum dp_place place, uint32_t mb,
                       struct dp_stage_message **out, uint64_t *came_ns, struct dp_err *err)
{
    struct dp_device_link *l = link_from(n, in->channel);
    struct dp_transport_request *x;
    struct dp_stage_message *m;
    bool was_there;
    uint32_t i;
    int rc;

    *out = NULL;
    *came_ns = 0;
    if (in->from < 0)
        return 0;
    if (dp_neighbours_post(n, in, err) < 0)
        return -1;
    i = in->n_taken++ % DP_INBOX_AHEAD;
    m = in->posted[i];
    x = m ? m->request : in->request[i];
    in->posted[i] = NULL;
    in->request[i] = NULL;
    rc = lap(n, n->border_ns, err);
    was_there = dp_transport_test(n->wait->transport, x);
    if (rc < 0)
        dp_transport_cancel(n->wait->transport, x);
    else
        rc = wait_for(n, x, err);
    *came_ns = was_there ? 0 : dp_now_ns();
    if (m)
        m->request = NULL;
    if (rc < 0) {
        if (m)
            put_back(n, m);
        return -1;
    }
    if (!is_host(n))
        m = m ? on_device(n, m, place, mb, err) : by_link(n, l, in, i, place, mb, err);
    if (!m || lap(n, n->receive_ns, err) < 0)
        return -1;
    *out = m;
    return dp_neighbours_post(n, in, err);
}

void dp_neighbours_drop(struct dp_neighbours *n, struct dp_inbox *in)
{
    for (int i = 0; i < DP_INBOX_AHEAD; i++) {
        struct dp_stage_message *m = in->posted[i];

        cancel(n, &in->request[i]);
        if (!m)
            continue;
        dp_transport_cancel(n->wait->transport, m->request);
        m->request = NULL;
        put_back(n, m);
        in->posted[i] = NULL;
    }
}
