/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics.h. What is read of the stage's layers and of the clocks; the window, its medians and the report are lib/window.c's. */
#include "worker/train/log/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "lib/window.h"

#define LAPS_PER_LAYER 9 /* of a block, forward and backward, per microbatch */

struct dp_metrics {
    struct dp_window *window;
    uint64_t clock_read_ns;
    uint64_t need_bytes, job_bytes;
    struct dp_copies_cost copies;
    uint64_t act_bytes[DP_MAX_LAYERS];
    struct dp_layer_load load[DP_MAX_LAYERS];
    struct dp_metrics_rest rest;
};

/* What one read of the thread's CPU clock costs: a system call on most machines. */
static uint64_t price_of_a_clock_read(void)
{
    uint64_t begin = dp_thread_cpu_ns(), end = begin;

    for (int i = 0; i < 64; i++)
        end = dp_thread_cpu_ns();
    return (end - begin) / 64;
}

struct dp_metrics *dp_metrics_create(uint32_t rank, uint32_t report_ms, struct dp_err *err)
{
    struct dp_metrics *m = calloc(1, sizeof *m);

    if (!m) {
        dp_err_set(err, DP_ENOMEM, "metrics: out of memory");
        return NULL;
    }
    m->clock_read_ns = price_of_a_clock_read();
    m->window = dp_window_create(rank, report_ms, err);
    if (!m->window) {
        free(m);
        return NULL;
    }
    return m;
}

void dp_metrics_destroy(struct dp_metrics *m)
{
    if (!m)
        return;
    dp_window_destroy(m->window);
    free(m);
}

void dp_metrics_set_interval(struct dp_metrics *m, uint32_t report_ms)
{
    dp_window_set_interval(m->window, report_ms);
}

void dp_metrics_set_memory(struct dp_metrics *m, uint64_t need_bytes, uint64_t job_bytes)
{
    m->need_bytes = need_bytes;
    m->job_bytes = job_bytes;
}

void dp_metrics_set_copies(struct dp_metrics *m, const struct dp_copies_cost *cost)
{
    m->copies = *cost;
}

void dp_metrics_add_overhead(struct dp_metrics *m, uint64_t ns)
{
    dp_window_add_overhead(m->window, ns);
}

static void zero_counters(struct dp_layer *l)
{
    l->fwd_ns = l->bwd_input_ns = l->bwd_weight_ns = l->timed_microbatches = 0;
}

/* Read and reset the layers' counters: m->load =, of one microbatch. returns: their device time together. */
static uint64_t take_layers(struct dp_metrics *m, struct dp_stage *stage)
{
    uint64_t busy = 0;

    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);
        uint64_t n = l->timed_microbatches ? l->timed_microbatches : 1;

        busy += l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns;
        m->load[i] = (struct dp_layer_load){.fwd_ns = l->fwd_ns / n, .bwd_input_ns = l->bwd_input_ns / n,
                                            .bwd_weight_ns = l->bwd_weight_ns / n};
        zero_counters(l);
    }
    return busy;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct dp_window_step step_of(const struct dp_step_sample *s, uint64_t layers_ns)
{
    const struct dp_pipeline_times *p = &s->pipeline;
    uint64_t rest_ns = s->rest_ns + p->data_ns;

    return (struct dp_window_step){
        .step = s->step,
        .epoch = s->epoch,
        .wall_ns = s->wall_ns,
        .wait_ns = s->wait_ns,
        .optimizer_ns = s->optimizer_ns,
        .busy_ns = layers_ns + s->optimizer_ns,
        .lost_ns = less(s->wall_ns, s->wait_ns + layers_ns + p->border_ns + s->optimizer_ns + rest_ns),
        .ahead_ns = p->ahead_ns,
        .held_ns = p->held_ns,
        .message_ns = (p->border_ns + p->receive_ns) / (s->microbatches ? s->microbatches : 1),
        .rest_ns = rest_ns,
        .loss = s->loss,
        .grad_norm = s->grad_norm,
    };
}

void dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage)
{
    uint64_t begin = dp_thread_cpu_ns(), laps;
    uint32_t n = dp_stage_n_layers(stage);
    struct dp_window_step step = step_of(s, take_layers(m, stage));

    dp_window_add(m->window, &step, n ? dp_stage_layer(stage, 0)->index : 0, m->load, n);
    laps = (uint64_t)LAPS_PER_LAYER * n * s->microbatches;
    dp_window_add_overhead(m->window, (laps + 1) * m->clock_read_ns + dp_thread_cpu_ns() - begin);
}

void dp_metrics_reset(struct dp_metrics *m, struct dp_stage *stage)
{
    dp_window_forget(m->window);
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++)
        zero_counters(dp_stage_layer(stage, i));
}

bool dp_metrics_is_due(const struct dp_metrics *m, uint64_t now_ns)
{
    return dp_window_is_due(m->window, now_ns);
}

/* What the layers are now, beside their times. A stage that changed since the newest step has none in the report. */
static void add_layers(struct dp_metrics *m, struct dp_msg_report *r, struct dp_stage *stage)
{
    uint32_t n = dp_stage_n_layers(stage);

    memset(m->act_bytes, 0, n * sizeof m->act_bytes[0]);
    r->mem_bytes = dp_stage_bytes(stage, m->act_bytes);
    if (r->n_layers != n)
        r->n_layers = 0;
    for (uint32_t i = 0; i < r->n_layers; i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);
        struct dp_layer_load *load = &r->layer[i];

        load->state_bytes = dp_layer_state_bytes(l);
        load->act_bytes = m->act_bytes[i];
        for (uint32_t p = 0; p < l->n_params; p++) {
            load->params += (uint64_t)(l->param[p].rows * l->param[p].cols);
            load->nnz += (uint64_t)l->param[p].nnz;
        }
    }
}

/* A stage that changed since they were told has none in the report. */
static void add_copies(const struct dp_metrics *m, struct dp_msg_report *r)
{
    const struct dp_copies_cost *k = &m->copies;

    r->copy_layers = k->holder != DP_COPY_NOWHERE && k->n_own <= r->n_layers ? k->n_own : 0;
    r->copy_whole = k->n_own_whole < r->copy_layers ? k->n_own_whole : r->copy_layers;
    r->copy_holder = r->copy_layers ? k->holder : 0;
    r->copy_held = k->n_held;
    r->copy_bytes = k->held_bytes;
    r->copy_step_bytes = k->step_bytes;
    r->mem_bytes += k->held_bytes;
}

static struct dp_msg_report *make_report(struct dp_metrics *m, struct dp_stage *stage)
{
    uint64_t begin = dp_thread_cpu_ns();
    struct dp_msg_report *r = dp_window_report(m->window);
    const struct dp_window_step *median = dp_window_medians(m->window);

    m->rest = (struct dp_metrics_rest){.message_ns = median->message_ns, .rest_ns = median->rest_ns, .lost_ns = median->lost_ns};
    add_layers(m, r, stage);
    r->need_bytes = m->need_bytes;
    r->job_bytes = m->job_bytes;
    add_copies(m, r);
    r->overhead_ns = dp_window_overhead_ns(m->window, dp_thread_cpu_ns() - begin);
    return r;
}

const struct dp_msg_report *dp_metrics_window(struct dp_metrics *m, struct dp_stage *stage)
{
    return dp_window_is_empty(m->window) ? NULL : make_report(m, stage);
}

const struct dp_metrics_rest *dp_metrics_get_rest(const struct dp_metrics *m)
{
    return &m->rest;
}

const struct dp_msg_report *dp_metrics_report(struct dp_metrics *m, uint64_t now_ns, struct dp_stage *stage)
{
    const struct dp_msg_report *r = make_report(m, stage);

    dp_window_reported(m->window, now_ns);
    return r;
}
