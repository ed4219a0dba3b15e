/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer.h. The loop of one optimizer step:
 *
 *   pipeline (forward and backward of all microbatches), tied gradient, squares of the gradients
 *   one exchange with the leader (step_sync.h): loss, gradient norm, what happens at the boundary
 *   optimizer step, tied weights
 *   boundary: apply schemes, hand over, evaluate, save, stop - the same on all workers
 *
 * Between boundaries a worker talks to nobody but its neighbours and the leader. */
#include "worker/train/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "worker/train/start/memory_limit.h"
#include "worker/train/signals.h"

#define LET_GO_NS (10 * DP_SECOND_NS)   /* of a slice that Slurm ends, for a hand-over: a boundary, or a few */
#define SAY_AGAIN_NS (3 * DP_SECOND_NS) /* to a coordinator that was restarted */

bool dp_trainer_leads(const struct dp_trainer *t)
{
    return dp_collectives_leads(&t->collectives);
}

void dp_trainer_tell(struct dp_trainer *t, enum dp_event kind, double value, const char *text)
{
    struct dp_msg_event m = {.kind = (uint8_t)kind, .step = t->step, .value = isfinite(value) ? value : 0};

    if (!dp_trainer_leads(t))
        return;
    snprintf(m.text, sizeof m.text, "%s", text);
    dp_control_event(t->control, &m);
}

void dp_trainer_event(struct dp_trainer *t, enum dp_event kind, const char *name, double value, const char *text)
{
    if (!dp_trainer_leads(t))
        return;
    dp_trainer_tell(t, kind, value, text);
    dp_steplog_event(t->log, name, t->step, value, text);
}

/* The migration that the leader's daemon wants, 0: none. */
static uint64_t pending_migration(struct dp_trainer *t)
{
    const struct dp_msg_prepare *p = dp_trainer_leads(t) ? dp_control_prepare(t->control) : NULL;

    return p ? p->migration : 0; /* one for another epoch is voted down inside */
}

/* What Slurm says to one slice, SIGTERM, concerns it alone: it asks its coordinator to let it go, which takes its layers away, or
 * lets all stop (daemon/coord/members/leave.c). Where neither happens, all stop here, while Slurm still gives time: KillWait is 30 s. */
static bool must_stop(struct dp_trainer *t, bool is_signal)
{
    struct dp_msg_event m = {.kind = DP_EV_LEAVE, .step = t->step};
    uint64_t now_ns = dp_now_ns();

    if (!t->args->wireup->is_slice || t->layout.n_workers < 2)
        return is_signal;
    if (is_signal && !t->asked_ns)
        t->asked_ns = now_ns;
    if (!t->asked_ns)
        return false;
    if (now_ns - t->asked_ns > LET_GO_NS)
        return true;
    if (!t->said_ns || now_ns - t->said_ns > SAY_AGAIN_NS) {
        t->said_ns = now_ns;
        dp_control_event(t->control, &m);
    }
    return false;
}

uint32_t dp_trainer_take_signals(struct dp_trainer *t)
{
    uint32_t w = dp_signals_take();
    bool stop = must_stop(t, w & DP_REQUEST_STOP);

    return (w & ~(uint32_t)DP_REQUEST_STOP) | (stop ? DP_REQUEST_STOP : 0);
}

static uint32_t requests_of(struct dp_trainer *t)
{
    uint32_t w = dp_trainer_take_signals(t);

    if (dp_control_take_save(t->control))
        w |= DP_REQUEST_SAVE;
    if (dp_control_take_stop(t->control))
        w |= DP_REQUEST_STOP;
    if (!dp_trainer_leads(t))
        return w;
    if (dp_control_has_limit(t->control))
        dp_save_clock_end_at(&t->save_clock, dp_control_end_ns(t->control));
    return w | dp_save_clock_requests(&t->save_clock, dp_now_ns(), t->step + 1);
}

double dp_trainer_grad_scale(const struct dp_trainer *t, double norm)
{
    double clip = t->config->train.clip;

    return clip > 0 && norm > clip ? clip / norm : 1.0;
}

void dp_trainer_note_order(struct dp_trainer *t, const struct dp_step_order *order, const struct dp_reached *reached)
{
    t->standing.order = *order;
    t->standing.reached = *reached;
    t->standing.done = t->standing.told = t->standing.schemes_done = t->standing.schemes_told = 0;
}

int dp_trainer_step_layers(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err)
{
    const double scale = dp_trainer_grad_scale(t, order->grad_norm);

    dp_schemes_observe(t->stage, t->config, order->step, t->squares, scale);
    if (dp_stage_n_layers(t->stage) > 0 && dp_stage_step(t->stage, order->step - 1, scale, err) < 0)
        return -1;
    t->standing.step = order->step;
    return 0;
}

static int optimize(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err)
{
    if (dp_tied_head_settle(&t->tied, &t->wait_ns, err) < 0)
        return -1;
    if (dp_trainer_step_layers(t, order, err) < 0)
        return -1;
    return dp_tied_head_weights(&t->tied, &t->layout, t->stage, t->step, &t->wait_ns, err);
}

/* While a worker waits for others, or for its device, its daemon is still answered. A reconnect changes the descriptor. */
void dp_trainer_serve(void *arg)
{
    struct dp_trainer *t = arg;

    dp_control_poll(t->control);
    t->has_coordinator |= dp_control_is_connected(t->control);
    if (t->args->transport)
        dp_transport_watch(t->args->transport, dp_control_fd(t->control), dp_trainer_serve, t);
    if (t->pipeline && !t->order) /* within a step */
        dp_trainer_stock(t);
}

/* What the device did since the last lap counts there. */
static int lap(struct dp_trainer *t, uint64_t *sum_ns, struct dp_err *err)
{
    return t->be->ops->lap(t->be, sum_ns, err);
}

/* The same where this worker waited for others: a processor handles their messages meanwhile, another device has nothing
 * to do. */
static int lap_of_wait(struct dp_trainer *t, struct dp_err *err)
{
    return lap(t, t->be->ops->host_memory ? &t->rest_ns : &t->idle_ns, err);
}

/* Parts in, order out. One that the leader has decided may have reached some, though not all. */
static int exchange(struct dp_trainer *t, const struct dp_step_part *part, uint64_t migration, const struct dp_step_shadow *shadow,
                    struct dp_step_order *order, struct dp_err *err)
{
    const uint64_t step = t->step + 1;
    int rc;

    t->standing.given = step;
    *order = (struct dp_step_order){0};
    rc = dp_step_sync(&t->collectives, t->config, step, part, &t->reached, migration, shadow, order, err);
    if ((rc == 0 || dp_trainer_leads(t)) && order->step == step && order->reason != DP_STOP_DIVERGED)
        dp_trainer_note_order(t, order, &t->reached);
    return rc;
}

/* After the backwards: squares of the gradients, and what all workers have of them; the order. */
static int add_up(struct dp_trainer *t, struct dp_step_order *order, struct dp_err *err)
{
    struct dp_step_part part = {.squares = t->squares, .measured = t->measured, .losses = t->losses};
    struct dp_step_shadow shadow;
    uint64_t migration;

    if (lap_of_wait(t, err) < 0 || dp_stage_sum_squares(t->stage, err) < 0 || dp_device_finish(&t->device, err) < 0 ||
        dp_stage_grad_squares(t->stage, t->squares, err) < 0 ||
        dp_schemes_measure(t->stage, t->config, t->step + 1, t->squares, t->measured, err) < 0 || lap(t, &t->optimizer_ns, err) < 0 ||
        dp_tied_head_send(&t->tied, err) < 0)
        return -1;
    t->requests |= requests_of(t);
    part.requests = t->requests;
    migration = pending_migration(t);
    shadow = dp_trainer_shadow_state(t, migration);
    if (dp_trainer_shadow_part(t, &part.requests, err) < 0 || dp_trainer_copies_part(t, &part.requests, err) < 0 ||
        exchange(t, &part, migration, &shadow, order, err) < 0)
        return -1;
    return lap_of_wait(t, err);
}

/* All that the step took, when the device is done with it. */
static int collect(struct dp_trainer *t, uint64_t start_ns, struct dp_step_sample *sample, struct dp_err *err)
{
    if (lap(t, &t->optimizer_ns, err) < 0 || dp_device_finish(&t->device, err) < 0 ||
        t->be->ops->laps_collect(t->be, err) < 0)
        return -1;
    sample->wall_ns = dp_now_ns() - start_ns;
    sample->pipeline = dp_pipeline_take_times(t->pipeline);
    sample->optimizer_ns = t->optimizer_ns;
    sample->rest_ns = t->rest_ns;
    sample->wait_ns = t->wait_ns + t->collectives.wait_ns;
    if (!t->be->ops->host_memory) { /* a worker waits while its device still works; this is what the device waited */
        sample->wait_ns = t->idle_ns + sample->pipeline.receive_ns;
        sample->pipeline.receive_ns = 0;
    }
    return 0;
}

/* One optimizer step; the order says what follows. */
static int train_step(struct dp_trainer *t, struct dp_step_order *order, struct dp_err *err)
{
    struct dp_step_sample sample = {.epoch = t->layout.epoch};
    uint64_t start_ns = dp_now_ns();

    t->wait_ns = t->collectives.wait_ns = 0;
    t->optimizer_ns = t->rest_ns = t->idle_ns = 0;
    if (lap(t, NULL, err) < 0)
        return -1;
    dp_trainer_serve(t);
    dp_pipeline_set_schemes(t->pipeline, t->reached.frozen, dp_schemes_runs(t->config));
    if (dp_pipeline_train(t->pipeline, &t->layout, t->stage, t->step, t->losses, &t->wait_ns, err) < 0 ||
        lap(t, &t->rest_ns, err) < 0 ||
        dp_tied_head_gradients(&t->tied, &t->layout, t->stage, t->step, &t->wait_ns, err) < 0 ||
        add_up(t, order, err) < 0)
        return -1;
    if (order->reason == DP_STOP_DIVERGED)
        return 0;
    if (optimize(t, order, err) < 0 || dp_trainer_copies_step(t, order, err) < 0 || collect(t, start_ns, &sample, err) < 0)
        return -1;
    t->step_ns = sample.wall_ns;
    sample.step = ++t->step;
    t->loss = order->loss;
    sample.microbatches = (uint32_t)t->config->train.microbatches;
    sample.loss = order->loss;
    sample.grad_norm = order->grad_norm;
    dp_metrics_step(t->metrics, &sample, t->stage);
    if (dp_trainer_leads(t))
        dp_steplog_step(t->log, &(struct dp_step_line){.step = t->step,
                                                       .loss = order->loss,
                                                       .grad_norm = order->grad_norm,
                                                       .lr = dp_train_lr(t->config, t->step - 1),
                                                       .sparsity = t->reached.sparsity,
                                                       .frozen = t->reached.frozen,
                                                       .step_ns = sample.wall_ns,
                                                       .wait_ns = sample.wait_ns,
                                                       .layout = &t->layout});
    return 0;
}

static void trace(struct dp_trainer *t, const struct dp_msg_report *window)
{
    dp_tracelog_window(t->trace, window, dp_metrics_get_rest(t->metrics), &t->layout, t->boundary_ns);
    t->boundary_ns = 0;
}

void dp_trainer_trace(struct dp_trainer *t)
{
    const struct dp_msg_report *window = dp_tracelog_is_on(t->trace) ? dp_metrics_window(t->metrics, t->stage) : NULL;

    if (window)
        trace(t, window);
}

static uint64_t largest_layer_bytes(const struct dp_trainer *t)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < dp_stage_n_layers(t->stage); i++) {
        uint64_t bytes = dp_layer_state_bytes(dp_stage_layer(t->stage, i));

        most = bytes > most ? bytes : most;
    }
    return most;
}

static void report(struct dp_trainer *t)
{
    uint64_t now = dp_now_ns();
    const struct dp_msg_report *r;
    struct dp_copies_cost copies;
    uint64_t need;

    dp_control_state(t->control, t->step, 0, &t->layout);
    dp_metrics_set_interval(t->metrics, dp_trainer_report_ms(t));
    if (!dp_metrics_is_due(t->metrics, now))
        return;
    copies = dp_copies_info(t->copies);
    need = dp_memory_need_bytes(&t->need, largest_layer_bytes(t));
    if (need) /* what copies are still to fill is not resident yet */
        need += copies.coming_bytes;
    dp_metrics_set_memory(t->metrics, need, dp_memory_own_job());
    dp_metrics_set_copies(t->metrics, &copies);
    r = dp_metrics_report(t->metrics, now, t->stage);
    trace(t, r);
    dp_control_report(t->control, r);
}

/* ---- end ---- */

static void note_end(struct dp_trainer *t, enum dp_goodbye how, const char *text)
{
    struct dp_msg_goodbye m = {.rank = t->rank, .how = (uint8_t)how, .step = t->step, .loss = t->loss};

    if (!t->control)
        return;
    snprintf(m.text, sizeof m.text, "%.255s", text);
    dp_control_goodbye(t->control, &m);
}

/* This worker owns nothing any more: wait until the coordinator lets it go. */
static int leave(struct dp_trainer *t, enum dp_run_outcome *how, struct dp_err *err)
{
    int state;

    dp_control_state(t->control, t->step, 0, &t->layout);
    while ((state = dp_handover_poll(t->handover, err)) == DP_MEMBER_LEAVING)
        dp_control_wait(t->control, 100);
    if (state < 0)
        return -1;
    note_end(t, DP_BYE_DRAINED, "");
    *how = DP_RUN_DRAINED;
    return 0;
}

/* Nothing was saved and no weight was changed by the step that went wrong. */
static int diverged(struct dp_trainer *t, const struct dp_step_order *o, enum dp_run_outcome *how, struct dp_err *err)
{
    dp_err_set(err, DP_EINVAL, "the loss is %g, the gradient norm %g at step %llu: lower train.lr; checkpoints are as they were",
               o->loss, o->grad_norm, (unsigned long long)o->step);
    t->is_ending = true;
    if (dp_trainer_leads(t))
        dp_steplog_event(t->log, "stopped", t->step, NAN, err->text);
    if (dp_collectives_barrier(&t->collectives, err) == 0)
        *how = DP_RUN_DIVERGED;
    return -1;
}

static int finish(struct dp_trainer *t, const struct dp_step_order *o, enum dp_run_outcome *how, struct dp_err *err)
{
    bool is_stopped = o->reason != DP_STOP_COMPLETED;

    t->is_ending = true; /* others may have left already */
    dp_trainer_trace(t);
    if (is_stopped && dp_trainer_leads(t))
        dp_steplog_event(t->log, "stopped", t->step, NAN,
                         o->reason == DP_STOP_TIME ? "before the job's time is over, after saving"
                         : t->config->checkpoint.dir[0] ? "by a signal, after saving" : "by a signal, nothing saved");
    /* Whoever leaves first must not take the others' last messages along. */
    if (dp_tied_head_settle(&t->tied, &t->wait_ns, err) < 0 || dp_pipeline_part(t->pipeline, err) < 0 ||
        (t->copies && dp_copies_settle(t->copies, err) < 0) || dp_collectives_barrier(&t->collectives, err) < 0)
        return -1;
    note_end(t, is_stopped ? DP_BYE_SAVED : DP_BYE_COMPLETED, "");
    *how = is_stopped ? DP_RUN_STOPPED : DP_RUN_COMPLETED;
    return 0;
}

static int loop(struct dp_trainer *t, enum dp_run_outcome *how, struct dp_err *err)
{
    struct dp_step_order order = {.flags = DP_ORDER_STOP, .reason = DP_STOP_COMPLETED, .step = t->step};

    if (t->is_rescued) {
        t->is_rescued = false;
        order = t->standing.order;
        if (order.flags & DP_ORDER_STOP)
            return finish(t, &order, how, err);
    } else if (t->step >= (uint64_t)t->config->train.steps && dp_trainer_leads(t)) {
        char text[160];

        snprintf(text, sizeof text, "nothing is left to train: this checkpoint is of step %llu, train.steps is %lld; a larger "
                 "train.steps goes on from it", (unsigned long long)t->step, (long long)t->config->train.steps);
        dp_steplog_event(t->log, "complete", t->step, NAN, text);
    }
    if (t->is_joining) {
        int rc = dp_trainer_join(t, &order, err);

        if (rc == 0) {
            note_end(t, DP_BYE_DRAINED, "");
            *how = DP_RUN_DRAINED;
        }
        if (rc <= 0)
            return rc;
        if (order.flags & DP_ORDER_STOP)
            return finish(t, &order, how, err);
    }
    while (t->step < (uint64_t)t->config->train.steps) {
        if (train_step(t, &order, err) < 0)
            return dp_err_prefix(err, "step %llu", (unsigned long long)t->step + 1);
        if (order.reason == DP_STOP_DIVERGED)
            return diverged(t, &order, how, err);
        report(t);
        if (dp_trainer_boundary(t, &order, err) < 0)
            return -1;
        t->requests = 0;
        if (t->is_leaving)
            return leave(t, how, err);
        if (order.flags & DP_ORDER_STOP)
            break;
    }
    return finish(t, &order, how, err);
}

/* Until the last step, with those who are left. */
static int train(struct dp_trainer *t, enum dp_run_outcome *how, struct dp_err *err)
{
    int rc;

    dp_signals_begin();
    dp_save_clock_start(&t->save_clock, t->config, dp_now_ns());
    dp_save_clock_end_at(&t->save_clock, dp_save_clock_env_end(dp_now_ns(), dp_wall_ns()));
    while ((rc = loop(t, how, err)) < 0 && (rc = dp_trainer_regroup(t, err)) > 0)
        continue;
    if (rc == 0 && t->is_lost) {
        note_end(t, DP_BYE_DRAINED, "");
        *how = DP_RUN_DRAINED;
    }
    return rc;
}

static void note_failure(struct dp_trainer *t, const struct dp_err *err)
{
    struct dp_msg_event m = {.kind = DP_EV_FAILED, .step = t->step};

    if (!t->control)
        return;
    snprintf(m.text, sizeof m.text, "%s", err->text);
    dp_control_event(t->control, &m);
    note_end(t, DP_BYE_FAILED, err->text);
}

int dp_trainer_run(const struct dp_trainer_args *args, enum dp_run_outcome *how, struct dp_err *err)
{
    struct dp_trainer t = {.args = args, .config = args->config, .rank = args->wireup->rank, .loss = NAN, .ckpt_lock = -1};
    int rc = dp_trainer_begin(&t, how, err);

    if (rc == 0)
        rc = train(&t, how, err);
    if (rc < 0)
        note_failure(&t, err);
    dp_trainer_end(&t);
    return rc;
}
