/* SPDX-License-Identifier: BSD-3-Clause */
/* See handover.h. What may be said to the coordinator, and when, is lib/member.c's. This file holds what a hand-over does to a
 * worker's layers: the stage of the new layout, and copies of what was given away. What the workers do among themselves before the
 * vote is in attempt_prepare.c and attempt_transfer.c. */
#include "worker/handover/handover.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/handover/attempt.h"
#include "worker/model/layer_parts.h"

/* Layers that this worker gave away in one migration. */
struct retired {
    struct retired *next;
    uint64_t migration;
    uint32_t n;
    struct dp_layer *layer[];
};

struct dp_handover {
    struct dp_handover_times times;
    struct dp_member member;
    struct retired *retired;
    struct dp_chunk *stuck;
    uint8_t poll_buf[DP_POLL_BYTES];
};

void dp_handover_times_default(struct dp_handover_times *times)
{
    times->prepare_ns = 10 * DP_SECOND_NS;
    times->stall_ns = 30 * DP_SECOND_NS;
    times->poll_ns = 300 * DP_SECOND_NS;
    dp_member_times_default(&times->member);
}

struct dp_handover *dp_handover_create(struct dp_control *control, uint32_t rank, struct dp_layout *layout,
                                       const struct dp_handover_times *times, struct dp_err *err)
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
    dp_member_init(&h->member, control, rank, layout, &h->times.member);
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

/* ---- votes ---- */

static struct dp_msg_vote vote_of(const struct dp_attempt *p)
{
    struct dp_msg_vote v = {.boundary = p->args->step};

    if (p->transfer) {
        v.sent_bytes = p->transfer->sent_bytes;
        v.received_bytes = p->transfer->received_bytes;
    }
    return v;
}

static void vote_no(struct dp_attempt *p)
{
    struct dp_msg_vote v = vote_of(p);

    snprintf(v.text, sizeof v.text, "%.255s", p->why);
    dp_member_vote_no(p->member, &v);
}

/* Vote yes and wait for the decision, through whatever happens to the daemon.
 * returns: 1 commit, 0 abort, -1 T_doubt passed or the decision makes no sense. */
static int vote_yes(struct dp_attempt *p, struct dp_err *err)
{
    struct dp_msg_vote v = vote_of(p);
    int rc;

    memcpy(v.digest, p->digest, sizeof v.digest);
    rc = dp_member_vote_yes(p->member, &v, err);
    if (rc == 0)
        snprintf(p->why, sizeof p->why, "the coordinator aborted");
    if (rc <= 0)
        return rc;
    while ((rc = dp_member_decision(p->member, p->why, sizeof p->why, err)) == DP_MEMBER_WAITS) {
        dp_transport_idle(p->args->transport, 1); /* peers may still be fetching the verdict */
        dp_control_wait(p->member->control, 50);
    }
    return rc;
}

/* ---- commit ---- */

/* The layer that came, which may have no plans yet; NULL: none has. */
static struct dp_layer *take_shadow(struct dp_transfer *s, uint32_t layer, struct dp_handover_outcome *out)
{
    for (uint32_t i = 0; i < s->n_layers; i++) {
        struct dp_layer *shadow = s->layer[i].shadow;

        if (shadow && s->layer[i].move.layer == layer) {
            s->layer[i].shadow = NULL;
            if (s->layer[i].is_copy)
                dp_copies_give(s->args->copies, layer);
            out->n_were_copies += s->layer[i].is_copy;
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
    const struct dp_layout *old = a->layout, *next = &p->member->next;

    return old->cut[a->rank] == next->cut[a->rank] && old->cut[a->rank + 1] == next->cut[a->rank + 1] &&
           dp_stage_in_flight(a->config, old, a->rank) == dp_stage_in_flight(a->config, next, a->rank);
}

/* Layers of a stage that is to be. Plans are made here, and not before the vote: the other workers train already, and do not wait
 * but for what this one computes. */
static int complete(struct dp_layer *const *layer, uint32_t n, struct dp_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (dp_layer_complete(layer[i], err) < 0)
            return -1;
    return 0;
}

/* Kept layers and shadows become the stage of the new layout, the others retire. */
static int renew_stage(struct dp_handover *h, struct dp_attempt *p, struct dp_handover_outcome *out, struct dp_err *err)
{
    const struct dp_handover_args *a = p->args;
    const struct dp_layout *next = &p->member->next;
    uint32_t first = next->cut[a->rank], n = next->cut[a->rank + 1] - first;
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
            fresh[i] = take_shadow(p->transfer, first + i, out);
    if (complete(fresh, n, err) == 0)
        stage = dp_stage_create(a->config, a->backend, fresh, n, dp_stage_in_flight(a->config, next, a->rank), err);
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

static int commit(struct dp_handover *h, struct dp_attempt *p, struct dp_handover_outcome *out, struct dp_err *err)
{
    if (!keeps_stage(p) && renew_stage(h, p, out, err) < 0)
        return -1;
    dp_member_commit(p->member);
    out->is_committed = true;
    out->is_leaving = p->member->is_leaving;
    return 0;
}

/* ---- public ---- */

static void init_attempt(struct dp_attempt *p, struct dp_handover *h, const struct dp_handover_args *args,
                         uint64_t migration)
{
    p->args = args;
    p->times = &h->times;
    p->member = &h->member;
    dp_member_begin(p->member, migration, h->times.prepare_ns, args->meet != NULL);
    p->migration = migration;
    p->poll_buf = h->poll_buf;
    p->voting = (struct dp_voting){.transport = args->transport, .layout = args->layout, .rank = args->rank,
                                   .leader = dp_layout_leader(args->layout), .step = args->step, .migration = migration};
}

static void log_outcome(const struct dp_attempt *p, const struct dp_handover_outcome *out)
{
    if (out->n_were_copies)
        dp_info("hand-over %llu: worker %u had copies of %u layers that came, and did not get them again", (unsigned long long)p->migration,
                p->args->rank, out->n_were_copies);
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
        rc = vote_yes(p, &local);
    else
        vote_no(p); /* also when the leader is gone: the coordinator need not wait */
    if (p->transfer) {
        out->sent_bytes = p->transfer->sent_bytes;
        out->received_bytes = p->transfer->received_bytes;
    }
    out->transfer_ns = p->transfer_ns;
    if (rc > 0)
        rc = commit(h, p, out, &local);
    else if (rc == 0)
        snprintf(out->text, sizeof out->text, "%s", p->why);
    if (rc == 0) {
        out->pause_ns = dp_now_ns() - begin;
        dp_member_done(p->member, args->step, out->pause_ns, p->transfer_ns, dp_shadowing_total(args->shadowing).busy_ns);
        log_outcome(p, out);
    } else if (err) {
        *err = local;
    }
    dp_transfer_destroy(p->transfer, &h->stuck);
    free(p);
    return rc;
}

void dp_handover_regrouped(struct dp_handover *h, uint64_t migration, uint64_t pause_ns)
{
    drop_all(h);
    dp_member_regrouped(&h->member, migration, pause_ns);
}

/* FINISH came: retired copies are not needed any more. */
static void drop_finished(struct dp_handover *h)
{
    struct retired **at = &h->retired;

    while (*at) {
        struct retired *r = *at;

        if (dp_member_is_finished(&h->member, r->migration)) {
            *at = r->next;
            free_retired(r);
        } else {
            at = &r->next;
        }
    }
}

int dp_handover_poll(struct dp_handover *h, struct dp_err *err)
{
    int state = dp_member_poll(&h->member, err);

    if (state >= 0)
        drop_finished(h);
    return state;
}
