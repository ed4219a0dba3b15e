/* SPDX-License-Identifier: BSD-3-Clause */
/* See dynpipe.h: hand-overs of a trainer, on the rules of member.h. Its waits are steps; here they are looped over, for as long as the
 * caller allows. */
#include "lib/dynpipe_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define LOOK_MS 50 /* at least so often a wait looks at the clock */

/* Milliseconds to sleep now, of those until end_ns. */
static uint32_t pause_ms(uint64_t end_ns)
{
    uint64_t now = dp_now_ns(), ms = end_ns > now ? (end_ns - now) / DP_MS_NS + 1 : 0;

    return ms < LOOK_MS ? (uint32_t)ms : LOOK_MS;
}

int dynpipe_leads(const struct dynpipe *d)
{
    struct dynpipe *own = dp_handle_look(d);
    int leads;

    if (!own)
        return 0;
    leads = !own->layout.gone[own->rank] && dp_layout_leader(&own->layout) == own->rank;
    dp_handle_leave(own);
    return leads;
}

uint32_t dynpipe_layout(const struct dynpipe *d, uint32_t *cut)
{
    struct dynpipe *own;
    uint32_t n;

    if (!d)
        return 0;
    own = dp_handle_look(d);
    if (!own && d->pid == getpid())
        return 0;
    n = d->layout.n_workers; /* a child reads the copy that it has */
    if (cut)
        memcpy(cut, d->layout.cut, (n + 1) * sizeof *cut);
    if (own)
        dp_handle_leave(own);
    return n;
}

uint64_t dynpipe_pending(struct dynpipe *d)
{
    const struct dp_msg_prepare *p;
    uint64_t m = 0;

    if (dp_handle_enter(d) != DP_ENTERED)
        return 0;
    dp_control_poll(d->control);
    p = dp_control_prepare(d->control);
    if (p && p->migration > d->member.closed && d->stage != HANDOVER_DOUBT && !d->must_end && (d->traits & DYNPIPE_CAN_MOVE) &&
        !d->layout.gone[d->rank] && dp_layout_leader(&d->layout) == d->rank)
        m = p->migration;
    dp_handle_leave(d);
    return m;
}

/* ---- plans ---- */

int dp_plan_fill(struct dynpipe *d, const struct dp_layout *next, const struct dynpipe_plan *numbers, struct dynpipe_plan *out,
                 struct dp_err *err)
{
    size_t bytes = (d->layout.n_workers + 1) * sizeof d->plan_cut[0][0];
    struct dynpipe_plan plan = *numbers;

    plan.n_workers = next->n_workers;
    plan.n_layers = next->n_layers;
    plan.n_moves = dp_layout_moves(&d->layout, next, NULL);
    memcpy(d->plan_cut[0], d->layout.cut, bytes);
    memcpy(d->plan_cut[1], next->cut, bytes);
    memcpy(d->plan_gone, next->gone, next->n_workers);
    plan.old_cut = d->plan_cut[0];
    plan.cut = d->plan_cut[1];
    plan.gone = d->plan_gone;
    return dp_struct_write(out, &plan, sizeof plan, "plan", err);
}

int dynpipe_proposal(struct dynpipe *d, struct dynpipe_plan *plan)
{
    const struct dp_msg_proposal *p;
    struct dynpipe_plan numbers = {0};
    struct dp_layout next;
    struct dp_err err = {0};
    int rc = 0;

    if (dp_handle_enter(d) != DP_ENTERED)
        return 0;
    dp_control_poll(d->control);
    p = dp_control_proposal(d->control);
    if (p) {
        next = (struct dp_layout){.n_workers = p->n_workers, .n_layers = p->n_layers};
        memcpy(next.cut, p->cut, (p->n_workers + 1) * sizeof next.cut[0]);
        memcpy(next.gone, p->gone, p->n_workers);
        numbers.migration = p->number;
        numbers.now_ns = p->now_ns;
        numbers.then_ns = p->then_ns;
        rc = dp_plan_fill(d, &next, &numbers, plan, &err) == 0;
        if (!rc)
            dp_handle_why(d, "%s", err.text);
    }
    dp_handle_leave(d);
    return rc;
}

/* ---- a hand-over ---- */

/* One that is decided ends with the next one at the latest: its coordinator waits for the acknowledgement. */
static void end_handover(struct dynpipe *d, uint64_t pause_ns, uint64_t transfer_ns)
{
    if (d->stage != HANDOVER_DECIDED)
        return;
    dp_member_done(&d->member, d->step, pause_ns, transfer_ns, 0);
    d->stage = HANDOVER_NONE;
}

/* Can this worker do what it is asked for, beside what any member can? */
static int check_plan(const struct dynpipe *d, struct dp_err *err)
{
    const struct dp_layout *next = &d->member.next;

    if (!(d->traits & DYNPIPE_CAN_MOVE))
        return dp_err_set(err, DP_EINVAL, "this worker joined without DYNPIPE_CAN_MOVE");
    if (next->gone[d->rank] && !d->layout.gone[d->rank] && !(d->traits & DYNPIPE_CAN_LEAVE))
        return dp_err_set(err, DP_EINVAL, "this worker is to leave, and joined without DYNPIPE_CAN_LEAVE");
    return 0;
}

static int wait_prepare(struct dynpipe *d, uint64_t m, uint32_t timeout_ms, struct dp_err *err)
{
    uint64_t end = dp_now_ns() + timeout_ms * DP_MS_NS;
    int rc;

    dp_control_poll(d->control);
    dp_member_begin(&d->member, m, timeout_ms * DP_MS_NS, false);
    while ((rc = dp_member_prepare(&d->member, err)) == 0)
        dp_control_wait(d->control, pause_ms(end));
    return rc < 0 ? -1 : check_plan(d, err);
}

static int prepare(struct dynpipe *d, uint64_t m, struct dynpipe_plan *plan, uint32_t timeout_ms, struct dp_err *err)
{
    struct dynpipe_plan numbers = {.migration = m};

    if (d->must_end)
        return -1; /* dynpipe_why() is what it was */
    if (!m)
        return dp_err_set(err, DP_EINVAL, "there is no hand-over 0");
    if (d->stage == HANDOVER_DOUBT)
        return dp_err_set(err, DP_EINVAL, "hand-over %llu is not decided yet", (unsigned long long)d->member.migration);
    if (d->stage == HANDOVER_DECIDED && d->member.migration == m)
        return dp_err_set(err, DP_EINVAL, "hand-over %llu is decided", (unsigned long long)m);
    end_handover(d, 0, 0);
    d->stage = HANDOVER_NONE;
    if (wait_prepare(d, m, timeout_ms, err) < 0 || dp_plan_fill(d, &d->member.next, &numbers, plan, err) < 0)
        return -1;
    d->stage = HANDOVER_PREPARED;
    return 0;
}

int dynpipe_prepare(struct dynpipe *d, uint64_t m, struct dynpipe_plan *plan, uint32_t timeout_ms)
{
    struct dp_err err = {0};
    int rc;

    if (dp_handle_enter(d) != DP_ENTERED)
        return 0;
    rc = prepare(d, m, plan, timeout_ms, &err);
    if (rc < 0 && !d->must_end)
        dp_handle_why(d, "%s", err.text);
    dp_handle_leave(d);
    return rc == 0;
}

static int decided(struct dynpipe *d, int answer)
{
    d->stage = HANDOVER_DECIDED;
    d->answer = answer;
    return answer;
}

static int vote_no(struct dynpipe *d, uint64_t m, const char *why)
{
    struct dp_msg_vote v = {.boundary = d->step};

    if (d->member.migration != m) {
        end_handover(d, 0, 0);
        dp_member_begin(&d->member, m, 0, false); /* never prepared here: what comes of it is refused then */
    }
    snprintf(v.text, sizeof v.text, "%s", why && why[0] ? why : "the trainer could not");
    dp_handle_why(d, "%s", v.text);
    dp_member_vote_no(&d->member, &v);
    return decided(d, DYNPIPE_ABORT);
}

/* returns: 0: in doubt; else as dynpipe_decide() */
static int vote_yes(struct dynpipe *d, uint64_t m, const uint8_t digest[32])
{
    struct dp_msg_vote v = {.boundary = d->step};
    struct dp_err err = {0};
    int rc;

    if (d->stage != HANDOVER_PREPARED || d->member.migration != m)
        return vote_no(d, m, "a yes to what was not prepared");
    if (!digest)
        return vote_no(d, m, "a yes without a digest");
    dp_member_digest(&d->member, digest, v.digest); /* what they were asked for, and what they moved */
    rc = dp_member_vote_yes(&d->member, &v, &err);
    if (rc < 0)
        return vote_no(d, m, err.text);
    if (rc == 0) {
        dp_handle_why(d, "the coordinator aborted");
        return decided(d, DYNPIPE_ABORT);
    }
    d->stage = HANDOVER_DOUBT;
    return DYNPIPE_AGAIN;
}

static int wait_decision(struct dynpipe *d, uint32_t timeout_ms)
{
    uint64_t end = dp_now_ns() + timeout_ms * DP_MS_NS;
    struct dp_err err = {0};
    char why[256] = "";

    dp_control_poll(d->control);
    for (;;) {
        switch (dp_member_decision(&d->member, why, sizeof why, &err)) {
        case DP_MEMBER_COMMIT:
            dp_member_commit(&d->member);
            dp_window_forget(d->window);
            return decided(d, DYNPIPE_COMMIT);
        case DP_MEMBER_ABORT:
            dp_handle_why(d, "%s", why);
            return decided(d, DYNPIPE_ABORT);
        case DP_MEMBER_END:
            dp_handle_why(d, "%s", err.text);
            d->must_end = true;
            return DYNPIPE_END;
        case DP_MEMBER_WAITS:
            break;
        }
        if (dp_now_ns() >= end) {
            dp_handle_why(d, "no daemon has said yet what was decided%s%s", dp_control_is_connected(d->control) ? "" : ": ",
                          dp_control_trouble(d->control));
            return DYNPIPE_AGAIN;
        }
        dp_control_wait(d->control, pause_ms(end));
    }
}

static int decide(struct dynpipe *d, uint64_t m, int yes, const uint8_t digest[32], const char *why, uint32_t timeout_ms)
{
    int rc;

    if (d->must_end)
        return DYNPIPE_END;
    if (d->stage == HANDOVER_DECIDED && d->member.migration == m)
        return d->answer;
    if (d->stage == HANDOVER_DOUBT && d->member.migration == m)
        return wait_decision(d, timeout_ms); /* also where the daemon has spoken of a later one: that decides nothing here */
    if (m <= d->member.closed) {
        dp_handle_why(d, "hand-over %llu is over", (unsigned long long)m);
        return m && m == d->member.committed ? DYNPIPE_COMMIT : DYNPIPE_ABORT;
    }
    if (d->stage == HANDOVER_DOUBT) {
        dp_handle_why(d, "hand-over %llu is not decided yet", (unsigned long long)d->member.migration);
        return DYNPIPE_ABORT; /* of m, to which nobody says yes here */
    }
    rc = yes ? vote_yes(d, m, digest) : vote_no(d, m, why);
    return rc == DYNPIPE_AGAIN ? wait_decision(d, timeout_ms) : rc;
}

int dynpipe_decide(struct dynpipe *d, uint64_t m, int yes, const uint8_t digest[32], const char *why, uint32_t timeout_ms)
{
    int answer;

    switch (dp_handle_enter(d)) {
    case DP_STRANGER:
        return DYNPIPE_END;
    case DP_BUSY:
        return DYNPIPE_BUSY;
    case DP_ENTERED:
        break;
    }
    answer = decide(d, m, yes, digest, why, timeout_ms);
    dp_handle_leave(d);
    return answer;
}

void dynpipe_done(struct dynpipe *d, uint64_t m, uint64_t pause_ns, uint64_t transfer_ns)
{
    if (dp_handle_enter(d) != DP_ENTERED)
        return;
    if (d->stage == HANDOVER_DECIDED && d->member.migration == m)
        end_handover(d, pause_ns, transfer_ns);
    dp_handle_leave(d);
}

int dynpipe_state(struct dynpipe *d)
{
    struct dp_err err = {0};
    int state = DYNPIPE_END;

    switch (dp_handle_enter(d)) {
    case DP_STRANGER:
        return DYNPIPE_IDLE;
    case DP_BUSY:
        return DYNPIPE_BUSY;
    case DP_ENTERED:
        break;
    }
    if (!d->must_end) {
        end_handover(d, 0, 0); /* at a boundary, so it has switched */
        state = dp_member_poll(&d->member, &err);
        if (state < 0) {
            dp_handle_why(d, "%s", err.text);
            d->must_end = true;
        }
    }
    dp_handle_leave(d);
    return state;
}
