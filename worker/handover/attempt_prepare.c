/* SPDX-License-Identifier: BSD-3-Clause */
/* First round of a hand-over: does every worker hold the same PREPARE, and can it obey? Until here no
 * byte has moved, so a no costs nothing but the wait. */
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "common/clock.h"
#include "worker/handover/attempt.h"

#define NO_DAEMON_NS (1000 * DP_MS_NS) /* timeout for PREPARE while there is no daemon */

bool dp_attempt_is_aborted(struct dp_attempt *p)
{
    const struct dp_msg_decision *d;

    dp_control_poll(p->args->control);
    d = dp_control_decision(p->args->control, 0);
    return d && (d->migration > p->migration || (d->migration == p->migration && !d->commit));
}

static int meet_newcomers(struct dp_attempt *p, struct dp_err *err)
{
    const struct dp_layout *old = p->args->layout;

    p->meeting = *old;
    for (uint32_t i = 0; i < old->n_workers; i++) {
        if (!old->gone[i] || p->next.gone[i])
            continue;
        if (!p->args->meet)
            return dp_err_set(err, DP_EINVAL, "PREPARE brings worker %u, and nobody can come here", i);
        if (i != p->args->rank && p->args->meet(p->args->arg, i, err) < 0)
            return -1;
        p->meeting.gone[i] = 0;
    }
    p->voting.layout = &p->meeting;
    return 0;
}

/* Is PREPARE something that this worker can do? Fills next and moves. */
static int check_prepare(struct dp_attempt *p, struct dp_err *err)
{
    const struct dp_layout *old = p->args->layout;
    const struct dp_msg_prepare *m = &p->prepare;
    struct dp_layout *next = &p->next;

    if (m->epoch != old->epoch)
        return dp_err_set(err, DP_EINVAL, "PREPARE is for epoch %llu, in force is %llu", (unsigned long long)m->epoch,
                          (unsigned long long)old->epoch);
    if (m->n_workers != old->n_workers || m->n_layers != old->n_layers)
        return dp_err_set(err, DP_EINVAL, "PREPARE is for %u workers and %u layers, this run has %u and %u",
                          m->n_workers, m->n_layers, old->n_workers, old->n_layers);
    *next = (struct dp_layout){.epoch = m->epoch + 1, .n_workers = m->n_workers, .n_layers = m->n_layers};
    memcpy(next->cut, m->cut, (m->n_workers + 1) * sizeof m->cut[0]);
    memcpy(next->gone, m->gone, m->n_workers);
    if (dp_layout_check(next, err) < 0)
        return dp_err_prefix(err, "PREPARE");
    dp_layout_moves(old, next, &p->moves);
    return meet_newcomers(p, err);
}

/* Wait for this worker's own PREPARE. */
static int wait_prepare(struct dp_attempt *p, struct dp_err *err)
{
    struct dp_control *c = p->args->control;
    uint64_t begin = dp_now_ns(), up = begin;

    if (p->migration <= p->closed)
        return dp_err_set(err, DP_EINVAL, "hand-over %llu is closed here", (unsigned long long)p->migration);
    for (;;) {
        const struct dp_msg_prepare *m = dp_control_prepare(c);
        uint64_t now = dp_now_ns();

        if (m && m->migration == p->migration) {
            p->prepare = *m;
            p->has_prepare = true;
            return check_prepare(p, err);
        }
        if (dp_attempt_is_aborted(p))
            return dp_err_set(err, DP_EGONE, "the coordinator aborted");
        if (dp_control_is_connected(c))
            up = now;
        if (now - begin >= p->times->prepare_ns || now - up >= NO_DAEMON_NS)
            return dp_err_set(err, DP_ETIMEOUT, "worker %u has no PREPARE from its daemon%s", p->args->rank,
                              dp_control_is_connected(c) ? "" : ", the connection is down");
        dp_control_wait(c, 10);
    }
}

/* What PREPARE says, as 32 bytes. */
static int digest_prepare(const struct dp_attempt *p, uint8_t out[DP_DIGEST_BYTES])
{
    uint8_t body[4096];
    struct dp_writer w;
    unsigned n;

    _Static_assert(sizeof body >= sizeof(struct dp_msg_prepare), "a PREPARE fits");
    dp_writer_init(&w, body, sizeof body);
    dp_msg_prepare_encode(&w, &p->prepare);
    return EVP_Digest(body, dp_writer_used(&w), out, &n, EVP_sha256(), NULL) == 1 && !w.bad ? 0 : -1;
}

static void my_note(struct dp_attempt *p, struct dp_note *n)
{
    struct dp_err err = {0};

    memset(n, 0, sizeof *n);
    n->yes = wait_prepare(p, &err) == 0;
    if (n->yes && digest_prepare(p, n->digest) < 0)
        n->yes = false;
    snprintf(n->text, sizeof n->text, "%.255s", err.text);
}

/* The leader's half: all say yes, to the same PREPARE. */
static void collect(struct dp_attempt *p, struct dp_voting_gather *g, struct dp_note *mine)
{
    uint64_t end = dp_now_ns() + p->times->prepare_ns + 2000 * DP_MS_NS;

    while (mine->yes && g->n_open) {
        struct dp_err err = {0};
        struct dp_note n;
        uint32_t rank = 0;
        int rc = dp_voting_gather_step(g, &rank, &err);

        if (rc > 0)
            rc = dp_note_decode(g->buf[rank], p->migration, &n, &err) < 0 ? -1 : 1;
        if (rc < 0) {
            mine->yes = false;
            snprintf(mine->text, sizeof mine->text, "worker %u: %.200s", rank, err.text);
        } else if (rc > 0 && !n.yes) {
            mine->yes = false;
            snprintf(mine->text, sizeof mine->text, "%.255s", n.text);
        } else if (rc > 0 && memcmp(n.digest, mine->digest, sizeof n.digest) != 0) {
            mine->yes = false;
            snprintf(mine->text, sizeof mine->text, "worker %u has another PREPARE", rank);
        } else if (rc == 0 && dp_now_ns() > end) {
            mine->yes = false;
            snprintf(mine->text, sizeof mine->text, "%u workers are not at the boundary", g->n_open);
        } else if (rc == 0) {
            dp_transport_idle(p->voting.transport, 20 * DP_MS_NS);
            dp_control_poll(p->args->control);
        }
    }
}

/* x NULL: it could not be started, and err says why. */
static int wait_or_cancel(struct dp_transport *t, struct dp_transport_request *x, uint64_t timeout_ns, struct dp_err *err)
{
    if (!x)
        return -1;
    if (dp_transport_wait(t, x, timeout_ns, NULL, err) == 0)
        return 0;
    if (err->code == DP_ETIMEOUT)
        dp_transport_cancel(t, x);
    return -1;
}

/* The others' half: tell the leader, wait for its word. */
static int ask_leader(struct dp_attempt *p, struct dp_note *n, struct dp_err *err)
{
    struct dp_transport *t = p->voting.transport;
    uint64_t left = 2 * p->times->prepare_ns + 5000 * DP_MS_NS;
    uint8_t out[DP_NOTE_BYTES], in[DP_NOTE_BYTES];
    struct dp_transport_request *x;

    dp_note_encode(out, p->migration, n);
    x = dp_transport_send(t, p->voting.leader, dp_voting_tag(&p->voting, DP_VOTING_READY), out, sizeof out, err);
    if (wait_or_cancel(t, x, left, err) < 0)
        return -1;
    x = dp_transport_recv(t, p->voting.leader, dp_voting_tag(&p->voting, DP_VOTING_GO), in, sizeof in, err);
    if (wait_or_cancel(t, x, left, err) < 0)
        return -1;
    return dp_note_decode(in, p->migration, n, err);
}

int dp_attempt_prepare(struct dp_attempt *p, struct dp_err *err)
{
    struct dp_err local = {0};
    struct dp_note n;

    if (p->args->rank == p->voting.leader) {
        struct dp_voting_gather *g;

        my_note(p, &n);
        if (n.yes && p->args->invite)
            p->args->invite(p->args->arg, p->migration, &p->next);
        g = dp_voting_gather_create(&p->voting, DP_VOTING_READY, NULL, NULL, &local);
        if (g) {
            collect(p, g, &n);
        } else {
            n.yes = false;
            snprintf(n.text, sizeof n.text, "%.255s", local.text);
        }
        dp_voting_tell(&p->voting, DP_VOTING_GO, &n);
        dp_voting_gather_destroy(g);
    } else {
        bool mine;

        my_note(p, &n);
        mine = n.yes;
        if (ask_leader(p, &n, &local) < 0) {
            if (local.code == DP_EGONE) {
                if (err)
                    *err = local;
                return -1;
            }
            n.yes = false;
            snprintf(n.text, sizeof n.text, "%.255s", local.text);
        }
        n.yes = n.yes && mine;
    }
    snprintf(p->why, sizeof p->why, "%s", n.text);
    return n.yes;
}
