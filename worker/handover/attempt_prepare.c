/* SPDX-License-Identifier: BSD-3-Clause */
/* First round of a hand-over: does every worker hold the same PREPARE, and can it obey? Until here no
 * byte has moved, so a no costs nothing but the wait. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "worker/handover/attempt.h"

static int meet_newcomers(struct dp_attempt *p, struct dp_err *err)
{
    const struct dp_layout *old = p->args->layout;

    p->meeting = *old;
    for (uint32_t i = 0; i < old->n_workers; i++) {
        if (!old->gone[i] || p->member->next.gone[i])
            continue;
        if (i != p->args->rank && p->args->meet(p->args->arg, i, err) < 0)
            return -1;
        p->meeting.gone[i] = 0;
    }
    p->voting.layout = &p->meeting;
    return 0;
}

/* Wait for this worker's own PREPARE. Fills moves. */
static int wait_prepare(struct dp_attempt *p, struct dp_err *err)
{
    int rc;

    while ((rc = dp_member_prepare(p->member, err)) == 0)
        dp_control_wait(p->member->control, 10);
    if (rc < 0)
        return -1;
    dp_layout_moves(p->args->layout, &p->member->next, &p->moves);
    return meet_newcomers(p, err);
}

static void my_note(struct dp_attempt *p, struct dp_note *n)
{
    struct dp_err err = {0};

    memset(n, 0, sizeof *n);
    n->yes = wait_prepare(p, &err) == 0;
    if (n->yes)
        dp_member_digest(p->member, NULL, n->digest);
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
            dp_control_poll(p->member->control);
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
            p->args->invite(p->args->arg, p->migration, &p->member->next);
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
