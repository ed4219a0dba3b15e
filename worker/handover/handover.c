/* SPDX-License-Identifier: BSD-3-Clause */
/* See handover.h. This file holds the part of the protocol that concerns the coordinator: votes, doubt,
 * the decision, and what outlives a hand-over. What the workers do among themselves before it is in
 * attempt_prepare.c and attempt_transfer.c.
 *
 * The rules that keep all workers in one layout, whatever dies when (doc/protocol.md):
 *   - the layout changes here on COMMIT and on nothing else;
 *   - a worker votes yes once, after all its shadows are verified, and from then on waits;
 *   - what was refused or aborted is closed: no yes for it or for anything older, ever;
 *   - a source keeps its layers until FINISH. */
#include "worker/handover/handover.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "lib/timeout.h"
#include "worker/handover/attempt.h"

/* Layers that this worker gave away in one migration. */
struct retired {
    struct retired *next;
    uint64_t migration;
    uint32_t n;
    struct dp_layer *layer[];
};

struct dp_handover {
    struct dp_handover_times times;
    uint64_t closed;    /* no yes for a migration up to this one */
    uint64_t committed; /* the newest that this worker took part in */
    uint64_t answered;  /* decisions up to this one are acknowledged */
    struct retired *retired;
    struct dp_chunk *stuck;
    bool is_leaving;
    uint64_t leaving_since_ns, down_since_ns; /* down_since_ns 0: the connection is up */
    uint8_t poll_buf[DP_POLL_BYTES];
};

void dp_handover_times_default(struct dp_handover_times *times)
{
    times->prepare_ns = 10 * DP_SECOND_NS;
    times->stall_ns = 30 * DP_SECOND_NS;
    times->poll_ns = 300 * DP_SECOND_NS;
    times->doubt_ns = dp_timeout_from_env_ns("DYNPIPE_DOUBT_S", 600 * DP_SECOND_NS);
    times->leave_ns = dp_timeout_from_env_ns("DYNPIPE_LEAVE_S", 60 * DP_SECOND_NS);
}

struct dp_handover *dp_handover_create(const struct dp_handover_times *times, struct dp_err *err)
{
    struct dp_handover *h = calloc(1, sizeof *h);

    if (!h) {
        dp_err_set(err, DP_ENOMEM, "hand-over: out of memory");
        return NULL;
    }
    if (times)
        h->times = *times;
    else
        dp_handover_times_default(&h->times);
    return h;
}

static void free_retired(struct retired *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        dp_layer_destroy(r->layer[i]);
    free(r);
}

static void drop_all(struct dp_handover *h)
{
    while (h->retired) {
        struct retired *r = h->retired;

        h->retired = r->next;
        free_retired(r);
    }
}

void dp_handover_destroy(struct dp_handover *h)
{
    if (!h)
        return;
    drop_all(h);
    dp_chunks_free(h->stuck);
    free(h);
}

size_t dp_handover_retired_bytes(const struct dp_handover *h)
{
    size_t bytes = 0;

    for (const struct retired *r = h->retired; r; r = r->next)
        for (uint32_t i = 0; i < r->n; i++)
            bytes += dp_layer_state_bytes(r->layer[i]);
    return bytes;
}

/* ---- votes and acknowledgements ---- */

static void fill_vote(const struct dp_attempt *p, bool yes, struct dp_msg_vote *v)
{
    *v = (struct dp_msg_vote){
        .incarnation = p->prepare.incarnation,
        .migration = p->migration,
        .rank = p->args->rank,
        .yes = yes,
        .boundary = p->args->step,
    };
    if (p->transfer) {
        v->sent_bytes = p->transfer->sent_bytes;
        v->received_bytes = p->transfer->received_bytes;
    }
    if (yes)
        memcpy(v->digest, p->digest, sizeof v->digest);
    else
        snprintf(v->text, sizeof v->text, "%.255s", p->why);
}

/* Close the migration with a no, unless the coordinator has ended it already. */
static void vote_no(struct dp_handover *h, struct dp_attempt *p)
{
    struct dp_msg_vote v;

    if (h->closed < p->migration)
        h->closed = p->migration;
    if (!p->has_prepare)
        return; /* answered when PREPARE comes: dp_handover_finish_poll() */
    if (!dp_attempt_is_aborted(p)) {
        fill_vote(p, false, &v);
        dp_control_vote(p->args->control, &v);
    }
    dp_control_prepare_done(p->args->control);
}

static void acknowledge(struct dp_handover *h, struct dp_control *control, uint32_t rank, uint64_t migration,
                        uint64_t epoch, uint64_t pause_ns, uint64_t transfer_ns)
{
    struct dp_msg_decision_ack a = {.migration = migration, .rank = rank, .epoch = epoch, .pause_ns = pause_ns,
                                    .transfer_ns = transfer_ns};

    if (h->answered < migration)
        h->answered = migration;
    if (h->closed < migration)
        h->closed = migration;
    dp_control_ack(control, &a);
}

/* ---- in doubt ---- */

/* Vote yes and wait for the decision, through whatever happens to the daemon.
 * returns: 1 commit, 0 abort, -1 T_doubt passed or the decision makes no sense. */
static int vote_yes(struct dp_handover *h, struct dp_attempt *p, struct dp_err *err)
{
    const struct dp_handover_args *a = p->args;
    const struct dp_msg_decision *d;
    uint64_t begin = dp_now_ns();
    struct dp_msg_vote v;

    if (dp_attempt_is_aborted(p)) {
        snprintf(p->why, sizeof p->why, "the coordinator aborted");
        return 0;
    }
    dp_control_state(a->control, a->step, p->migration, a->layout);
    fill_vote(p, true, &v);
    dp_control_vote(a->control, &v);
    while (!(d = dp_control_decision(a->control, p->migration))) {
        if (dp_control_regroup(a->control)) /* what was decided concerns a layout that nobody makes any more */
            return dp_err_set(err, DP_EGONE, "hand-over %llu: the run regroups", (unsigned long long)p->migration);
        if (dp_now_ns() - begin > h->times.doubt_ns)
            return dp_err_set(err, DP_ETIMEOUT,
                              "in doubt about hand-over %llu for %llu s: no daemon says whether it was committed; "
                              "the run ends and can go on from its last checkpoint",
                              (unsigned long long)p->migration, (unsigned long long)(h->times.doubt_ns / DP_SECOND_NS));
        dp_transport_idle(a->transport, 1); /* peers may still be fetching the verdict */
        dp_control_wait(a->control, 50);
    }
    if (!d->commit) {
        snprintf(p->why, sizeof p->why, "%s", d->text[0] ? d->text : "the coordinator aborted");
        return 0;
    }
    if (d->epoch != p->next.epoch)
        return dp_err_set(err, DP_EPROTO, "hand-over %llu was committed as epoch %llu; expected %llu",
                          (unsigned long long)p->migration, (unsigned long long)d->epoch,
                          (unsigned long long)p->next.epoch);
    return 1;
}

/* ---- commit ---- */

static struct dp_layer *take_shadow(struct dp_transfer *s, uint32_t layer)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct dp_layer *shadow = s->layer[i].shadow;

        if (shadow && s->layer[i].move.layer == layer) {
            s->layer[i].shadow = NULL;
            return shadow;
        }
    }
    return NULL;
}

/* Has this worker the same layers, and as many microbatches in flight? Then nothing of its device is asked for, and nothing
 * of that can fail once the others have committed. */
static bool keeps_stage(const struct dp_attempt *p)
{
    const struct dp_handover_args *a = p->args;
    const struct dp_layout *old = a->layout, *next = &p->next;

    return old->cut[a->rank] == next->cut[a->rank] && old->cut[a->rank + 1] == next->cut[a->rank + 1] &&
           dp_stage_in_flight(a->config, old, a->rank) == dp_stage_in_flight(a->config, next, a->rank);
}

/* Kept layers and shadows become the stage of the new layout, the others retire. */
static int renew_stage(struct dp_handover *h, struct dp_attempt *p, struct dp_err *err)
{
    const struct dp_handover_args *a = p->args;
    uint32_t first = p->next.cut[a->rank], n = p->next.cut[a->rank + 1] - first;
    uint32_t n_old = dp_stage_n_layers(*a->stage);
    struct dp_layer **old = calloc(n_old + 1, sizeof *old), **fresh = calloc(n + 1, sizeof *fresh);
    struct retired *r = calloc(1, sizeof *r + n_old * sizeof r->layer[0]);
    struct dp_stage *stage = NULL;

    if (!old || !fresh || !r) {
        dp_err_set(err, DP_ENOMEM, "no memory to commit hand-over %llu", (unsigned long long)p->migration);
        goto out;
    }
    dp_stage_take_layers(*a->stage, old);
    r->migration = p->migration;
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i]->index - first < n)
            fresh[old[i]->index - first] = old[i];
        else
            r->layer[r->n++] = old[i];
    }
    for (uint32_t i = 0; i < n; i++)
        if (!fresh[i])
            fresh[i] = take_shadow(p->transfer, first + i);
    stage = dp_stage_create(a->config, a->backend, fresh, n, dp_stage_in_flight(a->config, &p->next, a->rank), err);
    if (!stage)
        for (uint32_t i = 0; i < n; i++)
            dp_layer_destroy(fresh[i]);
    if (r->n) {
        r->next = h->retired;
        h->retired = r;
        r = NULL;
    }
    if (!stage) {
        dp_err_prefix(err, "hand-over %llu is committed, but", (unsigned long long)p->migration);
        goto out;
    }
    dp_stage_destroy(*a->stage);
    *a->stage = stage;
out:
    free(old);
    free(fresh);
    free(r);
    return stage ? 0 : -1;
}

static int commit(struct dp_handover *h, struct dp_attempt *p, struct dp_err *err)
{
    if (!keeps_stage(p) && renew_stage(h, p, err) < 0)
        return -1;
    *p->args->layout = p->next;
    h->committed = p->migration;
    return 0;
}

static int after_commit(struct dp_handover *h, struct dp_attempt *p, uint64_t begin_ns,
                        struct dp_handover_outcome *out, struct dp_err *err)
{
    const struct dp_handover_args *a = p->args;

    if (commit(h, p, err) < 0)
        return -1;
    out->is_committed = true;
    h->is_leaving = out->is_leaving = a->layout->gone[a->rank];
    h->leaving_since_ns = dp_now_ns();
    dp_control_state(a->control, a->step, 0, a->layout);
    out->pause_ns = dp_now_ns() - begin_ns;
    acknowledge(h, a->control, a->rank, p->migration, a->layout->epoch, out->pause_ns, p->transfer_ns);
    return 0;
}

static void after_abort(struct dp_handover *h, struct dp_attempt *p, uint64_t begin_ns,
                        struct dp_handover_outcome *out)
{
    const struct dp_handover_args *a = p->args;

    dp_control_state(a->control, a->step, 0, a->layout);
    out->pause_ns = dp_now_ns() - begin_ns;
    snprintf(out->text, sizeof out->text, "%s", p->why);
    if (dp_attempt_is_aborted(p))
        acknowledge(h, a->control, a->rank, p->migration, a->layout->epoch, out->pause_ns, p->transfer_ns);
}

/* ---- public ---- */

static void init_attempt(struct dp_attempt *p, struct dp_handover *h, const struct dp_handover_args *args,
                         uint64_t migration)
{
    p->args = args;
    p->times = &h->times;
    p->migration = migration;
    p->closed = h->closed;
    p->poll_buf = h->poll_buf;
    p->voting = (struct dp_voting){.transport = args->transport, .layout = args->layout, .rank = args->rank,
                                   .leader = dp_layout_leader(args->layout), .step = args->step, .migration = migration};
}

static void log_outcome(const struct dp_attempt *p, const struct dp_handover_outcome *out)
{
    if (p->args->rank != p->voting.leader)
        return;
    if (out->is_committed)
        dp_info("hand-over %llu: %u layers moved at step %llu, epoch %llu, pause %.1f ms",
                (unsigned long long)p->migration, p->moves.n, (unsigned long long)p->args->step,
                (unsigned long long)p->args->layout->epoch, (double)out->pause_ns / 1e6);
    else
        dp_warn("hand-over %llu: aborted at step %llu, the old layout stays: %s", (unsigned long long)p->migration,
                (unsigned long long)p->args->step, out->text);
}

int dp_handover_run(struct dp_handover *h, const struct dp_handover_args *args, uint64_t migration,
                    struct dp_handover_outcome *out, struct dp_err *err)
{
    struct dp_attempt *p = calloc(1, sizeof *p);
    uint64_t begin = dp_now_ns();
    struct dp_err local = {0};
    int rc;

    memset(out, 0, sizeof *out);
    if (!p)
        return dp_err_set(err, DP_ENOMEM, "hand-over: out of memory");
    init_attempt(p, h, args, migration);
    rc = dp_attempt_prepare(p, &local);
    if (rc > 0)
        rc = dp_attempt_transfer(p, &local);
    if (rc < 0)
        snprintf(p->why, sizeof p->why, "worker %u: %.230s", args->rank, local.text);
    if (rc > 0)
        rc = vote_yes(h, p, &local);
    else
        vote_no(h, p); /* also when the leader is gone: the coordinator need not wait */
    if (p->transfer) {
        out->sent_bytes = p->transfer->sent_bytes;
        out->received_bytes = p->transfer->received_bytes;
    }
    out->transfer_ns = p->transfer_ns;
    if (rc > 0)
        rc = after_commit(h, p, begin, out, &local);
    else if (rc == 0)
        after_abort(h, p, begin, out);
    if (rc == 0)
        log_outcome(p, out);
    else if (err)
        *err = local;
    dp_transfer_destroy(p->transfer, &h->stuck);
    free(p);
    return rc;
}

void dp_handover_regrouped(struct dp_handover *h, struct dp_control *control, uint32_t rank, uint64_t migration,
                           const struct dp_layout *layout, uint64_t pause_ns)
{
    drop_all(h);
    h->committed = migration;
    h->is_leaving = false;
    acknowledge(h, control, rank, migration, layout->epoch, pause_ns, 0);
}

/* FINISH came: retired copies are not needed any more. */
static void drop_finished(struct dp_handover *h, const struct dp_control *control)
{
    struct retired **at = &h->retired;

    while (*at) {
        struct retired *r = *at;

        if (dp_control_is_finished(control, r->migration)) {
            *at = r->next;
            free_retired(r);
        } else {
            at = &r->next;
        }
    }
}

/* A decision that came outside of dp_handover_run(): an abort of something that this worker refused or
 * never began is acknowledged, a commit of it must not be. */
static int answer_late(struct dp_handover *h, struct dp_control *control, uint32_t rank,
                       const struct dp_layout *layout, struct dp_err *err)
{
    const struct dp_msg_decision *d = dp_control_decision(control, 0);

    if (!d || d->migration <= h->answered)
        return 0;
    if (d->commit && d->epoch > layout->epoch)
        return dp_err_set(err, DP_EPROTO, "hand-over %llu was committed without the vote of worker %u",
                          (unsigned long long)d->migration, rank);
    acknowledge(h, control, rank, d->migration, layout->epoch, 0, 0);
    return 0;
}

/* PREPARE for something that is closed here: it came after the workers gave up waiting for it. */
static void refuse_late(struct dp_handover *h, struct dp_control *control, uint32_t rank)
{
    const struct dp_msg_prepare *m = dp_control_prepare(control);
    struct dp_msg_vote v = {.rank = rank, .text = "PREPARE came too late"};

    if (!m || m->migration > h->closed)
        return;
    v.incarnation = m->incarnation;
    v.migration = m->migration;
    dp_control_vote(control, &v);
    dp_control_prepare_done(control);
}

static bool may_leave(struct dp_handover *h, const struct dp_control *control)
{
    uint64_t now = dp_now_ns();

    if (dp_control_is_finished(control, h->committed))
        return true;
    if (dp_control_is_connected(control))
        h->down_since_ns = 0;
    else if (h->down_since_ns == 0)
        h->down_since_ns = now;
    if (h->down_since_ns)
        return now - h->down_since_ns >= h->times.leave_ns;
    return now - h->leaving_since_ns >= h->times.doubt_ns;
}

int dp_handover_finish_poll(struct dp_handover *h, struct dp_control *control, uint32_t rank,
                            const struct dp_layout *layout, struct dp_err *err)
{
    dp_control_poll(control);
    if (answer_late(h, control, rank, layout, err) < 0)
        return -1;
    refuse_late(h, control, rank);
    drop_finished(h, control);
    if (h->is_leaving)
        return may_leave(h, control) ? DP_HANDOVER_LEAVE : DP_HANDOVER_LEAVING;
    return h->retired ? DP_HANDOVER_KEEPING : DP_HANDOVER_IDLE;
}
