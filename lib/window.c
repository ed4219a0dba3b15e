/* SPDX-License-Identifier: BSD-3-Clause */
/* See window.h. A ring of the newest steps. Times of layers are kept layer by layer, each with its three parts, because a median
 * goes over the steps of one part. */
#include "lib/window.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define PARTS 3 /* forward, input gradient, weight gradient */

struct dp_window {
    uint64_t interval_ns, last_report_ns;
    uint64_t overhead_ns; /* of this window so far */
    uint64_t n_steps;     /* taken in during this window; the ring holds the newest of them */
    struct dp_window_step newest, median;
    struct dp_window_step step[DP_WINDOW_STEPS];
    uint32_t first_layer, n_layers;
    uint64_t *layer_ns;         /* [n_layers][PARTS][DP_WINDOW_STEPS]; NULL without layers */
    struct dp_layer_load *load; /* [n_layers], of the newest step; NULL likewise */
    struct dp_msg_report report;
};

struct dp_window *dp_window_create(uint32_t rank, uint32_t report_ms, struct dp_err *err)
{
    struct dp_window *w = calloc(1, sizeof *w);

    if (!w) {
        dp_err_set(err, DP_ENOMEM, "report window: out of memory");
        return NULL;
    }
    w->report.rank = rank;
    w->last_report_ns = dp_now_ns();
    dp_window_set_interval(w, report_ms);
    return w;
}

void dp_window_destroy(struct dp_window *w)
{
    if (!w)
        return;
    free(w->layer_ns);
    free(w->load);
    free(w);
}

void dp_window_set_interval(struct dp_window *w, uint32_t report_ms)
{
    w->interval_ns = report_ms * DP_MS_NS;
}

void dp_window_add_overhead(struct dp_window *w, uint64_t ns)
{
    w->overhead_ns += ns;
}

uint64_t dp_window_overhead_ns(const struct dp_window *w, uint64_t more_ns)
{
    return (w->overhead_ns + more_ns) / (w->n_steps ? w->n_steps : 1);
}

void dp_window_forget(struct dp_window *w)
{
    w->n_steps = 0;
    w->overhead_ns = 0;
}

static uint32_t in_ring(const struct dp_window *w)
{
    return w->n_steps < DP_WINDOW_STEPS ? (uint32_t)w->n_steps : DP_WINDOW_STEPS;
}

static uint64_t *series(const struct dp_window *w, uint32_t layer, uint32_t part)
{
    return w->layer_ns + ((size_t)layer * PARTS + part) * DP_WINDOW_STEPS;
}

/* Make room for the layers. Without memory the window has none: the report then says 0 layers, and the coordinator waits for a
 * better one. */
static void fit(struct dp_window *w, uint64_t epoch, uint32_t first, uint32_t n)
{
    if (n == w->n_layers && first == w->first_layer && epoch == w->newest.epoch)
        return;
    dp_window_forget(w);
    free(w->layer_ns);
    free(w->load);
    w->layer_ns = n ? calloc((size_t)n * PARTS * DP_WINDOW_STEPS, sizeof *w->layer_ns) : NULL;
    w->load = n ? calloc(n, sizeof *w->load) : NULL;
    w->first_layer = first;
    w->n_layers = w->layer_ns && w->load ? n : 0;
}

void dp_window_add(struct dp_window *w, const struct dp_window_step *step, uint32_t first, const struct dp_layer_load *load,
                   uint32_t n)
{
    uint32_t at;

    fit(w, step->epoch, first, n);
    at = (uint32_t)(w->n_steps++ % DP_WINDOW_STEPS);
    w->step[at] = w->newest = *step;
    for (uint32_t i = 0; i < w->n_layers; i++) {
        series(w, i, 0)[at] = load[i].fwd_ns;
        series(w, i, 1)[at] = load[i].bwd_input_ns;
        series(w, i, 2)[at] = load[i].bwd_weight_ns;
        w->load[i] = load[i];
    }
}

bool dp_window_is_empty(const struct dp_window *w)
{
    return w->n_steps == 0;
}

bool dp_window_is_due(const struct dp_window *w, uint64_t now_ns)
{
    return !dp_window_is_empty(w) && now_ns - w->last_report_ns >= w->interval_ns;
}

void dp_window_reported(struct dp_window *w, uint64_t now_ns)
{
    w->last_report_ns = now_ns;
    dp_window_forget(w);
}

/* Lower median of n > 0 values, stride in elements; the values stay as they are. */
static uint64_t median(const uint64_t *v, size_t stride, uint32_t n)
{
    uint64_t sorted[DP_WINDOW_STEPS];

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
    uint64_t known[DP_WINDOW_STEPS];
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        if (v[i * stride])
            known[k++] = v[i * stride];
    return k && 2 * k >= n ? median(known, 1, k) : 0;
}

static void take_medians(struct dp_window *w, uint32_t n)
{
    const size_t stride = sizeof w->step[0] / sizeof(uint64_t);
    const struct dp_window_step *s = w->step;
    struct dp_window_step *m = &w->median;

    _Static_assert(sizeof w->step[0] % sizeof(uint64_t) == 0, "a column of the ring has a stride");
    *m = (struct dp_window_step){.step = w->newest.step, .epoch = w->newest.epoch, .loss = w->newest.loss,
                                 .grad_norm = w->newest.grad_norm};
    if (!n)
        return;
    m->wall_ns = median(&s->wall_ns, stride, n);
    m->wait_ns = median(&s->wait_ns, stride, n);
    m->optimizer_ns = median(&s->optimizer_ns, stride, n);
    m->busy_ns = median(&s->busy_ns, stride, n);
    m->lost_ns = median(&s->lost_ns, stride, n);
    m->ahead_ns = median_known(&s->ahead_ns, stride, n);
    m->held_ns = median_known(&s->held_ns, stride, n);
    m->message_ns = median(&s->message_ns, stride, n);
    m->rest_ns = median(&s->rest_ns, stride, n);
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

static void report_layers(struct dp_window *w, uint32_t n)
{
    struct dp_msg_report *r = &w->report;

    r->first_layer = w->first_layer;
    r->n_layers = n ? w->n_layers : 0;
    for (uint32_t i = 0; i < r->n_layers; i++) {
        r->layer[i] = w->load[i];
        r->layer[i].fwd_ns = median(series(w, i, 0), 1, n);
        r->layer[i].bwd_input_ns = median(series(w, i, 1), 1, n);
        r->layer[i].bwd_weight_ns = median(series(w, i, 2), 1, n);
    }
}

struct dp_msg_report *dp_window_report(struct dp_window *w)
{
    const struct dp_window_step *m = &w->median;
    uint64_t begin = dp_thread_cpu_ns();
    struct dp_msg_report *r = &w->report;
    uint32_t n = in_ring(w);

    take_medians(w, n);
    r->epoch = m->epoch;
    r->step = m->step;
    r->loss = m->loss;
    r->grad_norm = m->grad_norm;
    r->window_steps = n;
    r->step_ns = m->wall_ns;
    r->wait_ns = m->wait_ns;
    r->optimizer_ns = m->optimizer_ns;
    r->busy_ns = m->busy_ns;
    r->lost_ns = m->lost_ns;
    r->ahead_ns = m->ahead_ns;
    r->held_ns = m->held_ns;
    r->mem_bytes = r->need_bytes = r->job_bytes = 0;
    report_layers(w, n);
    r->rss_bytes = rss_bytes();
    r->overhead_ns = dp_window_overhead_ns(w, dp_thread_cpu_ns() - begin);
    return r;
}

const struct dp_window_step *dp_window_medians(const struct dp_window *w)
{
    return &w->median;
}
