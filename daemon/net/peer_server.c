/* SPDX-License-Identifier: BSD-3-Clause */
/* The accepting side of TCP: a challenge, a credential that a child process opens with munge, and
 * then a session. A daemon must run as our own user (or root); anybody else's credential makes a
 * command line with that uid and no more. A daemon must come from an address of the node that it says it
 * serves (node_origin.h). Nothing that a caller says before that is acted on.
 */
#include "config.h"

#include "daemon/net/peer_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/bufferevent.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/child/helper.h"
#include "daemon/child/node_origin.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/events.h"
#include "daemon/net/listen.h"
#include "daemon/net/peer_link.h"

#define AUTH_DEADLINE_S 10.0 /* both sides ask munged, which may be slow on a loaded node */
#define LINE_DEADLINE_S 10.0 /* until its credential is looked at */
#define MUNGE_DEADLINE_S 8.0 /* less than AUTH_DEADLINE_S, so that munge is named as the cause */
#define CLI_IDLE_S 60.0 /* a command asks at once; this is one that hangs */
#define ORIGIN_DEADLINE_S 5.0 /* for Slurm and the resolver, twice; the daemon that knocks waits 15 s */

/* A caller, from accept to AUTH_OK. */
struct caller {
    struct dp_conn *conn;
    struct dp_msg_challenge challenge;
    struct dp_msg_auth auth;
    char node[64]; /* as AUTH names it */
    struct dp_helper *helper;
    struct open_result *opened; /* a daemon's, while it is found out whether it may call itself that */
    bool is_asked_again;        /* without Slurm, which did not answer */
};

/* What the child that opens a credential gets and gives. */
struct open_request {
    char munge_socket[108];
    char credential[4096];
};
struct open_result {
    int rc;
    uid_t uid;
    struct in_addr sealed_at;
    struct dp_handshake hs;
    struct dp_err err;
};

static size_t open_work(const void *request, size_t bytes, uint8_t *result)
{
    const struct open_request *q = request;
    struct open_result r;

    (void)bytes;
    memset(&r, 0, sizeof r);
    r.rc = dp_handshake_open(q->credential, q->munge_socket, &r.hs, &r.uid, &r.sealed_at, &r.err);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

static bool is_daemon_uid(const struct dp_daemon *d, uid_t uid)
{
    return uid == d->uid || uid == 0;
}

static int check_caller(const struct dp_daemon *d, const struct caller *n, const struct open_result *r,
                          struct dp_err *err)
{
    if (r->rc < 0) {
        *err = r->err;
        return -1;
    }
    if (dp_handshake_check(&r->hs, &n->challenge, n->node, n->conn->version, err) < 0)
        return -1;
    if (r->hs.purpose == DP_PURPOSE_PEER && !is_daemon_uid(d, r->uid))
        return dp_err_set(err, DP_EAUTH, "uid %d is not the daemons' user: run_user must have the same uid on all nodes, and here it is %d",
                          (int)r->uid, (int)d->uid);
    if (r->hs.purpose == DP_PURPOSE_PEER && !strcmp(n->node, d->node))
        return dp_err_set(err, DP_EAUTH, "that is this node itself");
    return 0;
}

static void admit(struct dp_conn *c, const struct open_result *r)
{
    struct dp_daemon *d = c->owner;
    struct dp_msg_auth_ok ok;

    if (!dp_conn_set_uid(c, r->uid)) {
        dp_conn_close(c, "too many connections");
        return;
    }
    dp_handshake_proof(&r->hs, ok.proof);
    DP_CONN_SEND(c, auth_ok, DP_MSG_AUTH_OK, &ok);
    dp_conn_start_session(c, &r->hs, true);
    if (r->hs.purpose == DP_PURPOSE_CLI) {
        c->role = DP_ROLE_CLI;
        dp_conn_set_deadline(c, CLI_IDLE_S);
        return;
    }
    c->role = DP_ROLE_PEER;
    dp_conn_know_address(&d->conns, c->address);
    snprintf(c->node, sizeof c->node, "%s", r->hs.connector);
    dp_info("daemon of node %s connected, protocol version %u", c->node, c->version);
    d->events->peer_up(d, c->node);
}

static void caller_free(struct caller *n)
{
    dp_helper_cancel(n->helper);
    free(n->opened);
    free(n);
}

static void turn_away(struct caller *n, struct dp_err *err)
{
    dp_err_prefix(err, "calls itself %s", n->node[0] ? n->node : "a command line");
    dp_conn_refuse_telling(n->conn, err->text); /* the cause is on this side, where its user cannot look */
}

static void let_in(struct caller *n, const struct open_result *opened)
{
    const struct open_result r = *opened;
    struct dp_conn *c = n->conn;

    c->data = NULL;
    caller_free(n);
    dp_conn_resume(c);
    admit(c, &r);
}

/* ---- may it call itself that node? ---- */

static int find_origin(const struct caller *n, struct dp_origin *out, struct dp_err *err)
{
    struct sockaddr_in from;
    socklen_t len = sizeof from;

    memset(out, 0, sizeof *out);
    if (getpeername(bufferevent_getfd(n->conn->bev), (struct sockaddr *)&from, &len) < 0 || from.sin_family != AF_INET)
        return dp_err_set(err, DP_EAUTH, "its address is not known");
    snprintf(out->node, sizeof out->node, "%s", n->node);
    out->source = from.sin_addr;
    out->sealed = n->opened->sealed_at;
    return 0;
}

static void ask_origin(struct caller *n, bool ask_slurm);

static void on_origin(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct caller *n = arg;
    struct dp_daemon *d = n->conn->owner;
    struct dp_origin_result r = {0};
    struct dp_err err = {0};
    struct dp_origin origin;

    n->helper = NULL;
    if (!result && d->config->slurm && !n->is_asked_again) {
        n->is_asked_again = true;
        ask_origin(n, false);
        return;
    }
    if (result && bytes == sizeof r)
        memcpy(&r, result, sizeof r);
    else
        snprintf(r.text, sizeof r.text, "its addresses could not be determined: %s", why);
    r.text[sizeof r.text - 1] = '\0';
    if (!r.is_fine)
        dp_err_set(&err, DP_EAUTH, "%s", r.text);
    if (!r.is_fine || find_origin(n, &origin, &err) < 0) {
        turn_away(n, &err);
        return;
    }
    dp_origin_cache_add(d->origins, &origin, dp_now_ns());
    let_in(n, n->opened);
}

static void ask_origin(struct caller *n, bool ask_slurm)
{
    struct dp_daemon *d = n->conn->owner;
    struct dp_origin_request q = {.has_slurm = d->config->slurm, .ask_slurm = ask_slurm};
    struct dp_err err = {0};

    if (find_origin(n, &q.origin, &err) < 0) {
        turn_away(n, &err);
        return;
    }
    if (dp_origin_cache_has(d->origins, &q.origin, dp_now_ns())) {
        let_in(n, n->opened);
        return;
    }
    dp_config_find_node(d->config, n->node, &q.entry);
    n->helper = dp_helper_start(d->base, dp_origin_work, &q, sizeof q, ORIGIN_DEADLINE_S, on_origin, n, &err);
    if (!n->helper)
        turn_away(n, &err);
}

/* A daemon whose credential is good. */
static void check_origin(struct caller *n, const struct open_result *opened)
{
    struct dp_daemon *d = n->conn->owner;

    n->opened = malloc(sizeof *n->opened);
    if (!n->opened) {
        dp_conn_close(n->conn, "out of memory");
        return;
    }
    *n->opened = *opened;
    ask_origin(n, d->config->slurm);
}

static void on_opened(void *arg, const uint8_t *result, size_t bytes, const char *why)
{
    struct caller *n = arg;
    struct dp_conn *c = n->conn;
    struct open_result r;
    struct dp_err err = {0};

    n->helper = NULL;
    if (!result || bytes != sizeof r) {
        dp_warn("munge: %s", result ? "short answer" : why);
        dp_conn_refuse_telling(c, "munge does not answer");
        return;
    }
    memcpy(&r, result, sizeof r);
    if (check_caller(c->owner, n, &r, &err) < 0)
        turn_away(n, &err);
    else if (r.hs.purpose == DP_PURPOSE_PEER)
        check_origin(n, &r);
    else
        let_in(n, &r);
}

static void on_auth(struct dp_conn *c, const struct dp_header *h, const uint8_t *body)
{
    struct caller *n = c->data;
    struct dp_err err = {0};
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    if (dp_msg_auth_decode(&r, &n->auth, &err) < 0) {
        dp_conn_close(c, err.text);
        return;
    }
    snprintf(n->node, sizeof n->node, "%s", n->auth.node);
    dp_conn_hold(c);
    dp_conn_set_deadline(c, LINE_DEADLINE_S);
    dp_conn_line_up(c);
}

/* Its turn. */
static void open_credential(struct dp_conn *c)
{
    struct dp_daemon *d = c->owner;
    struct caller *n = c->data;
    struct open_request q = {0};
    struct dp_err err = {0};

    dp_conn_set_deadline(c, 0);
    snprintf(q.munge_socket, sizeof q.munge_socket, "%s", d->config->munge_socket);
    snprintf(q.credential, sizeof q.credential, "%s", n->auth.credential);
    n->helper = dp_helper_start(d->base, open_work, &q, sizeof q, MUNGE_DEADLINE_S, on_opened, n, &err);
    if (!n->helper)
        dp_conn_close(c, err.text);
}

static void on_frame(struct dp_conn *c, const struct dp_header *h, const uint8_t *body)
{
    if (c->role == DP_ROLE_TCP_IN)
        on_auth(c, h, body);
    else
        dp_net_frame(c, h, body);
}

static void on_closed(struct dp_conn *c, const char *why)
{
    struct caller *n = c->data;
    struct dp_daemon *d = c->owner;

    if (c->role == DP_ROLE_TCP_IN && n) {
        caller_free(n);
        return;
    }
    dp_net_closed(c, why);
    if (c->role != DP_ROLE_PEER)
        return;
    dp_info("daemon of node %s: %s", c->node, why);
    if (!dp_peer_find(d, c->node))
        d->events->peer_down(d, c->node);
}

static void challenge(struct dp_conn *c)
{
    struct caller *n = c->data;

    if (dp_challenge_init(&n->challenge, NULL) < 0) {
        dp_conn_close(c, "no random numbers");
        return;
    }
    DP_CONN_SEND(c, challenge, DP_MSG_CHALLENGE, &n->challenge);
    dp_conn_set_deadline(c, AUTH_DEADLINE_S);
}

static const struct dp_conn_ops accepted_ops = {
    .frame = on_frame, .closed = on_closed, .drained = dp_net_drained, .turn = open_credential};

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr, int len,
                      void *arg)
{
    struct dp_daemon *d = arg;
    struct caller *n;
    struct dp_conn *c;

    (void)len;
    dp_listen_accepted(d, listener);
    if (!dp_conn_has_place_for(&d->conns, ((struct sockaddr_in *)addr)->sin_addr.s_addr)) { /* it listens on IPv4 alone */
        close(fd);
        return;
    }
    n = calloc(1, sizeof *n);
    c = dp_conn_create(&d->conns, fd, DP_ROLE_TCP_IN, DP_ANY_UID, &accepted_ops, d);
    if (!n || !c) {
        free(n);
        if (c)
            dp_conn_close(c, "out of memory");
        return;
    }
    n->conn = c;
    c->data = n;
    dp_peer_set_keepalive(fd);
    snprintf(n->challenge.node, sizeof n->challenge.node, "%s", d->node);
    dp_conn_set_address(c, ((struct sockaddr_in *)addr)->sin_addr.s_addr);
    if (!c->is_closed)
        challenge(c);
}

int dp_peer_open(struct dp_daemon *d, struct dp_err *err)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct dp_node_entry self;

    dp_config_find_node(d->config, d->node, &self);
    if (self.port == 0)
        return 0;
    d->origins = dp_origin_cache_create();
    addr.sin_port = htons(self.port);
    if (inet_pton(AF_INET, d->config->listen, &addr.sin_addr) != 1)
        return dp_err_set(err, DP_EINVAL, "listen: %s is not an IPv4 address", d->config->listen);
    d->tcp = evconnlistener_new_bind(d->base, on_accept, d, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
                                     128, (struct sockaddr *)&addr, sizeof addr);
    if (!d->tcp)
        return dp_err_set(err, DP_EIO, "cannot listen on %s port %u: %s", d->config->listen, self.port,
                          strerror(errno));
    dp_listen_watch(d->tcp);
    return 0;
}

void dp_peer_close(struct dp_daemon *d)
{
    if (d->tcp)
        evconnlistener_free(d->tcp);
    d->tcp = NULL;
    while (d->links)
        dp_peer_forget(d, dp_peer_first(d));
    dp_origin_cache_destroy(d->origins);
    d->origins = NULL;
}
