/* SPDX-License-Identifier: BSD-3-Clause */
/* See wireup_internal.h: wire-up by this node's daemon, over a connection of its own, before the control connection says HELLO.
 *
 * The worker says its card until it has all cards and the key, then that it has them, until it hears that everybody has. A
 * daemon that dies meanwhile, here or on the batch host, is told the same again when it is back: what counts is here, so
 * nothing of a wire-up has to outlive a daemon. Who has all and hears nothing more goes on after a while: one that has heard
 * that everybody has may be training already.
 */
#include "worker/net/wireup_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/message/msg.h"
#include "lib/frame_socket.h"
#include "lib/job_step.h"
#include "worker/net/pmix_rendezvous.h"

#define RETRY_NS (500 * DP_MS_NS) /* until a daemon is there */
#define TELL_NS (10 * DP_SECOND_NS)      /* of no daemon */
#define VERDICT_NS (15 * DP_SECOND_NS)   /* after the timeout, for the coordinator to say who is missing */
#define READY_NS (60 * DP_SECOND_NS)     /* with everything at hand */
#define REFUSAL_NS (20 * DP_SECOND_NS)   /* for the others to come */
#define SPEAK_FIRST_S 5       /* the others leave a speaker so long before they end, and the step with them */

struct card {
    uint16_t bytes;
    uint8_t *data;
};

struct meeting {
    const struct dp_wireup *w;
    struct dp_transport *t; /* NULL: it refuses */
    struct dp_frame_socket link;
    struct dp_msg_card card;
    uint8_t key[DP_KEY_BYTES];
    struct card *cards;     /* n_seats */
    uint32_t n_seats;
    uint32_t n_cards;
    bool has_all, has_go, has_failed, is_denied, has_told, has_rank;
    uint32_t rank, n_workers, n_there; /* of a slice, that asks for them */
    bool joins;
    uint64_t start_ns, end_ns, try_ns;
    uint32_t speaker;
    char text[1024];        /* of the verdict, or why it waits; "": not known */
};

static bool may_send(void *arg, uint16_t type)
{
    (void)arg;
    return type == DP_MSG_ROSTER || type == DP_MSG_WIREUP;
}

/* ---- the connection ---- */

static void hang_up(struct meeting *m, const char *why)
{
    if (why[0])
        snprintf(m->text, sizeof m->text, "%s", why);
    dp_frame_socket_close(&m->link);
    m->try_ns = dp_now_ns() + RETRY_NS;
}

static void say_card(struct meeting *m)
{
    uint64_t now_ns = dp_now_ns();
    struct dp_writer w;

    if (m->has_all) {
        m->card.kind = DP_CARD_READY;
        m->card.key = m->key;
        m->card.key_len = DP_KEY_BYTES;
    }
    m->card.patience_ms = m->end_ns > now_ns ? (uint32_t)((m->end_ns - now_ns) / DP_MS_NS) : 0;
    dp_frame_socket_begin(&m->link, &w);
    dp_msg_card_encode(&w, &m->card);
    dp_frame_socket_end(&m->link, &w, DP_MSG_CARD); /* two of them fit */
}

static void open_line(struct meeting *m)
{
    struct dp_err err = {0};

    if (dp_frame_socket_open(&m->link, m->w->socket, DP_PROTO_VERSION, &err) < 0)
        hang_up(m, err.text);
    else
        say_card(m);
}

/* ---- what it hears ---- */

static int take_roster(struct meeting *m, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_roster in;
    struct dp_reader cards;

    if (dp_msg_roster_decode(r, &in, err) < 0)
        return -1;
    if (m->has_all || !m->t || in.n_workers != m->w->n_workers)
        return 0;
    if (in.first == 0)
        m->n_cards = 0;
    if (in.first != m->n_cards)
        return dp_err_set(err, DP_EPROTO, "cards from %u, and %u are here", in.first, m->n_cards);
    dp_reader_init(&cards, in.cards, in.cards_len);
    for (uint32_t i = in.first; i < in.first + in.count; i++) {
        uint16_t bytes = dp_rd_u16(&cards);
        uint8_t *data = realloc(m->cards[i].data, bytes + 1u);

        if (!data)
            return dp_err_set(err, DP_ENOMEM, "no memory for the cards");
        dp_rd_bytes(&cards, data, bytes);
        m->cards[i] = (struct card){bytes, data};
        m->n_cards = i + 1;
    }
    return 0;
}

static int take_all(struct meeting *m, const struct dp_msg_wireup *in, struct dp_err *err)
{
    if (m->has_all || !m->t)
        return 0;
    if (m->n_cards != m->w->n_workers || in->key_len != DP_KEY_BYTES)
        return dp_err_set(err, DP_EPROTO, "%u of %u cards, %u bytes of key", m->n_cards, m->w->n_workers, in->key_len);
    for (uint32_t i = 0; i < m->n_cards; i++)
        if (i != m->w->rank && m->cards[i].bytes > 0 && dp_transport_add(m->t, i, m->cards[i].data, m->cards[i].bytes, err) < 0) {
            m->has_failed = true; /* the same again would not help */
            m->speaker = m->w->rank;
            snprintf(m->text, sizeof m->text, "%s", err->text);
            return -1;
        }
    memcpy(m->key, in->key, sizeof m->key);
    dp_transport_set_key(m->t, m->key);
    m->has_all = true;
    if (m->end_ns > dp_now_ns() + READY_NS)
        m->end_ns = dp_now_ns() + READY_NS;
    say_card(m);
    return 0;
}

static int take_state(struct meeting *m, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_wireup in;

    if (dp_msg_wireup_decode(r, &in, err) < 0)
        return -1;
    switch (in.state) {
    case DP_WIREUP_WHOLE:
        return take_all(m, &in, err);
    case DP_WIREUP_GO:
        m->has_go = m->has_all;
        return 0;
    case DP_WIREUP_RANK:
        m->has_rank = m->card.kind == DP_CARD_SLICE && in.n_workers >= 1 && in.n_workers <= DP_MAX_WORKERS && in.speaker < in.n_workers &&
                      in.n_there >= 1 && in.n_there <= in.n_workers;
        m->rank = in.speaker;
        m->n_workers = in.n_workers;
        m->n_there = in.n_there;
        m->joins = in.joins == 1;
        return 0;
    case DP_WIREUP_DENIED:
        m->is_denied = true;
        /* fall through */
    case DP_WIREUP_FAILED:
        m->has_failed = true;
        m->speaker = in.speaker;
        break;
    default:
        if (m->card.kind == DP_CARD_SLICE && in.job_id) /* a daemon that knows the job says how long others are waited for */
            m->end_ns = dp_now_ns() + dp_rendezvous_timeout_ns();
        m->has_told |= in.state == DP_WIREUP_WAIT && in.speaker == m->w->rank;
        if (in.state == DP_WIREUP_WAIT && in.speaker == m->w->rank)
            dp_warn("worker %u of %u waits for the others: %s", m->w->rank, m->w->n_workers, in.text);
    }
    snprintf(m->text, sizeof m->text, "%s", in.text);
    return 0;
}

/* -1: the connection has to be closed. */
static int hear(struct meeting *m, struct dp_err *err)
{
    struct dp_err later = {0};
    struct dp_header h;
    const uint8_t *body;
    int rc, read_rc;
    bool was_full;

    do {
        read_rc = dp_frame_socket_read(&m->link, &later);
        was_full = m->link.rx_used == sizeof m->link.rx;
        while ((rc = dp_frame_socket_next(&m->link, may_send, NULL, &h, &body, err)) > 0) {
            struct dp_reader r;

            dp_reader_init(&r, body, h.body_len);
            if ((h.type == DP_MSG_ROSTER ? take_roster(m, &r, err) : take_state(m, &r, err)) < 0)
                return -1;
        }
        if (rc < 0)
            return -1;
    } while (read_rc == 0 && was_full);
    if (read_rc < 0)
        *err = later;
    return read_rc < 0 || dp_frame_socket_flush(&m->link, err) < 0 ? -1 : 0;
}

static void tell_once(struct meeting *m)
{
    if (m->has_told || m->w->local_rank || dp_now_ns() - m->start_ns < TELL_NS || m->link.fd >= 0)
        return;
    m->has_told = true;
    dp_warn("worker %u of %u cannot meet the others yet: %s", m->w->rank, m->w->n_workers, m->text);
}

/* Until it is decided, or the time is over. */
static void wait_for_verdict(struct meeting *m)
{
    while (!m->has_go && !m->has_failed && !m->has_rank && dp_now_ns() < m->end_ns) {
        struct pollfd p = {.fd = m->link.fd, .events = POLLIN};
        bool was_all = m->has_all;
        struct dp_err err = {0};

        if (m->link.fd < 0 && dp_now_ns() >= m->try_ns)
            open_line(m);
        p.fd = m->link.fd;
        if (dp_frame_socket_has_output(&m->link) && m->link.fd >= 0)
            p.events |= POLLOUT;
        poll(&p, 1, 100);
        if (m->link.fd >= 0 && hear(m, &err) < 0 && !m->has_failed && !m->has_go && !m->has_rank)
            hang_up(m, m->text[0] && err.code == DP_EGONE ? "" : err.text); /* what it said before tells more */
        if (m->has_all && !was_all)
            m->text[0] = '\0';
        tell_once(m);
    }
}

/* ---- begin and end ---- */

static struct meeting *meeting_create(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err)
{
    struct meeting *m = calloc(1, sizeof *m);

    if (m)
        m->cards = calloc(w->n_workers, sizeof *m->cards);
    if (!m || !m->cards) {
        free(m);
        dp_err_set(err, DP_ENOMEM, "no memory to meet %u workers", w->n_workers);
        return NULL;
    }
    m->w = w;
    m->n_seats = w->n_workers;
    m->t = t;
    m->speaker = DP_NOBODY;
    m->start_ns = dp_now_ns();
    dp_job_step(&m->card.job_id, &m->card.step_id, m->card.options);
    m->card.rank = w->rank;
    m->card.n_workers = w->n_workers;
    dp_frame_socket_init(&m->link);
    return m;
}

static void meeting_destroy(struct meeting *m)
{
    for (uint32_t i = 0; i < m->n_seats; i++)
        free(m->cards[i].data);
    dp_frame_socket_close(&m->link);
    explicit_bzero(m->key, sizeof m->key);
    free(m->cards);
    free(m);
}

/* The run cannot begin: the text, where this worker is the one to say it. */
static int give_up(const struct meeting *m, struct dp_err *err)
{
    const struct timespec speak_first = {.tv_sec = SPEAK_FIRST_S};
    bool speaks = m->has_failed ? m->speaker == m->w->rank : m->w->local_rank == 0;

    if (!speaks) {
        nanosleep(&speak_first, NULL);
        return dp_err_set(err, DP_ETIMEOUT, "%s", "");
    }
    if (m->has_failed)
        return dp_err_set(err, m->is_denied ? DP_EAUTH : DP_ETIMEOUT, "%s", m->text);
    return dp_err_set(err, DP_ETIMEOUT, "the daemons have not brought the workers together in %.0f s%s%.300s (DYNPIPE_WIREUP_S: "
                      "seconds to wait)", (double)(dp_now_ns() - m->start_ns) / 1e9, m->text[0] ? ": " : "", m->text);
}

int dp_meet_by_daemon(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err)
{
    struct meeting *m = meeting_create(w, t, err);
    const void *card;
    size_t bytes;
    int rc = 0;

    if (!m)
        return -1;
    dp_transport_card(t, &card, &bytes);
    if (bytes > DP_CARD_MAX) {
        meeting_destroy(m);
        return dp_err_set(err, DP_EINVAL, "UCX's address has %zu bytes, but daemons carry at most %u: leave fewer devices in "
                          "UCX_NET_DEVICES", bytes, DP_CARD_MAX);
    }
    m->card.card = card;
    m->card.card_len = (uint16_t)bytes;
    m->end_ns = m->start_ns + dp_rendezvous_timeout_ns();
    wait_for_verdict(m);
    if (!m->has_go && !m->has_failed && !m->has_all) { /* the coordinator says who is missing */
        m->end_ns += VERDICT_NS;
        wait_for_verdict(m);
    }
    if (m->has_failed || !m->has_all)
        rc = give_up(m, err);
    else if (!m->has_go)
        dp_warn("worker %u of %u has all addresses, and no daemon says that the others have: going on", w->rank, w->n_workers);
    meeting_destroy(m);
    return rc;
}

bool dp_refuse_by_daemon(const struct dp_wireup *w, const char *why)
{
    struct dp_err err = {0};
    struct meeting *m = meeting_create(w, NULL, &err);
    size_t bytes = strlen(why);
    bool tells;

    if (!m)
        return true;
    m->card.kind = DP_CARD_REFUSED;
    m->card.card = (const uint8_t *)why;
    m->card.card_len = (uint16_t)(bytes < 512 ? bytes : 512);
    m->end_ns = m->start_ns + REFUSAL_NS;
    wait_for_verdict(m);
    tells = m->has_failed ? m->speaker == w->rank : w->local_rank == 0;
    meeting_destroy(m);
    return tells;
}

int dp_ask_rank_of_slice(struct dp_wireup *w, struct dp_err *err)
{
    struct meeting *m = meeting_create(w, NULL, err);
    int rc = 0;

    if (!m)
        return -1;
    m->card.kind = DP_CARD_SLICE;
    m->end_ns = m->start_ns + dp_rendezvous_timeout_ns();
    wait_for_verdict(m);
    if (m->has_rank) {
        w->rank = m->rank;
        w->n_workers = m->n_workers;
        w->n_there = m->n_there;
        w->joins = m->joins;
    } else {
        rc = give_up(m, err);
    }
    meeting_destroy(m);
    return rc;
}
