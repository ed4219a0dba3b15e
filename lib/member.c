/* SPDX-License-Identifier: BSD-3-Clause */
/* See member.h. */
#include "lib/member.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "lib/sha256.h"
#include "lib/timeout.h"

#define NO_DAEMON_NS (1000 * DP_MS_NS) /* timeout for PREPARE while there is no daemon */

void dp_member_times_default(struct dp_member_times *times)
{
    times->doubt_ns = dp_timeout_from_env_ns("DYNPIPE_DOUBT_S", 600 * DP_SECOND_NS);
    times->leave_ns = dp_timeout_from_env_ns("DYNPIPE_LEAVE_S", 60 * DP_SECOND_NS);
}

void dp_member_init(struct dp_member *m, struct dp_control *control, uint32_t rank, struct dp_layout *layout,
                    const struct dp_member_times *times)
{
    memset(m, 0, sizeof *m);
    m->control = control;
    m->rank = rank;
    m->layout = layout;
    if (times)
        m->times = *times;
    else
        dp_member_times_default(&m->times);
}

/* ---- before the vote ---- */

void dp_member_begin(struct dp_member *m, uint64_t migration, uint64_t prepare_ns, bool may_come)
{
    m->migration = migration;
    m->begin_ns = m->up_ns = dp_now_ns();
    m->prepare_ns = prepare_ns;
    m->may_come = may_come;
    m->has_prepare = false;
    m->doubt_since_ns = 0;
}

void dp_member_digest(const struct dp_member *m, const uint8_t *digest, uint8_t out[DP_DIGEST_BYTES])
{
    uint8_t body[4096];
    struct dp_sha256 s;
    struct dp_writer w;

    _Static_assert(sizeof body >= sizeof(struct dp_msg_prepare), "a PREPARE fits");
    dp_writer_init(&w, body, sizeof body);
    w.version = 1; /* what came later is not said to all alike */
    dp_msg_prepare_encode(&w, &m->prepare);
    dp_sha256_init(&s);
    dp_sha256_add(&s, body, dp_writer_used(&w));
    if (digest)
        dp_sha256_add(&s, digest, DP_DIGEST_BYTES);
    dp_sha256_end(&s, out);
}

bool dp_member_is_aborted(struct dp_member *m)
{
    const struct dp_msg_decision *d;

    dp_control_poll(m->control);
    d = dp_control_decision(m->control, 0);
    return d && (d->migration > m->migration || (d->migration == m->migration && !d->commit));
}

int dp_member_next_layout(const struct dp_msg_prepare *p, const struct dp_layout *old, bool may_come, struct dp_layout *next,
                          struct dp_err *err)
{
    if (p->epoch != old->epoch)
        return dp_err_set(err, DP_EINVAL, "PREPARE is for epoch %llu, in force is %llu", (unsigned long long)p->epoch,
                          (unsigned long long)old->epoch);
    if (p->n_workers != old->n_workers || p->n_layers != old->n_layers)
        return dp_err_set(err, DP_EINVAL, "PREPARE is for %u workers and %u layers, this run has %u and %u",
                          p->n_workers, p->n_layers, old->n_workers, old->n_layers);
    *next = (struct dp_layout){.epoch = p->epoch + 1, .n_workers = p->n_workers, .n_layers = p->n_layers};
    memcpy(next->cut, p->cut, (p->n_workers + 1) * sizeof p->cut[0]);
    memcpy(next->gone, p->gone, p->n_workers);
    if (dp_layout_check(next, err) < 0)
        return dp_err_prefix(err, "PREPARE");
    for (uint32_t i = 0; i < old->n_workers && !may_come; i++)
        if (old->gone[i] && !next->gone[i])
            return dp_err_set(err, DP_EINVAL, "PREPARE brings worker %u, and nobody can come here", i);
    return 0;
}

int dp_member_prepare(struct dp_member *m, struct dp_err *err)
{
    const struct dp_msg_prepare *p = dp_control_prepare(m->control);
    uint64_t now = dp_now_ns();

    if (m->migration <= m->closed)
        return dp_err_set(err, DP_EINVAL, "hand-over %llu is closed here", (unsigned long long)m->migration);
    if (p && p->migration == m->migration) {
        m->prepare = *p;
        m->has_prepare = true;
        return dp_member_next_layout(p, m->layout, m->may_come, &m->next, err) < 0 ? -1 : 1;
    }
    if (dp_member_is_aborted(m))
        return dp_err_set(err, DP_EGONE, "the coordinator aborted");
    if (dp_control_is_connected(m->control))
        m->up_ns = now;
    if (now - m->begin_ns >= m->prepare_ns || now - m->up_ns >= NO_DAEMON_NS)
        return dp_err_set(err, DP_ETIMEOUT, "worker %u has no PREPARE from its daemon%s", m->rank,
                          dp_control_is_connected(m->control) ? "" : ", the connection is down");
    return 0;
}

/* ---- votes and acknowledgements ---- */

static void vote(struct dp_member *m, struct dp_msg_vote *v, bool yes)
{
    v->incarnation = m->prepare.incarnation;
    v->migration = m->migration;
    v->rank = m->rank;
    v->yes = yes;
    dp_control_vote(m->control, v);
}

bool dp_member_vote_no(struct dp_member *m, struct dp_msg_vote *v)
{
    if (m->doubt_since_ns)
        return false;
    if (m->closed < m->migration)
        m->closed = m->migration;
    if (!m->has_prepare)
        return true; /* answered when PREPARE comes: dp_member_poll() */
    if (!dp_member_is_aborted(m))
        vote(m, v, false);
    dp_control_prepare_done(m->control);
    return true;
}

int dp_member_vote_yes(struct dp_member *m, struct dp_msg_vote *v, struct dp_err *err)
{
    if (m->doubt_since_ns)
        return 1;
    if (dp_member_is_aborted(m))
        return 0;
    if (!m->has_prepare || m->migration <= m->closed)
        return dp_err_set(err, DP_EINVAL, "worker %u may not say yes to hand-over %llu, which is %s", m->rank,
                          (unsigned long long)m->migration, m->has_prepare ? "closed here" : "not prepared here");
    m->doubt_since_ns = dp_now_ns();
    dp_control_state(m->control, v->boundary, m->migration, m->layout);
    vote(m, v, true);
    return 1;
}

static void acknowledge(struct dp_member *m, uint64_t migration, uint64_t pause_ns, uint64_t transfer_ns, uint64_t copying_ns)
{
    struct dp_msg_decision_ack a = {.migration = migration, .rank = m->rank, .epoch = m->layout->epoch, .pause_ns = pause_ns,
                                    .transfer_ns = transfer_ns, .copying_ns = copying_ns};

    if (m->answered < migration)
        m->answered = migration;
    if (m->closed < migration)
        m->closed = migration;
    dp_control_ack(m->control, &a);
}

/* ---- the decision ---- */

enum dp_member_answer dp_member_decision(const struct dp_member *m, char *why, size_t cap, struct dp_err *err)
{
    const struct dp_msg_decision *d = dp_control_decision(m->control, m->migration);
    unsigned long long migration = m->migration;

    if (!d && dp_control_regroup(m->control)) /* what was decided concerns a layout that nobody makes any more */
        return dp_err_set(err, DP_EGONE, "hand-over %llu: the run regroups", migration);
    if (!d && dp_now_ns() - m->doubt_since_ns > m->times.doubt_ns)
        return dp_err_set(err, DP_ETIMEOUT,
                          "in doubt about hand-over %llu for %llu s: no daemon says whether it was committed; "
                          "the run ends and can go on from its last checkpoint",
                          migration, (unsigned long long)(m->times.doubt_ns / DP_SECOND_NS));
    if (!d)
        return DP_MEMBER_WAITS;
    if (!d->commit) {
        snprintf(why, cap, "%s", d->text[0] ? d->text : "the coordinator aborted");
        return DP_MEMBER_ABORT;
    }
    if (d->epoch != m->next.epoch)
        return dp_err_set(err, DP_EPROTO, "hand-over %llu was committed as epoch %llu; expected %llu", migration,
                          (unsigned long long)d->epoch, (unsigned long long)m->next.epoch);
    return DP_MEMBER_COMMIT;
}

static bool gives_layers(const struct dp_member *m)
{
    const uint32_t *old = &m->layout->cut[m->rank], *next = &m->next.cut[m->rank];

    return old[0] < old[1] && (next[0] > old[0] || next[1] < old[1]);
}

void dp_member_commit(struct dp_member *m)
{
    if (gives_layers(m))
        m->kept = m->migration;
    *m->layout = m->next;
    m->committed = m->migration;
    m->is_leaving = m->layout->gone[m->rank];
    m->leaving_since_ns = dp_now_ns();
}

void dp_member_done(struct dp_member *m, uint64_t step, uint64_t pause_ns, uint64_t transfer_ns, uint64_t copying_ns)
{
    m->doubt_since_ns = 0;
    dp_control_state(m->control, step, 0, m->layout);
    if (m->committed == m->migration || dp_member_is_aborted(m))
        acknowledge(m, m->migration, pause_ns, transfer_ns, copying_ns);
}

/* ---- between hand-overs ---- */

/* A decision that came outside of a hand-over: an abort of something that this worker refused or never began is acknowledged, a
 * commit of it must not be. One that this worker is in doubt about is dp_member_decision()'s. */
static int answer_late(struct dp_member *m, struct dp_err *err)
{
    const struct dp_msg_decision *d = dp_control_decision(m->control, 0);

    if (!d || d->migration <= m->answered || (m->doubt_since_ns && d->migration == m->migration))
        return 0;
    if (d->commit && d->epoch > m->layout->epoch)
        return dp_err_set(err, DP_EPROTO, "hand-over %llu was committed without the vote of worker %u",
                          (unsigned long long)d->migration, m->rank);
    acknowledge(m, d->migration, 0, 0, 0);
    return 0;
}

/* PREPARE for something that is closed here: it came after the workers gave up waiting for it. */
static void refuse_late(struct dp_member *m)
{
    const struct dp_msg_prepare *p = dp_control_prepare(m->control);
    struct dp_msg_vote v = {.rank = m->rank, .text = "PREPARE came too late"};

    if (!p || p->migration > m->closed)
        return;
    v.incarnation = p->incarnation;
    v.migration = p->migration;
    dp_control_vote(m->control, &v);
    dp_control_prepare_done(m->control);
}

bool dp_member_is_finished(const struct dp_member *m, uint64_t migration)
{
    return dp_control_is_finished(m->control, migration);
}

static bool may_leave(struct dp_member *m)
{
    uint64_t now = dp_now_ns();

    if (dp_member_is_finished(m, m->committed))
        return true;
    if (dp_control_is_connected(m->control))
        m->down_since_ns = 0;
    else if (m->down_since_ns == 0)
        m->down_since_ns = now;
    if (m->down_since_ns)
        return now - m->down_since_ns >= m->times.leave_ns;
    return now - m->leaving_since_ns >= m->times.doubt_ns;
}

int dp_member_poll(struct dp_member *m, struct dp_err *err)
{
    dp_control_poll(m->control);
    if (answer_late(m, err) < 0)
        return -1;
    refuse_late(m);
    if (m->is_leaving)
        return may_leave(m) ? DP_MEMBER_LEAVE : DP_MEMBER_LEAVING;
    return m->kept && !dp_member_is_finished(m, m->kept) ? DP_MEMBER_KEEPING : DP_MEMBER_IDLE;
}

void dp_member_regrouped(struct dp_member *m, uint64_t migration, uint64_t pause_ns)
{
    m->committed = migration;
    m->kept = 0;
    m->is_leaving = false;
    m->doubt_since_ns = 0;
    acknowledge(m, migration, pause_ns, 0, 0);
}
