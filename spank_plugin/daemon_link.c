/* SPDX-License-Identifier: BSD-3-Clause */
/* See daemon_link.h. The socket never blocks; every wait is a poll against one deadline, so that a
 * daemon that is dead, stopped, slow or hostile costs a step half a second and nothing else. */
#include "spank_plugin/daemon_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/file/trust.h"

#define FRAME_MAX (DP_HEADER_BYTES + 1024 + DP_MAX_WORKERS * 8) /* TASKS is the largest */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* returns: 0 when the socket is ready for `events` (or has an error to read), -1 past the deadline. */
static int wait_ready(int fd, short events, int64_t deadline_ms)
{
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        int64_t left = deadline_ms - now_ms();
        int rc = poll(&p, 1, left > 0 ? (int)left : 0);
        if (rc > 0)
            return 0;
        if (rc == 0 || errno != EINTR)
            return -1;
    }
}

static int fail_timeout(struct dp_err *err)
{
    return dp_err_set(err, DP_ETIMEOUT, "no answer within %d ms", DP_LINK_TIMEOUT_MS);
}

/* A full backlog shows as EAGAIN at once and there is nothing to poll for: look again. */
static int connect_by(int fd, const struct sockaddr_un *addr, int64_t deadline_ms, struct dp_err *err)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

    while (connect(fd, (const struct sockaddr *)addr, sizeof *addr) < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != EINPROGRESS)
            return dp_err_set(err, DP_EIO, "%s", strerror(errno));
        if (now_ms() >= deadline_ms)
            return fail_timeout(err);
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int open_link(const char *path, int64_t deadline_ms, struct dp_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof addr.sun_path)
        return dp_err_set(err, DP_EINVAL, "path of the socket is too long");
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "socket: %s", strerror(errno));
    if (connect_by(fd, &addr, deadline_ms, err) < 0 || dp_trust_server(fd, path, err) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Did the other side hang up without a word? */
static bool is_hung_up(int fd, int64_t deadline_ms)
{
    char byte;
    ssize_t n;

    while ((n = recv(fd, &byte, 1, MSG_PEEK)) < 0 && (errno == EAGAIN || errno == EINTR))
        if (wait_ready(fd, POLLIN, deadline_ms) < 0)
            return false;
    return n <= 0;
}

static int send_all(int fd, const uint8_t *data, size_t n, int64_t deadline_ms, struct dp_err *err)
{
    while (n > 0) {
        ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
        if (k > 0) {
            data += k;
            n -= (size_t)k;
        } else if (k < 0 && errno != EAGAIN && errno != EINTR) {
            return dp_err_set(err, DP_EIO, "%s", strerror(errno));
        } else if (wait_ready(fd, POLLOUT, deadline_ms) < 0) {
            return fail_timeout(err);
        }
    }
    return 0;
}

static int recv_all(int fd, uint8_t *data, size_t n, int64_t deadline_ms, struct dp_err *err)
{
    while (n > 0) {
        ssize_t k = recv(fd, data, n, 0);
        if (k == 0)
            return dp_err_set(err, DP_EGONE, "the daemon closed the connection");
        if (k > 0) {
            data += k;
            n -= (size_t)k;
        } else if (errno != EAGAIN && errno != EINTR) {
            return dp_err_set(err, DP_EIO, "%s", strerror(errno));
        } else if (wait_ready(fd, POLLIN, deadline_ms) < 0) {
            return fail_timeout(err);
        }
    }
    return 0;
}

/* Put the header before a body of `used` bytes that lies behind it. returns: bytes of the frame. */
static size_t seal(uint8_t frame[FRAME_MAX], uint16_t version, uint16_t type, size_t used)
{
    const struct dp_header h = {
        .version = version, .type = type, .body_len = (uint32_t)used, .seq = 1};

    dp_header_encode(frame, &h);
    return DP_HEADER_BYTES + used;
}

static int read_ack(int fd, uint16_t version, int64_t deadline_ms, struct dp_msg_ack *ack, struct dp_err *err)
{
    uint8_t bytes[FRAME_MAX];
    struct dp_header h;
    struct dp_reader r;

    if (recv_all(fd, bytes, DP_HEADER_BYTES, deadline_ms, err) < 0 || dp_header_decode(bytes, &h, err) < 0)
        return -1;
    if (h.version > version)
        return dp_err_set(err, DP_EPROTO, "the daemon answered in protocol version %u", h.version);
    if (h.type != DP_MSG_ACK || h.body_len > FRAME_MAX)
        return dp_err_set(err, DP_EPROTO, "the daemon answered %s", dp_msg_name(h.type));
    if (recv_all(fd, bytes, h.body_len, deadline_ms, err) < 0)
        return -1;
    dp_reader_init(&r, bytes, h.body_len);
    r.version = h.version;
    return dp_msg_ack_decode(&r, ack, err);
}

static void begin(struct dp_writer *w, uint8_t frame[FRAME_MAX], uint16_t version)
{
    dp_writer_init(w, frame + DP_HEADER_BYTES, FRAME_MAX - DP_HEADER_BYTES);
    w->version = version;
}

static enum dp_link_result step_start(const char *path, uint16_t version, const struct dp_msg_step_start *m,
                                      int64_t deadline_ms, bool *is_deaf, struct dp_msg_ack *ack, struct dp_err *err)
{
    enum dp_link_result result = DP_LINK_UNSENT;
    uint8_t frame[FRAME_MAX];
    struct dp_writer w;
    int fd;

    begin(&w, frame, version);
    *is_deaf = false;
    dp_msg_step_start_encode(&w, m);
    fd = open_link(path, deadline_ms, err);
    if (fd < 0)
        return result;
    if (send_all(fd, frame, seal(frame, version, DP_MSG_STEP_START, dp_writer_used(&w)), deadline_ms, err) == 0) {
        *is_deaf = is_hung_up(fd, deadline_ms);
        result = read_ack(fd, version, deadline_ms, ack, err) < 0 ? DP_LINK_UNSURE : DP_LINK_OK;
    }
    close(fd);
    return result;
}

/* A daemon of release 0.1.0 hangs up on what is not of its own version: it is told again. */
enum dp_link_result dp_link_step_start(const char *path, const struct dp_msg_step_start *m,
                                       struct dp_msg_ack *ack, struct dp_err *err)
{
    int64_t deadline_ms = now_ms() + DP_LINK_TIMEOUT_MS;
    bool is_deaf;
    enum dp_link_result result = step_start(path, DP_PROTO_VERSION, m, deadline_ms, &is_deaf, ack, err);

    return is_deaf ? step_start(path, DP_PROTO_MIN, m, deadline_ms, &is_deaf, ack, err) : result;
}

/* No answer is waited for, so it is said in the version that the message came with: every daemon that knows it at all
 * understands that. frame: with the body in its place. */
static int tell(const char *path, uint8_t frame[FRAME_MAX], uint16_t type, const struct dp_writer *w, struct dp_err *err)
{
    int64_t deadline_ms = now_ms() + DP_LINK_TIMEOUT_MS;
    int fd = open_link(path, deadline_ms, err), rc;

    if (fd < 0)
        return -1;
    rc = send_all(fd, frame, seal(frame, w->version, type, dp_writer_used(w)), deadline_ms, err);
    close(fd);
    return rc;
}

int dp_link_tasks(const char *path, const struct dp_msg_tasks *m, struct dp_err *err)
{
    uint8_t frame[FRAME_MAX];
    struct dp_writer w;

    begin(&w, frame, dp_msg_since(DP_MSG_TASKS));
    dp_msg_tasks_encode(&w, m);
    return tell(path, frame, DP_MSG_TASKS, &w, err);
}

int dp_link_step_end(const char *path, const struct dp_msg_step_end *m, struct dp_err *err)
{
    uint8_t frame[FRAME_MAX];
    struct dp_writer w;

    begin(&w, frame, dp_msg_since(DP_MSG_STEP_END));
    dp_msg_step_end_encode(&w, m);
    return tell(path, frame, DP_MSG_STEP_END, &w, err);
}
