/* See helper.h. The daemon has one thread, so fork is safe; 0.3 ms for a small process. Children are
 * reaped by the SIGCHLD handler of main.c. */
#include "config.h"

#include "daemon/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct dp_helper {
    struct event *event;
    pid_t pid; /* 0: not ours */
    int fd;
    dp_helper_done_fn done;
    void *arg;
    size_t used;
    uint8_t result[DP_HELPER_RESULT_MAX];
};

void dp_helper_become_child(int keep_fd, double deadline_s)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGPIPE)
            signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (keep_fd > 3)
        close_range(3, (unsigned)keep_fd - 1, 0);
    close_range((unsigned)keep_fd + 1, UINT_MAX, 0);
    alarm((unsigned)ceil(deadline_s) + 1);
}

void dp_helper_limit(uint64_t address_bytes, double cpu_s)
{
    struct rlimit core = {0, 0}, cpu = {(rlim_t)ceil(cpu_s), (rlim_t)ceil(cpu_s) + 1};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit space = {address_bytes, address_bytes};

    setrlimit(RLIMIT_AS, &space);
#else
    (void)address_bytes; /* their shadow memory is larger */
#endif
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
}

void dp_helper_write(int fd, const uint8_t *result, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, result, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        result += n;
        bytes -= (size_t)n;
    }
}

static void helper_free(struct dp_helper *h)
{
    event_free(h->event);
    close(h->fd);
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

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct dp_helper *h = arg;
    ssize_t n;

    if (what & EV_TIMEOUT) {
        finish(h, "no answer within the deadline");
        return;
    }
    n = read(fd, h->result + h->used, sizeof h->result - h->used);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        h->used += (size_t)n;
        if (h->used == sizeof h->result)
            finish(h, "answer too long");
        return;
    }
    finish(h, h->used > 0 ? NULL : "the helper process died");
}

struct dp_helper *dp_helper_watch(struct event_base *base, int pipe_fd, double deadline_s,
                                  dp_helper_done_fn done, void *arg, struct dp_err *err)
{
    struct dp_helper *h = calloc(1, sizeof *h);
    struct timeval tv = {.tv_sec = (time_t)deadline_s + 1};

    if (h) {
        h->fd = pipe_fd;
        h->done = done;
        h->arg = arg;
        h->event = event_new(base, pipe_fd, EV_READ | EV_PERSIST, on_readable, h);
    }
    if (!h || !h->event || event_add(h->event, &tv) < 0) {
        if (h && h->event)
            event_free(h->event);
        free(h);
        close(pipe_fd);
        dp_err_set(err, DP_ENOMEM, "helper: out of memory");
        return NULL;
    }
    return h;
}

struct dp_helper *dp_helper_start(struct event_base *base, dp_helper_work_fn work, const void *request,
                                  size_t bytes, double deadline_s, dp_helper_done_fn done, void *arg,
                                  struct dp_err *err)
{
    struct dp_helper *h;
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0) {
        dp_err_set(err, DP_EIO, "pipe: %s", strerror(errno));
        return NULL;
    }
    pid = fork();
    if (pid == 0) {
        static uint8_t result[DP_HELPER_RESULT_MAX];

        dp_helper_become_child(fds[1], deadline_s);
        dp_helper_write(fds[1], result, work(request, bytes, result));
        _exit(0);
    }
    close(fds[1]);
    if (pid < 0) {
        dp_err_set(err, DP_ENOMEM, "fork: %s", strerror(errno));
        close(fds[0]);
        return NULL;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    h = dp_helper_watch(base, fds[0], deadline_s, done, arg, err);
    if (h)
        h->pid = pid;
    else
        kill(pid, SIGKILL);
    return h;
}

void dp_helper_cancel(struct dp_helper *h)
{
    if (!h)
        return;
    if (h->pid > 0)
        kill(h->pid, SIGKILL);
    helper_free(h);
}
