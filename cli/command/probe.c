/* SPDX-License-Identifier: BSD-3-Clause */
/* See probe.h. */
#include "config.h"

#include "cli/command/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

enum { MAX_TEXT = 4 << 20 };

struct stream {
    int fd; /* -1: at its end */
    char *text;
    size_t used;
};

static void child(dp_probe_fn work, void *arg, const int out[2], const int errors[2])
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    FILE *file;
    int status;

    setpgid(0, 0); /* so that what it starts can be ended with it */
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(errors[1], STDERR_FILENO);
    file = fdopen(out[1], "w");
    if (!file)
        _exit(126);
    status = work(arg, file);
    if (fflush(file) != 0)
        status = 125;
    _exit(status);
}

/* Read what is there. returns: 0, or -1 when there is too much of it. */
static int drain(struct stream *s)
{
    char *grown = s->used < MAX_TEXT ? realloc(s->text, s->used + 65536 + 1) : NULL;
    ssize_t n;

    if (!grown)
        return -1;
    s->text = grown;
    n = read(s->fd, s->text + s->used, 65536);
    if (n > 0)
        s->used += (size_t)n;
    s->text[s->used] = '\0';
    if (n == 0 || (n < 0 && errno != EINTR)) {
        close(s->fd);
        s->fd = -1;
    }
    return 0;
}

static int collect(struct stream s[2], uint64_t until_ns, struct dp_err *err)
{
    while (s[0].fd >= 0 || s[1].fd >= 0) {
        struct pollfd p[2] = {{.fd = s[0].fd, .events = POLLIN}, {.fd = s[1].fd, .events = POLLIN}};
        uint64_t now = dp_now_ns();
        int n = now < until_ns ? poll(p, 2, (int)((until_ns - now) / 1000000u) + 1) : 0;

        if (n == 0)
            return dp_err_set(err, DP_ETIMEOUT, "no answer in time");
        for (int i = 0; i < 2 && n > 0; i++) {
            if (s[i].fd >= 0 && p[i].revents && drain(&s[i]) < 0)
                return dp_err_set(err, DP_ENOMEM, "answer too long");
        }
    }
    return 0;
}

/* The last line that is not empty; cuts the text behind it. */
static const char *last_line(char *text)
{
    size_t n = text ? strlen(text) : 0;
    char *nl;

    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        text[--n] = '\0';
    nl = n ? strrchr(text, '\n') : NULL;
    return !n ? "" : nl ? nl + 1 : text;
}

static int judge(int status, struct stream *errors, struct dp_err *err)
{
    const char *said = last_line(errors->text);

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (*said)
        return dp_err_set(err, DP_EIO, "%s", said);
    if (WIFSIGNALED(status))
        return dp_err_set(err, DP_EIO, "ended by signal %d", WTERMSIG(status));
    return dp_err_set(err, DP_EIO, "ended with status %d", WEXITSTATUS(status));
}

static int wait_for(pid_t pid, struct stream s[2], double deadline_s, struct dp_err *err)
{
    int status = 0, rc = collect(s, dp_now_ns() + (uint64_t)(deadline_s * 1e9), err);

    kill(-pid, SIGKILL); /* nothing that it started stays behind */
    if (rc < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc < 0 ? -1 : judge(status, &s[1], err);
}

int dp_probe(dp_probe_fn work, void *arg, double deadline_s, char **text, struct dp_err *err)
{
    int out[2] = {-1, -1}, errors[2] = {-1, -1}, rc;
    struct stream s[2];
    pid_t pid;

    *text = NULL;
    fflush(NULL); /* or the child would print it again */
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        dp_err_set(err, DP_EIO, "cannot start a child: %s", strerror(errno));
        for (int i = 0; i < 2; i++) {
            close(out[i]);
            close(errors[i]);
        }
        return -1;
    }
    if (pid == 0)
        child(work, arg, out, errors);
    setpgid(pid, pid);
    close(out[1]);
    close(errors[1]);
    s[0] = (struct stream){.fd = out[0]};
    s[1] = (struct stream){.fd = errors[0]};
    rc = wait_for(pid, s, deadline_s, err);
    for (int i = 0; i < 2; i++) {
        if (s[i].fd >= 0)
            close(s[i].fd);
    }
    free(s[1].text);
    if (rc == 0)
        *text = s[0].text;
    else
        free(s[0].text);
    return rc;
}

static int run_program(void *arg, FILE *out)
{
    const char *const *argv = arg;

    dup2(fileno(out), STDOUT_FILENO);
    execvp(argv[0], (char *const *)argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    return 127;
}

int dp_probe_program(const char *const argv[], double deadline_s, char **text, struct dp_err *err)
{
    return dp_probe(run_program, (void *)argv, deadline_s, text, err);
}
