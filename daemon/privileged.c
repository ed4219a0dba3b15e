/* See privileged.h. The root process has no network, no configuration and no memory between requests.
 * It checks the size of what it gets and nothing else is parsed; the work itself distrusts its
 * request: a fence never touches another user's processes, a shrink takes the owner from Slurm.
 */
#include "config.h"

#include "daemon/privileged.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/fence.h"
#include "daemon/shrink.h"

#define REQUEST_MAX (sizeof(struct dp_shrink_request) + sizeof(struct dp_fence_request))

struct dp_priv {
    int fd; /* -1: no process, work runs with our own rights */
};

struct envelope {
    uint32_t op;
    double deadline_s;
};

static const struct {
    dp_helper_work_fn work;
    size_t bytes; /* exactly */
} ops[] = {
    [DP_PRIV_FENCE] = {dp_fence_work, sizeof(struct dp_fence_request)},
    [DP_PRIV_SHRINK] = {dp_shrink_work, sizeof(struct dp_shrink_request)},
};

static bool is_op(uint32_t op, size_t bytes)
{
    return op < sizeof ops / sizeof ops[0] && ops[op].work && ops[op].bytes == bytes;
}

/* One request: bytes after the envelope, and the write end of a pipe. returns -1 when the daemon is
 * gone. */
static ssize_t receive(int fd, struct envelope *e, void *request, int *pipe_fd)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov[2] = {{e, sizeof *e}, {request, REQUEST_MAX}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c;
    ssize_t n;

    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *pipe_fd = -1;
    if (n <= 0)
        return -1;
    c = CMSG_FIRSTHDR(&msg);
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(pipe_fd, CMSG_DATA(c), sizeof(int));
    return n;
}

static void serve(int fd)
{
    static uint8_t request[REQUEST_MAX], result[DP_HELPER_RESULT_MAX];
    struct envelope e = {0};
    int pipe_fd;
    ssize_t n;

    while ((n = receive(fd, &e, request, &pipe_fd)) >= 0) {
        size_t bytes = (size_t)n < sizeof e ? 0 : (size_t)n - sizeof e;

        if (pipe_fd >= 0 && is_op(e.op, bytes) && e.deadline_s > 0 && e.deadline_s < 86400 && fork() == 0) {
            dp_helper_become_child(pipe_fd, e.deadline_s);
            dp_helper_write(pipe_fd, result, ops[e.op].work(request, bytes, result));
            _exit(0);
        }
        if (pipe_fd >= 0)
            close(pipe_fd);
    }
    _exit(0);
}

static int become(const char *user, struct dp_err *err)
{
    struct passwd *pw = getpwnam(user);

    if (!pw)
        return dp_err_set(err, DP_EINVAL, "run_user: no user %s", user);
    if (setgroups(0, NULL) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
        setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
        return dp_err_set(err, DP_EAUTH, "cannot become %s: %s", user, strerror(errno));
    if (pw->pw_uid != 0 && setuid(0) == 0)
        return dp_err_set(err, DP_EAUTH, "became %s, but root can be regained", user);
    return 0;
}

struct dp_priv *dp_priv_create(const char *run_user, struct dp_err *err)
{
    struct dp_priv *p = calloc(1, sizeof *p);
    int fds[2];
    pid_t pid;

    if (!p) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        return NULL;
    }
    p->fd = -1;
    if (!run_user[0] || geteuid() != 0)
        return p;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 || (pid = fork()) < 0) {
        dp_err_set(err, DP_EIO, "privileged helper: %s", strerror(errno));
        free(p);
        return NULL;
    }
    if (pid == 0) {
        signal(SIGCHLD, SIG_IGN); /* children reap themselves */
        signal(SIGPIPE, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN); /* ends with the socket, after the last request */
        prctl(PR_SET_NAME, "dynpiped-priv");
        prctl(PR_SET_DUMPABLE, 0);
        close(fds[0]);
        serve(fds[1]);
    }
    close(fds[1]);
    p->fd = fds[0];
    if (become(run_user, err) < 0) {
        dp_priv_destroy(p);
        return NULL;
    }
    prctl(PR_SET_DUMPABLE, 0);
    return p;
}

void dp_priv_destroy(struct dp_priv *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    free(p);
}

static int send_request(int fd, const struct envelope *e, const void *request, size_t bytes, int pipe_fd,
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
    struct envelope e = {(uint32_t)op, deadline_s};
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
