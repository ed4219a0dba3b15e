/* SPDX-License-Identifier: BSD-3-Clause */
/* See control.h: what the worker and its daemon say to each other, over lib/frame_socket.c.
 *
 * A worker must survive its daemon, so nothing here blocks and nothing here fails: a connection that breaks,
 * or a daemon that says something it may not, is closed and opened again after a pause that doubles
 * from 50 ms to 2 s. Messages that matter are kept here, not in the connection's buffer, and are queued
 * again on the next connection: a vote until its decision is known, an acknowledgement until FINISH, an
 * event until the socket took it, a goodbye always. Receivers drop what they have seen (migration
 * ids), so repeating is safe. What comes in is control_receive.c's.
 */
#include "lib/control_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/numbers.h"

#define BACKOFF_MIN_NS (50 * DP_MS_NS) /* a daemon that is restarted is back in some tenths of a second */
#define BACKOFF_MAX_NS (2000 * DP_MS_NS) /* what a worker waits at most, when the daemon is back after long */
#define WELCOME_TIMEOUT_NS (5000 * DP_MS_NS) /* the batch host's daemon may have to answer first */
#define STEADY_NS (5000 * DP_MS_NS) /* a connection that held so long begins with short pauses again */
#define REFUSED_NS (1000 * DP_MS_NS) /* until the next HELLO after one that was answered with a no */
#define TELL_EVERY_NS (10000 * DP_MS_NS) /* between two lines about one trouble that changes its text */

void dp_control_take_lock(struct dp_control *c)
{
    if (dp_device_lock_take(&c->lock, c->welcome.device_lock) < 0)
        dp_warn(WHO_FMT ": device lock %s not taken yet: %s", WHO(c), c->welcome.device_lock,
                strerror(errno));
}

/* ---- sending ---- */

/* What a coordinator that knows nothing has to go beyond. */
static void say_heard(struct dp_control *c)
{
    struct dp_msg_hello *m = &c->hello;

    m->incarnation = c->incarnation;
    m->migration = dp_most_u64(dp_most_u64(c->prepare_closed, c->finished), c->regroup.migration);
    m->migration = dp_most_u64(m->migration, c->has_prepare ? c->prepare.migration : 0);
    m->migration = dp_most_u64(m->migration, c->has_vote ? c->vote.migration : 0);
    m->heard_epoch = dp_most_u64(m->epoch, c->regroup.epoch);
    if (c->has_decision && c->decision.commit)
        m->heard_epoch = dp_most_u64(m->heard_epoch, c->decision.epoch);
}

static bool queue_hello(struct dp_control *c)
{
    struct dp_writer w;

    say_heard(c);
    dp_frame_socket_begin(&c->link, &w);
    dp_msg_hello_encode(&w, &c->hello);
    return dp_frame_socket_end(&c->link, &w, DP_MSG_HELLO);
}

/* Forget events that the socket took. */
static void drop_sent_events(struct dp_control *c)
{
    uint32_t n = 0;

    while (n < c->n_events && c->event[n].is_queued && c->event[n].end <= c->link.sent)
        n++;
    c->n_events -= n;
    memmove(c->event, c->event + n, c->n_events * sizeof c->event[0]);
}

static void queue_events(struct dp_control *c)
{
    for (uint32_t i = 0; i < c->n_events; i++) {
        struct kept_event *e = &c->event[i];
        struct dp_writer w;

        if (e->is_queued)
            continue;
        dp_frame_socket_begin(&c->link, &w);
        dp_msg_event_encode(&w, &e->m);
        if (!dp_frame_socket_end(&c->link, &w, DP_MSG_EVENT))
            return;
        e->is_queued = true;
        e->end = c->link.queued;
    }
}

/* What does not fit is queued when the socket has taken what is in front of it. */
static void queue_expected(struct dp_control *c)
{
    while (c->expected && dp_expected_due(c->expected, &c->expect)) {
        struct dp_writer w;

        c->expect.rank = c->hello.rank;
        dp_frame_socket_begin(&c->link, &w);
        dp_msg_expect_encode(&w, &c->expect);
        if (!dp_frame_socket_end(&c->link, &w, DP_MSG_EXPECT))
            return;
        dp_expected_sent(c->expected, &c->expect);
    }
}

/* Queue every kept message that this connection has not had yet, oldest kind first. */
static void queue_kept(struct dp_control *c)
{
    struct dp_writer w;

    if (c->has_vote && !c->vote_queued) {
        dp_frame_socket_begin(&c->link, &w);
        dp_msg_vote_encode(&w, &c->vote);
        c->vote_queued = dp_frame_socket_end(&c->link, &w, DP_MSG_VOTE);
    }
    if (c->has_ack && !c->ack_queued) {
        dp_frame_socket_begin(&c->link, &w);
        dp_msg_decision_ack_encode(&w, &c->ack);
        c->ack_queued = dp_frame_socket_end(&c->link, &w, DP_MSG_DECISION_ACK);
    }
    if (c->card && !c->card_queued) {
        struct dp_msg_card m = {.job_id = c->hello.job_id, .step_id = c->hello.step_id, .rank = c->hello.rank,
                                .n_workers = c->hello.n_workers, .kind = DP_CARD_AGAIN, .key_len = DP_KEY_BYTES, .key = c->key,
                                .card_len = (uint16_t)c->card_bytes, .card = c->card};

        dp_frame_socket_begin(&c->link, &w);
        dp_msg_card_encode(&w, &m);
        c->card_queued = dp_frame_socket_end(&c->link, &w, DP_MSG_CARD);
    }
    queue_expected(c);
    queue_events(c);
    if (c->has_goodbye && !c->goodbye_queued) {
        dp_frame_socket_begin(&c->link, &w);
        dp_msg_goodbye_encode(&w, &c->goodbye);
        c->goodbye_queued = dp_frame_socket_end(&c->link, &w, DP_MSG_GOODBYE);
    }
}

/* ---- the state of the connection ---- */

/* What the batch host lacks all nodes hear, and people read it once. */
static bool is_told_by_another(const struct dp_control *c, const char *why)
{
    return c->is_hushed || (!c->leads && !strncmp(why, DP_HOST_TROUBLE, strlen(DP_HOST_TROUBLE)));
}

static void tell_loss(struct dp_control *c, const char *why)
{
    if (!c->is_hushed)
        dp_warn(WHO_FMT ": daemon lost (%s); training goes on with the layout in force", WHO(c), why);
    c->is_untold = false;
    c->told_ns = dp_now_ns();
}

/* What is broken, once for each cause: a daemon that is away may come back to find the batch host away. */
static void note_trouble(struct dp_control *c, const char *why)
{
    uint64_t now = dp_now_ns();

    if (!c->down_ns)
        c->down_ns = now;
    snprintf(c->trouble, sizeof c->trouble, "%s", why);
    if (!c->is_lost || is_told_by_another(c, why))
        return;
    if (c->is_untold) {
        memcpy(c->told, c->trouble, sizeof c->told);
        tell_loss(c, why);
        return;
    }
    if (now - c->told_ns < TELL_EVERY_NS || !strcmp(c->told, c->trouble))
        return;
    memcpy(c->told, c->trouble, sizeof c->told);
    c->told_ns = now;
    dp_warn(WHO_FMT ": still no coordinator after %.0f s: %s", WHO(c), (double)(now - c->down_ns) / 1e9, why);
}

/* A daemon of release 0.1.0 hangs up on a HELLO of another version than its own, without a word; so may one that dies.
 * The two versions are tried in turn, until one is answered. Whose answer only takes long has not hung up. */
static uint16_t other_version(const struct dp_control *c)
{
    bool is_hung_up = c->state == LINK_GREETING && !c->link.has_heard;

    return is_hung_up && c->try_version == DP_PROTO_VERSION ? DP_PROTO_MIN : DP_PROTO_VERSION;
}

static void line_down(struct dp_control *c, const char *why)
{
    note_trouble(c, why);
    if (c->state == LINK_UP) {
        c->is_lost = true;
        if (c->leads)
            tell_loss(c, why);
        else
            c->is_untold = true; /* the next try shows whose daemon it is */
        if (dp_now_ns() - c->hello_ns > STEADY_NS) /* a connection that flaps keeps its long pauses */
            c->backoff_ns = 0;
    }
    c->backoff_ns = c->backoff_ns < BACKOFF_MIN_NS ? BACKOFF_MIN_NS : 2 * c->backoff_ns;
    if (c->backoff_ns > BACKOFF_MAX_NS)
        c->backoff_ns = BACKOFF_MAX_NS;
    c->try_version = other_version(c);
    drop_sent_events(c);
    for (uint32_t i = 0; i < c->n_events; i++)
        c->event[i].is_queued = false;
    c->vote_queued = c->ack_queued = c->goodbye_queued = c->card_queued = false;
    if (c->expected)
        dp_expected_restart(c->expected);
    dp_frame_socket_close(&c->link);
    c->state = LINK_DOWN;
    c->next_try_ns = dp_now_ns() + c->backoff_ns;
}

static void try_connect(struct dp_control *c)
{
    struct dp_err err;

    if (dp_frame_socket_open(&c->link, c->socket, c->try_version, &err) < 0) {
        line_down(c, err.text);
        return;
    }
    c->state = LINK_GREETING;
    c->hello_ns = dp_now_ns();
    queue_hello(c);
}

/* ---- service ---- */

static void service(struct dp_control *c)
{
    struct dp_err err = {0};

    if (dp_control_receive(c, &err) < 0) {
        line_down(c, err.text);
        if (err.code == DP_EAUTH) {
            bool may_change = c->has_welcome && c->welcome.verdict == DP_VERDICT_UNKNOWN;

            c->next_try_ns = dp_now_ns() + (may_change ? REFUSED_NS : BACKOFF_MAX_NS);
        }
        return;
    }
    if (c->state == LINK_GREETING && dp_now_ns() - c->hello_ns > WELCOME_TIMEOUT_NS) {
        line_down(c, "dynpiped accepted HELLO but does not answer it");
        c->try_version = DP_PROTO_VERSION; /* an older HELLO lacks the step's options, which may be taken from it */
        return;
    }
    if (c->state == LINK_UP) {
        queue_kept(c);
        dp_control_take_lock(c);
    }
    if (dp_frame_socket_flush(&c->link, &err) < 0) {
        line_down(c, err.text);
        return;
    }
    drop_sent_events(c);
}

void dp_control_poll(struct dp_control *c)
{
    if (!c->socket)
        return;
    if (c->state == LINK_DOWN) {
        if (dp_now_ns() < c->next_try_ns)
            return;
        try_connect(c);
    }
    if (c->state != LINK_DOWN)
        service(c);
}

void dp_control_wait(struct dp_control *c, uint32_t timeout_ms)
{
    uint64_t now = dp_now_ns(), ns = timeout_ms * DP_MS_NS;
    struct pollfd p = {.fd = c->link.fd, .events = POLLIN};

    if (dp_frame_socket_has_output(&c->link) && c->link.fd >= 0)
        p.events |= POLLOUT;
    if (c->socket && c->state == LINK_DOWN && c->next_try_ns < now + ns)
        ns = c->next_try_ns > now ? c->next_try_ns - now : 0;
    poll(&p, 1, (int)((ns + DP_MS_NS - 1) / DP_MS_NS)); /* fd -1 is ignored: then it only sleeps */
    dp_control_poll(c);
}

/* A welcome that was followed by a broken connection is no refusal. */
static bool is_refused(const struct dp_control *c)
{
    return c->has_welcome &&
           (c->welcome.verdict == DP_VERDICT_DENIED || c->welcome.verdict == DP_VERDICT_FENCED);
}

static void wait_first_welcome(struct dp_control *c, uint32_t timeout_ms)
{
    uint64_t end = dp_now_ns() + timeout_ms * DP_MS_NS;

    dp_control_poll(c);
    while (c->state != LINK_UP && dp_now_ns() < end) {
        uint64_t left = (end - dp_now_ns()) / DP_MS_NS;

        if (is_refused(c))
            return;
        dp_control_wait(c, (uint32_t)(left < 100 ? left + 1 : 100));
    }
}

struct dp_control *dp_control_create(const char *socket, const struct dp_msg_hello *hello,
                                     uint32_t first_timeout_ms, struct dp_err *err)
{
    struct dp_control *c = calloc(1, sizeof *c);

    if (c && socket)
        c->socket = strdup(socket);
    if (!c || (socket && !c->socket)) {
        free(c);
        dp_err_set(err, DP_ENOMEM, "control connection: out of memory");
        return NULL;
    }
    c->hello = *hello;
    c->leads = hello->rank == 0;
    c->try_version = DP_PROTO_VERSION;
    dp_device_lock_init(&c->lock);
    dp_frame_socket_init(&c->link);
    if (!socket)
        return c;
    wait_first_welcome(c, first_timeout_ms);
    if (c->state == LINK_UP)
        return c;
    if (is_refused(c)) {
        dp_err_set(err, DP_EAUTH, "the daemon says that this worker must not run here: %s",
                   c->welcome.text[0] ? c->welcome.text : "no reason given");
        dp_control_destroy(c);
        return NULL;
    }
    if (!c->trouble[0])
        snprintf(c->trouble, sizeof c->trouble, "dynpiped accepted HELLO but does not answer it");
    c->is_lost = true; /* the caller tells it */
    c->is_untold = is_told_by_another(c, c->trouble);
    c->told_ns = dp_now_ns();
    memcpy(c->told, c->trouble, sizeof c->told);
    return c;
}

void dp_control_abandon(struct dp_control *c)
{
    int saved = errno;

    dp_frame_socket_close(&c->link);
    dp_device_lock_release(&c->lock);
    for (uint32_t r = 0; r < DP_MAX_WORKERS; r++)
        free(c->peer[r].card);
    dp_expected_destroy(c->expected);
    explicit_bzero(c->key, sizeof c->key);
    free(c->card);
    free(c->socket);
    free(c);
    errno = saved;
}

void dp_control_destroy(struct dp_control *c)
{
    uint64_t end = dp_now_ns() + 1000 * DP_MS_NS;
    int saved = errno;

    if (!c)
        return;
    if (c->state == LINK_UP)
        service(c);
    while (c->state == LINK_UP && dp_frame_socket_has_output(&c->link) && dp_now_ns() < end) {
        struct pollfd p = {.fd = c->link.fd, .events = POLLIN | POLLOUT};

        poll(&p, 1, 50);
        service(c);
    }
    dp_control_abandon(c);
    errno = saved;
}

const char *dp_control_trouble(const struct dp_control *c)
{
    return c->socket && c->state != LINK_UP ? c->trouble : "";
}

void dp_control_lead(struct dp_control *c)
{
    c->leads = true;
    c->is_hushed = false;
}

void dp_control_hush(struct dp_control *c)
{
    c->is_hushed = true;
}

int dp_control_fd(const struct dp_control *c)
{
    return c->link.fd;
}

bool dp_control_is_connected(const struct dp_control *c)
{
    return c->state == LINK_UP;
}

const struct dp_msg_welcome *dp_control_welcome(const struct dp_control *c)
{
    return c->has_welcome ? &c->welcome : NULL;
}

const struct dp_msg_prepare *dp_control_prepare(const struct dp_control *c)
{
    return c->has_prepare ? &c->prepare : NULL;
}

void dp_control_prepare_done(struct dp_control *c)
{
    if (c->has_prepare && c->prepare.migration > c->prepare_closed)
        c->prepare_closed = c->prepare.migration;
    c->has_prepare = false;
}

const struct dp_msg_decision *dp_control_decision(const struct dp_control *c, uint64_t migration)
{
    if (!c->has_decision || (migration != 0 && c->decision.migration != migration))
        return NULL;
    return &c->decision;
}

bool dp_control_is_finished(const struct dp_control *c, uint64_t migration)
{
    return migration <= c->finished;
}

const struct dp_msg_regroup *dp_control_regroup(const struct dp_control *c)
{
    return c->regroup.epoch > c->hello.epoch ? &c->regroup : NULL;
}

const char *dp_control_no_regroup(const struct dp_control *c)
{
    return c->no_regroup;
}

const struct dp_msg_proposal *dp_control_proposal(const struct dp_control *c)
{
    const struct dp_msg_proposal *m = &c->proposal;

    return m->number && memcmp(m->cut, c->hello.cut, (m->n_workers + 1) * sizeof m->cut[0]) != 0 ? m : NULL;
}

bool dp_control_take_save(struct dp_control *c)
{
    bool wanted = c->wants_save;

    c->wants_save = false;
    return wanted;
}

bool dp_control_take_stop(struct dp_control *c)
{
    bool wanted = c->wants_stop;

    c->wants_stop = false;
    return wanted;
}

bool dp_control_has_limit(const struct dp_control *c)
{
    return c->has_limit;
}

uint64_t dp_control_end_ns(const struct dp_control *c)
{
    return c->end_ns;
}

void dp_control_state(struct dp_control *c, uint64_t step, uint64_t doubt, const struct dp_layout *layout)
{
    c->hello.step = step;
    c->hello.doubt = doubt;
    c->hello.epoch = layout->epoch;
    c->hello.n_workers = layout->n_workers;
    c->hello.n_layers = layout->n_layers;
    c->hello.is_gone = c->hello.rank < layout->n_workers && layout->gone[c->hello.rank];
    c->hello.leader = dp_layout_leader(layout);
    memcpy(c->hello.cut, layout->cut, (layout->n_workers + 1) * sizeof layout->cut[0]);
    if (c->expected)
        dp_expected_pass(c->expected, step);
}

int dp_control_introduce(struct dp_control *c, const void *card, size_t bytes, const uint8_t key[DP_KEY_BYTES])
{
    if (bytes > DP_CARD_MAX || !(c->card = malloc(bytes + 1)))
        return -1;
    memcpy(c->card, card, bytes);
    c->card_bytes = bytes;
    memcpy(c->key, key, sizeof c->key);
    dp_control_poll(c);
    return 0;
}

const void *dp_control_card(const struct dp_control *c, uint32_t rank, size_t *bytes)
{
    *bytes = c->peer[rank].bytes;
    return c->peer[rank].card;
}

void dp_control_joined(struct dp_control *c)
{
    c->hello.joins = 0;
}

/* Queue what is new and write what the socket takes now. */
static bool push(struct dp_control *c)
{
    struct dp_err err = {0};

    if (c->state != LINK_UP)
        return false;
    queue_kept(c);
    if (dp_frame_socket_flush(&c->link, &err) < 0)
        line_down(c, err.text);
    else
        drop_sent_events(c);
    return c->state == LINK_UP;
}

bool dp_control_report(struct dp_control *c, const struct dp_msg_report *m)
{
    struct dp_writer w;

    /* a daemon that does not read gets no second report: the newest is worth more than both */
    if (c->state != LINK_UP || dp_frame_socket_has_output(&c->link))
        return false;
    dp_frame_socket_begin(&c->link, &w);
    dp_msg_report_encode(&w, m);
    return dp_frame_socket_end(&c->link, &w, DP_MSG_REPORT) && push(c);
}

bool dp_control_vote(struct dp_control *c, const struct dp_msg_vote *m)
{
    c->vote = *m;
    c->has_vote = !c->has_decision || c->decision.migration < m->migration;
    c->vote_queued = false;
    return push(c);
}

bool dp_control_ack(struct dp_control *c, const struct dp_msg_decision_ack *m)
{
    c->ack = *m;
    c->has_ack = true;
    c->ack_queued = false;
    return push(c);
}

bool dp_control_event(struct dp_control *c, const struct dp_msg_event *m)
{
    struct kept_event *e;

    if (c->n_events == MAX_EVENTS) { /* the newest ones tell more */
        memmove(c->event, c->event + 1, (MAX_EVENTS - 1) * sizeof c->event[0]);
        c->n_events--;
    }
    e = &c->event[c->n_events++];
    memset(e, 0, sizeof *e);
    e->m = *m;
    return push(c);
}

bool dp_control_goodbye(struct dp_control *c, const struct dp_msg_goodbye *m)
{
    c->goodbye = *m;
    c->has_goodbye = true;
    c->goodbye_queued = false;
    return push(c);
}

int dp_control_expect(struct dp_control *c, uint64_t step, uint32_t first, const struct dp_layer_load *load, uint32_t n,
                      struct dp_err *err)
{
    if (!c->expected && !(c->expected = dp_expected_create(c->hello.n_layers, err)))
        return -1;
    if (dp_expected_set(c->expected, step, first, load, n, err) < 0)
        return -1;
    dp_expected_pass(c->expected, c->hello.step);
    push(c);
    return 0;
}
