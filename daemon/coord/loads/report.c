/* SPDX-License-Identifier: BSD-3-Clause */
/* Measured loads, checked before anything believes them.
 *
 * A report is dropped and counted, never repaired, when it is of another epoch, older than the newest,
 * from beyond the end, not about the layers that the layout gives its sender, or holds numbers that no
 * training produces. A layer's times are the median of its last three reports, so one bad sample moves
 * nothing.
 */
#include "daemon/coord/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

#define MAX_STEP_NS (3600 * DP_SECOND_NS) /* an hour: a report of a longer step is a lie or a broken clock */
#define MAX_BYTES (1ull << 50) /* 1 PiB, likewise; sums over all workers stay far from 2^64 */
#define PATIENCE_STEPS 5 /* votes come at a boundary, and workers may be some steps apart */

void coord_loads_reset(struct dp_coord *c)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        c->worker[r].n_reports = 0;
        c->worker[r].is_fresh = false;
        c->worker[r].n_shared = 0;
    }
    for (uint32_t l = 0; l < c->train.n_layers; l++)
        c->layer[l].n_samples = c->layer[l].at = 0;
    coord_noise_reset(c);
    memset(&c->recent, 0, sizeof c->recent);
}

bool coord_is_changed(const struct dp_coord *c)
{
    return c->train.is_pruned || c->train.n_frozen > dp_changes_value(c->train.change, c->train.n_changes, DP_CHANGE_FREEZE, 0);
}

uint64_t coord_first_change(const struct dp_coord *c)
{
    uint32_t i = dp_changes_next(c->train.change, c->train.n_changes, 0);

    return dp_least_u64(i < c->train.n_changes ? c->train.change[i].step : UINT64_MAX, coord_expect_first(c));
}

bool coord_loads_ready(const struct dp_coord *c)
{
    uint32_t wanted = c->limits.warmup_reports ? c->limits.warmup_reports : 1;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const struct coord_worker *w = &c->worker[r];

        if (c->layout.cut[r + 1] > c->layout.cut[r] && (w->n_reports < wanted || !w->is_fresh))
            return false;
    }
    return true;
}

/* --- how long a step takes --- */

static void add_time(struct coord_times *t, uint32_t cap, uint64_t ns)
{
    t->ns[t->at] = ns;
    t->at = (t->at + 1) % cap;
    t->n++;
}

static uint64_t median_time(const struct coord_times *t, uint32_t cap)
{
    uint32_t n = t->n < cap ? t->n : cap;
    uint64_t v[COORD_STEADY];

    memcpy(v, t->ns, n * sizeof v[0]);
    return n ? dp_median_u64(v, n) : 0;
}

uint64_t coord_steady_step_ns(const struct dp_coord *c)
{
    uint64_t measured = median_time(&c->reference.steady, COORD_STEADY);

    return measured ? measured : c->reference.step_ns;
}

uint64_t coord_recent_step_ns(const struct dp_coord *c)
{
    uint64_t measured = median_time(&c->recent, COORD_RECENT);

    return measured ? measured : c->step_ns;
}

/* Over the reports that a layer's load is the median of. */
uint64_t coord_step_beside_loads_ns(const struct dp_coord *c)
{
    struct coord_times newest = {0};

    if (c->recent.n < COORD_MEDIAN)
        return 0;
    for (uint32_t i = 1; i <= COORD_MEDIAN; i++)
        add_time(&newest, COORD_MEDIAN, c->recent.ns[(c->recent.at + COORD_RECENT - i) % COORD_RECENT]);
    return median_time(&newest, COORD_MEDIAN);
}

void coord_measured(const struct dp_coord *c, struct dp_measured *out)
{
    dp_measured_of(c->recent.ns, c->recent.n < COORD_RECENT ? c->recent.n : COORD_RECENT, out);
}

double coord_patience_s(const struct dp_coord *c, double seconds)
{
    double steps_s = PATIENCE_STEPS * (double)coord_recent_step_ns(c) / 1e9;

    return steps_s > seconds ? steps_s : seconds;
}

/* One report per interval speaks for all: that of the worker with the first layer. The first reports
 * of a layout cover memory that is touched for the first time, so they do not count. */
static void take_step_time(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    bool is_early = !coord_is_changed(c) && !c->last_commit_id && m->step <= coord_first_change(c);

    c->step_ns = m->step_ns;
    coord_saving_report(c, now_ns, m);
    if (m->first_layer || c->worker[m->rank].n_reports <= c->limits.warmup_reports)
        return;
    add_time(&c->recent, COORD_RECENT, m->step_ns);
    if (is_early)
        add_time(&c->reference.steady, COORD_STEADY, m->step_ns);
}

double coord_tokens_per_s(const struct dp_coord *c, uint64_t step_ns)
{
    return step_ns ? (double)c->train.microbatches * c->train.tokens_per_microbatch / ((double)step_ns / 1e9) : 0.0;
}

/* NaN: unknown */
static bool is_loss(double v)
{
    return isnan(v) || (v >= 0.0 && v <= 1e6);
}

const char *coord_load_why_not(const struct dp_layer_load *l, uint64_t params)
{
    if (l->fwd_ns > MAX_STEP_NS || l->bwd_input_ns > MAX_STEP_NS || l->bwd_weight_ns > MAX_STEP_NS ||
        l->state_bytes > MAX_BYTES || l->act_bytes > MAX_BYTES)
        return "load of a layer out of range";
    return l->nnz > l->params || l->params > MAX_BYTES || (params && l->params != params) ? "parameters of a layer do not fit" : NULL;
}

static const char *what_is_wrong(const struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    const struct coord_worker *w;
    uint64_t total = 0;

    if (!c->train.has_layout || m->rank >= c->train.n_workers)
        return "unknown worker";
    w = &c->worker[m->rank];
    if (!w->is_known || !coord_is_live(c, m->rank))
        return "worker is not in the run";
    if (m->epoch != c->layout.epoch)
        return "another layout epoch";
    if (m->step <= w->step && w->n_reports)
        return "stale or repeated";
    if (m->step > c->train.steps_total)
        return "step beyond the end";
    if (m->n_layers != c->layout.cut[m->rank + 1] - c->layout.cut[m->rank] ||
        (m->n_layers && m->first_layer != c->layout.cut[m->rank]))
        return "not the layers of this worker";
    if (!is_loss(m->loss) || isinf(m->grad_norm) || m->grad_norm < 0.0)
        return "loss or gradient norm is not a number that training can have";
    if (!m->step_ns || m->step_ns > MAX_STEP_NS || m->busy_ns > MAX_STEP_NS || m->wait_ns > MAX_STEP_NS ||
        m->optimizer_ns > MAX_STEP_NS || m->overhead_ns > MAX_STEP_NS || m->lost_ns > MAX_STEP_NS ||
        m->ahead_ns > MAX_STEP_NS || m->held_ns > MAX_STEP_NS ||
        m->mem_bytes > MAX_BYTES || m->rss_bytes > MAX_BYTES || m->need_bytes > MAX_BYTES || m->job_bytes > MAX_BYTES)
        return "time or size out of range";
    if (m->copy_layers > m->n_layers || m->copy_whole > m->copy_layers || (m->copy_layers && m->copy_holder >= c->train.n_workers) ||
        m->copy_held > c->train.n_layers || m->copy_bytes > MAX_BYTES || m->copy_step_bytes > MAX_BYTES)
        return "copies of layers that cannot be";
    if (w->n_reports && m->step - w->step > 64 + 16 * ((now_ns - w->report_ns) / m->step_ns))
        return "more steps than time";
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const struct dp_layer_load *l = &m->layer[i];
        const char *why = coord_load_why_not(l, c->layer[m->first_layer + i].load.params);

        if (why)
            return why;
        total += l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns;
    }
    return m->n_layers && !total ? "no time at all" : NULL;
}

static uint64_t median(const uint64_t *v, uint32_t n)
{
    uint64_t a = v[0], b = n > 1 ? v[1] : v[0], d = n > 2 ? v[2] : b, low, high;

    low = a < b ? a : b;
    high = a < b ? b : a;
    if (n < 3)
        return low / 2 + high / 2 + (low & high & 1);
    return d < low ? low : d > high ? high : d;
}

static void take_layer(struct coord_layer *k, const struct dp_layer_load *l)
{
    uint64_t f[COORD_MEDIAN], bi[COORD_MEDIAN], bw[COORD_MEDIAN];

    if (k->n_samples && dp_load_is_frozen(l) != dp_load_is_frozen(&k->load))
        k->n_samples = k->at = 0; /* what it took before says nothing any more */
    k->sample[k->at] = *l;
    k->at = (k->at + 1) % COORD_MEDIAN;
    if (k->n_samples < COORD_MEDIAN)
        k->n_samples++;
    for (uint32_t i = 0; i < k->n_samples; i++) {
        f[i] = k->sample[i].fwd_ns;
        bi[i] = k->sample[i].bwd_input_ns;
        bw[i] = k->sample[i].bwd_weight_ns;
    }
    k->load = *l;
    k->load.fwd_ns = median(f, k->n_samples);
    k->load.bwd_input_ns = median(bi, k->n_samples);
    k->load.bwd_weight_ns = median(bw, k->n_samples);
}

/* A layer that the optimizer still looks at: its time goes with the parameters that are left. */
static double stepped(const struct dp_layer_load *l)
{
    return dp_load_is_frozen(l) ? 0.0 : (double)l->nnz;
}

/* The optimizer is measured per stage. */
static void share_optimizer(struct dp_coord *c, const struct dp_msg_report *m)
{
    double nnz = 0.0;

    for (uint32_t i = 0; i < m->n_layers; i++)
        nnz += stepped(&m->layer[i]);
    for (uint32_t i = 0; i < m->n_layers; i++)
        c->layer[m->first_layer + i].opt_ns =
            nnz > 0.0 ? (uint64_t)((double)m->optimizer_ns * stepped(&m->layer[i]) / nnz) : 0;
}

/* Losses and speed over the whole run in a bounded array: when it is full, every other goes. */
static void take_sample(struct dp_coord *c, uint64_t now_ns, double loss)
{
    struct coord_sample *s;

    if (c->train.loss_step < c->history.next_sample_step)
        return;
    if (c->history.n_samples == COORD_SAMPLES) {
        for (uint32_t i = 0; i < COORD_SAMPLES / 2; i++)
            c->history.sample[i] = c->history.sample[2 * i];
        c->history.n_samples = COORD_SAMPLES / 2;
        c->history.sample_every *= 2;
    }
    s = &c->history.sample[c->history.n_samples++];
    *s = (struct coord_sample){c->train.loss_step, now_ns, loss, c->train.sparsity, coord_tokens_per_s(c, c->step_ns),
                               c->train.n_frozen};
    c->history.next_sample_step = c->train.loss_step + c->history.sample_every;
}

/* Workers report at moments of their own: what a later one says of an earlier step is no news. */
void coord_loss_take(struct dp_coord *c, uint64_t now_ns, uint64_t step, double loss)
{
    if (isnan(loss) || !is_loss(loss) || step < c->train.loss_step || step > c->train.steps_total)
        return;
    c->train.loss_step = step;
    c->train.loss = loss;
    take_sample(c, now_ns, loss);
}

static void take_worker(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    struct coord_worker *w = &c->worker[m->rank];

    w->step = m->step;
    w->step_ns = m->step_ns;
    w->busy_ns = m->busy_ns;
    w->wait_ns = m->wait_ns;
    w->optimizer_ns = m->optimizer_ns;
    w->overhead_ns = m->overhead_ns;
    w->lost_ns = m->lost_ns;
    w->mem_bytes = m->mem_bytes;
    w->rss_bytes = m->rss_bytes;
    w->need_bytes = m->need_bytes;
    w->job_bytes = m->job_bytes;
    w->copies = (struct coord_copied){m->copy_layers, m->copy_whole, m->copy_holder, m->copy_held, m->copy_bytes, m->copy_step_bytes};
    w->report_ns = now_ns;
    w->n_reports++;
    w->is_fresh = true;
}

/* Does its sender have the layout in force? Asked of leavers, too, whose loads count no more. */
static bool shows_layout(const struct dp_coord *c, const struct dp_msg_report *m)
{
    return c->train.has_layout && m->rank < c->train.n_workers && c->worker[m->rank].is_known &&
           m->epoch == c->layout.epoch &&
           m->n_layers == c->layout.cut[m->rank + 1] - c->layout.cut[m->rank] &&
           (!m->n_layers || m->first_layer == c->layout.cut[m->rank]);
}

/* While workers are missing the layout is not known, so loads mean nothing yet; but the others train. */
static void take_progress(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    struct coord_worker *w = &c->worker[m->rank];

    if (m->step <= w->step || m->step > c->train.steps_total || !m->step_ns || m->step_ns > MAX_STEP_NS)
        return;
    w->step = m->step;
    w->report_ns = now_ns;
    if (m->step > c->train.step)
        c->train.step = m->step;
    coord_loss_take(c, now_ns, m->step, m->loss);
}

static uint32_t frozen_prefix(const struct dp_coord *c)
{
    uint32_t n = 0;

    while (n < c->train.n_layers && dp_load_is_frozen(&c->layer[n].load))
        n++;
    return n;
}

static void note_frozen(struct dp_coord *c, uint64_t now_ns, uint32_t n)
{
    if (n != c->train.n_frozen)
        coord_note(c, now_ns, "layers that only go forward: %u of %u, seen at step %llu", n, c->train.n_layers,
                   (unsigned long long)c->train.step);
    c->train.n_frozen = n;
}

void dp_coord_report(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_report *m)
{
    const char *wrong = what_is_wrong(c, now_ns, m);

    if (c->train.has_shape && !c->train.has_layout && m->rank < c->train.n_workers && c->worker[m->rank].is_known) {
        take_progress(c, now_ns, m);
        return;
    }
    if (shows_layout(c, m))
        coord_migrate_seen(c, now_ns, m->rank, m->epoch);
    if (wrong) {
        c->reports.n_dropped++;
        snprintf(c->reports.dropped_why, sizeof c->reports.dropped_why, "worker %u: %s", m->rank, wrong);
        return;
    }
    c->reports.n++;
    coord_stall_heard(c, now_ns);
    take_worker(c, now_ns, m);
    coord_noise_report(c, m);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        take_layer(&c->layer[m->first_layer + i], &m->layer[i]);
        c->train.is_pruned |= m->layer[i].nnz < m->layer[i].params;
    }
    note_frozen(c, now_ns, frozen_prefix(c));
    share_optimizer(c, m);
    if (m->n_layers)
        take_step_time(c, now_ns, m);
    coord_correct_report(c, m);
    coord_link_report(c, m);
    if (m->step > c->train.step)
        c->train.step = m->step;
    coord_loss_take(c, now_ns, m->step, m->loss);
}
