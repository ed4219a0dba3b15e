/* SPDX-License-Identifier: BSD-3-Clause */
/* The workers of daemon_world.h: processes that speak to the daemon of their node as worker/ does, and train in no
 * time. What they own, and which copies of layers they hold, is what the invariants are about. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire.h"
#include "tests/unit/daemon/daemon_world.h"

#define SEC UINT64_C(1000000000)
#define REPORT_NS (SEC / 5)
#define STEPS_TOTAL 100000u
#define PRUNE_BEGIN 140u /* 7 s */
#define PRUNE_EVERY 20u
#define PRUNE_END 500u   /* 25 s */
#define MICROBATCHES 8u
#define AWAY_S 2

/* ---- sockets ---- */

int dw_connect(uint32_t node, uint32_t pid, uint32_t uid)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX}, own = {.sun_family = AF_UNIX};
    static unsigned n_names;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int n = snprintf(own.sun_path + 1, sizeof own.sun_path - 1, "dw:%u:%u:%d:%u", pid, uid, (int)getpid(), n_names++);

    snprintf(to.sun_path, sizeof to.sun_path, "%s", dw.node[node].config->socket);
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, (socklen_t)(sizeof own.sun_family + 1 + (size_t)n)) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static bool send_frame(int fd, uint32_t seq, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct dp_header h = {DP_PROTO_VERSION, (uint16_t)type, (uint32_t)bytes, seq};
    static uint8_t frame[DP_HEADER_BYTES + DP_BODY_MAX];

    dp_header_encode(frame, &h);
    memcpy(frame + DP_HEADER_BYTES, body, bytes);
    return send(fd, frame, DP_HEADER_BYTES + bytes, MSG_NOSIGNAL) == (ssize_t)(DP_HEADER_BYTES + bytes);
}

void dw_hear_out(uint32_t i)
{
    uint8_t frame[2048];
    struct dp_msg_welcome m;
    struct dp_header h;
    struct dp_reader r;

    if (dw.said[i].fd <= 0)
        return;
    if (dw.said[i].must_not && recv(dw.said[i].fd, frame, sizeof frame, MSG_DONTWAIT) > DP_HEADER_BYTES &&
        dp_header_decode(frame, &h, NULL) == 0 && h.type == DP_MSG_WELCOME) {
        dp_reader_init(&r, frame + DP_HEADER_BYTES, h.body_len);
        if (dp_msg_welcome_decode(&r, &m, NULL) == 0 && m.verdict == DP_VERDICT_OK)
            dw_broken_for_all("a worker is let in where the run is fenced", i, 0);
    }
    close(dw.said[i].fd);
    dw.said[i].fd = 0;
}

/* Somebody who says one thing, and leaves when some others have. returns which of them, -1: nobody listens. */
static int say_as(uint32_t node, uint32_t pid, uint32_t uid, enum dp_msg_type type, const void *body, size_t bytes)
{
    int fd = dw.node[node].is_up ? dw_connect(node, pid, uid) : -1;
    uint32_t i = dw.n_said % DW_SAID;

    if (fd < 0)
        return -1;
    (void)send_frame(fd, 0, type, body, bytes);
    dw_hear_out(i);
    dw.said[i].fd = fd;
    dw.said[i].must_not = false;
    dw.n_said++;
    return (int)i;
}

int dw_say(uint32_t node, uint32_t uid, enum dp_msg_type type, const void *body, size_t bytes)
{
    return say_as(node, 500, uid, type, body, bytes);
}

void dw_step_start(uint32_t node)
{
    struct dp_msg_step_start m = {.job_id = DW_JOB, .step_id = dw_draw(3), .uid = DW_OWNER, .gid = DW_OWNER,
                                  .options_set = DP_OPT_MODE | DP_OPT_REFERENCE, .mode = DP_MODE_RELEASE,
                                  .reference = DP_REF_START};
    uint8_t body[1024];
    struct dp_writer w;

    memcpy(m.node, dw.node[node].name, sizeof m.node);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, &m);
    (void)dw_say(node, 0, DP_MSG_STEP_START, body, dp_writer_used(&w));
}

void dw_worker_cut(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];

    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
    k->is_welcome = false;
    k->n_in = 0;
    k->connect_at_ns = dw_soon(AWAY_S * 1000);
}

/* With hostile workers some bytes change on the way. */
void dw_worker_send(uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct dw_worker *k = &dw.worker[rank];
    static uint8_t copy[DP_BODY_MAX];

    if (k->fd < 0)
        return;
    memcpy(copy, body, bytes);
    if (dw.is_hostile && bytes && dw_chance(10)) {
        for (uint32_t n = 1 + dw_draw(4); n > 0; n--)
            copy[dw_draw((uint32_t)bytes)] ^= (uint8_t)(1 + dw_draw(255));
        dw.n_lies++;
    }
    if (!send_frame(k->fd, k->seq++, type, copy, bytes))
        dw_worker_cut(rank);
}

#define SEND(rank, name, type, msg)                                                                \
    do {                                                                                           \
        static uint8_t send_body[DP_BODY_MAX];                                                     \
        struct dp_writer send_writer;                                                              \
        dp_writer_init(&send_writer, send_body, sizeof send_body);                                 \
        dp_msg_##name##_encode(&send_writer, (msg));                                               \
        dw_worker_send((rank), (type), send_body, dp_writer_used(&send_writer));                   \
    } while (0)

/* ---- who holds what ---- */

static bool is_alive(const struct dw_worker *k)
{
    return k->process && k->process->is_alive;
}

static bool owns(const struct dp_layout *l, uint32_t rank, uint32_t layer)
{
    return layer >= l->cut[rank] && layer < l->cut[rank + 1];
}

static void keep_own(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];

    for (uint32_t l = 0; l < DW_LAYERS; l++)
        k->holds[l] = owns(&k->layout, rank, l);
}

static void check_layer(uint32_t l)
{
    int owner = -1;
    bool is_held = false;

    for (uint32_t r = 0; r < DW_WORKERS; r++) {
        const struct dw_worker *k = &dw.worker[r];

        is_held |= is_alive(k) && k->holds[l];
        if (!is_alive(k) || k->doubt || !owns(&k->layout, r, l))
            continue;
        if (owner >= 0)
            dw_broken("two workers may step a layer", l, r);
        owner = (int)r;
    }
    if (!is_held && !dw.is_lost)
        dw_broken("nobody holds a layer", l, 0);
}

void dw_workers_check(void)
{
    for (uint32_t l = 0; l < DW_LAYERS; l++)
        check_layer(l);
}

/* ---- what a worker says ---- */

static void fill_hello(uint32_t rank, struct dp_msg_hello *m)
{
    const struct dw_worker *k = &dw.worker[rank];

    *m = (struct dp_msg_hello){.job_id = DW_JOB, .rank = rank, .n_workers = DW_WORKERS, .n_layers = DW_LAYERS,
                               .epoch = k->layout.epoch, .doubt = k->doubt, .step = k->step, .steps_total = STEPS_TOTAL,
                               .prune_begin = PRUNE_BEGIN, .prune_end = PRUNE_END, .final_sparsity = 0.9,
                               .microbatches = MICROBATCHES, .tokens_per_microbatch = 64, .stage_message_bytes = 1000};
    m->is_fixed = dw.is_fixed;
    m->n_changes = (uint8_t)dp_changes_of_pruning(PRUNE_BEGIN, PRUNE_EVERY, PRUNE_END, 0.0, 0.9, m->change);
    memcpy(m->cut, k->layout.cut, sizeof m->cut);
}

static void say_hello(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];
    struct dp_msg_hello m;

    k->fd = dw.node[k->process->node].is_up ? dw_connect(k->process->node, k->process->pid, DW_OWNER) : -1;
    k->connect_at_ns = dw_soon(AWAY_S * 1000);
    k->seq = 0;
    if (k->fd < 0)
        return;
    fill_hello(rank, &m);
    k->came_late = dw.node[k->process->node].is_fenced; /* what was said before may cross the order to stop */
    SEND(rank, hello, DP_MSG_HELLO, &m);
}

void dw_intrude(uint32_t node, uint32_t rank)
{
    struct dw_process *p = dw_fork(node, DW_WORKERS);
    uint8_t body[8192];
    struct dp_msg_hello m;
    struct dp_writer w;
    int i;

    if (!p)
        return;
    dw_exit(p);
    fill_hello(rank, &m);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_hello_encode(&w, &m);
    i = say_as(node, p->pid, DW_OWNER, DP_MSG_HELLO, body, dp_writer_used(&w));
    if (i >= 0)
        dw.said[i].must_not = dw.node[node].is_fenced;
}

static struct dp_layer_load load_of(uint64_t step, uint32_t layer)
{
    double done = step <= PRUNE_BEGIN ? 0.0
                  : step >= PRUNE_END ? 1.0
                                      : (double)(step - PRUNE_BEGIN) / (PRUNE_END - PRUNE_BEGIN);
    uint64_t t = (uint64_t)(1e6 * (1.0 - 0.8 * done) * (1.0 + 0.1 * (layer % 3)));

    return (struct dp_layer_load){t, t, t, 100000, 1000, 10000, (uint64_t)(10000 * (1.0 - 0.9 * done))};
}

/* A step of 1F1B, and a millisecond that no prediction knows. */
static uint64_t step_ns(const struct dw_worker *k)
{
    uint64_t slowest = 0;
    uint32_t n = 0;

    for (uint32_t r = 0; r < DW_WORKERS; r++) {
        uint64_t ns = 0;

        for (uint32_t l = k->layout.cut[r]; l < k->layout.cut[r + 1]; l++)
            ns += 3 * load_of(k->step, l).fwd_ns;
        slowest = ns > slowest ? ns : slowest;
        n += ns > 0;
    }
    return 1000000 + slowest * (MICROBATCHES + (n ? n - 1 : 0));
}

void dw_report(uint32_t rank)
{
    static struct dp_msg_report m;
    struct dw_worker *k = &dw.worker[rank];
    uint32_t a = k->layout.cut[rank];

    m = (struct dp_msg_report){.rank = rank, .epoch = k->layout.epoch, .step = k->step, .window_steps = 4,
                               .loss = 1000.0 / (double)(100 + k->step), .grad_norm = 1.0, .step_ns = step_ns(k),
                               .busy_ns = step_ns(k) / 2, .wait_ns = step_ns(k) / 4, .optimizer_ns = 1000,
                               .mem_bytes = 1000, .first_layer = a, .n_layers = k->layout.cut[rank + 1] - a};
    for (uint32_t l = 0; l < m.n_layers; l++)
        m.layer[l] = load_of(k->step, a + l);
    SEND(rank, report, DP_MSG_REPORT, &m);
}

static void send_ack(uint32_t rank, uint64_t id)
{
    struct dp_msg_decision_ack m = {id, rank, dw.worker[rank].layout.epoch, 5000000, 3000000, 0};

    dw.worker[rank].answered = id;
    SEND(rank, decision_ack, DP_MSG_DECISION_ACK, &m);
}

static void leave(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];
    struct dp_msg_goodbye bye = {.rank = rank, .how = DP_BYE_DRAINED, .step = k->step, .loss = NAN};
    struct dw_process *child = dw_chance(20) ? dw_fork(k->process->node, DW_WORKERS) : NULL;

    SEND(rank, goodbye, DP_MSG_GOODBYE, &bye);
    k->has_left = true;
    if (child) { /* outlives it, and has what it had open */
        child->lock_fd = k->process->lock_fd;
        k->process->lock_fd = -1;
    }
    dw_exit(k->process);
}

/* ---- what it hears ---- */

static void take_lock(struct dw_process *p, const char *path)
{
    if (!path[0] || p->lock_fd >= 0)
        return;
    p->lock_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (p->lock_fd >= 0 && flock(p->lock_fd, LOCK_SH | LOCK_NB) < 0) {
        close(p->lock_fd);
        p->lock_fd = -1;
    }
}

static void on_welcome(uint32_t rank, const struct dp_msg_welcome *m)
{
    struct dw_worker *k = &dw.worker[rank];

    if (m->verdict == DP_VERDICT_OK) {
        if (k->came_late)
            dw_broken_for_all("a worker is let in where the run is fenced", rank, 0);
        k->is_welcome = true;
        take_lock(k->process, m->device_lock);
        return;
    }
    dw.n_refused++;
    if (!m->text[0])
        dw_broken_for_all("refused without a reason", rank, m->verdict);
    if (m->verdict == DP_VERDICT_FENCED && !k->layout.gone[rank])
        dw_broken("a worker of the run is fenced", rank, 0);
    dw_worker_cut(rank);
}

static void on_prepare(uint32_t rank, const struct dp_msg_prepare *p)
{
    struct dw_worker *k = &dw.worker[rank];

    if (k->doubt == p->migration || (k->has_voted_no && k->seen == p->migration)) {
        SEND(rank, vote, DP_MSG_VOTE, &k->vote); /* heard again: say it again */
        return;
    }
    if (k->doubt || p->migration <= k->seen || p->epoch != k->layout.epoch)
        return;
    k->seen = p->migration;
    k->next = (struct dp_layout){.epoch = p->epoch + 1, .n_workers = p->n_workers, .n_layers = p->n_layers};
    memcpy(k->next.cut, p->cut, sizeof k->next.cut);
    memcpy(k->next.gone, p->gone, sizeof k->next.gone);
    k->vote = (struct dp_msg_vote){.incarnation = p->incarnation, .migration = p->migration, .rank = rank,
                                   .yes = !dw_chance(dw.no_percent), .boundary = p->migration * 10 + p->incarnation};
    if (dw_chance(dw.no_percent))
        k->vote.digest[3] = (uint8_t)(rank + 1);
    k->has_voted_no = !k->vote.yes;
    k->vote_at_ns = dw_soon(500);
}

/* A commit stands on equal votes of all that took part. */
static void check_votes(uint64_t id)
{
    const struct dp_msg_vote *first = NULL;

    for (uint32_t r = 0; r < DW_WORKERS; r++) {
        const struct dp_msg_vote *v = &dw.worker[r].vote;

        if (v->migration != id)
            continue;
        if (!v->yes || (first && (v->boundary != first->boundary || memcmp(v->digest, first->digest, sizeof v->digest))))
            dw_broken("a commit on votes that disagree", id, r);
        first = v;
    }
}

static void decide(uint32_t rank, const struct dp_msg_decision *d)
{
    struct dw_worker *k = &dw.worker[rank];

    k->doubt = 0;
    dw.outcome[d->migration % 64] |= d->commit ? 1 : 2;
    if (dw.outcome[d->migration % 64] == 3)
        dw_broken("one worker commits, another aborts", d->migration, rank);
    if (!d->commit) {
        keep_own(rank);
        return;
    }
    check_votes(d->migration);
    k->layout = k->next;
    if (d->epoch != k->layout.epoch)
        dw_broken("a commit into another epoch", d->epoch, k->layout.epoch);
}

static void on_decision(uint32_t rank, const struct dp_msg_decision *d)
{
    struct dw_worker *k = &dw.worker[rank];

    if (d->commit && !dw.decided[d->migration % 64] && !dw.node[0].is_hostile)
        dw_broken_for_all("a commit is told that is not on the disk", d->migration, rank);
    if (k->doubt == d->migration) {
        decide(rank, d);
        send_ack(rank, d->migration);
        return;
    }
    if (d->commit && k->seen < d->migration)
        dw_broken("a commit of what was never voted for", d->migration, rank);
    if (!d->commit && d->migration >= k->seen) {
        k->seen = d->migration;
        k->vote_at_ns = 0;
        k->has_voted_no = false;
    }
    if (k->answered < d->migration)
        send_ack(rank, d->migration);
}

static void on_finish(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];

    if (k->doubt)
        return;
    keep_own(rank);
    if (k->layout.gone[rank] && !k->exit_at_ns)
        k->exit_at_ns = dw_soon(400);
}

#define DECODED(name) (dp_msg_##name##_decode(&r, &name, NULL) == 0)

static void on_frame(uint32_t rank, const struct dp_header *h, const uint8_t *body)
{
    struct dp_msg_welcome welcome;
    struct dp_msg_prepare prepare;
    struct dp_msg_decision decision;
    static struct dp_msg_proposal proposal;
    static struct dp_msg_limit limit;
    struct dp_msg_ping ping;
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    if (h->type == DP_MSG_WELCOME && DECODED(welcome)) {
        on_welcome(rank, &welcome);
    } else if (h->type == DP_MSG_PREPARE && DECODED(prepare)) {
        on_prepare(rank, &prepare);
    } else if (h->type == DP_MSG_DECISION && DECODED(decision)) {
        on_decision(rank, &decision);
    } else if (h->type == DP_MSG_FINISH) {
        on_finish(rank);
    } else if (h->type == DP_MSG_PROPOSAL && DECODED(proposal)) {
        dw.worker[rank].n_proposals++;
    } else if (h->type == DP_MSG_LIMIT && DECODED(limit)) {
        dw.worker[rank].n_limits++;
    } else if (h->type == DP_MSG_PING && DECODED(ping)) {
        struct dp_msg_pong pong = {.rank = rank, .number = ping.number};

        SEND(rank, pong, DP_MSG_PONG, &pong);
    }
}

static void read_frames(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];
    ssize_t n = recv(k->fd, k->in + k->n_in, sizeof k->in - k->n_in, MSG_DONTWAIT);
    struct dp_header h;

    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        dw_worker_cut(rank);
        return;
    }
    k->n_in += n > 0 ? (size_t)n : 0;
    while (k->fd >= 0 && k->n_in >= DP_HEADER_BYTES) {
        size_t total;

        if (dp_header_decode(k->in, &h, NULL) < 0) {
            dw_broken_for_all("a daemon sends nonsense", rank, 0);
            return;
        }
        total = DP_HEADER_BYTES + h.body_len;
        if (k->n_in < total)
            return;
        on_frame(rank, &h, k->in + DP_HEADER_BYTES);
        if (k->fd < 0)
            return;
        k->n_in -= total;
        memmove(k->in, k->in + total, k->n_in);
    }
}

static void vote(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];

    k->vote_at_ns = 0;
    k->doubt = k->vote.yes ? k->vote.migration : 0;
    for (uint32_t l = 0; k->vote.yes && l < DW_LAYERS; l++)
        k->holds[l] |= owns(&k->next, rank, l); /* what it gets is rebuilt and checked */
    SEND(rank, vote, DP_MSG_VOTE, &k->vote);
}

void dw_worker_tick(uint32_t rank)
{
    struct dw_worker *k = &dw.worker[rank];

    if (!is_alive(k) || dw.now_ns < k->stalled_until_ns)
        return;
    if (k->fd < 0 && dw.now_ns >= k->connect_at_ns)
        say_hello(rank);
    if (k->fd >= 0)
        read_frames(rank);
    if (!is_alive(k))
        return;
    if (k->exit_at_ns && dw.now_ns >= k->exit_at_ns) {
        leave(rank);
        return;
    }
    if (k->vote_at_ns && dw.now_ns >= k->vote_at_ns)
        vote(rank);
    if (k->doubt)
        return; /* it stands still */
    k->step += dw.now_ns / DW_STEP_NS % 2; /* 10 steps a second */
    k->step += dw.now_ns / DW_STEP_NS % 2;
    if (k->is_welcome && dw.now_ns - k->reported_ns >= REPORT_NS) {
        k->reported_ns = dw.now_ns;
        dw_report(rank);
    }
}
