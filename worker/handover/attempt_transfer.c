/* SPDX-License-Identifier: BSD-3-Clause */
/* Second round of a hand-over: move the layers while listening for the verdict, so that the first no
 * anywhere ends it everywhere within milliseconds. Every worker polls once: yes when all its layers are
 * sent, or received and verified, and no as soon as something went wrong. The leader says "vote" only
 * when all said yes and source and destination of each layer name the same digest.
 *
 * A worker that hears no verdict in time aborts alone. That is safe: it has not voted, and without
 * its vote the coordinator cannot commit. */
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "common/clock.h"
#include "worker/handover/attempt.h"

#define IDLE_NS (20 * DP_MS_NS) /* asleep, unless a message comes: deadlines are seconds */
#define STOP_NS (1000 * DP_MS_NS) /* for messages of streams that end; a peer that takes longer is stuck */

enum progress { WORKING, FINISHED, FAILED };

static size_t poll_bytes(void *arg, uint32_t rank)
{
    const struct dp_attempt *p = arg;
    size_t n = 0;

    for (uint32_t i = 0; i < p->moves.n; i++)
        n += p->moves.move[i].from == rank || p->moves.move[i].to == rank;
    return DP_NOTE_BYTES + n * DP_DIGEST_BYTES;
}

/* All bytes are here, and the device was told: has it done all that, and everything before? Nobody votes for what a
 * device that has failed holds, or sent. returns: 1 yes, 0 not yet, -1. */
static int device_is_done(struct dp_attempt *p, struct dp_err *err)
{
    struct dp_backend *be = p->args->backend;
    int rc;

    if (!p->is_told && be->ops->mark(be, DP_LANE_COMPUTE, &p->ticket, err) < 0)
        return -1;
    p->is_told = true;
    rc = be->ops->reached(be, p->ticket, err);
    return rc > 0 && be->ops->sync(be, err) < 0 ? -1 : rc;
}

/* How long to wait for others before the next round. */
static uint64_t idle_ns(const struct dp_attempt *p)
{
    return p->transfer && p->transfer->is_busy ? 0 : IDLE_NS;
}

/* One round of this worker's own part; why is filled when it failed. */
static enum progress advance(struct dp_attempt *p)
{
    struct dp_err err = {0};
    int rc;

    if (!p->transfer)
        return FAILED;
    if (dp_member_is_aborted(p->member)) {
        snprintf(p->why, sizeof p->why, "the coordinator aborted");
        return FAILED;
    }
    rc = dp_transfer_step(p->transfer, &err);
    if (rc == 0 && dp_now_ns() - p->transfer->moved_ns > p->times->stall_ns)
        rc = dp_err_set(&err, DP_ETIMEOUT, "no byte moved for %llu ms",
                        (unsigned long long)(p->times->stall_ns / DP_MS_NS));
    if (rc > 0)
        rc = device_is_done(p, &err);
    if (rc > 0 && !dp_control_is_connected(p->member->control))
        rc = dp_err_set(&err, DP_EGONE, "the connection to the daemon is down");
    if (rc < 0)
        snprintf(p->why, sizeof p->why, "worker %u: %.230s", p->args->rank, err.text);
    return rc < 0 ? FAILED : rc > 0 ? FINISHED : WORKING;
}

/* ---- the leader ---- */

struct ballot {
    uint8_t seen[DP_MAX_LAYERS]; /* by move: how many of source and destination told its digest */
    uint8_t digest[DP_MAX_LAYERS][DP_DIGEST_BYTES];
};

/* Enter the digests that `rank` knows; they follow each other in layer order. */
static int enter(struct dp_attempt *p, struct ballot *b, uint32_t rank, const uint8_t *digests, struct dp_err *err)
{
    for (uint32_t i = 0; i < p->moves.n; i++) {
        const struct dp_move *m = &p->moves.move[i];

        if (m->from != rank && m->to != rank)
            continue;
        if (b->seen[i] && memcmp(b->digest[i], digests, DP_DIGEST_BYTES) != 0)
            return dp_err_set(err, DP_ECORRUPT, "workers %u and %u differ about layer %u", m->from, m->to, m->layer);
        memcpy(b->digest[i], digests, DP_DIGEST_BYTES);
        b->seen[i]++;
        digests += DP_DIGEST_BYTES;
    }
    return 0;
}

static int take_poll(struct dp_attempt *p, struct ballot *b, uint32_t rank, const uint8_t *buf, struct dp_err *err)
{
    struct dp_note n;

    if (dp_note_decode(buf, p->migration, &n, err) < 0)
        return -1;
    if (!n.yes)
        return dp_err_set(err, DP_EINVAL, "%s", n.text);
    return enter(p, b, rank, buf + DP_NOTE_BYTES, err);
}

static int take_polls(struct dp_attempt *p, struct ballot *b, struct dp_voting_gather *g, struct dp_err *err)
{
    uint32_t rank = 0;
    int rc;

    while ((rc = dp_voting_gather_step(g, &rank, err)) > 0)
        if (take_poll(p, b, rank, g->buf[rank], err) < 0)
            return -1;
    return rc < 0 ? dp_err_prefix(err, "worker %u", rank) : 0;
}

/* Everybody said yes: the digest over all digests, in layer order. */
static int close_ballot(struct dp_attempt *p, struct ballot *b, struct dp_err *err)
{
    const struct dp_transfer *s = p->transfer;
    uint8_t own[2 * DP_MAX_LAYERS][DP_DIGEST_BYTES];
    unsigned n;

    for (uint32_t i = 0; i < s->n_layers; i++)
        memcpy(own[i], s->layer[i].digest, DP_DIGEST_BYTES);
    if (enter(p, b, p->args->rank, own[0], err) < 0)
        return -1;
    for (uint32_t i = 0; i < p->moves.n; i++)
        if (b->seen[i] != 2)
            return dp_err_set(err, DP_EPROTO, "only %u workers know layer %u", b->seen[i], p->moves.move[i].layer);
    if (EVP_Digest(b->digest, (size_t)p->moves.n * DP_DIGEST_BYTES, p->digest, &n, EVP_sha256(), NULL) != 1)
        return dp_err_set(err, DP_EIO, "SHA-256 failed");
    return 0;
}

/* returns: true when all may vote. */
static bool lead(struct dp_attempt *p, struct ballot *b, struct dp_voting_gather *g)
{
    uint64_t end = dp_now_ns() + p->times->poll_ns;
    enum progress mine = WORKING;
    struct dp_err err = {0};

    while (mine == WORKING || g->n_open) {
        if (take_polls(p, b, g, &err) < 0) {
            snprintf(p->why, sizeof p->why, "%.255s", err.text);
            return false;
        }
        mine = advance(p);
        if (mine == FAILED)
            return false;
        if (dp_now_ns() > end) {
            snprintf(p->why, sizeof p->why, "%u workers did not say whether they are ready", g->n_open);
            return false;
        }
        dp_transport_idle(p->voting.transport, idle_ns(p));
    }
    if (close_ballot(p, b, &err) < 0) {
        snprintf(p->why, sizeof p->why, "%.255s", err.text);
        return false;
    }
    return true;
}

static int transfer_as_leader(struct dp_attempt *p, struct dp_err *err)
{
    struct dp_voting_gather *g = dp_voting_gather_create(&p->voting, DP_VOTING_POLL, poll_bytes, p, err);
    struct dp_note verdict = {0};
    struct ballot ballot = {0};

    if (g)
        verdict.yes = lead(p, &ballot, g);
    else
        snprintf(p->why, sizeof p->why, "%.255s", err ? err->text : "out of memory");
    memcpy(verdict.digest, p->digest, sizeof verdict.digest);
    if (!verdict.yes)
        snprintf(verdict.text, sizeof verdict.text, "%.255s", p->why);
    dp_voting_tell(&p->voting, DP_VOTING_VERDICT, &verdict);
    dp_voting_gather_destroy(g);
    return verdict.yes;
}

/* ---- the others ---- */

/* Start telling the leader how it went here. */
static struct dp_transport_request *send_poll(struct dp_attempt *p, bool yes, struct dp_err *err)
{
    const struct dp_transfer *s = p->transfer;
    struct dp_note n = {.yes = yes};

    if (!yes)
        snprintf(n.text, sizeof n.text, "%s", p->why);
    dp_note_encode(p->poll_buf, p->migration, &n);
    memset(p->poll_buf + DP_NOTE_BYTES, 0, poll_bytes(p, p->args->rank) - DP_NOTE_BYTES);
    for (uint32_t i = 0; s && i < s->n_layers; i++)
        memcpy(p->poll_buf + DP_NOTE_BYTES + (size_t)i * DP_DIGEST_BYTES, s->layer[i].digest, DP_DIGEST_BYTES);
    return dp_transport_send(p->voting.transport, p->voting.leader, dp_voting_tag(&p->voting, DP_VOTING_POLL),
                             p->poll_buf, poll_bytes(p, p->args->rank), err);
}

struct follower {
    struct dp_transport_request *verdict, *poll;
    uint8_t buf[DP_NOTE_BYTES];
    enum progress mine;
    bool has_verdict;
};

/* Work and listen until the verdict is there. -1: the leader is gone. */
static int follow(struct dp_attempt *p, struct follower *f, struct dp_err *err)
{
    struct dp_transport *t = p->voting.transport;
    uint64_t end = dp_now_ns() + p->times->poll_ns + 5000 * DP_MS_NS;

    while (!f->has_verdict) {
        if (dp_transport_test(t, f->verdict) || dp_transport_is_gone(t, p->voting.leader)) {
            int rc = dp_transport_wait(t, f->verdict, STOP_NS, NULL, err);

            f->verdict = NULL;
            f->has_verdict = rc == 0;
            return rc;
        }
        if (f->mine == WORKING)
            f->mine = advance(p);
        if (f->mine != WORKING && !f->poll) {
            f->poll = send_poll(p, f->mine == FINISHED, err);
            if (!f->poll)
                return -1;
        }
        if (dp_now_ns() > end) {
            snprintf(p->why, sizeof p->why, "worker %u heard no verdict", p->args->rank);
            return 0;
        }
        dp_transport_idle(t, idle_ns(p));
        dp_control_poll(p->member->control);
    }
    return 0;
}

/* After the verdict the leader reads no poll any more: one that is still under way is withdrawn. */
static void finish_poll(struct dp_transport *t, struct dp_transport_request *poll)
{
    struct dp_err err = {0};

    if (dp_transport_wait(t, poll, 1000 * DP_MS_NS, NULL, &err) < 0 && err.code == DP_ETIMEOUT)
        dp_transport_cancel(t, poll);
}

static int transfer_as_follower(struct dp_attempt *p, struct dp_err *err)
{
    struct dp_transport *t = p->voting.transport;
    struct follower f = {.mine = WORKING};
    struct dp_err local = {0};
    struct dp_note n = {0};
    int rc = -1;

    f.verdict = dp_transport_recv(t, p->voting.leader, dp_voting_tag(&p->voting, DP_VOTING_VERDICT), f.buf,
                                  sizeof f.buf, &local);
    if (f.verdict)
        rc = follow(p, &f, &local);
    if (f.poll)
        finish_poll(t, f.poll);
    if (rc < 0) {
        dp_transport_cancel(t, f.verdict);
        if (err)
            *err = local;
        return -1;
    }
    if (f.verdict) {
        dp_transport_cancel(t, f.verdict);
        return 0;
    }
    if (dp_note_decode(f.buf, p->migration, &n, &local) < 0) {
        snprintf(p->why, sizeof p->why, "%.255s", local.text);
        return 0;
    }
    memcpy(p->digest, n.digest, sizeof p->digest);
    if (!n.yes)
        snprintf(p->why, sizeof p->why, "%s", n.text);
    return n.yes && f.mine == FINISHED;
}

int dp_attempt_transfer(struct dp_attempt *p, struct dp_err *err)
{
    uint64_t begin = dp_now_ns();
    struct dp_err local = {0};
    int rc;

    p->transfer = dp_transfer_create(p->args, p->migration, &p->moves, &p->member->next, &local);
    if (!p->transfer) /* said in the poll: the others wait for it */
        snprintf(p->why, sizeof p->why, "worker %u: %.230s", p->args->rank, local.text);
    rc = p->args->rank == p->voting.leader ? transfer_as_leader(p, err) : transfer_as_follower(p, err);
    if (rc == 0 && p->transfer)
        dp_transfer_stop(p->transfer, STOP_NS);
    p->transfer_ns = p->transfer && p->transfer->n_layers ? dp_now_ns() - begin : 0;
    return rc;
}
