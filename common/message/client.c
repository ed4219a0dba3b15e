/* SPDX-License-Identifier: BSD-3-Clause */
/* See client.h. The socket is non-blocking and every wait is a poll with what is left of the
 * deadline, so a daemon that hangs costs the caller timeout_ms and no more. */
#include "config.h"

#include "common/message/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/message/session.h"

#define JSON_MAX (64u << 20) /* an answer beyond this is no answer */
#define CONNECT_NS UINT64_C(5000000000) /* a host that is up answers a connect at once */

struct dp_client {
    int fd;
    uint32_t timeout_ms, seq;
    char *path;       /* of a unix socket, else NULL */
    uint16_t version; /* that is spoken; the highest, until the daemon has said a word */
    bool has_heard, has_session;
    struct dp_session session;
    uint8_t frame[DP_HEADER_BYTES + DP_BODY_MAX + DP_TAG_BYTES];
};

static uint64_t deadline_of(const struct dp_client *c)
{
    return dp_now_ns() + (uint64_t)c->timeout_ms * 1000000u;
}

static int wait_for(int fd, short events, uint64_t deadline_ns, struct dp_err *err)
{
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        uint64_t now = dp_now_ns();
        int n;

        if (now >= deadline_ns)
            return dp_err_set(err, DP_ETIMEOUT, "the daemon does not answer");
        n = poll(&p, 1, (int)((deadline_ns - now + 999999) / 1000000));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return dp_err_set(err, DP_EIO, "poll: %s", strerror(errno));
    }
}

static int send_all(struct dp_client *c, const uint8_t *p, size_t bytes, uint64_t deadline_ns,
                    struct dp_err *err)
{
    while (bytes > 0) {
        ssize_t n = send(c->fd, p, bytes, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wait_for(c->fd, POLLOUT, deadline_ns, err) < 0)
                return -1;
            continue;
        }
        if (n < 0)
            return dp_err_set(err, DP_EHUNGUP, "the daemon closed the connection: %s", strerror(errno));
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int recv_all(struct dp_client *c, uint8_t *p, size_t bytes, uint64_t deadline_ns, struct dp_err *err)
{
    while (bytes > 0) {
        ssize_t n = recv(c->fd, p, bytes, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wait_for(c->fd, POLLIN, deadline_ns, err) < 0)
                return -1;
            continue;
        }
        if (n <= 0)
            return dp_err_set(err, DP_EHUNGUP, "the daemon closed the connection");
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static struct dp_client *create(uint32_t timeout_ms, struct dp_err *err)
{
    struct dp_client *c = calloc(1, sizeof *c);

    if (!c) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        return NULL;
    }
    c->fd = -1;
    c->timeout_ms = timeout_ms;
    c->version = DP_PROTO_VERSION;
    return c;
}

/* A host that is up answers at once, with a refusal at least: a firewall that drops packets does not. */
static int wait_connected(struct dp_client *c, int family, uint64_t deadline_ns, struct dp_err *err)
{
    uint64_t connect_ns = dp_now_ns() + CONNECT_NS;
    struct dp_err why;

    if (wait_for(c->fd, POLLOUT, connect_ns < deadline_ns ? connect_ns : deadline_ns, &why) == 0)
        return 0;
    if (family != AF_UNIX && why.code == DP_ETIMEOUT)
        return dp_err_set(err, DP_ETIMEOUT, "no answer (filtered?)");
    return dp_err_set(err, why.code, "%s", why.text);
}

/* Several addresses of one machine are not the same to the other side, nor to what filters on the way. */
static void come_from(int fd, int family, const char *from)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = family}, *list = NULL;

    if (!from || getaddrinfo(from, NULL, &hints, &list))
        return;
    (void)bind(fd, list->ai_addr, list->ai_addrlen); /* behind a translation of addresses it cannot */
    freeaddrinfo(list);
}

static int connect_to(struct dp_client *c, int family, const struct sockaddr *addr, socklen_t len, const char *from,
                      const char *name, uint64_t deadline_ns, struct dp_err *err)
{
    socklen_t optlen = sizeof(int);
    int error = 0;

    if (c->fd >= 0)
        close(c->fd);
    c->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return dp_err_set(err, DP_EIO, "socket: %s", strerror(errno));
    come_from(c->fd, family, from);
    if (connect(c->fd, addr, len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return dp_err_set(err, DP_EGONE, "%s: %s", name, strerror(errno));
    if (wait_connected(c, family, deadline_ns, err) < 0)
        return -1;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &optlen);
    if (error)
        return dp_err_set(err, DP_EGONE, "%s: %s", name, strerror(error));
    return 0;
}

static int connect_unix(struct dp_client *c, struct dp_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    memcpy(addr.sun_path, c->path, strlen(c->path) + 1);
    return connect_to(c, AF_UNIX, (struct sockaddr *)&addr, sizeof addr, NULL, c->path, deadline_of(c), err);
}

struct dp_client *dp_client_open_unix(const char *path, uint32_t timeout_ms, struct dp_err *err)
{
    struct dp_client *c;

    if (strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        dp_err_set(err, DP_EINVAL, "%s: longer than the path of a socket may be", path);
        return NULL;
    }
    c = create(timeout_ms, err);
    if (c && !(c->path = strdup(path)))
        dp_err_set(err, DP_ENOMEM, "out of memory");
    if (c && c->path && connect_unix(c, err) == 0)
        return c;
    dp_client_destroy(c);
    return NULL;
}

/* The client's half of the handshake. */
static int authenticate(struct dp_client *c, const char *node, const char *munge_socket, uid_t daemon_uid,
                        struct dp_err *err)
{
    struct dp_msg_challenge challenge;
    struct dp_msg_auth auth = {0};
    struct dp_msg_auth_ok ok;
    struct dp_msg_ack refusal;
    struct dp_handshake hs;
    uint8_t body[8192];
    const uint8_t *in;
    struct dp_header h;
    struct dp_reader r;
    struct dp_writer w;
    dp_digest_t proof;

    if (dp_client_recv(c, &h, &in, err) < 0)
        return -1;
    dp_reader_init(&r, in, h.body_len);
    if (h.type != DP_MSG_CHALLENGE || dp_msg_challenge_decode(&r, &challenge, err) < 0)
        return dp_err_set(err, DP_EPROTO, "expected a challenge, got %s", dp_msg_name(h.type));
    if (node && strcmp(node, challenge.node))
        return dp_err_set(err, DP_EAUTH, "this is the daemon of node %s, not of %s", challenge.node, node);
    if (dp_handshake_init(&hs, DP_PURPOSE_CLI, "", &challenge, err) < 0)
        return -1;
    c->version = hs.version;
    if (dp_handshake_seal(&hs, munge_socket, daemon_uid, auth.credential, sizeof auth.credential, err) < 0)
        return -1;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_auth_encode(&w, &auth);
    if (dp_client_send(c, DP_MSG_AUTH, body, dp_writer_used(&w), err) < 0 ||
        dp_client_recv(c, &h, &in, err) < 0)
        return -1;
    dp_reader_init(&r, in, h.body_len);
    if (h.type == DP_MSG_ACK && dp_msg_ack_decode(&r, &refusal, err) == 0)
        return dp_err_set(err, DP_EAUTH, "the daemon refuses our credential: %s", refusal.text);
    if (h.type != DP_MSG_AUTH_OK || dp_msg_auth_ok_decode(&r, &ok, err) < 0)
        return dp_err_set(err, DP_EPROTO, "expected AUTH_OK, got %s", dp_msg_name(h.type));
    dp_handshake_proof(&hs, proof);
    if (!dp_digest_equal(proof, ok.proof))
        return dp_err_set(err, DP_EAUTH, "the daemon could not open our credential");
    dp_session_init(&c->session, &hs, false);
    c->has_session = true;
    return 0;
}

struct dp_client *dp_client_open_tcp(const char *host, uint16_t port, const char *from, const char *node,
                                     const char *munge_socket, uid_t daemon_uid, uint32_t timeout_ms,
                                     struct dp_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    struct dp_client *c = create(timeout_ms, err);
    char service[16];
    int rc;

    if (!c)
        return NULL;
    snprintf(service, sizeof service, "%u", port);
    rc = getaddrinfo(host, service, &hints, &list);
    if (rc) {
        dp_err_set(err, DP_EGONE, "%s: %s", host, gai_strerror(rc));
        dp_client_destroy(c);
        return NULL;
    }
    rc = -1;
    for (struct addrinfo *a = list; a && rc < 0; a = a->ai_next)
        rc = connect_to(c, a->ai_family, a->ai_addr, a->ai_addrlen, from, host, deadline_of(c), err);
    freeaddrinfo(list);
    if (rc < 0 || authenticate(c, node, munge_socket, daemon_uid, err) < 0) {
        dp_err_prefix(err, "%s port %u", host, port);
        dp_client_destroy(c);
        return NULL;
    }
    return c;
}

void dp_client_destroy(struct dp_client *c)
{
    int saved = errno;

    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    free(c->path);
    free(c);
    errno = saved;
}

int dp_client_send(struct dp_client *c, enum dp_msg_type type, const void *body, size_t bytes,
                   struct dp_err *err)
{
    struct dp_header h = {c->version, (uint16_t)type, 0, c->seq++};
    size_t total;
    int rc;

    if (bytes > dp_msg_max_body((uint16_t)type))
        return dp_err_set(err, DP_EINVAL, "%s: body of %zu bytes", dp_msg_name((uint16_t)type), bytes);
    rc = dp_msg_recode((uint16_t)type, DP_PROTO_VERSION, body, bytes, c->version, c->frame + DP_HEADER_BYTES, DP_BODY_MAX,
                       &bytes, err);
    if (rc > 0)
        return dp_err_set(err, DP_ENOTSUP, "the daemon speaks protocol version %u, which has no %s (this is version %d): upgrade it",
                          c->version, dp_msg_name((uint16_t)type), DP_PROTO_VERSION);
    if (rc < 0)
        return -1;
    h.body_len = (uint32_t)bytes;
    total = DP_HEADER_BYTES + bytes;
    dp_header_encode(c->frame, &h);
    if (c->has_session) {
        dp_session_sign(&c->session, c->frame, c->frame + DP_HEADER_BYTES, bytes, c->frame + total);
        total += DP_TAG_BYTES;
    }
    return send_all(c, c->frame, total, deadline_of(c), err);
}

/* A daemon answers in the version that it is spoken to, or in a lower one that is its highest; a CHALLENGE comes in the
 * lowest (session.h). */
static int take_version(struct dp_client *c, const struct dp_header *h, struct dp_err *err)
{
    bool is_first = !c->has_heard;

    c->has_heard = true;
    if (h->type == DP_MSG_CHALLENGE && h->version == DP_PROTO_MIN)
        return 0;
    if (h->version > c->version || (h->version != c->version && !is_first))
        return dp_err_set(err, DP_EPROTO, "the daemon speaks protocol version %u on a connection that uses version %u",
                          h->version, c->version);
    c->version = h->version;
    return 0;
}

/* The body in our own version, where the daemon's is another one. */
static int own_body(struct dp_client *c, struct dp_header *h, struct dp_err *err)
{
    uint8_t own[DP_BODY_MAX];
    size_t bytes;
    int rc;

    if (h->version == DP_PROTO_VERSION)
        return 0;
    rc = dp_msg_recode(h->type, h->version, c->frame + DP_HEADER_BYTES, h->body_len, DP_PROTO_VERSION, own, sizeof own, &bytes,
                       err);
    if (rc != 0)
        return rc < 0 ? -1 : dp_err_set(err, DP_EPROTO, "%s is not readable", dp_msg_name(h->type));
    memcpy(c->frame + DP_HEADER_BYTES, own, bytes);
    h->version = DP_PROTO_VERSION;
    h->body_len = (uint32_t)bytes;
    return 0;
}

int dp_client_recv(struct dp_client *c, struct dp_header *h, const uint8_t **body, struct dp_err *err)
{
    uint64_t deadline_ns = deadline_of(c);
    uint8_t *in = c->frame + DP_HEADER_BYTES;

    if (recv_all(c, c->frame, DP_HEADER_BYTES, deadline_ns, err) < 0 ||
        dp_header_decode(c->frame, h, err) < 0 || take_version(c, h, err) < 0 ||
        recv_all(c, in, h->body_len + (c->has_session ? DP_TAG_BYTES : 0), deadline_ns, err) < 0)
        return -1;
    if (c->has_session &&
        dp_session_verify(&c->session, c->frame, in, h->body_len, in + h->body_len, err) < 0)
        return -1;
    if (own_body(c, h, err) < 0)
        return -1;
    *body = in;
    return 0;
}

/* Ask and take the first answer. A daemon of release 0.1.0 hangs up on our version on its unix socket, without a word:
 * then it is spoken to in its own. A newer one that had no place for us has one for that, too, or has not. */
static int ask_first(struct dp_client *c, enum dp_msg_type type, const struct dp_writer *w, struct dp_header *h,
                     const uint8_t **in, struct dp_err *err)
{
    struct dp_err why = {0};

    if (dp_client_send(c, type, w->start, dp_writer_used(w), &why) == 0 && dp_client_recv(c, h, in, &why) == 0)
        return 0;
    if (why.code != DP_EHUNGUP || !c->path || c->has_heard || c->version == DP_PROTO_MIN ||
        dp_msg_since((uint16_t)type) > DP_PROTO_MIN)
        return dp_err_set(err, why.code, "%s", why.text);
    c->version = DP_PROTO_MIN;
    return connect_unix(c, err) < 0 || dp_client_send(c, type, w->start, dp_writer_used(w), err) < 0 ||
           dp_client_recv(c, h, in, err) < 0 ? -1 : 0;
}

static int check_verdict(uint8_t verdict, const char *text, struct dp_err *err)
{
    switch (verdict) {
    case DP_VERDICT_OK:
        return 0;
    case DP_VERDICT_UNKNOWN:
        return dp_err_set(err, DP_EGONE, "%s", text);
    default:
        return dp_err_set(err, DP_EAUTH, "%s", text[0] ? text : "denied");
    }
}

/* Ask; the pieces of the document that answers are put together. */
static int ask_document(struct dp_client *c, enum dp_msg_type type, const struct dp_writer *w, char **json,
                        struct dp_err *err)
{
    struct dp_msg_answer answer = {0};
    bool is_asked = false;
    size_t used = 0;
    char *text = NULL;

    while (!answer.last) {
        struct dp_header h;
        struct dp_reader r;
        const uint8_t *in;
        char *grown;

        if ((is_asked ? dp_client_recv(c, &h, &in, err)
                      : ask_first(c, type, w, &h, &in, err)) < 0)
            goto fail;
        is_asked = true;
        dp_reader_init(&r, in, h.body_len);
        if (h.type != DP_MSG_ANSWER) {
            dp_err_set(err, DP_EPROTO, "expected an answer, got %s", dp_msg_name(h.type));
            goto fail;
        }
        if (dp_msg_answer_decode(&r, &answer, err) < 0 || check_verdict(answer.verdict, answer.text, err) < 0)
            goto fail;
        grown = used + answer.json_len < JSON_MAX ? realloc(text, used + answer.json_len + 1) : NULL;
        if (!grown) {
            dp_err_set(err, DP_ENOMEM, "answer of more than %zu bytes", used);
            goto fail;
        }
        text = grown;
        memcpy(text + used, answer.json, answer.json_len);
        used += answer.json_len;
        text[used] = '\0';
    }
    *json = text;
    return 0;
fail:
    free(text);
    return -1;
}

int dp_client_query(struct dp_client *c, enum dp_query what, uint32_t job_id, char **json, struct dp_err *err)
{
    struct dp_msg_query query = {.what = (uint8_t)what, .job_id = job_id};
    uint8_t body[64];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_query_encode(&w, &query);
    return ask_document(c, DP_MSG_QUERY, &w, json, err);
}

int dp_client_check(struct dp_client *c, uint32_t job_id, const char *target, char **json, struct dp_err *err)
{
    struct dp_msg_check check = {.job_id = job_id};
    uint8_t body[128];
    struct dp_writer w;

    snprintf(check.target, sizeof check.target, "%s", target);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_check_encode(&w, &check);
    return ask_document(c, DP_MSG_CHECK, &w, json, err);
}

int dp_client_command(struct dp_client *c, enum dp_verb verb, uint32_t job_id, const char *argument,
                      struct dp_err *err)
{
    struct dp_msg_command command = {.verb = (uint8_t)verb, .job_id = job_id};
    struct dp_msg_answer answer;
    uint8_t body[2048];
    const uint8_t *in;
    struct dp_header h;
    struct dp_reader r;
    struct dp_writer w;

    snprintf(command.argument, sizeof command.argument, "%s", argument ? argument : "");
    dp_writer_init(&w, body, sizeof body);
    dp_msg_command_encode(&w, &command);
    if (dp_client_send(c, DP_MSG_COMMAND, body, dp_writer_used(&w), err) < 0 ||
        dp_client_recv(c, &h, &in, err) < 0)
        return -1;
    dp_reader_init(&r, in, h.body_len);
    if (h.type != DP_MSG_ANSWER)
        return dp_err_set(err, DP_EPROTO, "expected an answer, got %s", dp_msg_name(h.type));
    if (dp_msg_answer_decode(&r, &answer, err) < 0)
        return -1;
    return check_verdict(answer.verdict, answer.text, err);
}
