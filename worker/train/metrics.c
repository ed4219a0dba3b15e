/* SPDX-License-Identifier: BSD-3-Clause */
/* See metrics.h. A window is a ring of the newest DP_METRICS_WINDOW steps; medians are taken when a
 * report is built, so a step costs a few stores per layer. Layer values are kept layer by layer, each
 * with its three parts, because a median goes over the steps of one part. */
#include "worker/train/metrics.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define PARTS 3                  /* forward, input gradient, weight gradient */
#define LAPS_PER_LAYER 9         /* of a block, forward and backward, per microbatch */

struct step_times {
    uint64_t wall_ns, wait_ns, optimizer_ns, busy_ns, ahead_ns, held_ns;
    struct dp_metrics_rest rest;
};

struct dp_metrics {
    uint64_t interval_ns, last_report_ns;
    uint64_t clock_read_ns;
    uint64_t overhead_ns; /* of this window so far */
    uint64_t n_steps;     /* taken in during this window; the ring holds the newest of them */
    struct dp_step_sample newest;
    struct step_times step[DP_METRICS_WINDOW];
    uint32_t first_layer, n_layers;
    uint64_t *layer_ns; /* [n_layers][PARTS][DP_METRICS_WINDOW]; NULL for an empty stage */
    uint64_t act_bytes[DP_MAX_LAYERS];
    struct dp_msg_report report;
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
    m->report.rank = rank;
    m->clock_read_ns = price_of_a_clock_read();
    m->last_report_ns = dp_now_ns();
    dp_metrics_set_interval(m, report_ms);
    return m;
}

void dp_metrics_destroy(struct dp_metrics *m)
{
    if (!m)
        return;
    free(m->layer_ns);
    free(m);
}

void dp_metrics_set_interval(struct dp_metrics *m, uint32_t report_ms)
{
    m->interval_ns = (uint64_t)report_ms * 1000000u;
}

void dp_metrics_set_memory(struct dp_metrics *m, uint64_t need_bytes, uint64_t job_bytes)
{
    m->report.need_bytes = need_bytes;
    m->report.job_bytes = job_bytes;
}

void dp_metrics_add_overhead(struct dp_metrics *m, uint64_t ns)
{
    m->overhead_ns += ns;
}

static void begin_window(struct dp_metrics *m)
{
    m->n_steps = 0;
    m->overhead_ns = 0;
}

static uint32_t in_ring(const struct dp_metrics *m)
{
    return m->n_steps < DP_METRICS_WINDOW ? (uint32_t)m->n_steps : DP_METRICS_WINDOW;
}

static uint64_t *series(const struct dp_metrics *m, uint32_t layer, uint32_t part)
{
    return m->layer_ns + ((size_t)layer * PARTS + part) * DP_METRICS_WINDOW;
}

/* Make room for the stage's layers. A stage that changed begins a new window. Without memory the
 * window has no layers: the report then says 0 layers and the coordinator waits for a better one. */
static void fit_stage(struct dp_metrics *m, struct dp_stage *stage, uint64_t epoch)
{
    uint32_t n = dp_stage_n_layers(stage);
    uint32_t first = n ? dp_stage_layer(stage, 0)->index : 0;

    if (n == m->n_layers && first == m->first_layer && epoch == m->newest.epoch)
        return;
    begin_window(m);
    m->first_layer = first;
    free(m->layer_ns);
    m->layer_ns = n ? calloc((size_t)n * PARTS * DP_METRICS_WINDOW, sizeof *m->layer_ns) : NULL;
    m->n_layers = m->layer_ns ? n : 0;
}

static void zero_counters(struct dp_layer *l)
{
    l->fwd_ns = l->bwd_input_ns = l->bwd_weight_ns = l->timed_microbatches = 0;
}

/* Read and reset the layers' counters into column `at`. returns: their device time together. */
static uint64_t take_layers(struct dp_metrics *m, struct dp_stage *stage, uint32_t at)
{
    uint64_t busy = 0;

    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        struct dp_layer *l = dp_stage_layer(stage, i);
        const uint64_t part[PARTS] = {l->fwd_ns, l->bwd_input_ns, l->bwd_weight_ns};

        for (uint32_t p = 0; p < PARTS; p++) {
            busy += part[p];
            if (i < m->n_layers)
                series(m, i, p)[at] = part[p] / (l->timed_microbatches ? l->timed_microbatches : 1);
        }
        zero_counters(l);
    }
    return busy;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct dp_metrics_rest rest_of(const struct dp_step_sample *s, uint64_t layers_ns)
{
    const struct dp_pipeline_times *p = &s->pipeline;
    uint64_t rest_ns = s->rest_ns + p->data_ns;

    return (struct dp_metrics_rest){
        .message_ns = (p->border_ns + p->receive_ns) / (s->microbatches ? s->microbatches : 1),
        .rest_ns = rest_ns,
        .lost_ns = less(s->wall_ns, s->wait_ns + layers_ns + p->border_ns + s->optimizer_ns + rest_ns),
    };
}

void dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage)
{
    uint64_t begin = dp_thread_cpu_ns();
    struct step_times *t;
    uint32_t at;

    fit_stage(m, stage, s->epoch);
    at = (uint32_t)(m->n_steps++ % DP_METRICS_WINDOW);
    t = &m->step[at];
    t->wall_ns = s->wall_ns;
    t->wait_ns = s->wait_ns;
    t->optimizer_ns = s->optimizer_ns;
    t->ahead_ns = s->pipeline.ahead_ns;
    t->held_ns = s->pipeline.held_ns;
    t->busy_ns = take_layers(m, stage, at);
    t->rest = rest_of(s, t->busy_ns);
    t->busy_ns += s->optimizer_ns;
    m->newest = *s;
    m->overhead_ns += (uint64_t)LAPS_PER_LAYER * m->n_layers * s->microbatches * m->clock_read_ns;
    m->overhead_ns += dp_thread_cpu_ns() - begin + m->clock_read_ns;
}

void dp_metrics_reset(struct dp_metrics *m, struct dp_stage *stage)
{
    begin_window(m);
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++)
        zero_counters(dp_stage_layer(stage, i));
}

bool dp_metrics_is_due(const struct dp_metrics *m, uint64_t now_ns)
{
    return m->n_steps > 0 && now_ns - m->last_report_ns >= m->interval_ns;
}

/* Lower median of n > 0 values, stride in elements; the values stay as they are. */
static uint64_t median(const uint64_t *v, size_t stride, uint32_t n)
{
    uint64_t sorted[DP_METRICS_WINDOW];

    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = v[i * stride];
        uint32_t j = i;

        for (; j > 0 && sorted[j - 1] > x; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = x;
    }
    return sorted[(n - 1) / 2];
}

/* The median of those that are known, 0 where that is less than half of them. */
static uint64_t median_known(const uint64_t *v, size_t stride, uint32_t n)
{
    uint64_t known[DP_METRICS_WINDOW];
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        if (v[i * stride])
            known[k++] = v[i * stride];
    return k && 2 * k >= n ? median(known, 1, k) : 0;
}

/* Resident set of this process; 0 when /proc does not tell. */
static uint64_t rss_bytes(void)
{
    unsigned long long size, resident;
    char text[128];
    ssize_t n;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu", &size, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void report_steps(struct dp_metrics *m, uint32_t n)
{
    const size_t stride = sizeof m->step[0] / sizeof(uint64_t);
    struct dp_msg_report *r = &m->report;

    r->epoch = m->newest.epoch;
    r->step = m->newest.step;
    r->loss = m->newest.loss;
    r->grad_norm = m->newest.grad_norm;
    r->window_steps = n;
    r->step_ns = n ? median(&m->step[0].wall_ns, stride, n) : 0;
    r->wait_ns = n ? median(&m->step[0].wait_ns, stride, n) : 0;
    r->optimizer_ns = n ? median(&m->step[0].optimizer_ns, stride, n) : 0;
    r->busy_ns = n ? median(&m->step[0].busy_ns, stride, n) : 0;
    r->ahead_ns = median_known(&m->step[0].ahead_ns, stride, n);
    r->held_ns = median_known(&m->step[0].held_ns, stride, n);
    r->lost_ns = m->rest.lost_ns = n ? median(&m->step[0].rest.lost_ns, stride, n) : 0;
    m->rest.message_ns = n ? median(&m->step[0].rest.message_ns, stride, n) : 0;
    m->rest.rest_ns = n ? median(&m->step[0].rest.rest_ns, stride, n) : 0;
}

static void report_layers(struct dp_metrics *m, struct dp_stage *stage, uint32_t n)
{
    struct dp_msg_report *r = &m->report;
    uint32_t n_layers = n && dp_stage_n_layers(stage) == m->n_layers ? m->n_layers : 0;

    memset(m->act_bytes, 0, dp_stage_n_layers(stage) * sizeof m->act_bytes[0]);
    r->mem_bytes = dp_stage_bytes(stage, m->act_bytes);
    r->first_layer = m->first_layer;
    r->n_layers = n_layers;
    for (uint32_t i = 0; i < n_layers; i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);
        struct dp_layer_load *load = &r->layer[i];

        *load = (struct dp_layer_load){
            .fwd_ns = median(series(m, i, 0), 1, n),
            .bwd_input_ns = median(series(m, i, 1), 1, n),
            .bwd_weight_ns = median(series(m, i, 2), 1, n),
            .state_bytes = dp_layer_state_bytes(l),
            .act_bytes = m->act_bytes[i],
        };
        for (uint32_t p = 0; p < l->n_params; p++) {
            load->params += (uint64_t)(l->param[p].rows * l->param[p].cols);
            load->nnz += (uint64_t)l->param[p].nnz;
        }
    }
}

static void fill_report(struct dp_metrics *m, struct dp_stage *stage)
{
    uint64_t begin = dp_thread_cpu_ns(), steps = m->n_steps ? m->n_steps : 1;
    uint32_t n = in_ring(m);

    report_steps(m, n);
    report_layers(m, stage, n);
    m->report.rss_bytes = rss_bytes();
    m->report.overhead_ns = (m->overhead_ns + dp_thread_cpu_ns() - begin) / steps;
}

const struct dp_msg_report *dp_metrics_window(struct dp_metrics *m, struct dp_stage *stage)
{
    if (!m->n_steps)
        return NULL;
    fill_report(m, stage);
    return &m->report;
}

const struct dp_metrics_rest *dp_metrics_get_rest(const struct dp_metrics *m)
{
    return &m->rest;
}

const struct dp_msg_report *dp_metrics_report(struct dp_metrics *m, uint64_t now_ns, struct dp_stage *stage)
{
    fill_report(m, stage);
    m->last_report_ns = now_ns;
    begin_window(m);
    return &m->report;
}
