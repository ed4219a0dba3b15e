/* SPDX-License-Identifier: BSD-3-Clause */
/* See conn.h. Nobody's frames keep the loop from the others: a few are taken in one turn, and what they cost is
 * taken from the share of their user (share.h), who is not read from while it is used up. The checks of a frame
 * come in this order: header, length for its type, may this role say that (default: no), and only then is the body
 * read. A read buffer never holds more than two frames; a peer that is not known yet may only send small types, so
 * it costs little memory; output that is not taken within WRITE_TIMEOUT_S or grows past OUTPUT_MAX ends the
 * connection.
 *
 * A connection is never freed inside its own callbacks: dp_conn_close() unhooks it and the event loop frees it on
 * its next turn.
 */
#include "config.h"

#include "daemon/net/conn.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

/* Two of the largest frames: one to work on, one on its way. */
#define READ_MAX (2 * (DP_HEADER_BYTES + DP_BODY_MAX + DP_TAG_BYTES))
#define OUTPUT_MAX (16u << 20) /* as much as the largest answer (ANSWER_MAX of query/ask.c) */
#define WRITE_TIMEOUT_S 15 /* a peer that takes no byte for so long has stopped */
#define LOG_WINDOW_NS UINT64_C(1000000000) /* refused connections are counted over it, and told in one line */
#define LOG_LINES 10u /* about refused peers, in one window */
#define PARTIAL_S 10.0 /* a frame that has begun must end */
#define FRAMES_PER_TURN 8

/* What things cost of a user's share; any other frame is one, and one more for every 4 KiB; conn_place.c. */
#define UNITS_HELLO 60.0 /* it may write a journal */
#define UNITS_AUTH 50.0
#define UNITS_QUERY 50.0
#define UNITS_COMMAND 100.0

static void free_later(evutil_socket_t fd, short what, void *arg)
{
    struct dp_conn *c = arg;

    (void)fd;
    (void)what;
    bufferevent_free(c->bev);
    event_free(c->deadline);
    free(c);
}

void dp_conn_close(struct dp_conn *c, const char *why)
{
    static const struct timeval now = {0};

    if (c->is_closed)
        return;
    c->is_closed = true;
    bufferevent_disable(c->bev, EV_READ | EV_WRITE);
    bufferevent_setcb(c->bev, NULL, NULL, NULL, NULL);
    event_del(c->deadline);
    if (c->next)
        c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else
        c->set->first = c->next;
    c->set->n--;
    c->ops->closed(c, why);
    dp_conn_leave_place(c);
    event_base_once(c->set->base, -1, EV_TIMEOUT, free_later, c, &now);
}

void dp_conn_close_all(struct dp_conn_set *set, const char *why)
{
    while (set->first)
        dp_conn_close(set->first, why);
    dp_share_destroy(&set->shares);
    dp_share_destroy(&set->sources);
}

void dp_conn_set_deadline(struct dp_conn *c, double seconds)
{
    struct timeval tv = {.tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)((seconds - (time_t)seconds) * 1e6)};

    if (seconds > 0)
        event_add(c->deadline, &tv);
    else
        event_del(c->deadline);
}

bool dp_conn_may_warn(struct dp_conn_set *set)
{
    uint64_t now_ns = dp_now_ns();

    set->n_refused++;
    if (now_ns - set->log_from_ns > LOG_WINDOW_NS) {
        if (set->n_logged > LOG_LINES)
            dp_warn("%u more were closed in that time", set->n_logged - LOG_LINES);
        set->log_from_ns = now_ns;
        set->n_logged = 0;
    }
    return set->n_logged++ < LOG_LINES;
}

static void note_refusal(const struct dp_conn *c, const char *why)
{
    char from[INET_ADDRSTRLEN];

    if (!dp_conn_may_warn(c->set))
        return;
    if (c->address && inet_ntop(AF_INET, &c->address, from, sizeof from))
        dp_warn("closing %s uid=%d from %s: %s", dp_role_name(c->role), (int)c->uid, from, why);
    else
        dp_warn("closing %s uid=%d pid=%d: %s", dp_role_name(c->role), (int)c->uid, (int)c->pid, why);
}

void dp_conn_refuse(struct dp_conn *c, const char *why)
{
    note_refusal(c, why);
    dp_conn_close(c, why);
}

void dp_conn_refuse_telling(struct dp_conn *c, const char *why)
{
    struct dp_msg_ack ack = {.verdict = DP_VERDICT_DENIED};

    note_refusal(c, why);
    snprintf(ack.text, sizeof ack.text, "%.255s", why);
    DP_CONN_SEND(c, ack, DP_MSG_ACK, &ack);
    dp_conn_finish(c);
}

/* ---- who is read from ---- */

static void read_or_not(struct dp_conn *c)
{
    if (c->is_closed || c->is_finishing)
        return;
    if (c->is_held || c->is_throttled) {
        bufferevent_disable(c->bev, EV_READ);
        return;
    }
    bufferevent_enable(c->bev, EV_READ);
    /* What is in the buffer already raises no event of its own. */
    bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

void dp_conn_hold(struct dp_conn *c)
{
    c->is_held = true;
    event_del(c->deadline);
    read_or_not(c);
}

void dp_conn_resume(struct dp_conn *c)
{
    c->is_held = false;
    read_or_not(c);
}

static void set_throttled(struct dp_conn *c, bool is_throttled)
{
    if (c->share)
        c->share->n_throttled = c->share->n_throttled - c->is_throttled + is_throttled;
    c->is_throttled = is_throttled;
}

void dp_conn_tick(struct dp_conn_set *set)
{
    uint64_t now_ns = dp_now_ns();

    struct dp_conn *last = set->first;

    while (last && last->next)
        last = last->next;
    for (struct dp_conn *c = last; c; c = c->prev) /* who has waited longest first */
        if (c->is_throttled && (!c->share || dp_share_has_units(c->share, now_ns))) {
            set_throttled(c, false);
            read_or_not(c);
        }
    for (struct dp_share *s = set->shares; s; s = s->next) {
        uint32_t n = dp_share_unsaid(s, now_ns);

        if (n)
            dp_warn("uid %u: %u lines about its runs were left out", s->id, n);
    }
    dp_conn_serve_line(set);
    dp_share_tidy(&set->shares, now_ns);
    dp_share_tidy(&set->sources, now_ns);
}

static double units_of(const struct dp_header *h)
{
    switch (h->type) {
    case DP_MSG_HELLO:
        return UNITS_HELLO;
    case DP_MSG_AUTH:
        return UNITS_AUTH;
    case DP_MSG_QUERY:
        return UNITS_QUERY;
    case DP_MSG_COMMAND:
        return UNITS_COMMAND;
    default:
        return 1.0 + h->body_len / 4096.0;
    }
}

/* May its next frame be looked at? What flows in between two ticks is for those who wait already: whoever opens
 * connections again and again would else come before one who waits. */
static bool has_units(struct dp_conn *c)
{
    if (!c->share || (c->share->n_throttled == 0 && dp_share_has_units(c->share, dp_now_ns())))
        return true;
    set_throttled(c, true);
    read_or_not(c);
    return false;
}

bool dp_conn_has_frame(const struct dp_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    uint8_t head[DP_HEADER_BYTES];
    struct dp_header h;

    return evbuffer_copyout(in, head, sizeof head) == (ev_ssize_t)sizeof head && dp_header_decode(head, &h, NULL) == 0 &&
           evbuffer_get_length(in) >= DP_HEADER_BYTES + h.body_len;
}

/* Handle one whole frame at the head of the buffer. returns false when there is none (yet). */
static bool take_frame(struct dp_conn *c, struct evbuffer *in)
{
    uint8_t head[DP_HEADER_BYTES];
    struct dp_err err = {0};
    struct dp_header h;
    uint8_t *frame;
    size_t total;

    if (evbuffer_copyout(in, head, sizeof head) < (ev_ssize_t)sizeof head)
        return false;
    if (dp_header_decode(head, &h, &err) < 0) {
        dp_conn_refuse(c, err.text);
        return false;
    }
    if (!dp_role_may_send(c->role, h.type)) {
        dp_err_set(&err, DP_EAUTH, "%s may not send %s", dp_role_name(c->role), dp_msg_name(h.type));
        dp_conn_refuse(c, err.text);
        return false;
    }
    if (dp_conn_agree(c, &h, &err) < 0) {
        dp_conn_refuse(c, err.text);
        return false;
    }
    total = DP_HEADER_BYTES + h.body_len + (c->has_session ? DP_TAG_BYTES : 0);
    if (evbuffer_get_length(in) < total)
        return false;
    frame = evbuffer_pullup(in, (ev_ssize_t)total);
    if (!frame) {
        dp_conn_refuse(c, "out of memory");
        return false;
    }
    if (c->has_session && dp_session_verify(&c->session, frame, frame + DP_HEADER_BYTES, h.body_len,
                                            frame + DP_HEADER_BYTES + h.body_len, &err) < 0) {
        dp_conn_refuse(c, err.text);
        return false;
    }
    event_del(c->deadline);
    c->heard_ns = dp_now_ns();
    c->has_asked = c->role != DP_ROLE_TCP_IN;
    if (c->share)
        c->share->units.level -= units_of(&h);
    dp_conn_hand_over(c, &h, frame + DP_HEADER_BYTES);
    if (!c->is_closed)
        evbuffer_drain(in, total);
    return !c->is_closed;
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    struct dp_conn *c = arg;
    int n = 0;

    while (!c->is_closed && (bufferevent_get_enabled(bev) & EV_READ) && n < FRAMES_PER_TURN && has_units(c) && take_frame(c, in))
        n++;
    if (n == FRAMES_PER_TURN) {
        read_or_not(c); /* the others first */
        return;
    }
    if (!c->is_closed && evbuffer_get_length(in) > 0 && (bufferevent_get_enabled(bev) & EV_READ) &&
        !event_pending(c->deadline, EV_TIMEOUT, NULL))
        dp_conn_set_deadline(c, PARTIAL_S);
}

static void on_written(struct bufferevent *bev, void *arg)
{
    struct dp_conn *c = arg;

    if (evbuffer_get_length(bufferevent_get_output(bev)) > 0)
        return;
    if (c->is_finishing)
        dp_conn_close(c, "done");
    else if (c->ops->drained)
        c->ops->drained(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct dp_conn *c = arg;

    (void)bev;
    if (what & BEV_EVENT_CONNECTED) {
        if (c->ops->connected)
            c->ops->connected(c);
    } else if (what & BEV_EVENT_TIMEOUT) {
        dp_conn_refuse(c, "does not read what it is sent");
    } else {
        dp_conn_close(c, what & BEV_EVENT_EOF ? "closed by the peer"
                                              : evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    }
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct dp_conn *c = arg;

    (void)fd;
    (void)what;
    if (c->role == DP_ROLE_TCP_OUT) /* whom we called: whoever wanted that says why, once */
        dp_conn_close(c, DP_CONN_DEADLINE);
    else
        dp_conn_refuse(c, DP_CONN_DEADLINE);
}

static void put_in_list(struct dp_conn_set *set, struct dp_conn *c)
{
    c->next = set->first;
    if (c->next)
        c->next->prev = c;
    set->first = c;
    set->n++;
}

struct dp_conn *dp_conn_create(struct dp_conn_set *set, int fd, enum dp_role role, uid_t uid,
                               const struct dp_conn_ops *ops, void *owner)
{
    static const struct timeval write_timeout = {.tv_sec = WRITE_TIMEOUT_S};
    struct dp_conn *c = NULL;

    c = calloc(1, sizeof *c);
    if (!c)
        goto fail;
    c->set = set;
    c->ops = ops;
    c->owner = owner;
    c->role = role;
    c->uid = uid;
    c->bev = bufferevent_socket_new(set->base, fd, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    c->deadline = event_new(set->base, -1, 0, on_deadline, c);
    c->heard_ns = dp_now_ns();
    c->seq_out = (uint32_t)DP_PROTO_VERSION << DP_SEQ_VERSION_SHIFT;
    if (!c->bev || !c->deadline || !dp_conn_set_uid(c, uid))
        goto fail;
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    bufferevent_setwatermark(c->bev, EV_READ, 0, READ_MAX);
    bufferevent_set_timeouts(c->bev, NULL, &write_timeout);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    put_in_list(set, c);
    return c;
fail:
    if (c && c->deadline)
        event_free(c->deadline);
    if (c && c->bev)
        bufferevent_free(c->bev);
    else
        evutil_closesocket(fd);
    free(c);
    return NULL;
}

size_t dp_conn_unsent(const struct dp_conn *c)
{
    return c->is_closed ? 0 : evbuffer_get_length(bufferevent_get_output(c->bev));
}

void dp_conn_finish(struct dp_conn *c)
{
    if (c->is_closed)
        return;
    c->is_finishing = true;
    bufferevent_disable(c->bev, EV_READ);
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
        dp_conn_close(c, "done");
}

static void queue_frame(struct dp_conn *c, uint16_t version, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct dp_header h = {version, (uint16_t)type, (uint32_t)bytes, c->seq_out++};
    uint8_t head[DP_HEADER_BYTES], tag[DP_TAG_BYTES];
    struct evbuffer *out = bufferevent_get_output(c->bev);

    dp_header_encode(head, &h);
    if (evbuffer_get_length(out) + bytes > OUTPUT_MAX) {
        dp_conn_refuse(c, "does not read what it is sent");
        return;
    }
    evbuffer_add(out, head, sizeof head);
    evbuffer_add(out, body, bytes);
    if (c->has_session) {
        dp_session_sign(&c->session, head, body, bytes, tag);
        evbuffer_add(out, tag, sizeof tag);
    }
}

void dp_conn_send(struct dp_conn *c, enum dp_msg_type type, const void *body, size_t bytes)
{
    uint16_t version = c->version ? c->version : DP_PROTO_MIN;
    uint8_t theirs[DP_BODY_MAX];

    if (c->is_closed)
        return;
    if (version == DP_PROTO_VERSION)
        queue_frame(c, version, type, body, bytes);
    else if (dp_msg_recode((uint16_t)type, DP_PROTO_VERSION, body, bytes, version, theirs, sizeof theirs, &bytes, NULL) == 0)
        queue_frame(c, version, type, theirs, bytes);
    else
        dp_debug("%s is not for protocol version %u", dp_msg_name((uint16_t)type), version);
}

void dp_conn_start_session(struct dp_conn *c, const struct dp_handshake *hs, bool is_acceptor)
{
    dp_session_init(&c->session, hs, is_acceptor);
    c->has_session = true;
}
