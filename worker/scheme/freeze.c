/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer freezing as a scheme: at events freeze.begin, + every, ..., end (events.h) the first layers of the model stop to learn, at
 * most freeze.layers of them, and never begin again. They go forward only; below the first one that learns no gradient flows.
 *
 * How many are frozen after event i of 0..n, L = freeze.layers:
 *   linear     floor(L (i + 1) / (n + 1))
 *   geometric  floor(L (1 - (1 - a)^(i + 1))), a = freeze.share: He et al. 2021 (PipeTransformer, arXiv:2102.03161), L_f(e)
 *   change     all before the first layer whose gradient changed as much as the median of those that learn, or more: Liu et al.
 *              2021 (AutoFreeze, arXiv:2102.01386), eta = |last - now| / last, with the mean over an interval of the
 *              gradients' L2 norms, which are there anyway, in the place of the L1 norm of their sum: the first interval and
 *              the last one need not be as long as the others
 *   noise      all before the first layer with pi >= freeze.noise. pi = (R - r0) / (1 - r0), R = sum m^2 / sum v of AdamW's
 *              moments without their bias, r0 = (1 - beta1) / (1 + beta1): what R is where gradients are noise alone (pi 0);
 *              where they never change it is 1. The sum of v needs no pass over v: it follows from the gradients' squares,
 *              as v does.
 *
 * What the last two remember is in the layers' notes; after a resume with another rule it begins anew. */
#include "worker/scheme/scheme.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/scheme/events.h"

enum rule { LINEAR = 1, GEOMETRIC, CHANGE, NOISE }; /* CHANGE and NOISE are in layer streams (notes.rule) */

#define UNKNOWN (-1.0) /* measured: the layer cannot tell yet, or is frozen */

static bool is_on(const struct dp_train_config *c)
{
    return c->freeze.layers > 0;
}

static enum rule rule_of(const struct dp_train_config *c)
{
    static const char *const names[] = {[LINEAR] = "linear", [GEOMETRIC] = "geometric", [CHANGE] = "change", [NOISE] = "noise"};

    for (int i = GEOMETRIC; i <= NOISE; i++)
        if (!strcmp(c->freeze.rule, names[i]))
            return (enum rule)i;
    return LINEAR;
}

static bool is_planned(const struct dp_train_config *c)
{
    return rule_of(c) <= GEOMETRIC;
}

static struct dp_events events_of(const struct dp_train_config *c)
{
    return (struct dp_events){.begin = (uint64_t)c->freeze.begin, .end = (uint64_t)c->freeze.end, .every = (uint64_t)c->freeze.every};
}

static int check(const struct dp_train_config *c, struct dp_err *err)
{
    if (c->freeze.begin > c->freeze.end)
        return dp_err_set(err, DP_EINVAL, "freeze.begin: %lld is after freeze.end %lld", (long long)c->freeze.begin,
                          (long long)c->freeze.end);
    if (c->freeze.end > c->train.steps)
        return dp_err_set(err, DP_EINVAL, "freeze.end: %lld is after the last step %lld", (long long)c->freeze.end,
                          (long long)c->train.steps);
    if (c->freeze.layers > c->model.blocks + 1)
        return dp_err_set(err, DP_EINVAL, "freeze.layers: %lld, but of %lld layers the head always learns: %lld at most",
                          (long long)c->freeze.layers, (long long)c->model.blocks + 2, (long long)c->model.blocks + 1);
    if (is_on(c) && c->model.tied_head)
        return dp_err_set(err, DP_EINVAL, "freeze.layers: %lld, but with model.tied_head the embedding learns through the head, and "
                          "cannot be frozen", (long long)c->freeze.layers);
    if (is_on(c) && c->prune.end > c->freeze.begin)
        return dp_err_set(err, DP_EINVAL, "prune.end: %lld is after freeze.begin %lld, and frozen layers cannot be pruned",
                          (long long)c->prune.end, (long long)c->freeze.begin);
    if (is_on(c) && !c->freeze.end && !is_planned(c))
        return dp_err_set(err, DP_EINVAL, "freeze.end: 0 freezes before the first step, when there are no gradients for "
                          "freeze.rule %s to look at", c->freeze.rule);
    return 0;
}

/* ---- by schedule ---- */

static uint32_t count_after(const struct dp_train_config *c, uint64_t i, uint64_t last)
{
    double all = (double)c->freeze.layers, n;

    if (rule_of(c) == GEOMETRIC && c->freeze.end > 0)
        n = floor(all * (1.0 - pow(1.0 - c->freeze.share, (double)i + 1.0)));
    else
        n = floor(all * ((double)i + 1.0) / ((double)last + 1.0));
    return (uint32_t)n;
}

static uint32_t plan(const struct dp_train_config *c, uint32_t most, struct dp_change *out)
{
    const struct dp_events e = events_of(c);
    uint64_t i[DP_CHANGES_MAX];
    uint32_t n = is_planned(c) ? dp_events_choose(&e, most, i) : 0;

    for (uint32_t k = 0; k < n; k++)
        out[k] = (struct dp_change){.step = dp_events_step(&e, i[k]), .value = count_after(c, i[k], dp_events_last(&e)),
                                    .kind = DP_CHANGE_FREEZE};
    return n;
}

/* ---- by what the gradients say ---- */

static bool measures(const struct dp_train_config *c, uint64_t step)
{
    const struct dp_events e = events_of(c);
    uint64_t i;

    return !is_planned(c) && dp_events_at(&e, step, &i);
}

static bool has_notes(const struct dp_layer *l, const struct dp_train_config *c)
{
    return !l->is_frozen && l->notes.rule == (uint32_t)rule_of(c);
}

/* notes: norms of this interval, of so many steps; their mean in the one before, 0: there was none */
static double eta_of(const struct dp_layer *l, double squares)
{
    double now = (l->notes.value[0] + sqrt(squares)) / (l->notes.value[1] + 1.0), last = l->notes.value[2];

    return last > 0 ? fabs(last - now) / last : UNKNOWN;
}

/* notes: sum of v, steps that it is of. step: completed without the one that is measured, which m and v have not seen. */
static double pi_of(const struct dp_layer *l, const struct dp_train_config *c, uint64_t step, double moments)
{
    double m = 1.0 - pow(c->train.beta1, (double)step), v = 1.0 - pow(c->train.beta2, l->notes.value[1]);
    double r0 = (1.0 - c->train.beta1) / (1.0 + c->train.beta1), sum_v = l->notes.value[0];

    if (!(sum_v > 0) || !(v > 0) || !(m > 0))
        return UNKNOWN;
    return fmax(0.0, (moments / (m * m) / (sum_v / v) - r0) / (1.0 - r0));
}

static int measure(struct dp_stage *stage, const struct dp_train_config *c, uint64_t step, const double *squares, double *out,
                   struct dp_err *err)
{
    if (rule_of(c) == NOISE && dp_stage_moment_squares(stage, out, err) < 0)
        return -1;
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);

        if (!has_notes(l, c))
            out[i] = UNKNOWN;
        else
            out[i] = rule_of(c) == NOISE ? pi_of(l, c, step - 1, out[i]) : eta_of(l, squares[i]);
    }
    return 0;
}

static void note(struct dp_layer_notes *n, const struct dp_train_config *c, bool is_event, double squares, double grad_scale)
{
    if (n->rule == NOISE) {
        n->value[0] = c->train.beta2 * n->value[0] + (1.0 - c->train.beta2) * squares * grad_scale * grad_scale;
        n->value[1] += 1.0;
        return;
    }
    n->value[0] += sqrt(squares);
    n->value[1] += 1.0;
    if (!is_event)
        return;
    n->value[2] = n->value[0] / n->value[1];
    n->value[0] = n->value[1] = 0;
}

static void observe(struct dp_layer *l, const struct dp_train_config *c, uint64_t step, double squares, double grad_scale)
{
    const struct dp_events e = events_of(c);
    uint64_t i;

    if (is_planned(c) || l->is_frozen)
        return;
    if (step >= e.end) {
        l->notes = (struct dp_layer_notes){0}; /* nothing is decided any more */
        return;
    }
    if (!has_notes(l, c))
        l->notes = (struct dp_layer_notes){.rule = (uint32_t)rule_of(c)};
    note(&l->notes, c, dp_events_at(&e, step, &i), squares, grad_scale);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The lower median of the layers that learn, without the head. */
static double median_of(const double *x, uint32_t from, uint32_t to)
{
    double sorted[DP_MAX_LAYERS];
    uint32_t n = to - from;

    memcpy(sorted, x + from, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    return sorted[(n - 1) / 2];
}

static uint32_t count_measured(const struct dp_train_config *c, const struct dp_scheme_in *in)
{
    uint32_t n = in->reached.frozen, head = in->n_layers - 1;
    double bound = c->freeze.noise;

    for (uint32_t i = n; i < head; i++)
        if (in->measured[i] < 0)
            return n;
    if (n >= head)
        return n;
    if (rule_of(c) == CHANGE)
        bound = median_of(in->measured, n, head);
    while (n < head && n < (uint32_t)c->freeze.layers && in->measured[n] < bound)
        n++;
    return n;
}

/* ---- both ---- */

static void decide(const struct dp_train_config *c, const struct dp_scheme_in *in, struct dp_scheme_order *out)
{
    const struct dp_events e = events_of(c);
    uint64_t i;

    if (!dp_events_at(&e, in->step, &i))
        return;
    out->target = is_planned(c) ? count_after(c, i, dp_events_last(&e)) : count_measured(c, in);
    out->is_due = out->target > in->reached.frozen;
}

static int apply(const struct dp_scheme_site *site, double target, struct dp_err *err)
{
    uint32_t n = (uint32_t)target, n_layers = dp_stage_n_layers(site->stage);
    uint32_t first = n_layers ? dp_stage_layer(site->stage, 0)->index : 0;

    if (n > first && dp_stage_freeze(site->stage, n - first, err) < 0)
        return -1;
    for (uint32_t i = 0; i < site->copies.n; i++)
        if (site->copies.layer[i]->index < n && dp_layer_freeze(site->copies.layer[i], NULL) < 0)
            site->copies.layer[i] = NULL;
    site->reached->frozen = n;
    return 0;
}

static int catch_up(struct dp_layer *layer, double target, struct dp_err *err)
{
    return layer->index < (uint32_t)target ? dp_layer_freeze(layer, err) : 0;
}

/* What a schedule has frozen by now: before the first step of a run, and where another configuration came so far. */
static int begin(const struct dp_scheme_site *site, uint64_t step, struct dp_err *err)
{
    const struct dp_events e = events_of(site->config);
    uint64_t n = is_planned(site->config) ? dp_events_until(&e, step) : 0;
    uint32_t target = n ? count_after(site->config, n - 1, dp_events_last(&e)) : 0;

    return target > site->reached->frozen ? apply(site, target, err) : 0;
}

static double tell(const struct dp_reached *reached, char *text, size_t cap)
{
    if (reached->frozen > 1)
        snprintf(text, cap, "layers 0 to %u only go forward", reached->frozen - 1);
    else
        snprintf(text, cap, "layer 0 only goes forward");
    return reached->frozen;
}

const struct dp_scheme dp_scheme_freeze = {
    .name = "freeze", .is_on = is_on, .check = check, .plan = plan, .begin = begin, .measures = measures, .measure = measure,
    .decide = decide, .observe = observe, .apply = apply, .catch_up = catch_up,
    .tell = tell,
};
