/* SPDX-License-Identifier: BSD-3-Clause */
/* See fakedaemon.h. Failures of the test's own system calls end the test process with a line: they
 * are no result of what is tested. */
#include "tests/unit/worker/fakedaemon.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "# fake daemon: %s: %s\n", what, strerror(errno));
    exit(99);
}

void fake_daemon_relisten(struct fake_daemon *d)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    unlink(d->path);
    memcpy(sa.sun_path, d->path, sizeof d->path);
    d->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(d->listen_fd >= 0, "socket");
    must(bind(d->listen_fd, (struct sockaddr *)&sa, sizeof sa) == 0, "bind");
    must(listen(d->listen_fd, 16) == 0, "listen");
}

void fake_daemon_start(struct fake_daemon *d)
{
    const char *tmp = getenv("TMPDIR");

    if (!tmp || strlen(tmp) > 30) /* sun_path is short */
        tmp = "/tmp";
    snprintf(d->dir, sizeof d->dir, "%s/dp-control-XXXXXX", tmp);
    must(mkdtemp(d->dir) != NULL, "mkdtemp");
    snprintf(d->path, sizeof d->path, "%s/socket", d->dir);
    fake_daemon_relisten(d);
}

void fake_daemon_close(struct fake_daemon *d)
{
    if (d->listen_fd >= 0)
        close(d->listen_fd);
    d->listen_fd = -1;
}

bool fake_daemon_is_dead(const struct fake_daemon *d)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_refused;

    must(fd >= 0, "socket");
    memcpy(sa.sun_path, d->path, sizeof d->path);
    is_refused = connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0 && errno == ECONNREFUSED;
    close(fd);
    return is_refused;
}

void fake_daemon_stop(struct fake_daemon *d)
{
    fake_daemon_close(d);
    unlink(d->path);
    rmdir(d->dir);
}

static int wait_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) > 0;
}

int fake_accept(struct fake_daemon *d, struct fake_peer *p, int ms)
{
    memset(p, 0, sizeof *p);
    p->fd = wait_readable(d->listen_fd, ms) ? accept(d->listen_fd, NULL, NULL) : -1;
    return p->fd < 0 ? -1 : 0;
}

void fake_close(struct fake_peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

int fake_next(struct fake_peer *p, int ms, struct dp_header *h, const uint8_t **body)
{
    struct dp_err err;

    memmove(p->rx, p->rx + p->frame, p->used - p->frame);
    p->used -= p->frame;
    p->frame = 0;
    for (;;) {
        ssize_t n;

        if (p->used >= DP_HEADER_BYTES) {
            must(dp_header_decode(p->rx, h, &err) == 0, "header from the worker");
            if (p->used >= DP_HEADER_BYTES + h->body_len)
                break;
        }
        if (!wait_readable(p->fd, ms))
            return 0;
        n = read(p->fd, p->rx + p->used, sizeof p->rx - p->used);
        if (n <= 0)
            return -1;
        p->used += (size_t)n;
    }
    p->frame = DP_HEADER_BYTES + h->body_len;
    p->last_seq = h->seq;
    *body = p->rx + DP_HEADER_BYTES;
    return 1;
}

size_t fake_frame(struct fake_peer *p, uint16_t type, const void *body, size_t bytes, uint8_t *out)
{
    struct dp_header h = {
        .version = p->version ? p->version : DP_PROTO_VERSION, .type = type, .body_len = (uint32_t)bytes, .seq = ++p->seq};

    dp_header_encode(out, &h);
    if (bytes)
        memcpy(out + DP_HEADER_BYTES, body, bytes);
    return DP_HEADER_BYTES + bytes;
}

void fake_send_raw(struct fake_peer *p, const void *data, size_t bytes)
{
    const uint8_t *b = data;

    while (bytes > 0) {
        ssize_t n = send(p->fd, b, bytes, MSG_NOSIGNAL);

        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* the worker hung up: the test will see it */
        must(n > 0, "send");
        b += n;
        bytes -= (size_t)n;
    }
}

void fake_send_body(struct fake_peer *p, uint16_t type, const void *body, size_t bytes)
{
    static uint8_t frame[DP_HEADER_BYTES + DP_BODY_MAX];

    fake_send_raw(p, frame, fake_frame(p, type, body, bytes, frame));
}

void fake_welcome(struct fake_peer *p, uint8_t verdict, const char *lock, const char *text)
{
    struct dp_msg_welcome w = {.verdict = verdict, .mode = DP_MODE_RELEASE, .report_ms = 500};

    snprintf(w.device_lock, sizeof w.device_lock, "%s", lock);
    snprintf(w.text, sizeof w.text, "%s", text);
    FAKE_SEND(p, welcome, DP_MSG_WELCOME, &w);
}
