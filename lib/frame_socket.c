/* SPDX-License-Identifier: BSD-3-Clause */
/* See frame_socket.h. The header of a frame that is being built sits in tx right behind what is queued; only
 * dp_frame_socket_end() moves tx_end past it, so a body that does not fit leaves no trace. */
#include "lib/frame_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/file/trust.h"

void dp_frame_socket_init(struct dp_frame_socket *l)
{
    l->fd = -1;
    l->version = DP_PROTO_VERSION;
    l->offered = 0;
    l->has_heard = false;
    l->seq = 0;
    l->rx_used = l->rx_frame = l->tx_begin = l->tx_end = 0;
    l->queued = l->sent = 0;
}

/* A folder that is not there tells more than the socket in it: the plugin has told of a daemon. */
static const char *hint(const char *path)
{
    char folder[sizeof((struct sockaddr_un *)0)->sun_path];
    char *slash;

    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (errno != ENOENT || !slash || slash == folder)
        return "";
    *slash = '\0';
    if (access(folder, F_OK) == 0 || errno != ENOENT)
        return "";
    return " (nor its folder: no daemon has been here, or this is a container or a /tmp of the job's own that does not show it)";
}

int dp_frame_socket_open(struct dp_frame_socket *l, const char *path, uint16_t version, struct dp_err *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    int fd;

    if (n == 0 || n >= sizeof sa.sun_path)
        return dp_err_set(err, DP_EINVAL, "socket path of %zu bytes; allowed: 1 to %zu", n,
                          sizeof sa.sun_path - 1);
    memcpy(sa.sun_path, path, n);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0) {
        const char *why = strerror(errno);

        dp_err_set(err, DP_EIO, "%s: %s%s", path, why, hint(path));
        close(fd);
        return -1;
    }
    if (dp_trust_server(fd, path, err) < 0) {
        dp_err_prefix(err, "%s", path);
        close(fd);
        return -1;
    }
    dp_frame_socket_init(l);
    l->version = version;
    l->fd = fd;
    return 0;
}

void dp_frame_socket_close(struct dp_frame_socket *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

/* Drop the frame that the caller is done with. */
static void consume(struct dp_frame_socket *l)
{
    memmove(l->rx, l->rx + l->rx_frame, l->rx_used - l->rx_frame);
    l->rx_used -= l->rx_frame;
    l->rx_frame = 0;
}

int dp_frame_socket_read(struct dp_frame_socket *l, struct dp_err *err)
{
    consume(l);
    while (l->rx_used < sizeof l->rx) {
        ssize_t n = recv(l->fd, l->rx + l->rx_used, sizeof l->rx - l->rx_used, 0);

        if (n > 0)
            l->rx_used += (size_t)n;
        else if (n == 0)
            return dp_err_set(err, DP_EGONE, "closed by the daemon");
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        else if (errno != EINTR)
            return dp_err_set(err, DP_EGONE, "recv: %s", strerror(errno));
    }
    return 0;
}

/* A daemon answers in the version that it is spoken to, or in a lower one that is its highest. */
static int take_version(struct dp_frame_socket *l, const struct dp_header *h, struct dp_err *err)
{
    if (h->version > l->version || (h->version != l->version && l->has_heard))
        return dp_err_set(err, DP_EPROTO, "the daemon speaks protocol version %u on a connection that uses version %u",
                          h->version, l->version);
    if (!l->has_heard)
        l->offered = (uint16_t)(h->seq >> DP_SEQ_VERSION_SHIFT);
    l->version = h->version;
    l->has_heard = true;
    return 0;
}

int dp_frame_socket_next(struct dp_frame_socket *l, dp_frame_allow_fn *allow, void *arg, struct dp_header *h,
                         const uint8_t **body, struct dp_err *err)
{
    consume(l);
    if (l->rx_used < DP_HEADER_BYTES)
        return 0;
    if (dp_header_decode(l->rx, h, err) < 0 || take_version(l, h, err) < 0)
        return -1;
    if (!allow(arg, h->type))
        return dp_err_set(err, DP_EPROTO, "the daemon may not send %s now",
                          dp_msg_name(h->type));
    if (l->rx_used - DP_HEADER_BYTES < h->body_len)
        return 0;
    l->rx_frame = DP_HEADER_BYTES + h->body_len;
    *body = l->rx + DP_HEADER_BYTES;
    return 1;
}

void dp_frame_socket_begin(struct dp_frame_socket *l, struct dp_writer *w)
{
    size_t room;

    if (l->tx_begin > 0) {
        memmove(l->tx, l->tx + l->tx_begin, l->tx_end - l->tx_begin);
        l->tx_end -= l->tx_begin;
        l->tx_begin = 0;
    }
    room = sizeof l->tx - l->tx_end;
    if (room < DP_HEADER_BYTES) {
        dp_writer_init(w, l->tx + l->tx_end, 0);
        w->bad = true;
        return;
    }
    dp_writer_init(w, l->tx + l->tx_end + DP_HEADER_BYTES, room - DP_HEADER_BYTES);
    w->version = l->version;
}

bool dp_frame_socket_end(struct dp_frame_socket *l, const struct dp_writer *w, uint16_t type)
{
    struct dp_header h = {.version = l->version, .type = type};

    if (dp_msg_since(type) > l->version)
        return true;
    if (w->bad || dp_writer_used(w) > dp_msg_max_body(type))
        return false;
    h.body_len = (uint32_t)dp_writer_used(w);
    h.seq = ++l->seq;
    dp_header_encode(l->tx + l->tx_end, &h);
    l->tx_end += DP_HEADER_BYTES + h.body_len;
    l->queued += DP_HEADER_BYTES + h.body_len;
    return true;
}

int dp_frame_socket_flush(struct dp_frame_socket *l, struct dp_err *err)
{
    while (l->tx_begin < l->tx_end) {
        ssize_t n = send(l->fd, l->tx + l->tx_begin, l->tx_end - l->tx_begin, MSG_NOSIGNAL);

        if (n >= 0) {
            l->tx_begin += (size_t)n;
            l->sent += (uint64_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return 0;
        } else if (errno != EINTR) {
            return dp_err_set(err, DP_EGONE, "send: %s", strerror(errno));
        }
    }
    l->tx_begin = l->tx_end = 0;
    return 0;
}

bool dp_frame_socket_has_output(const struct dp_frame_socket *l)
{
    return l->tx_begin < l->tx_end;
}
