/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: a worker was lost, and those who are left go on (doc/protocol.md, "A lost worker").
 *
 * Who is lost only the coordinator knows: a connection that broke says nothing of the process behind it. So whoever sees a
 * peer gone, and whoever hears REGROUP while it waits for another, drops the step that it was in and all that belongs to
 * the layout but its layers: messages on their way, a hand-over. Where every layer, or a copy of it, is with one of those who
 * are left they go on from there (rescue.c). Else all is made anew as at the start of a run, from the newest checkpoint. The
 * epoch of the REGROUP is in the tags of all messages; what is still on its way from before is never taken.
 * Another loss meanwhile is another REGROUP, and all begins again. */
#include "worker/train/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "lib/timeout.h"
#include "worker/train/start/memory_limit.h"

#define PATIENCE_NS (600 * DP_SECOND_NS) /* slurmctld calls a node down after SlurmdTimeout: 300 s, most often */
#define STOP_NS (10 * DP_SECOND_NS) /* of one that is asked to stop: Slurm kills it after KillWait, 30 s most often */

bool dp_trainer_must_regroup(void *arg)
{
    const struct dp_trainer *t = arg;
    const struct dp_msg_regroup *m = t->control ? dp_control_regroup(t->control) : NULL;

    return m && m->epoch > t->layout.epoch;
}

static bool is_any_gone(const struct dp_trainer *t)
{
    for (uint32_t r = 0; r < t->layout.n_workers; r++)
        if (r != t->rank && !t->layout.gone[r] && dp_transport_is_gone(t->args->transport, r))
            return true;
    return false;
}

/* Can this run go on at all, and did it fail because of others? */
static bool is_of_loss(const struct dp_trainer *t, const struct dp_err *err)
{
    if (!t->control || !t->args->transport || t->args->wireup->way != DP_WIREUP_BY_DAEMON || t->is_ending ||
        !t->has_coordinator)
        return false;
    return err->code == DP_EGONE || dp_trainer_must_regroup((void *)(uintptr_t)t) || is_any_gone(t);
}

/* The coordinator refuses this worker: it is one of those that are taken for lost. */
static bool is_refused(const struct dp_trainer *t)
{
    const struct dp_msg_welcome *w = dp_control_welcome(t->control);

    return w && (w->verdict == DP_VERDICT_DENIED || w->verdict == DP_VERDICT_FENCED);
}

/* Of those who wait, as far as this worker can tell, the lowest one tells people. */
static bool speaks(const struct dp_trainer *t)
{
    for (uint32_t r = 0; r < t->rank; r++)
        if (!t->layout.gone[r] && !dp_transport_is_gone(t->args->transport, r))
            return false;
    return true;
}

/* returns 0 when a REGROUP is there, or -1: *err, which says what failed, ends the run. */
static int await_regroup(struct dp_trainer *t, struct dp_err *err)
{
    uint64_t start_ns = dp_now_ns(), stop_ns = 0, patience_ns = dp_timeout_from_env_ns("DYNPIPE_REGROUP_S", PATIENCE_NS);
    char what[sizeof err->text];

    memcpy(what, err->text, sizeof what);
    if (speaks(t) && !dp_trainer_must_regroup(t))
        dp_warn("%s; waiting for the coordinator to say who goes on", what);
    while (!dp_trainer_must_regroup(t)) {
        const char *no = dp_control_no_regroup(t->control);

        if (no[0])
            return dp_err_set(err, DP_EGONE, "%.700s; the others cannot go on: %.200s", what, no);
        if (is_refused(t))
            return dp_err_set(err, DP_EGONE, "%.700s; the coordinator says: %.200s", what, dp_control_welcome(t->control)->text);
        if (dp_now_ns() - start_ns > patience_ns)
            return dp_err_set(err, DP_EGONE, "%.700s; the coordinator named nobody lost for %.0f s", what,
                              (double)patience_ns / 1e9);
        t->requests |= dp_trainer_take_signals(t);
        if (t->requests & DP_REQUEST_STOP && !stop_ns)
            stop_ns = dp_now_ns();
        if (stop_ns && dp_now_ns() - stop_ns > STOP_NS) /* all that could be saved is the newest checkpoint */
            return dp_err_set(err, DP_EGONE, "%.700s; asked to stop, and the coordinator named nobody lost since", what);
        dp_transport_idle(t->args->transport, 0);
        dp_control_wait(t->control, 50);
    }
    return 0;
}

/* Nothing of the old layout is used, sent or received any more; the stage stays, for its layers. */
static int tear_down(struct dp_trainer *t, struct dp_err *err)
{
    dp_trainer_shadow_end(t, false);
    dp_trainer_stock_end(t);
    dp_copies_break_off(t->copies);
    t->shadow = (struct dp_step_shadow){0};
    dp_trainer_close_layout(t);
    if (t->be->ops->sync(t->be, err) < 0)
        return -1;
    if (dp_transport_is_unsafe(t->args->transport))
        return dp_err_set(err, DP_EGONE, "a message of the lost worker cannot be given up");
    t->has_copies = t->is_leaving = false;
    t->order = NULL;
    t->boundary_ns = 0;
    return dp_trainer_rescue_begin(t, err);
}

static int take_layout(struct dp_trainer *t, const struct dp_msg_regroup *m, struct dp_err *err)
{
    struct dp_layout next = {.epoch = m->epoch, .n_workers = m->n_workers, .n_layers = m->n_layers};

    memcpy(next.cut, m->cut, (m->n_workers + 1) * sizeof m->cut[0]);
    memcpy(next.gone, m->gone, m->n_workers);
    if (m->n_workers != t->layout.n_workers || m->n_layers != t->layout.n_layers)
        return dp_err_set(err, DP_EPROTO, "REGROUP is for %u workers and %u layers, this run has %u and %u", m->n_workers,
                          m->n_layers, t->layout.n_workers, t->layout.n_layers);
    if (dp_layout_check(&next, err) < 0)
        return dp_err_prefix(err, "REGROUP");
    for (uint32_t r = 0; r < next.n_workers; r++)
        if (next.gone[r] && !t->layout.gone[r] && r != t->rank)
            dp_transport_lose(t->args->transport, r);
    t->layout = next;
    t->collectives.epoch = next.epoch;
    t->collectives.round = 0;
    return 0;
}

/* As at the start of a run: all, or nobody. */
static int build_up(struct dp_trainer *t, struct dp_err *err)
{
    int rc = 0;

    dp_trainer_rescue_end(t);
    dp_trainer_copies_end(t);
    dp_trainer_close_layout(t);
    dp_stage_destroy(t->stage);
    t->stage = NULL;
    t->loss = NAN;
    t->is_rescued = t->is_new = false;
    t->standing = (struct dp_standing){0};
    if (dp_start_again(&t->collectives, t->config, &t->saved, &t->start, err) < 0)
        return -1;
    t->step = t->standing.step = t->standing.given = t->start.step;
    t->stage = dp_start_stage(t->config, t->be, &t->start, &t->layout, t->rank, err);
    if (!t->stage || dp_trainer_open_layout(t, err) < 0)
        rc = -1;
    if (dp_collectives_agree(&t->collectives, rc, err) < 0 || dp_trainer_begin_schemes(t, err) < 0)
        return -1;
    return 0;
}

/* n_copies: layers that were copies. why_not: that no layers were left to go on from; empty: they were. */
static void tell(struct dp_trainer *t, const char *lost, uint32_t n_copies, const char *why_not)
{
    char layout[512], text[1400], leader[32] = "", from[700], copies[64] = "";
    uint32_t n = dp_layout_members(&t->layout);

    if (!dp_trainer_leads(t))
        return;
    if (t->rank > 0)
        snprintf(leader, sizeof leader, ", worker %u leads,", t->rank);
    dp_layout_format(&t->layout, layout, sizeof layout);
    if (n_copies)
        snprintf(copies, sizeof copies, ", %u of them from copies", n_copies);
    if (why_not[0])
        snprintf(from, sizeof from, "%s%.300s (%.250s)",
                 dp_start_resumes(&t->start) ? "of checkpoint " : t->start.path[0] ? "with the weights of " : "",
                 t->start.path[0] ? t->start.path
                 : "with new weights: no checkpoint was made (checkpoint.dir, checkpoint.every_s)", why_not);
    else
        snprintf(from, sizeof from, "with the layers that they have%s: no step is lost", copies);
    /* What matters first: the coordinator keeps the first 255 characters of it. */
    snprintf(text, sizeof text, "%.250s; %u %s%s from step %llu %s; layout %.300s", lost, n,
             n > 1 ? "workers go on" : "worker goes on", leader, (unsigned long long)t->step, from, layout);
    dp_trainer_event(t, DP_EV_REGROUPED, "regrouped", t->reached.sparsity, text);
}

#define WHY_MAX 300u /* bytes of a reason: what an event of 1 KiB has room for beside the rest */

/* One REGROUP. why_not: why all went back, "" when they did not; it stays over a loss that breaks this one off, because the layers
 * from which those who are left then go on are the checkpoint's. returns as dp_trainer_regroup(). */
static int follow(struct dp_trainer *t, uint64_t since_ns, char why_not[static WHY_MAX], struct dp_err *err)
{
    struct dp_msg_regroup m = *dp_control_regroup(t->control);
    uint32_t n_copies = 0;
    int rc;

    if (tear_down(t, err) < 0 || take_layout(t, &m, err) < 0) {
        t->is_ending = true;
        return -1;
    }
    dp_control_state(t->control, t->step, 0, &t->layout);
    dp_handover_regrouped(t->handover, m.migration, dp_now_ns() - since_ns);
    if (t->layout.gone[t->rank]) {
        t->is_lost = true;
        return 0;
    }
    dp_trainer_serve(t);
    if (dp_collectives_agree(&t->collectives, dp_trainer_lead(t, err), err) < 0)
        return -1;
    rc = dp_trainer_rescue(t, &n_copies, why_not, WHY_MAX, err);
    if (rc < 0 || (rc == 0 && build_up(t, err) < 0))
        return -1;
    dp_control_state(t->control, t->step, 0, &t->layout);
    dp_save_clock_boundary(&t->save_clock, dp_now_ns(), &(struct dp_save_clock_took){0}); /* the wait was no step's */
    dp_memory_trim();
    tell(t, m.text, n_copies, why_not);
    return dp_trainer_rest_of_boundary(t, err) < 0 ? -1 : 1;
}

int dp_trainer_regroup(struct dp_trainer *t, struct dp_err *err)
{
    uint64_t since_ns = dp_now_ns();
    char why_not[WHY_MAX] = "";
    int rc = -1;

    while (rc < 0 && is_of_loss(t, err)) {
        if (await_regroup(t, err) < 0)
            return -1;
        rc = follow(t, since_ns, why_not, err);
    }
    return rc;
}
