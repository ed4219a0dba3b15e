/* See control.h: what the worker and its daemon say to each other, over worker/line.c.
 *
 * A worker must survive its daemon, so nothing here blocks and nothing here fails: a line that breaks,
 * or a daemon that says something it may not, is closed and opened again after a pause that doubles
 * from 50 ms to 2 s. Messages that matter are kept here, not in the line's buffer, and are queued
 * again on the next line: a vote until its decision is known, an acknowledgement until FINISH, an
 * event until the socket took it, a goodbye always. Receivers drop what they have seen (migration
 * ids), so repeating is safe.
 *
 * Stale messages: the highest coordinator incarnation and migration seen win, lower ones are dropped
 * (doc/protocol.md, identities).
 */
#include "worker/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/line.h"

#define MS UINT64_C(1000000)
#define BACKOFF_MIN_NS (50 * MS)
#define BACKOFF_MAX_NS (2000 * MS)
#define WELCOME_TIMEOUT_NS (5000 * MS)
#define LOCK_RETRY_NS (1000 * MS)
#define STEADY_NS (5000 * MS)
#define MAX_EVENTS 32
#define MAX_ROUNDS 16

enum line_state { LINE_DOWN, LINE_GREETING, LINE_UP };

struct kept_event {
    struct dp_msg_event m;
    bool is_queued;
    uint64_t end; /* of its frame, in bytes queued on this line */
};

struct dp_control {
    char *socket; /* NULL: there is no daemon */
    struct dp_line line;
    enum line_state state;
    uint64_t backoff_ns, next_try_ns, hello_ns;
    bool was_up;  /* since the last refusal */
    bool is_lost; /* "lost" was logged, "back" was not */

    struct dp_msg_hello hello;
    struct dp_msg_welcome welcome;
    bool has_welcome;
    int lock_fd; /* -1: not held */
    uint64_t lock_try_ns;
    bool lock_warned;

    uint32_t incarnation;    /* highest seen */
    uint64_t prepare_closed; /* migrations up to this one are done with: PREPARE is not shown again */
    bool has_prepare, has_decision, wants_save;
    struct dp_msg_prepare prepare;
    struct dp_msg_decision decision;
    uint64_t finished; /* highest migration of a FINISH */

    bool has_vote, vote_queued, has_ack, ack_queued, has_goodbye, goodbye_queued;
    struct dp_msg_vote vote;
    struct dp_msg_decision_ack ack;
    struct dp_msg_goodbye goodbye;
    struct kept_event event[MAX_EVENTS]; /* oldest first */
    uint32_t n_events;
};

/* "job=7 step=0 rank=2" for every line that is logged here. */
#define WHO_FMT "job=%u step=%u rank=%u"
#define WHO(c) (c)->hello.job_id, (c)->hello.step_id, (c)->hello.rank

/* ---- device lock ---- */

/* Hold WELCOME.device_lock for the life of the process: the node's proof that a worker is gone tests
 * it with an exclusive lock. Shared here, because all workers of a node hold the same file. A lock
 * that is taken (just then a test is made) is tried again once a second. */
static void take_device_lock(struct dp_control *c)
{
    const char *path = c->welcome.device_lock;
    uint64_t now = dp_now_ns();
    struct stat st;
    int fd;

    if (c->lock_fd >= 0 || !path[0] || (c->lock_try_ns && now - c->lock_try_ns < LOCK_RETRY_NS))
        return;
    c->lock_try_ns = now;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
        errno = EINVAL;
    }
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0) {
        c->lock_fd = fd;
        return;
    }
    if (!c->lock_warned)
        dp_warn(WHO_FMT ": device lock %s not taken yet: %s", WHO(c), path, strerror(errno));
    c->lock_warned = true;
    if (fd >= 0)
        close(fd);
}

/* ---- sending ---- */

static bool queue_hello(struct dp_control *c)
{
    struct dp_writer w;

    dp_line_begin(&c->line, &w);
    dp_msg_hello_encode(&w, &c->hello);
    return dp_line_end(&c->line, &w, DP_MSG_HELLO);
}

/* Forget events that the socket took. */
static void drop_sent_events(struct dp_control *c)
{
    uint32_t n = 0;

    while (n < c->n_events && c->event[n].is_queued && c->event[n].end <= c->line.sent)
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
        dp_line_begin(&c->line, &w);
        dp_msg_event_encode(&w, &e->m);
        if (!dp_line_end(&c->line, &w, DP_MSG_EVENT))
            return;
        e->is_queued = true;
        e->end = c->line.queued;
    }
}

/* Queue every kept message that this line has not had yet, oldest kind first. */
static void queue_kept(struct dp_control *c)
{
    struct dp_writer w;

    if (c->has_vote && !c->vote_queued) {
        dp_line_begin(&c->line, &w);
        dp_msg_vote_encode(&w, &c->vote);
        c->vote_queued = dp_line_end(&c->line, &w, DP_MSG_VOTE);
    }
    if (c->has_ack && !c->ack_queued) {
        dp_line_begin(&c->line, &w);
        dp_msg_decision_ack_encode(&w, &c->ack);
        c->ack_queued = dp_line_end(&c->line, &w, DP_MSG_DECISION_ACK);
    }
    queue_events(c);
    if (c->has_goodbye && !c->goodbye_queued) {
        dp_line_begin(&c->line, &w);
        dp_msg_goodbye_encode(&w, &c->goodbye);
        c->goodbye_queued = dp_line_end(&c->line, &w, DP_MSG_GOODBYE);
    }
}

/* ---- the state of the line ---- */

static void line_down(struct dp_control *c, const char *why)
{
    if (c->state == LINE_UP) {
        dp_warn(WHO_FMT ": daemon lost (%s); training goes on with the layout in force", WHO(c), why);
        c->is_lost = true;
        if (dp_now_ns() - c->hello_ns > STEADY_NS) /* a line that flaps keeps its long pauses */
            c->backoff_ns = 0;
    }
    c->backoff_ns = c->backoff_ns < BACKOFF_MIN_NS ? BACKOFF_MIN_NS : 2 * c->backoff_ns;
    if (c->backoff_ns > BACKOFF_MAX_NS)
        c->backoff_ns = BACKOFF_MAX_NS;
    drop_sent_events(c);
    for (uint32_t i = 0; i < c->n_events; i++)
        c->event[i].is_queued = false;
    c->vote_queued = c->ack_queued = c->goodbye_queued = false;
    dp_line_close(&c->line);
    c->state = LINE_DOWN;
    c->next_try_ns = dp_now_ns() + c->backoff_ns;
}

static void try_connect(struct dp_control *c)
{
    struct dp_err err;

    if (dp_line_open(&c->line, c->socket, &err) < 0) {
        line_down(c, err.text);
        return;
    }
    c->state = LINE_GREETING;
    c->hello_ns = dp_now_ns();
    queue_hello(c);
}

/* ---- receiving ---- */

static bool may_send(void *arg, uint16_t type)
{
    const struct dp_control *c = arg;

    if (c->state == LINE_GREETING)
        return type == DP_MSG_WELCOME;
    return type == DP_MSG_PREPARE || type == DP_MSG_DECISION || type == DP_MSG_FINISH ||
           type == DP_MSG_SAVE || type == DP_MSG_PING;
}

static int on_welcome(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    if (dp_msg_welcome_decode(r, &c->welcome, err) < 0)
        return -1;
    if (c->welcome.verdict > DP_VERDICT_UNKNOWN)
        return dp_err_set(err, DP_EPROTO, "WELCOME: verdict %u", c->welcome.verdict);
    c->has_welcome = true;
    if (c->welcome.verdict != DP_VERDICT_OK && c->was_up)
        dp_warn(WHO_FMT ": the daemon that came back refuses this worker: %s", WHO(c), c->welcome.text);
    c->was_up = c->was_up && c->welcome.verdict == DP_VERDICT_OK;
    if (c->welcome.verdict != DP_VERDICT_OK)
        return dp_err_set(err, DP_EAUTH, "refused: %s",
                          c->welcome.text[0] ? c->welcome.text : "no reason given");
    if (c->is_lost)
        dp_info(WHO_FMT ": daemon is back", WHO(c));
    c->is_lost = false;
    c->was_up = true;
    c->state = LINE_UP;
    take_device_lock(c);
    return 0;
}

/* False: from a coordinator that has been replaced since. */
static bool is_current(struct dp_control *c, uint32_t incarnation)
{
    if (incarnation < c->incarnation)
        return false;
    c->incarnation = incarnation;
    return true;
}

static int on_prepare(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_prepare m;

    if (dp_msg_prepare_decode(r, &m, err) < 0)
        return -1;
    if (!is_current(c, m.incarnation))
        return 0;
    if (c->has_vote && m.migration == c->vote.migration) {
        c->vote_queued = false; /* it missed the vote: say it again */
        return 0;
    }
    if (m.migration <= c->prepare_closed || (c->has_prepare && m.migration < c->prepare.migration))
        return 0;
    c->prepare = m;
    c->has_prepare = true;
    return 0;
}

static int on_decision(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_decision m;

    if (dp_msg_decision_decode(r, &m, err) < 0)
        return -1;
    if (m.commit > 1)
        return dp_err_set(err, DP_EPROTO, "DECISION: commit %u", m.commit);
    if (!is_current(c, m.incarnation))
        return 0;
    if (c->has_ack && m.migration == c->ack.migration)
        c->ack_queued = false; /* it missed the acknowledgement */
    if (c->has_decision && m.migration <= c->decision.migration)
        return 0; /* decided is decided */
    c->decision = m;
    c->has_decision = true;
    if (c->has_vote && c->vote.migration <= m.migration)
        c->has_vote = false;
    if (c->has_prepare && c->prepare.migration <= m.migration)
        c->has_prepare = false;
    if (c->prepare_closed < m.migration)
        c->prepare_closed = m.migration;
    return 0;
}

static int on_finish(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_finish m;

    if (dp_msg_finish_decode(r, &m, err) < 0)
        return -1;
    if (m.migration > c->finished)
        c->finished = m.migration;
    if (c->has_ack && c->ack.migration <= c->finished)
        c->has_ack = false;
    return 0;
}

/* Answered wherever this line is served: in a wait for another worker, too. */
static int on_ping(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_pong answer = {.rank = c->hello.rank};
    struct dp_msg_ping m;
    struct dp_writer w;

    if (dp_msg_ping_decode(r, &m, err) < 0)
        return -1;
    answer.number = m.number;
    dp_line_begin(&c->line, &w);
    dp_msg_pong_encode(&w, &answer);
    dp_line_end(&c->line, &w, DP_MSG_PONG); /* no room: it is asked again */
    return 0;
}

static int on_frame(struct dp_control *c, const struct dp_header *h, const uint8_t *body,
                    struct dp_err *err)
{
    struct dp_msg_save save;
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    switch (h->type) {
    case DP_MSG_WELCOME:
        return on_welcome(c, &r, err);
    case DP_MSG_PREPARE:
        return on_prepare(c, &r, err);
    case DP_MSG_DECISION:
        return on_decision(c, &r, err);
    case DP_MSG_FINISH:
        return on_finish(c, &r, err);
    case DP_MSG_PING:
        return on_ping(c, &r, err);
    default: /* SAVE: may_send() lets nothing else through */
        if (dp_msg_save_decode(&r, &save, err) < 0)
            return -1;
        c->wants_save = true;
        return 0;
    }
}

/* Read and handle all whole frames; what was read before the peer closed still counts. Rounds are
 * bounded: a daemon that never stops talking does not hold up training. */
static int receive(struct dp_control *c, struct dp_err *err)
{
    struct dp_err later = {0};
    struct dp_header h;
    const uint8_t *body;
    bool was_full;
    int rc, read_rc, rounds = 0;

    do {
        read_rc = dp_line_read(&c->line, &later);
        was_full = c->line.rx_used == sizeof c->line.rx;
        while ((rc = dp_line_next(&c->line, may_send, c, &h, &body, err)) > 0)
            if (on_frame(c, &h, body, err) < 0)
                return -1;
        if (rc < 0)
            return -1;
    } while (read_rc == 0 && was_full && ++rounds < MAX_ROUNDS);
    if (read_rc < 0 && err)
        *err = later;
    return read_rc;
}

/* ---- public ---- */

static void service(struct dp_control *c)
{
    struct dp_err err = {0};

    if (receive(c, &err) < 0) {
        line_down(c, err.text);
        if (err.code == DP_EAUTH)
            c->next_try_ns = dp_now_ns() + BACKOFF_MAX_NS;
        return;
    }
    if (c->state == LINE_GREETING && dp_now_ns() - c->hello_ns > WELCOME_TIMEOUT_NS) {
        line_down(c, "no WELCOME");
        return;
    }
    if (c->state == LINE_UP) {
        queue_kept(c);
        take_device_lock(c);
    }
    if (dp_line_flush(&c->line, &err) < 0) {
        line_down(c, err.text);
        return;
    }
    drop_sent_events(c);
}

void dp_control_poll(struct dp_control *c)
{
    if (!c->socket)
        return;
    if (c->state == LINE_DOWN) {
        if (dp_now_ns() < c->next_try_ns)
            return;
        try_connect(c);
    }
    if (c->state != LINE_DOWN)
        service(c);
}

void dp_control_wait(struct dp_control *c, uint32_t timeout_ms)
{
    uint64_t now = dp_now_ns(), ns = timeout_ms * MS;
    struct pollfd p = {.fd = c->line.fd, .events = POLLIN};

    if (dp_line_has_output(&c->line) && c->line.fd >= 0)
        p.events |= POLLOUT;
    if (c->socket && c->state == LINE_DOWN && c->next_try_ns < now + ns)
        ns = c->next_try_ns > now ? c->next_try_ns - now : 0;
    poll(&p, 1, (int)((ns + MS - 1) / MS)); /* fd -1 is ignored: then it only sleeps */
    dp_control_poll(c);
}

/* A welcome that was followed by a broken line is no refusal. */
static bool is_refused(const struct dp_control *c)
{
    return c->has_welcome &&
           (c->welcome.verdict == DP_VERDICT_DENIED || c->welcome.verdict == DP_VERDICT_FENCED);
}

static void wait_first_welcome(struct dp_control *c, uint32_t timeout_ms)
{
    uint64_t end = dp_now_ns() + timeout_ms * MS;

    dp_control_poll(c);
    while (c->state != LINE_UP && dp_now_ns() < end) {
        uint64_t left = (end - dp_now_ns()) / MS;

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
        dp_err_set(err, DP_ENOMEM, "control line: out of memory");
        return NULL;
    }
    c->hello = *hello;
    c->lock_fd = -1;
    dp_line_init(&c->line);
    if (!socket)
        return c;
    wait_first_welcome(c, first_timeout_ms);
    if (c->state == LINE_UP)
        return c;
    if (is_refused(c)) {
        dp_err_set(err, DP_EAUTH, "the daemon says that this worker must not run here: %s",
                   c->welcome.text[0] ? c->welcome.text : "no reason given");
        dp_control_destroy(c);
        return NULL;
    }
    dp_warn(WHO_FMT ": no daemon at %s; training goes on with a fixed layout", WHO(c), socket);
    c->is_lost = true;
    return c;
}

void dp_control_destroy(struct dp_control *c)
{
    uint64_t end = dp_now_ns() + 1000 * MS;
    int saved = errno;

    if (!c)
        return;
    if (c->state == LINE_UP)
        service(c);
    while (c->state == LINE_UP && dp_line_has_output(&c->line) && dp_now_ns() < end) {
        struct pollfd p = {.fd = c->line.fd, .events = POLLIN | POLLOUT};

        poll(&p, 1, 50);
        service(c);
    }
    dp_line_close(&c->line);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    free(c->socket);
    free(c);
    errno = saved;
}

int dp_control_fd(const struct dp_control *c)
{
    return c->line.fd;
}

bool dp_control_is_connected(const struct dp_control *c)
{
    return c->state == LINE_UP;
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

bool dp_control_take_save(struct dp_control *c)
{
    bool wanted = c->wants_save;

    c->wants_save = false;
    return wanted;
}

void dp_control_state(struct dp_control *c, uint64_t step, uint64_t doubt, const struct dp_layout *layout)
{
    c->hello.step = step;
    c->hello.doubt = doubt;
    c->hello.epoch = layout->epoch;
    c->hello.n_workers = layout->n_workers;
    c->hello.n_layers = layout->n_layers;
    memcpy(c->hello.cut, layout->cut, (layout->n_workers + 1) * sizeof layout->cut[0]);
}

/* Queue what is new and write what the socket takes now. */
static bool push(struct dp_control *c)
{
    struct dp_err err = {0};

    if (c->state != LINE_UP)
        return false;
    queue_kept(c);
    if (dp_line_flush(&c->line, &err) < 0)
        line_down(c, err.text);
    else
        drop_sent_events(c);
    return c->state == LINE_UP;
}

bool dp_control_report(struct dp_control *c, const struct dp_msg_report *m)
{
    struct dp_writer w;

    /* a daemon that does not read gets no second report: the newest is worth more than both */
    if (c->state != LINE_UP || dp_line_has_output(&c->line))
        return false;
    dp_line_begin(&c->line, &w);
    dp_msg_report_encode(&w, m);
    return dp_line_end(&c->line, &w, DP_MSG_REPORT) && push(c);
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
