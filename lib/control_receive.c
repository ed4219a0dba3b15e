/* SPDX-License-Identifier: BSD-3-Clause */
/* See control_internal.h: what the daemon says, and what it may say when.
 *
 * Stale messages: the highest coordinator incarnation and migration seen win, lower ones are dropped
 * (doc/protocol.md, identities).
 */
#include "lib/control_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

/* Of a full buffer in one turn: training is not to wait for a daemon that never stops talking. */
#define MAX_ROUNDS 16

static bool may_send(void *arg, uint16_t type)
{
    const struct dp_control *c = arg;

    if (c->state == LINK_GREETING)
        return type == DP_MSG_WELCOME;
    return type == DP_MSG_PREPARE || type == DP_MSG_DECISION || type == DP_MSG_FINISH ||
           type == DP_MSG_SAVE || type == DP_MSG_PING || type == DP_MSG_LIMIT || type == DP_MSG_REGROUP || type == DP_MSG_CARD ||
           type == DP_MSG_PROPOSAL;
}

static int on_welcome(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    if (dp_msg_welcome_decode(r, &c->welcome, err) < 0)
        return -1;
    if (c->welcome.verdict > DP_VERDICT_UNKNOWN)
        return dp_err_set(err, DP_EPROTO, "WELCOME: verdict %u", c->welcome.verdict);
    if (c->link.offered >= DP_PROTO_VERSION && c->link.version < DP_PROTO_VERSION)
        return dp_err_set(err, DP_EGONE, "the restarted daemon speaks protocol version %u", c->link.offered);
    c->has_welcome = true;
    if (c->welcome.verdict != DP_VERDICT_OK && c->welcome.verdict != DP_VERDICT_UNKNOWN && c->was_up)
        dp_warn(WHO_FMT ": the restarted daemon refuses this worker: %s", WHO(c), c->welcome.text);
    c->was_up = c->was_up && (c->welcome.verdict == DP_VERDICT_OK || c->welcome.verdict == DP_VERDICT_UNKNOWN);
    if (c->welcome.verdict != DP_VERDICT_OK)
        return dp_err_set(err, DP_EAUTH, "%s%s", c->welcome.verdict == DP_VERDICT_UNKNOWN ? "" : "refused: ",
                          c->welcome.text[0] ? c->welcome.text : "no reason given");
    if (c->is_lost && !c->is_hushed && !c->is_untold)
        dp_info(WHO_FMT ": daemon is back", WHO(c));
    c->is_lost = c->is_untold = false;
    c->trouble[0] = c->told[0] = '\0';
    c->down_ns = 0;
    c->was_up = true;
    c->state = LINK_UP;
    dp_control_take_lock(c);
    return 0;
}

/* False: from a coordinator that has been replaced since. */
static bool is_current(struct dp_control *c, uint32_t incarnation)
{
    if (incarnation < c->incarnation)
        return false;
    c->incarnation = incarnation;
    return true;
}

static int on_prepare(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_prepare m;

    if (dp_msg_prepare_decode(r, &m, err) < 0)
        return -1;
    if (!is_current(c, m.incarnation))
        return 0;
    if (c->has_vote && m.migration == c->vote.migration) {
        c->vote_queued = false; /* it missed the vote: say it again */
        return 0;
    }
    if (m.migration <= c->prepare_closed || (c->has_prepare && m.migration < c->prepare.migration))
        return 0;
    c->prepare = m;
    c->has_prepare = true;
    return 0;
}

static int on_decision(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_decision m;

    if (dp_msg_decision_decode(r, &m, err) < 0)
        return -1;
    if (m.commit > 1)
        return dp_err_set(err, DP_EPROTO, "DECISION: commit %u", m.commit);
    if (!is_current(c, m.incarnation))
        return 0;
    if (c->has_ack && m.migration == c->ack.migration)
        c->ack_queued = false; /* it missed the acknowledgement */
    if (c->has_decision && m.migration <= c->decision.migration)
        return 0; /* decided is decided */
    c->decision = m;
    c->has_decision = true;
    if (c->has_vote && c->vote.migration <= m.migration)
        c->has_vote = false;
    if (c->has_prepare && c->prepare.migration <= m.migration)
        c->has_prepare = false;
    if (c->prepare_closed < m.migration)
        c->prepare_closed = m.migration;
    return 0;
}

static int on_finish(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_finish m;

    if (dp_msg_finish_decode(r, &m, err) < 0)
        return -1;
    if (m.migration > c->finished)
        c->finished = m.migration;
    if (c->has_ack && c->ack.migration <= c->finished)
        c->has_ack = false;
    return 0;
}

/* It ends whatever hand-over was prepared or in doubt: what that made of the layers is not used any more. */
static int on_regroup(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_regroup m;

    if (dp_msg_regroup_decode(r, &m, err) < 0)
        return -1;
    if (m.go > 1)
        return dp_err_set(err, DP_EPROTO, "REGROUP: go %u", m.go);
    if (!is_current(c, m.incarnation))
        return 0;
    if (!m.go) {
        snprintf(c->no_regroup, sizeof c->no_regroup, "%s", m.text[0] ? m.text : "no reason given");
        return 0;
    }
    if (c->has_ack && m.migration == c->ack.migration)
        c->ack_queued = false; /* it missed the acknowledgement */
    if (m.epoch <= c->regroup.epoch)
        return 0;
    c->regroup = m;
    c->has_vote = c->has_prepare = false;
    if (c->prepare_closed < m.migration)
        c->prepare_closed = m.migration;
    return 0;
}

/* Answered wherever this connection is served: in a wait for another worker, too. */
static int on_ping(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_pong answer = {.rank = c->hello.rank};
    struct dp_msg_ping m;
    struct dp_writer w;

    if (dp_msg_ping_decode(r, &m, err) < 0)
        return -1;
    answer.number = m.number;
    dp_frame_socket_begin(&c->link, &w);
    dp_msg_pong_encode(&w, &answer);
    dp_frame_socket_end(&c->link, &w, DP_MSG_PONG); /* no room: it is asked again */
    return 0;
}

static int on_limit(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    uint64_t now_ns = dp_now_ns();
    struct dp_msg_limit m;

    if (dp_msg_limit_decode(r, &m, err) < 0)
        return -1;
    c->has_limit = true;
    c->end_ns = m.left_ms < (UINT64_MAX - now_ns) / DP_MS_NS ? now_ns + m.left_ms * DP_MS_NS : 0;
    return 0;
}

static int on_card(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_msg_card m;
    uint8_t *copy;

    if (dp_msg_card_decode(r, &m, err) < 0)
        return -1;
    if (m.rank >= DP_MAX_WORKERS || m.kind != DP_CARD_HERE || !m.card_len)
        return dp_err_set(err, DP_EPROTO, "CARD of kind %u", m.kind);
    copy = malloc(m.card_len);
    if (!copy)
        return 0; /* the hand-over fails, and it is said again before the next */
    memcpy(copy, m.card, m.card_len);
    free(c->peer[m.rank].card);
    c->peer[m.rank].card = copy;
    c->peer[m.rank].bytes = m.card_len;
    return 0;
}

/* A coordinator that was restarted counts from 1 again. */
static int on_proposal(struct dp_control *c, struct dp_reader *r, struct dp_err *err)
{
    struct dp_layout proposed;
    struct dp_msg_proposal m;

    if (dp_msg_proposal_decode(r, &m, err) < 0)
        return -1;
    if (m.n_workers != c->hello.n_workers || m.n_layers != c->hello.n_layers || m.number == 0)
        return dp_err_set(err, DP_EPROTO, "PROPOSAL %llu for %u workers and %u layers; this run has %u and %u",
                          (unsigned long long)m.number, m.n_workers, m.n_layers, c->hello.n_workers, c->hello.n_layers);
    proposed = (struct dp_layout){.n_workers = m.n_workers, .n_layers = m.n_layers};
    memcpy(proposed.cut, m.cut, (m.n_workers + 1) * sizeof m.cut[0]);
    memcpy(proposed.gone, m.gone, m.n_workers);
    if (dp_layout_check(&proposed, err) < 0)
        return dp_err_prefix(err, "PROPOSAL");
    if (is_current(c, m.incarnation) && (m.incarnation > c->proposal.incarnation || m.number > c->proposal.number))
        c->proposal = m;
    return 0;
}

static int on_frame(struct dp_control *c, const struct dp_header *h, const uint8_t *body, struct dp_err *err)
{
    struct dp_msg_save save;
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    r.version = h->version;
    switch (h->type) {
    case DP_MSG_WELCOME:
        return on_welcome(c, &r, err);
    case DP_MSG_PREPARE:
        return on_prepare(c, &r, err);
    case DP_MSG_DECISION:
        return on_decision(c, &r, err);
    case DP_MSG_FINISH:
        return on_finish(c, &r, err);
    case DP_MSG_PING:
        return on_ping(c, &r, err);
    case DP_MSG_LIMIT:
        return on_limit(c, &r, err);
    case DP_MSG_REGROUP:
        return on_regroup(c, &r, err);
    case DP_MSG_CARD:
        return on_card(c, &r, err);
    case DP_MSG_PROPOSAL:
        return on_proposal(c, &r, err);
    default: /* SAVE: may_send() lets nothing else through */
        if (dp_msg_save_decode(&r, &save, err) < 0)
            return -1;
        c->wants_save |= save.stop != 1;
        c->wants_stop |= save.stop == 1;
        return 0;
    }
}

int dp_control_receive(struct dp_control *c, struct dp_err *err)
{
    struct dp_err later = {0};
    struct dp_header h;
    const uint8_t *body;
    bool was_full;
    int rc, read_rc, rounds = 0;

    do {
        read_rc = dp_frame_socket_read(&c->link, &later);
        was_full = c->link.rx_used == sizeof c->link.rx;
        while ((rc = dp_frame_socket_next(&c->link, may_send, c, &h, &body, err)) > 0)
            if (on_frame(c, &h, body, err) < 0)
                return -1;
        if (rc < 0)
            return -1;
    } while (read_rc == 0 && was_full && ++rounds < MAX_ROUNDS);
    if (read_rc < 0 && err)
        *err = later;
    return read_rc;
}
