/* SPDX-License-Identifier: BSD-3-Clause */
/* See helper.h. The daemon has one thread, so fork is safe; 0.3 ms for a small process. Children are
 * reaped by the SIGCHLD handler of main.c. */
#include "config.h"

#include "daemon/child/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/child.h"

struct dp_helper {
    struct event *event;
    pid_t pid; /* 0: not ours */
    int fd;
    dp_helper_done_fn done;
    void *arg;
    size_t used, cap, max; /* max: an answer of so many bytes is too long */
    uint8_t *result;
};

static void helper_free(struct dp_helper *h)
{
    event_free(h->event);
    close(h->fd);
    free(h->result);
    free(h);
}

static void finish(struct dp_helper *h, const char *why)
{
    dp_helper_done_fn done = h->done;
    void *arg = h->arg;

    if (h->pid > 0 && why)
        kill(h->pid, SIGKILL);
    event_del(h->event);
    done(arg, why ? NULL : h->result, why ? 0 : h->used, why ? why : "");
    helper_free(h);
}

/* Room for more; returns false when it may not grow. */
static bool grow(struct dp_helper *h)
{
    size_t cap = h->cap * 2 < h->max ? h->cap * 2 : h->max;
    uint8_t *more = h->cap < h->max ? realloc(h->result, cap) : NULL;

    if (!more)
        return false;
    h->result = more;
    h->cap = cap;
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct dp_helper *h = arg;
    ssize_t n;

    if (what & EV_TIMEOUT) {
        finish(h, "no answer within the deadline");
        return;
    }
    n = read(fd, h->result + h->used, h->cap - h->used);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        h->used += (size_t)n;
        if (h->used == h->cap && !grow(h))
            finish(h, "answer too long");
        return;
    }
    finish(h, h->used > 0 ? NULL : "the helper process died");
}

static struct dp_helper *watch(struct event_base *base, int pipe_fd, size_t max, double deadline_s,
                               dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    struct dp_helper *h = calloc(1, sizeof *h);
    struct timeval tv = {.tv_sec = (time_t)deadline_s + 1};

    if (h) {
        h->max = max;
        h->cap = max < DP_HELPER_RESULT_MAX ? max : DP_HELPER_RESULT_MAX;
        h->result = malloc(h->cap);
        h->fd = pipe_fd;
        h->done = done;
        h->arg = arg;
        h->event = event_new(base, pipe_fd, EV_READ | EV_PERSIST, on_readable, h);
    }
    if (!h || !h->result || !h->event || event_add(h->event, &tv) < 0) {
        if (h && h->event)
            event_free(h->event);
        if (h)
            free(h->result);
        free(h);
        close(pipe_fd);
        dp_err_set(err, DP_ENOMEM, "helper: out of memory");
        return NULL;
    }
    return h;
}

struct dp_helper *dp_helper_watch(struct event_base *base, int pipe_fd, double deadline_s,
                                  dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    return watch(base, pipe_fd, DP_HELPER_RESULT_MAX, deadline_s, done, arg, err);
}

/* returns in both; the child's end of the pipe in *write_fd. pid < 0: no child, err says why. */
static pid_t fork_child(double deadline_s, int *read_fd, int *write_fd, struct dp_err *err)
{
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return dp_err_set(err, DP_EIO, "pipe: %s", strerror(errno));
    pid = fork();
    if (pid == 0) {
        dp_child_become(fds[1], deadline_s);
        *write_fd = fds[1];
        return 0;
    }
    close(fds[1]);
    if (pid < 0) {
        dp_err_set(err, DP_ENOMEM, "fork: %s", strerror(errno));
        close(fds[0]);
        return -1;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *read_fd = fds[0];
    return pid;
}

static struct dp_helper *watch_child(struct event_base *base, pid_t pid, int fd, size_t max, double deadline_s,
                                     dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    struct dp_helper *h = watch(base, fd, max, deadline_s, done, arg, err);

    if (h)
        h->pid = pid;
    else
        kill(pid, SIGKILL);
    return h;
}

struct dp_helper *dp_helper_start(struct event_base *base, dp_helper_work_fn work, const void *request,
                                  size_t bytes, double deadline_s, dp_helper_done_fn done, void *arg,
                                  struct dp_err *err)
{
    int read_fd = -1, write_fd = -1;
    pid_t pid = fork_child(deadline_s, &read_fd, &write_fd, err);

    if (pid == 0) {
        static uint8_t result[DP_HELPER_RESULT_MAX];

        dp_child_write(write_fd, result, work(request, bytes, result));
        _exit(0);
    }
    if (pid < 0)
        return NULL;
    return watch_child(base, pid, read_fd, DP_HELPER_RESULT_MAX, deadline_s, done, arg, err);
}

struct dp_helper *dp_helper_start_writer(struct event_base *base, dp_helper_writer_fn work, const void *request,
                                         size_t max_bytes, double deadline_s, dp_helper_done_fn done, void *arg,
                                         struct dp_err *err)
{
    int read_fd = -1, write_fd = -1;
    pid_t pid = fork_child(deadline_s, &read_fd, &write_fd, err);

    if (pid == 0) {
        work(request, write_fd);
        _exit(0);
    }
    if (pid < 0)
        return NULL;
    return watch_child(base, pid, read_fd, max_bytes, deadline_s, done, arg, err);
}

void dp_helper_leave(struct dp_helper *h)
{
    if (h)
        helper_free(h);
}

void dp_helper_cancel(struct dp_helper *h)
{
    if (!h)
        return;
    if (h->pid > 0)
        kill(h->pid, SIGKILL);
    helper_free(h);
}
