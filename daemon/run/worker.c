/* SPDX-License-Identifier: BSD-3-Clause */
/* Local workers: doc/protocol.md, "Workers". A HELLO is answered when the job is known and the batch
 * host is reachable; until then nothing more is read from that connection, so nothing has to be
 * queued here. When the way to the coordinator breaks, local connections are closed: each worker
 * comes back with a HELLO that says what it is at, and sends again what was not answered.
 *
 * Who a worker is comes from the kernel (uid, pid); a pidfd tells when the process is gone, which a
 * closed connection does not.
 */
#include "config.h"

#include "daemon/run/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/release/slot_lock.h"
#include "daemon/run/coordinate.h"
#include "daemon/run/job/read_job.h"
#include "daemon/run/job/seek.h"
#include "daemon/run/relay.h"
#include "daemon/run/run.h"
#include "daemon/run/run_life.h"
#include "daemon/run/slices/slices.h"
#include "daemon/run/slices/take_over.h"
#include "daemon/run/state/node_journal.h"

#define USER_RUN 1000000000u /* Slurm's job ids end at 67 million */
#define EXITED_WAIT_NS UINT64_C(1000000000) /* from the exit until what it had sent is read */

/* Without the lock the proof of an empty slot rests on the processes alone. */
static int make_lock(const struct dp_run *run, uint32_t slice, char *path, size_t cap)
{
    const struct dp_run *own = slice ? dp_run_find(run->daemon, slice) : run;
    static bool has_warned;
    struct dp_err err = {0};

    dp_run_lock_path(own ? own : run, path, cap);
    if (dp_slot_lock_make(path, run->uid, &err) == 0)
        return 0;
    if (!has_warned)
        dp_warn("job=%u runs without a device lock: %s", run->job_id, err.text);
    has_warned = true;
    return -1;
}

void dp_worker_welcome(struct dp_worker *w, struct dp_msg_welcome *welcome)
{
    struct dp_run *run = w->run;
    char path[320];

    if (!w->conn)
        return;
    w->is_waiting = false;
    if (welcome->verdict == DP_VERDICT_OK && run->is_fenced) {
        welcome->verdict = DP_VERDICT_FENCED;
        snprintf(welcome->text, sizeof welcome->text, "this node was given back by the job");
    }
    welcome->device_lock[0] = '\0';
    if (welcome->verdict == DP_VERDICT_OK && make_lock(run, w->slice, path, sizeof path) == 0 &&
        strlen(path) < sizeof welcome->device_lock)
        memcpy(welcome->device_lock, path, strlen(path) + 1);
    welcome->report_ms = (uint32_t)run->daemon->config->report_ms;
    DP_CONN_SEND(w->conn, welcome, DP_MSG_WELCOME, welcome);
    DP_RUN_LOG(run, dp_info, "job=%u rank=%u pid=%u: %s", run->job_id, w->rank, w->pid,
            welcome->verdict == DP_VERDICT_OK ? "welcome" : welcome->text);
    if (welcome->verdict == DP_VERDICT_OK)
        dp_conn_resume(w->conn);
    else
        dp_conn_finish(w->conn);
}

/* Answer a HELLO without making a worker of it. */
static void turn_away(struct dp_conn *c, enum dp_verdict verdict, const char *text)
{
    struct dp_msg_welcome welcome = {.verdict = (uint8_t)verdict};

    snprintf(welcome.text, sizeof welcome.text, "%s", text);
    DP_CONN_SEND(c, welcome, DP_MSG_WELCOME, &welcome);
    dp_conn_finish(c);
}

static struct dp_worker *find_worker(const struct dp_run *run, uint32_t rank)
{
    for (struct dp_worker *w = run->workers; w; w = w->next)
        if (w->rank == rank && !w->has_exited)
            return w;
    return NULL;
}

static void tell_lost(const struct dp_worker *w, bool has_exited)
{
    struct dp_msg_worker_lost lost = {w->run->job_id, w->rank, w->pid, has_exited};
    struct dp_run *run = w->run;

    if (run->role == DP_RUN_COORD)
        dp_run_coord_lost(run, run->daemon->node, &lost);
    else if (run->role == DP_RUN_RELAY)
        (void)DP_PEER_SEND(run->daemon, run->job.batch_host, worker_lost, DP_MSG_WORKER_LOST, &lost);
}

static void worker_free(struct dp_worker *w)
{
    struct dp_worker **at = &w->run->workers;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (w->conn)
        w->conn->data = NULL;
    if (w->exit_event)
        event_free(w->exit_event);
    if (w->pidfd >= 0)
        close(w->pidfd);
    free(w->hello);
    free(w);
}

static void on_exit_seen(evutil_socket_t fd, short what, void *arg)
{
    struct dp_worker *w = arg;

    (void)fd;
    (void)what;
    w->has_exited = true;
    w->exited_ns = dp_now_ns();
    if (w->conn)
        return; /* its last words may still be in the socket: dp_worker_closed() tells */
    tell_lost(w, true);
    worker_free(w);
}

static struct dp_worker *make_worker(struct dp_run *run, struct dp_conn *c, uint32_t rank)
{
    struct dp_worker *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->run = run;
    w->rank = rank;
    w->pid = (uint32_t)c->pid;
    w->start_ticks = dp_process_start(w->pid);
    w->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    w->next = run->workers;
    run->workers = w;
    if (w->pidfd >= 0) {
        fcntl(w->pidfd, F_SETFD, FD_CLOEXEC);
        w->exit_event = event_new(run->daemon->base, w->pidfd, EV_READ, on_exit_seen, w);
    }
    if (!w->exit_event || event_add(w->exit_event, NULL) < 0) {
        worker_free(w);
        return NULL;
    }
    return w;
}

static bool is_process_gone(const struct dp_worker *w)
{
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

/* Put a connection behind a rank. NULL: refused, text says why. */
static struct dp_worker *seat_worker(struct dp_run *run, struct dp_conn *c, uint32_t rank, const char **text)
{
    struct dp_worker *w = find_worker(run, rank);

    *text = "out of memory, or the process cannot be watched";
    if (w && w->pid != (uint32_t)c->pid && !is_process_gone(w) && w->conn) {
        *text = "another process has this rank";
        return NULL;
    }
    if (w && w->pid != (uint32_t)c->pid) {
        if (w->conn)
            dp_conn_close(w->conn, "its process is gone");
        w = NULL;
    } else if (w && w->conn && w->conn != c) {
        struct dp_conn *old = w->conn;

        old->data = NULL;
        w->conn = NULL;
        dp_conn_close(old, "the worker connected again");
    }
    if (!w)
        w = make_worker(run, c, rank);
    if (!w)
        return NULL;
    w->conn = c;
    c->data = w;
    c->role = DP_ROLE_WORKER;
    return w;
}

/* A process of another one that has its number by now keeps it from being found gone: the worker is then waited for. */
bool dp_worker_is_gone(const struct dp_run *run, uint32_t rank, uint32_t pid)
{
    const struct dp_worker *w = find_worker(run, rank);
    bool is_gone;
    int fd;

    if (w && w->pid == pid)
        return false; /* its end is told as it is seen */
    fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0)
        return pid && errno == ESRCH;
    is_gone = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0;
    close(fd);
    return is_gone;
}

static struct dp_run *standalone_run(struct dp_conn *c, uint32_t job_id)
{
    struct dp_msg_step_start start = {.job_id = job_id, .uid = c->uid};
    struct dp_daemon *d = c->owner;
    struct dp_err err = {0};

    snprintf(start.node, sizeof start.node, "%s", d->node);
    if (dp_node_journal_adopt(d->log, &start, &err) < 0) {
        dp_error("job=%u %s", job_id, err.text);
        return NULL;
    }
    return dp_run_create(d, &start);
}

/* Under mpirun a worker has no job: then its run is the one that its user has on this socket, with a
 * number beyond those that Slurm gives. */
static uint32_t job_id_of(const struct dp_conn *c, const struct dp_msg_hello *m)
{
    const struct dp_daemon *d = c->owner;

    return m->job_id || d->config->slurm ? m->job_id : USER_RUN + (uint32_t)c->uid % USER_RUN;
}

/* Hand a HELLO on to the coordinator, here or elsewhere, if it can be. */
void dp_worker_serve(struct dp_worker *w)
{
    struct dp_msg_welcome welcome = {0};
    struct dp_run *run = w->run;
    struct dp_msg_hello hello;
    struct dp_reader r;

    if (!w->conn || !w->is_waiting || dp_run_is_asking(run))
        return;
    w->served_ns = dp_now_ns();
    if (run->is_fenced) {
        welcome.verdict = DP_VERDICT_OK; /* but for this: */
        dp_worker_welcome(w, &welcome);
        return;
    }
    dp_reader_init(&r, w->hello, w->hello_bytes);
    if (dp_msg_hello_decode(&r, &hello, NULL) < 0)
        return; /* it was decoded before */
    hello.job_id = w->slice ? w->slice : run->job_id;
    if (run->role == DP_RUN_RELAY) {
        if (!dp_take_over_hello(run, run->daemon->node, w->pid, &hello))
            dp_run_relay_up(run, w, DP_MSG_HELLO, w->hello, w->hello_bytes);
        return;
    }
    dp_run_coord_hello(run, run->daemon->node, w->pid, &hello, &welcome);
    dp_worker_welcome(w, &welcome);
}

/* The HELLO of a slice's worker, as the run has its step. returns the run that it is of; NULL: it was turned away. */
static struct dp_run *as_slice(struct dp_conn *c, struct dp_run *slice, const struct dp_msg_hello *m, uint8_t *body, size_t *bytes)
{
    static struct dp_msg_hello hello;
    struct dp_place at;
    const char *text;
    bool is_refused;
    struct dp_run *run = dp_slice_run(slice, m->step_id, (uint32_t)c->pid, &text, &is_refused);
    struct dp_writer w;

    if (!run) {
        if (!m->joins && !is_refused)
            dp_slice_is_back(slice, m);
        turn_away(c, is_refused ? DP_VERDICT_DENIED : DP_VERDICT_UNKNOWN, text);
        return NULL;
    }
    hello = *m;
    at = dp_slice_place(slice);
    hello.step_id = at.step_id;
    if (m->rank != at.rank || m->n_workers != at.n_workers) {
        turn_away(c, DP_VERDICT_DENIED, "the slice has another rank");
        return NULL;
    }
    dp_writer_init(&w, body, *bytes);
    dp_msg_hello_encode(&w, &hello);
    *bytes = dp_writer_used(&w);
    return run;
}

void dp_worker_hello(struct dp_conn *c, const struct dp_msg_hello *m, const uint8_t *body, size_t bytes)
{
    static uint8_t as_run[DP_BODY_MAX];
    size_t as_run_bytes = sizeof as_run;
    uint32_t slice = 0;
    struct dp_daemon *d = c->owner;
    uint32_t job_id = job_id_of(c, m);
    struct dp_run *run = dp_run_find(d, job_id);
    struct dp_worker *w;
    const char *text;

    if (c->role == DP_ROLE_WORKER) {
        dp_conn_refuse(c, "second HELLO");
        return;
    }
    if (!run && !d->config->slurm)
        run = standalone_run(c, job_id);
    if (!run) {
        turn_away(c, DP_VERDICT_UNKNOWN, dp_seek_hello(d, c->uid, m));
        return;
    }
    if (run->uid != c->uid) {
        turn_away(c, DP_VERDICT_DENIED, "the job belongs to another user");
        return;
    }
    if (run->is_fenced && !dp_run_is_asking(run)) {
        turn_away(c, DP_VERDICT_FENCED, "this node was given back by the job");
        return;
    }
    if (dp_slice_is(run)) {
        slice = run->job_id;
        run = as_slice(c, run, m, as_run, &as_run_bytes);
        if (!run)
            return;
        body = as_run;
        bytes = as_run_bytes;
    }
    w = seat_worker(run, c, m->rank, &text);
    if (!w) {
        turn_away(c, DP_VERDICT_DENIED, text);
        return;
    }
    w->slice = slice;
    w->joins = m->joins;
    free(w->hello);
    w->hello = malloc(bytes ? bytes : 1);
    w->hello_bytes = w->hello ? bytes : 0;
    if (w->hello)
        memcpy(w->hello, body, bytes);
    w->is_waiting = true;
    w->hello_ns = dp_now_ns();
    dp_conn_hold(c);
    dp_worker_serve(w);
}

void dp_workers_serve(struct dp_run *run)
{
    for (struct dp_worker *w = run->workers, *next; w; w = next) {
        next = w->next;
        dp_worker_serve(w);
    }
}

void dp_worker_frame(struct dp_conn *c, enum dp_msg_type type, const uint8_t *body, size_t bytes)
{
    struct dp_worker *w = c->data;
    struct dp_err err = {0};

    if (!w)
        return;
    if (type == DP_MSG_VOTE)
        w->joins = false;
    if (w->run->role == DP_RUN_RELAY)
        dp_run_relay_up(w->run, w, type, body, bytes);
    else if (dp_run_coord_frame(w->run, w->run->daemon->node, w->rank, type, body, bytes, &err) < 0) {
        dp_conn_refuse(c, err.text);
    }
}

void dp_worker_send(struct dp_run *run, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct dp_worker *w = find_worker(run, rank);

    if (w && w->conn && !w->is_waiting)
        dp_conn_send(w->conn, type, body, bytes);
}

void dp_worker_closed(struct dp_conn *c, const char *why)
{
    struct dp_worker *w = c->data;

    if (!w)
        return;
    c->data = NULL;
    w->conn = NULL;
    w->is_waiting = false;
    if (!w->has_exited && is_process_gone(w))
        w->has_exited = true;
    DP_RUN_LOG(w->run, dp_info, "job=%u rank=%u pid=%u: %s%s", w->run->job_id, w->rank, w->pid, why,
            w->has_exited ? ", process gone" : "");
    tell_lost(w, w->has_exited);
    if (w->has_exited)
        worker_free(w);
}

void dp_workers_hang_up(struct dp_run *run, const char *why)
{
    for (struct dp_worker *w = run->workers; w; w = w->next)
        if (w->conn && !w->is_waiting) {
            struct dp_conn *c = w->conn;

            c->data = NULL; /* not lost: it comes back */
            w->conn = NULL;
            dp_conn_close(c, why);
        }
}

void dp_workers_tick(struct dp_run *run, uint64_t now_ns)
{
    for (struct dp_worker *w = run->workers, *next; w; w = next) {
        next = w->next;
        /* A child of it may hold the connection open. */
        if (w->has_exited && w->conn && now_ns - w->exited_ns > EXITED_WAIT_NS)
            dp_conn_close(w->conn, "its process is gone");
    }
}

void dp_workers_destroy(struct dp_run *run)
{
    while (run->workers) {
        struct dp_worker *w = run->workers;
        struct dp_conn *c = w->conn;

        worker_free(w);
        if (c)
            dp_conn_finish(c);
    }
}
