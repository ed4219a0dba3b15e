/* SPDX-License-Identifier: BSD-3-Clause */
/* See log.h. A line is built in one buffer and written with one write(2), so lines of several
 * processes that share a file do not mix. */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

static const char *log_ident;
static enum dp_log_level log_level = DP_LOG_INFO;
static bool log_waits = true;
static unsigned log_lost; /* lines, since nobody takes them */
static bool is_syslog;
static int syslog_fd = -1;
static pid_t syslog_pid;      /* that opened it: children of the daemon close what they inherit */
static int first_stderr = -1; /* while a file has taken its place */
static dp_log_tell_fn *_Atomic log_tell; /* NULL: lines are written */

static const char *const level_name[] = {
    [DP_LOG_ERROR] = "error",
    [DP_LOG_WARN] = "warning",
    [DP_LOG_INFO] = "info",
    [DP_LOG_DEBUG] = "debug",
};

void dp_log_never_wait(void)
{
    log_waits = false;
}

void dp_log_setup(const char *ident, enum dp_log_level level)
{
    log_ident = ident;
    log_level = level;
}

void dp_log_to_function(dp_log_tell_fn *tell)
{
    atomic_store(&log_tell, tell);
}

int dp_log_to(const char *where, struct dp_err *err)
{
    int fd;

    if (*where == '/') {
        fd = open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0640);
        if (fd >= 0 && first_stderr < 0)
            first_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) {
            int saved = errno;

            if (fd >= 0)
                close(fd);
            return dp_err_set(err, DP_EIO, "log %s: %s", where, strerror(saved));
        }
        close(fd);
    } else if (first_stderr >= 0) {
        dup2(first_stderr, STDERR_FILENO);
        close(first_stderr);
        first_stderr = -1;
    }
    is_syslog = !strcmp(where, "syslog");
    return 0;
}

/* Copy text to out with control bytes as \xHH. returns: bytes written, at most cap. */
static size_t escape(char *out, size_t cap, const char *text)
{
    size_t n = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p && n + 4 < cap; p++) {
        if (*p < 0x20 || *p == 0x7f)
            n += (size_t)snprintf(out + n, cap - n, "\\x%02x", *p);
        else
            out[n++] = (char)*p;
    }
    return n;
}

/* A pipe that can be written to takes PIPE_BUF bytes, a socket half of its buffer: more than a line. */
static bool would_wait(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, 0) == 0;
}

/* "time ident level: " */
static size_t begin_line(char *line, size_t cap, enum dp_log_level level)
{
    struct timeval tv;
    struct tm tm;
    size_t n;

    gettimeofday(&tv, NULL);
    localtime_r(&tv.tv_sec, &tm);
    n = strftime(line, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, cap - n, ".%03d %s%s%s: ", (int)(tv.tv_usec / 1000),
                                log_ident ? log_ident : "", log_ident ? " " : "", level_name[level]);
}

static void write_line(enum dp_log_level level, const char *text)
{
    char line[2560];
    size_t n = begin_line(line, sizeof line, level);

    n += escape(line + n, sizeof line - n - 1, text);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere left to say so */
}

/* Not syslog(3), which waits for a syslogd that hangs: a line that nobody takes is lost. */
static void send_to_syslog(enum dp_log_level level, const char *text)
{
    static const int priority[] = {
        [DP_LOG_ERROR] = LOG_ERR, [DP_LOG_WARN] = LOG_WARNING, [DP_LOG_INFO] = LOG_INFO, [DP_LOG_DEBUG] = LOG_DEBUG};
    const struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    char line[2560];
    size_t n = (size_t)snprintf(line, sizeof line, "<%d>%s[%d]: ", LOG_DAEMON | priority[level], log_ident ? log_ident : "",
                                (int)getpid());

    n += escape(line + n, sizeof line - n, text);
    if (syslog_fd < 0 || syslog_pid != getpid())
        syslog_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    syslog_pid = getpid();
    if (sendto(syslog_fd, line, n, MSG_NOSIGNAL, (const struct sockaddr *)&addr, sizeof addr) < 0)
        return; /* nowhere left to say so */
}

void dp_log(enum dp_log_level level, const char *fmt, ...)
{
    dp_log_tell_fn *tell = atomic_load(&log_tell);
    char text[2048];
    va_list ap;

    if (level > log_level)
        return;
    if (tell) {
        char line[2560];

        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        line[escape(line, sizeof line - 1, text)] = '\0';
        tell(level, line);
        return;
    }
    if (is_syslog) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        send_to_syslog(level, text);
        return;
    }
    if (!log_waits && would_wait()) {
        log_lost++;
        return;
    }
    if (log_lost) {
        snprintf(text, sizeof text, "%u lines were lost here because nothing read them", log_lost);
        log_lost = 0;
        write_line(DP_LOG_WARN, text);
        if (!log_waits && would_wait()) {
            log_lost++;
            return;
        }
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_line(level, text);
}
