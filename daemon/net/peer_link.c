/* SPDX-License-Identifier: BSD-3-Clause */
/* The connecting side of TCP: a link to the daemon of a node that some run needs, opened again with
 * back-off (1, 2, 2 .. s) for as long as it is wanted: a daemon that comes back is found soon. Names are looked up and credentials are
 * sealed in child processes.
 */
#include "config.h"

#include "daemon/net/peer_link.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/helper.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/events.h"

#define CONNECT_DEADLINE_S 5.0 /* until its challenge; packets may be dropped on the way */
#define AUTH_DEADLINE_S 15.0 /* both sides ask munged, and the other one may ask Slurm and the resolver who calls */
#define LOOKUP_DEADLINE_S 20.0 /* the resolver, 5 s twice by default (resolv.conf(5)), for two names */
#define MUNGE_DEADLINE_S 8.0 /* less than AUTH_DEADLINE_S, so that munge is named as the cause */
#define BACKOFF_MAX_S 2 /* seconds, and up to half of one more: a daemon that is back is met soon */
#define SILENT_NS UINT64_C(1000000000) /* a host that is up has answered by then */

struct dp_link {
    struct dp_link *next;
    struct dp_daemon *daemon;
    char node[64];
    struct dp_conn *conn;
    struct dp_handshake hs;
    uint32_t address; /* IPv4, network order */
    struct dp_helper *helper;
    struct event *retry;
    int backoff_s;
    uint64_t began_ns; /* the newest try to connect */
    bool is_connected;
    bool is_reported; /* the last failure was logged */
    char where[96];    /* its address and port, as they are configured */
    char trouble[256]; /* of the last try, "": none */
};

static void retry_later(struct dp_link *l, const char *why)
{
    char text[256];
    struct timeval tv;

    snprintf(text, sizeof text, "%s: %.150s", l->where, why);
    if (!l->is_reported || strcmp(l->trouble, text) != 0)
        dp_warn("daemon of node %s: %s; trying again", l->node, text);
    l->is_reported = true;
    memcpy(l->trouble, text, sizeof l->trouble);
    tv.tv_sec = l->backoff_s;
    tv.tv_usec = random() % 500000; /* so that many nodes do not knock at once */
    l->backoff_s = l->backoff_s * 2 > BACKOFF_MAX_S ? BACKOFF_MAX_S : l->backoff_s * 2;
    event_add(l->retry, &tv);
}

/* ---- look up the address ---- */

struct lookup_request {
    struct dp_node_entry node, self;
};

struct lookup_result {
    int rc;
    struct sockaddr_in addr;
    struct sockaddr_in self; /* family 0: any of ours */
};

static int resolve(const struct dp_node_entry *n, struct sockaddr_in *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *list = NULL;
    int rc = getaddrinfo(n->address, NULL, &hints, &list);

    if (rc == 0 && list)
        memcpy(out, list->ai_addr, sizeof *out);
    if (list)
        freeaddrinfo(list);
    return rc;
}

/* Where dynpipe.conf gives this node an address we come from there: the others know us by it. */
static size_t lookup_work(const void *request, size_t bytes, uint8_t *result)
{
    const struct lookup_request *q = request;
    struct lookup_result r;

    (void)bytes;
    memset(&r, 0, sizeof r);
    r.rc = resolve(&q->node, &r.addr);
    r.addr.sin_port = htons(q->node.port);
    if (q->self.has_address && resolve(&q->self, &r.self) != 0)
        memset(&r.self, 0, sizeof r.self);
    r.self.sin_port = 0;
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- the handshake ---- */

struct seal_request {
    char munge_socket[108];
    uid_t reader;
    struct dp_handshake hs;
};

static size_t seal_work(const void *request, size_t bytes, uint8_t *result)
{
    const struct seal_request *q = request;
    struct dp_err err = {0};
    char credential[4096];
    int rc;

    (void)bytes;
    rc = dp_handshake_seal(&q->hs, q->munge_socket, q->reader, credential, sizeof credential, &err);
    result[0] = rc == 0;
    snprintf((char *)result + 1, 4096, "%s", rc == 0 ? credential : err.text);
    return 1 + strlen((char *)result + 1) + 1;
}

static void on_sealed(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_link *l = arg;
    struct dp_msg_auth auth = {0};

    l->helper = NULL;
    if (!result || bytes < 2 || result[bytes - 1] != '\0' || !result[0]) {
        dp_conn_close(l->conn, result && bytes > 1 ? (const char *)result + 1 : why);
        return;
    }
    snprintf(auth.node, sizeof auth.node, "%s", l->daemon->node);
    snprintf(auth.credential, sizeof auth.credential, "%s", (const char *)result + 1);
    DP_CONN_SEND(l->conn, auth, DP_MSG_AUTH, &auth);
}

static void on_challenge(struct dp_link *l, const struct dp_msg_challenge *challenge)
{
    struct dp_daemon *d = l->daemon;
    struct seal_request q = {0};
    struct dp_err err = {0};

    if (strcmp(challenge->node, l->node)) {
        dp_err_set(&err, DP_EAUTH, "it says that it is %s", challenge->node);
        dp_conn_close(l->conn, err.text);
        return;
    }
    snprintf(q.munge_socket, sizeof q.munge_socket, "%s", d->config->munge_socket);
    q.reader = d->uid;
    if (l->helper) {
        dp_conn_close(l->conn, "second challenge");
        return;
    }
    if (dp_handshake_init(&l->hs, DP_PURPOSE_PEER, d->node, challenge, &err) < 0) {
        dp_conn_close(l->conn, err.text);
        return;
    }
    dp_conn_set_version(l->conn, l->hs.version);
    q.hs = l->hs;
    l->helper = dp_helper_start(d->base, seal_work, &q, sizeof q, MUNGE_DEADLINE_S, on_sealed, l, &err);
    if (!l->helper)
        dp_conn_close(l->conn, err.text);
}

static void on_auth_ok(struct dp_link *l, const struct dp_msg_auth_ok *ok)
{
    dp_digest_t proof;

    dp_handshake_proof(&l->hs, proof);
    if (l->helper || !dp_digest_equal(proof, ok->proof)) {
        dp_conn_close(l->conn, "it could not open our credential");
        return;
    }
    dp_conn_start_session(l->conn, &l->hs, false);
    dp_conn_set_deadline(l->conn, 0);
    l->conn->role = DP_ROLE_PEER;
    l->conn->uid = l->daemon->uid;
    dp_conn_know_address(&l->daemon->conns, l->address);
    snprintf(l->conn->node, sizeof l->conn->node, "%s", l->node);
    l->backoff_s = 1;
    l->is_reported = false;
    l->trouble[0] = '\0';
    dp_info("connected to the daemon of node %s, protocol version %u", l->node, l->conn->version);
    l->daemon->events->peer_up(l->daemon, l->node);
}

/* The acceptor refuses us, and says why. */
static void on_refused(struct dp_link *l, const struct dp_msg_ack *ack)
{
    struct dp_err err;

    dp_err_set(&err, DP_EAUTH, "it refuses our credential: %s", ack->text);
    dp_conn_close(l->conn, err.text);
}

static void on_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body)
{
    struct dp_link *l = c->data;
    struct dp_msg_challenge challenge;
    struct dp_msg_auth_ok ok;
    struct dp_msg_ack ack;
    struct dp_err err = {0};
    struct dp_reader r;

    if (c->role == DP_ROLE_PEER) {
        dp_net_frame(c, h, body);
        return;
    }
    dp_conn_set_deadline(c, AUTH_DEADLINE_S);
    dp_reader_init(&r, body, h->body_len);
    if (h->type == DP_MSG_CHALLENGE && dp_msg_challenge_decode(&r, &challenge, &err) == 0)
        on_challenge(l, &challenge);
    else if (h->type == DP_MSG_AUTH_OK && dp_msg_auth_ok_decode(&r, &ok, &err) == 0)
        on_auth_ok(l, &ok);
    else if (h->type == DP_MSG_ACK && dp_msg_ack_decode(&r, &ack, &err) == 0)
        on_refused(l, &ack);
    else
        dp_conn_close(c, err.text);
}

/* A host that is up answers SYN at once; a daemon that is stopped lets the kernel answer, and says nothing. */
static const char *why_silent(const struct dp_link *l)
{
    return l->is_connected ? "it accepts connections but says nothing (stopped?)" : "no answer (filtered?)";
}

static void on_connected(struct dp_conn *c)
{
    struct dp_link *l = c->data;

    if (l)
        l->is_connected = true;
}

static void on_closed(struct dp_conn *c, const char *why)
{
    struct dp_link *l = c->data;

    if (!l)
        return; /* forgotten */
    dp_helper_cancel(l->helper);
    l->helper = NULL;
    l->conn = NULL;
    retry_later(l, c->role == DP_ROLE_TCP_OUT && !strcmp(why, DP_CONN_DEADLINE) ? why_silent(l) : why);
    if (c->role == DP_ROLE_PEER && !dp_peer_find(l->daemon, l->node))
        l->daemon->events->peer_down(l->daemon, l->node);
}

static const struct dp_conn_ops link_ops = {.frame = on_frame, .closed = on_closed, .connected = on_connected};

void dp_peer_set_keepalive(int fd)
{
    const int on = 1, idle_s = 5, interval_s = 3, count = 3, user_timeout_ms = 15000;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

static int open_socket(const struct dp_link *l, const struct sockaddr_in *self)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    if (fd < 0 || self->sin_family != AF_INET)
        return fd;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)self, sizeof *self) < 0) /* behind a translation of addresses, say */
        dp_debug("daemon of node %s: not from our address in dynpipe.conf: %s", l->node, strerror(errno));
    return fd;
}

static void on_looked_up(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct dp_link *l = arg;
    struct lookup_result r;
    int fd;

    l->helper = NULL;
    if (!result || bytes != sizeof r) {
        retry_later(l, why);
        return;
    }
    memcpy(&r, result, sizeof r);
    if (r.rc != 0 || r.addr.sin_family != AF_INET) {
        retry_later(l, gai_strerror(r.rc));
        return;
    }
    fd = open_socket(l, &r.self);
    l->conn = fd < 0 ? NULL : dp_conn_create(&l->daemon->conns, fd, DP_ROLE_TCP_OUT, 0, &link_ops, l->daemon);
    if (!l->conn) {
        retry_later(l, "no socket");
        return;
    }
    l->conn->data = l;
    l->is_connected = false;
    l->began_ns = dp_now_ns();
    l->address = ((struct sockaddr_in *)&r.addr)->sin_addr.s_addr; /* no other kind was asked for */
    dp_peer_set_keepalive(fd);
    dp_conn_set_deadline(l->conn, CONNECT_DEADLINE_S);
    if (bufferevent_socket_connect(l->conn->bev, (struct sockaddr *)&r.addr, sizeof r.addr) < 0 && l->conn)
        dp_conn_close(l->conn, strerror(errno));
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct dp_link *l = arg;
    struct lookup_request q;
    struct dp_err err = {0};

    (void)fd;
    (void)what;
    if (l->conn || l->helper)
        return;
    dp_config_find_node(l->daemon->config, l->node, &q.node);
    dp_config_find_node(l->daemon->config, l->daemon->node, &q.self);
    snprintf(l->where, sizeof l->where, "%s port %u", q.node.address, q.node.port);
    l->helper = dp_helper_start(l->daemon->base, lookup_work, &q, sizeof q, LOOKUP_DEADLINE_S,
                                on_looked_up, l, &err);
    if (!l->helper)
        retry_later(l, err.text);
}

static struct dp_link *find_link(const struct dp_daemon *d, const char *node)
{
    for (struct dp_link *l = d->links; l; l = l->next)
        if (!strcmp(l->node, node))
            return l;
    return NULL;
}

bool dp_peer_is_wanted(const struct dp_daemon *d, const char *node)
{
    return find_link(d, node) != NULL;
}

/* A filter that comes between breaks no connection: what was sent is sent again and again, without an answer, until
 * TCP gives up. The first time without one may be a lost packet. */
static bool is_unanswered(const struct dp_conn *c)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;

    return getsockopt(bufferevent_getfd(c->bev), IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           (info.tcpi_retransmits >= 2 || info.tcpi_probes >= 2);
}

/* A worker is told after 2 s why it waits, before the first try is given up. */
const char *dp_peer_trouble(const struct dp_daemon *d, const char *node)
{
    const struct dp_conn *peer = dp_peer_find(d, node);
    struct dp_link *l = find_link(d, node);

    if (peer && !is_unanswered(peer))
        return "";
    if (!l)
        return peer ? "no answer so far (filtered?)" : "";
    if (peer || (!*l->trouble && l->conn && !l->is_connected && dp_now_ns() - l->began_ns > SILENT_NS))
        snprintf(l->trouble, sizeof l->trouble, "%s: no answer so far (filtered?)", l->where);
    return l->trouble;
}

const char *dp_peer_first(const struct dp_daemon *d)
{
    return d->links ? d->links->node : NULL;
}

void dp_peer_want(struct dp_daemon *d, const char *node)
{
    static const struct timeval now = {0};
    struct dp_link *l;

    if (find_link(d, node))
        return;
    l = calloc(1, sizeof *l);
    if (!l)
        return;
    l->daemon = d;
    l->backoff_s = 1;
    snprintf(l->node, sizeof l->node, "%s", node);
    l->retry = evtimer_new(d->base, on_retry, l);
    if (!l->retry) {
        free(l);
        return;
    }
    l->next = d->links;
    d->links = l;
    event_add(l->retry, &now);
}

void dp_peer_forget(struct dp_daemon *d, const char *node)
{
    struct dp_link **at = &d->links, *l;

    while (*at && strcmp((*at)->node, node))
        at = &(*at)->next;
    l = *at;
    if (!l)
        return;
    *at = l->next;
    if (l->conn) {
        l->conn->data = NULL;
        dp_conn_finish(l->conn);
    }
    dp_helper_cancel(l->helper);
    event_free(l->retry);
    free(l);
}

struct dp_conn *dp_peer_find(const struct dp_daemon *d, const char *node)
{
    for (struct dp_conn *c = d->conns.first; c; c = c->next)
        if (c->role == DP_ROLE_PEER && !c->is_finishing && !strcmp(c->node, node))
            return c;
    return NULL;
}

uint16_t dp_peer_version(const struct dp_daemon *d, const char *node)
{
    const struct dp_conn *c = dp_peer_find(d, node);

    return c ? c->version : 0;
}

bool dp_peer_is_old(const struct dp_daemon *d, const char *node)
{
    uint16_t version = dp_peer_version(d, node);

    return version && version < 3;
}

bool dp_peer_send(struct dp_daemon *d, const char *node, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct dp_conn *c = dp_peer_find(d, node);

    if (c)
        dp_conn_send(c, type, body, bytes);
    return c != NULL;
}
