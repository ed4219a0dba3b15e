/* SPDX-License-Identifier: BSD-3-Clause */
/* See privileged.h. The process with the rights has no network and no memory between requests. It checks
 * the size of what it gets and nothing else is parsed; the work itself distrusts its request: a fence
 * touches processes of the job's owner alone, a shrink is sent with his rights, and who he is Slurm says.
 */
#include "config.h"

#include "daemon/release/privileged.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/child.h"
#include "daemon/release/as_owner.h"
#include "daemon/release/ask_slices.h"
#include "daemon/release/device_memory.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/rights.h"

#define REQUEST_MAX (sizeof(struct dp_shrink_request) + sizeof(struct dp_empty_request))

#define FDS_MAX 8 /* more than a request carries: what comes beyond one is closed */

struct dp_priv {
    int fd; /* -1: no process, work runs with our own rights */
    struct event *end;
    void (*gone)(void *arg);
    void *arg;
};

static struct dp_priv_scope fixed_scope;

static const struct {
    dp_helper_work_fn work;
    size_t bytes; /* exactly */
} ops[] = {
    [DP_PRIV_EMPTY] = {dp_empty_slot_work, sizeof(struct dp_empty_request)},
    [DP_PRIV_SHRINK] = {dp_shrink_work, sizeof(struct dp_shrink_request)},
    [DP_PRIV_REQUEUE] = {dp_requeue_work, sizeof(struct dp_requeue_request)},
    [DP_PRIV_MEMORY] = {dp_memory_work, sizeof(struct dp_memory_request)},
    [DP_PRIV_CARDS] = {dp_cards_work, sizeof(struct dp_cards_request)},
    [DP_PRIV_ASK_SLICES] = {dp_ask_slices_work, sizeof(struct dp_ask_request)},
    [DP_PRIV_MARK_SLICES] = {dp_mark_slices_work, sizeof(struct dp_mark_request)},
};

static bool is_op(uint32_t op, size_t bytes)
{
    return op < sizeof ops / sizeof ops[0] && ops[op].work && ops[op].bytes == bytes;
}

const struct dp_priv_scope *dp_priv_current_scope(void)
{
    return &fixed_scope;
}

/* The descriptors that came along: the one that belongs to a request, or -1 with all of them closed. */
static int take_fd(struct msghdr *msg)
{
    int fds[FDS_MAX];
    size_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t more = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

            if (more > FDS_MAX - n)
                more = FDS_MAX - n;
            memcpy(fds + n, CMSG_DATA(c), more * sizeof(int));
            n += more;
        }
    if (n == 1 && !(msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
        return fds[0];
    while (n > 0)
        close(fds[--n]);
    return -1;
}

/* One request: bytes after the envelope, and the write end of a pipe; -1 there: not one to serve. returns
 * -1 when the daemon is gone. The kernel itself drops the descriptors that control has no room for. */
static ssize_t receive(int fd, struct dp_priv_envelope *e, void *request, int *pipe_fd)
{
    union {
        char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov[2] = {{e, sizeof *e}, {request, REQUEST_MAX}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n;

    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *pipe_fd = n < 0 ? -1 : take_fd(&msg);
    return n > 0 ? n : -1;
}

void dp_priv_serve(int fd)
{
    static uint8_t request[REQUEST_MAX], result[DP_HELPER_RESULT_MAX];
    struct dp_priv_envelope e = {0};
    int pipe_fd;
    ssize_t n;

    while ((n = receive(fd, &e, request, &pipe_fd)) >= 0) {
        size_t bytes = (size_t)n < sizeof e ? 0 : (size_t)n - sizeof e;

        if (pipe_fd >= 0 && is_op(e.op, bytes) && e.deadline_s > 0 && e.deadline_s < 86400 && fork() == 0) {
            dp_child_become(pipe_fd, e.deadline_s);
            dp_child_write(pipe_fd, result, ops[e.op].work(request, bytes, result));
            _exit(0);
        }
        if (pipe_fd >= 0)
            close(pipe_fd);
    }
    _exit(0);
}

static _Noreturn void begin_serving(int fd)
{
    signal(SIGCHLD, SIG_IGN); /* children reap themselves */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN); /* ends with the socket, after the last request */
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_NAME, "dynpiped-priv");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    dp_priv_serve(fd);
}

/* Who listens to the network: run_user, or who we are already where systemd made us that. */
static int find_listener(const char *run_user, struct dp_rights *who, struct dp_err *err)
{
    const struct passwd *pw;

    *who = (struct dp_rights){geteuid(), geteuid(), getegid(), NULL};
    if (who->uid != 0)
        return 0;
    pw = getpwnam(run_user);
    if (!pw)
        return dp_err_set(err, DP_EINVAL, "run_user: there is no user '%s'; make one (systemd-sysusers, or useradd "
                          "--system --shell /usr/sbin/nologin %s), name another in section daemon of dynpipe.conf, or "
                          "let root listen to the network: run_user = \"\"", run_user, run_user);
    if (pw->pw_uid == 0)
        return dp_err_set(err, DP_EINVAL, "run_user: %s is root; to let root listen write run_user = \"\"", run_user);
    *who = (struct dp_rights){pw->pw_uid, pw->pw_uid, pw->pw_gid, NULL};
    return 0;
}

/* The process with the rights; returns our end of its socket, -1: none could be made. */
static int fork_helper(struct dp_err *err)
{
    int fds[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 || (pid = fork()) < 0)
        return dp_err_set(err, DP_EIO, "privileged helper: %s", strerror(errno));
    if (pid == 0) {
        close(fds[0]);
        begin_serving(fds[1]);
    }
    close(fds[1]);
    return fds[0];
}

struct dp_priv *dp_priv_create(const char *run_user, const struct dp_priv_scope *scope, struct dp_err *err)
{
    struct dp_priv *p = calloc(1, sizeof *p);
    struct dp_rights listener;

    if (!p) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        return NULL;
    }
    p->fd = -1;
    fixed_scope = *scope;
    fixed_scope.is_split = dp_rights_can_change() && (geteuid() != 0 || run_user[0]);
    if (!fixed_scope.is_split)
        return p;
    if (find_listener(run_user, &listener, err) < 0)
        goto fail;
    fixed_scope.listener = listener.uid;
    p->fd = fork_helper(err);
    if (p->fd < 0 || dp_rights_become(&listener, err) < 0)
        goto fail;
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return p;
fail:
    dp_priv_destroy(p);
    return NULL;
}

/* It never says anything here, so what can be read is the end of it. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct dp_priv *p = arg;

    (void)fd;
    (void)what;
    p->gone(p->arg);
}

int dp_priv_watch(struct dp_priv *p, struct event_base *base, void (*gone)(void *arg), void *arg, struct dp_err *err)
{
    if (p->fd < 0)
        return 0;
    p->gone = gone;
    p->arg = arg;
    p->end = event_new(base, p->fd, EV_READ, on_end, p);
    return p->end && event_add(p->end, NULL) == 0 ? 0 : dp_err_set(err, DP_ENOMEM, "the helper cannot be watched");
}

void dp_priv_destroy(struct dp_priv *p)
{
    if (!p)
        return;
    if (p->end)
        event_free(p->end);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static int send_request(int fd, const struct dp_priv_envelope *e, const void *request, size_t bytes, int pipe_fd,
                        struct dp_err *err)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov[2] = {{(void *)(uintptr_t)e, sizeof *e}, {(void *)(uintptr_t)request, bytes}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c;

    memset(&control, 0, sizeof control);
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &pipe_fd, sizeof(int));
    if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return dp_err_set(err, DP_EGONE, "privileged helper: %s", strerror(errno));
    return 0;
}

struct dp_helper *dp_priv_start(struct dp_priv *p, struct event_base *base, enum dp_priv_op op,
                                const void *request, size_t bytes, double deadline_s,
                                dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    struct dp_priv_envelope e = {(uint32_t)op, deadline_s};
    int fds[2], rc;

    if (!is_op(e.op, bytes)) {
        dp_err_set(err, DP_EINVAL, "privileged helper: request of %zu bytes", bytes);
        return NULL;
    }
    if (p->fd < 0)
        return dp_helper_start(base, ops[op].work, request, bytes, deadline_s, done, arg, err);
    if (pipe2(fds, O_CLOEXEC) < 0) {
        dp_err_set(err, DP_EIO, "pipe: %s", strerror(errno));
        return NULL;
    }
    rc = send_request(p->fd, &e, request, bytes, fds[1], err);
    close(fds[1]);
    if (rc < 0) {
        close(fds[0]);
        return NULL;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    return dp_helper_watch(base, fds[0], deadline_s, done, arg, err);
}
