/* SPDX-License-Identifier: BSD-3-Clause */
/* See transport.h: messages. A message is a header of 48 bytes and the payload.
 *
 * Up to BOUNCE bytes travel as one UCX message through a bounce buffer. Larger payloads follow as a
 * second message straight from and to the caller's memory, under a tag that is derived from the
 * header's keyed check: whoever cannot make the check cannot guess the tag either. UCX copies such
 * payloads once (CMA) without any work of the sender, so a worker may compute while its successor fetches.
 *
 * A header whose check, sender, tag or length is wrong is dropped and the receive is posted again,
 * so an injected message disturbs nothing; when the right one does not follow within REFUSED_NS the
 * receive fails. A payload whose CRC-32C is wrong fails at once: its header was genuine.
 *
 * UCX tag of a header: 0 | channel 3 | sender 9 | epoch 12 | step 23 | index 16 bits; of a payload:
 * 1 | 63 bits of the check. The step's 24th bit is compared in the header. */
#define _GNU_SOURCE /* ppoll */
#include "worker/net/transport_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/crc32c.h"
#include "worker/net/siphash.h"

#define HEADER_MAGIC 0x44504d31u /* "DPM1" */
#define BOUNCE 8192u             /* largest eager message of UCX's shared memory, header included */
#define SPIN_NS 5000u            /* longer than a message takes within a node, far below a time slice */
#define REFUSED_NS 5000000000u /* see above */
#define GIVEN_UP "the run regroups"
#define NO_FD_NS 100000000u /* between two looks of the watcher while it has no descriptor */
#define CANCEL_NS 1000000000u /* for UCX to let go; what it still holds then stays allocated */

struct header {
    uint32_t magic;
    uint16_t from, to;
    uint64_t tag, bytes, nonce;
    uint32_t crc, reserved;
    uint64_t check; /* SipHash-2-4 of all before, under the run's key */
};
_Static_assert(sizeof(struct header) == 48, "no padding in what is hashed");

struct dp_transport_request {
    struct dp_transport_request *next, *next_all;
    struct dp_transport *t;
    struct dp_peer *peer;
    bool is_send, is_payload, is_cancelled, is_done;
    unsigned open; /* UCX requests that are not finished */
    uint64_t tag, refused_ns;
    uint8_t *data; /* the caller's; a send only reads it */
    size_t bytes, got;
    void *request[2];
    ucs_status_t status;
    enum dp_errcode code;
    const char *why; /* for code != DP_OK */
    union {
        struct header header;
        uint8_t bounce[BOUNCE];
    };
};

uint64_t dp_tag(enum dp_channel channel, uint64_t epoch, uint64_t step, uint32_t index)
{
    return (uint64_t)channel << 52 | (epoch & 0xfff) << 40 | (step & 0xffffff) << 16 | (index & 0xffff);
}

static uint64_t header_tag(uint64_t tag, uint32_t from)
{
    uint64_t channel = (tag >> 52) - 1; /* its fourth bit stands in front of the epoch, which needs fewer */
    uint64_t epoch = (tag >> 40) & 0x7ff;

    return (channel & 7) << 60 | (uint64_t)from << 51 | (channel >> 3 & 1) << 50 | epoch << 39 | (tag & 0x7fffffffffu);
}

static uint64_t payload_tag(uint64_t check)
{
    return check | 1ull << 63;
}

static bool is_small(const struct dp_transport_request *x)
{
    return x->bytes <= BOUNCE - sizeof x->header;
}

static struct dp_transport_request *take_request(struct dp_transport *t, uint32_t peer, uint64_t tag, void *data, size_t bytes,
                                                 struct dp_err *err)
{
    struct dp_transport_request *x = t->spare, *chain;

    if (x) {
        t->spare = x->next;
    } else {
        x = malloc(sizeof *x);
        if (!x) {
            dp_err_set(err, DP_ENOMEM, "no memory for a message of %zu bytes", bytes);
            return NULL;
        }
        x->next_all = t->all;
        t->all = x;
    }
    chain = x->next_all;
    memset(x, 0, offsetof(struct dp_transport_request, header));
    x->next_all = chain;
    x->t = t;
    x->peer = &t->peer[peer];
    x->tag = tag;
    x->data = data;
    x->bytes = bytes;
    return x;
}

bool dp_transport_request_release_all(struct dp_transport *t)
{
    bool is_held = false;

    while (t->all) {
        struct dp_transport_request *x = t->all;

        t->all = x->next_all;
        is_held |= x->open > 0;
        free(x);
    }
    t->spare = t->ready = NULL;
    return is_held;
}

static void fail_request(struct dp_transport_request *x, enum dp_errcode code, const char *why)
{
    if (x->code == DP_OK) {
        x->code = code;
        x->why = why;
    }
}

/* ---- sending ---- */

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct dp_transport_request *x = arg;

    (void)request;
    if (status != UCS_OK) {
        x->status = status;
        fail_request(x, dp_peer_is_gone(x->peer) ? DP_EGONE : DP_EIO, "cannot be sent");
    }
    if (--x->open == 0)
        x->is_done = true;
}

static int post_send(struct dp_transport_request *x, ucp_ep_h ep, const void *data, size_t bytes, uint64_t tag)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_sent,
        .user_data = x,
    };
    ucs_status_ptr_t r = ucp_tag_send_nbx(ep, data, bytes, tag, &param);

    if (UCS_PTR_IS_ERR(r)) {
        x->status = UCS_PTR_STATUS(r);
        return -1;
    }
    if (r) {
        x->request[x->is_payload] = r;
        x->open++;
    }
    return 0;
}

static int start_send(struct dp_transport_request *x, ucp_ep_h ep)
{
    struct header *h = &x->header;
    struct dp_transport *t = x->t;
    size_t head = sizeof *h;

    *h = (struct header){
        .magic = HEADER_MAGIC,
        .from = (uint16_t)t->rank,
        .to = (uint16_t)(x->peer - t->peer),
        .tag = x->tag,
        .bytes = x->bytes,
        .nonce = ++t->nonce,
        .crc = dp_crc32c(0, x->data, x->bytes),
    };
    h->check = dp_siphash(t->key, h, offsetof(struct header, check));
    if (is_small(x)) {
        if (x->bytes)
            memcpy(x->bounce + head, x->data, x->bytes);
        head += x->bytes;
    }
    if (post_send(x, ep, x->bounce, head, header_tag(x->tag, t->rank)) < 0)
        return -1;
    if (is_small(x))
        return 0;
    x->is_payload = true;
    return post_send(x, ep, x->data, x->bytes, payload_tag(h->check));
}

struct dp_transport_request *dp_transport_send(struct dp_transport *t, uint32_t to, uint64_t tag, const void *data,
                                               size_t bytes, struct dp_err *err)
{
    bool is_given_up = dp_transport_gives_up(t);
    ucp_ep_h ep = to < t->n_workers && !is_given_up ? dp_peer_ep(&t->peer[to], err) : NULL;
    struct dp_transport_request *x;

    if (is_given_up) {
        dp_err_set(err, DP_EGONE, GIVEN_UP);
        return NULL;
    }
    if (!ep) {
        if (to >= t->n_workers)
            dp_err_set(err, DP_EINVAL, "no worker %u", to);
        return NULL;
    }
    x = take_request(t, to, tag, (void *)(uintptr_t)data, bytes, err);
    if (!x)
        return NULL;
    x->is_send = true;
    if (start_send(x, ep) < 0) {
        fail_request(x, dp_peer_is_gone(x->peer) ? DP_EGONE : DP_EIO, ucs_status_string(x->status));
        dp_err_set(err, x->code, "message of %zu bytes to worker %u: %s", bytes, to, x->why);
        dp_transport_cancel(t, x);
        return NULL;
    }
    x->is_done = x->open == 0;
    return x;
}

/* ---- receiving ---- */

/* May be called inside ucp_tag_recv_nbx, so it only notes what came; advance() does the rest. */
static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct dp_transport_request *x = arg;

    (void)request;
    x->status = status;
    x->got = status == UCS_OK ? info->length : 0;
    x->open--;
    x->next = x->t->ready;
    x->t->ready = x;
}

static void post_recv(struct dp_transport_request *x, void *data, size_t bytes, uint64_t tag)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_received,
        .user_data = x,
    };
    ucs_status_ptr_t r;

    x->open++;
    r = ucp_tag_recv_nbx(x->t->worker, data, bytes, tag, UINT64_MAX, &param);
    x->request[0] = UCS_PTR_IS_ERR(r) ? NULL : r;
    if (UCS_PTR_IS_ERR(r)) {
        x->open--;
        x->status = UCS_PTR_STATUS(r);
        fail_request(x, DP_EIO, ucs_status_string(x->status));
        x->is_done = true;
    }
}

static void post_header(struct dp_transport_request *x)
{
    size_t room = sizeof x->header + (is_small(x) ? x->bytes : 0);

    x->is_payload = false;
    post_recv(x, x->bounce, room, header_tag(x->tag, (uint32_t)(x->peer - x->t->peer)));
}

static void finish_payload(struct dp_transport_request *x, const void *payload)
{
    if (dp_crc32c(0, payload, x->bytes) != x->header.crc)
        fail_request(x, DP_ECORRUPT, "its CRC-32C does not match");
    x->is_done = true;
}

static bool header_is_genuine(const struct dp_transport_request *x)
{
    const struct header *h = &x->header;
    size_t want = sizeof *h + (is_small(x) ? x->bytes : 0);

    return x->status == UCS_OK && x->got == want && h->magic == HEADER_MAGIC &&
           h->check == dp_siphash(x->t->key, h, offsetof(struct header, check)) &&
           h->from == x->peer - x->t->peer && h->to == x->t->rank && h->tag == x->tag && h->bytes == x->bytes;
}

static void advance_header(struct dp_transport_request *x)
{
    if (!header_is_genuine(x)) {
        if (!x->refused_ns)
            x->refused_ns = dp_now_ns();
        post_header(x);
    } else if (is_small(x)) {
        if (x->bytes)
            memcpy(x->data, x->bounce + sizeof x->header, x->bytes);
        finish_payload(x, x->data);
    } else {
        x->is_payload = true;
        post_recv(x, x->data, x->bytes, payload_tag(x->header.check));
    }
}

static void advance(struct dp_transport_request *x)
{
    if (x->request[0])
        ucp_request_free(x->request[0]);
    x->request[0] = NULL;
    if (x->is_cancelled) {
        x->is_done = true;
    } else if (!x->is_payload) {
        advance_header(x);
    } else if (x->status != UCS_OK || x->got != x->bytes) {
        fail_request(x, dp_peer_is_gone(x->peer) ? DP_EGONE : DP_EIO,
                     x->status != UCS_OK ? ucs_status_string(x->status) : "it is too short");
        x->is_done = true;
    } else {
        finish_payload(x, x->data);
    }
}

struct dp_transport_request *dp_transport_recv(struct dp_transport *t, uint32_t from, uint64_t tag, void *data, size_t bytes,
                                               struct dp_err *err)
{
    struct dp_transport_request *x;

    if (from >= t->n_workers) {
        dp_err_set(err, DP_EINVAL, "no worker %u", from);
        return NULL;
    }
    /* An endpoint to a worker elsewhere is what lets UCX notice that it died. */
    if (!t->peer[from].is_local && !dp_peer_ep(&t->peer[from], err))
        return NULL;
    x = take_request(t, from, tag, data, bytes, err);
    if (!x)
        return NULL;
    post_header(x);
    return x;
}

/* ---- completion ---- */

/* returns: did anything happen? */
static bool progress(struct dp_transport *t)
{
    bool moved = false;

    while (ucp_worker_progress(t->worker))
        moved = true;
    while (t->ready) {
        struct dp_transport_request *x = t->ready;

        t->ready = x->next;
        advance(x);
        moved = true;
    }
    return moved;
}

static void give_back(struct dp_transport_request *x)
{
    for (int i = 0; i < 2; i++)
        if (x->request[i])
            ucp_request_free(x->request[i]);
    x->next = x->t->spare;
    x->t->spare = x;
}

/* Until when UCX may hold on to transfers. Those that a run gives up because it regroups share the time: a message that
 * nobody will ever fetch cannot be cancelled. */
static uint64_t cancel_end_ns(struct dp_transport *t)
{
    return (dp_transport_gives_up(t) ? t->give_up_ns : dp_now_ns()) + CANCEL_NS;
}

/* What writes into the caller's memory is worth waiting for, whoever is gone: after the process of a peer on this machine,
 * or the connection to another one, UCX ends it by itself. */
static bool is_written(const struct dp_transport_request *x)
{
    return !x->is_send && x->is_payload;
}

void dp_transport_cancel(struct dp_transport *t, struct dp_transport_request *x)
{
    uint64_t end_ns;

    if (!x)
        return;
    end_ns = is_written(x) ? dp_now_ns() + CANCEL_NS : cancel_end_ns(t);
    x->is_cancelled = true;
    for (int i = 0; i < 2 && x->open; i++)
        if (x->request[i])
            ucp_request_cancel(t->worker, x->request[i]);
    do {
        progress(t);
    } while (x->open && (is_written(x) || !dp_peer_is_gone(x->peer)) && dp_now_ns() < end_ns);
    t->is_unsafe |= x->open && is_written(x);
    /* What UCX still holds stays allocated (dp_transport_request_release_all), it is only not used again. */
    if (x->open == 0)
        give_back(x);
}

bool dp_transport_test(struct dp_transport *t, struct dp_transport_request *x)
{
    progress(t);
    return x->is_done;
}

uint32_t dp_transport_crc(const struct dp_transport_request *x)
{
    return x->header.crc;
}

/* Sleep until UCX, the watched descriptor or the peer's end asks for attention, or end_ns (0: never).
 * returns: false when the peer's process has ended. */
static bool sleep_for(struct dp_transport *t, const struct dp_transport_request *x, uint64_t end_ns)
{
    struct pollfd p[3] = {
        {.fd = t->efd, .events = POLLIN},
        {.fd = x->peer->is_gone ? -1 : x->peer->pidfd, .events = POLLIN},
        {.fd = t->watch_fd, .events = POLLIN},
    };
    uint64_t now = dp_now_ns(), left = end_ns > now ? end_ns - now : 0;
    struct timespec ts = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};

    if (t->watch_fd < 0 && t->watch_fn) { /* a connection that is down comes back by its watcher's own clock */
        t->watch_fn(t->watch_arg);
        if (!end_ns || left > NO_FD_NS) {
            end_ns = now + NO_FD_NS;
            ts = (struct timespec){.tv_nsec = NO_FD_NS};
        }
    }
    if (ucp_worker_arm(t->worker) != UCS_OK) { /* something came in the meantime; or a peer does not read, and UCX will not sleep */
        p[0].fd = -1;
        end_ns = now;
        ts = (struct timespec){0};
    }
    if (ppoll(p, 3, end_ns ? &ts : NULL, NULL) <= 0)
        return true;
    if (p[2].revents && t->watch_fn)
        t->watch_fn(t->watch_arg);
    if (p[1].revents)
        x->peer->is_gone = true;
    return !x->peer->is_gone;
}

void dp_transport_idle(struct dp_transport *t, uint64_t timeout_ns)
{
    struct pollfd p[2] = {{.fd = t->efd, .events = POLLIN}, {.fd = t->watch_fd, .events = POLLIN}};
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};

    if (progress(t))
        return;
    if (ucp_worker_arm(t->worker) != UCS_OK) { /* as in sleep_for() */
        p[0].fd = -1;
        ts = (struct timespec){0};
    }
    if (ppoll(p, 2, &ts, NULL) > 0 && p[1].revents && t->watch_fn)
        t->watch_fn(t->watch_arg);
}

bool dp_transport_is_gone(struct dp_transport *t, uint32_t rank)
{
    return rank >= t->n_workers || dp_peer_is_gone(&t->peer[rank]) || dp_transport_gives_up(t);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* returns: 0 when x is done, or the reason why it is not. */
static enum dp_errcode wait_for(struct dp_transport *t, struct dp_transport_request *x, uint64_t start_ns, uint64_t timeout_ns)
{
    uint64_t end_ns = timeout_ns ? start_ns + timeout_ns : 0;

    for (;;) {
        uint64_t now, refused_end_ns;
        bool was_gone = x->peer->is_gone; /* asked before the last look at what it has sent */

        progress(t);
        if (x->is_done)
            return DP_OK;
        if (was_gone || dp_transport_gives_up(t))
            return DP_EGONE;
        now = dp_now_ns();
        refused_end_ns = x->refused_ns ? x->refused_ns + REFUSED_NS : 0;
        if (refused_end_ns && now >= refused_end_ns)
            return DP_ECORRUPT;
        if (end_ns && now >= end_ns)
            return DP_ETIMEOUT;
        if (now - start_ns > SPIN_NS)
            sleep_for(t, x, earliest(end_ns, refused_end_ns));
    }
}

static int explain(const struct dp_transport_request *x, enum dp_errcode code, const char *why, struct dp_err *err)
{
    return dp_err_set(err, code, "message of %zu bytes (channel %u, epoch %u, step %u, index %u) %s worker %u: %s",
                      x->bytes, (unsigned)(x->tag >> 52), (unsigned)(x->tag >> 40 & 0xfff),
                      (unsigned)(x->tag >> 16 & 0xffffff), (unsigned)(x->tag & 0xffff),
                      x->is_send ? "to" : "from", (unsigned)(x->peer - x->t->peer), why);
}

int dp_transport_wait(struct dp_transport *t, struct dp_transport_request *x, uint64_t timeout_ns, uint64_t *waited_ns,
                      struct dp_err *err)
{
    uint64_t start_ns = dp_now_ns();
    enum dp_errcode code = wait_for(t, x, start_ns, timeout_ns);
    int rc = 0;

    if (waited_ns)
        *waited_ns += dp_now_ns() - start_ns;
    if (code == DP_ETIMEOUT)
        return explain(x, code, "not there yet", err);
    if (code == DP_OK && x->code != DP_OK)
        rc = explain(x, x->code, x->why, err);
    else if (code == DP_EGONE)
        rc = explain(x, code, dp_transport_gives_up(t) ? GIVEN_UP : "it left or died", err);
    else if (code == DP_ECORRUPT)
        rc = explain(x, code, "what came was injected or damaged", err);
    if (code == DP_OK)
        give_back(x);
    else
        dp_transport_cancel(t, x);
    return rc;
}
