/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include "worker/bench/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/limits.h"
#include "kernels/bench/machine.h"
#include "kernels/timed_linear.h"
#include "worker/bench/trace.h"

#define PEAK_FLOATS 65536 /* a pass of 10 us */

struct variant {
    int threads;      /* index in the options */
    char masks[1100]; /* "none", "random", a checkpoint, "random, densities of" it */
    struct bench_subject *subject;
    json_t *ops;
    struct bench_step step[BENCH_MAX_STEPS];
    double setup_ns;
};

struct group {
    const struct bench_row *row;
    const struct bench_options *options;
    struct dp_backend *be[BENCH_MAX_THREADS];
    int n_masks, n_variants;
    struct bench_masks *masks[BENCH_MAX_MASKS];
    struct variant *variant; /* [BENCH_MAX_VARIANTS] */
    double peak[BENCH_MAX_THREADS][BENCH_MAX_STEPS];
};

/* ---- building ---- */

static int add_variant(struct group *g, int threads, const struct bench_zeros *zeros, const char *prefix,
                       const char *masks, struct dp_err *err)
{
    uint64_t start_ns = dp_now_ns();
    struct variant *v;

    if (g->n_variants == BENCH_MAX_VARIANTS)
        return dp_err_set(err, DP_EINVAL, "more than %d variants of %s", BENCH_MAX_VARIANTS,
                          g->row->shape.name);
    v = &g->variant[g->n_variants++];
    v->threads = threads;
    snprintf(v->masks, sizeof v->masks, "%s%s", prefix, masks);
    v->subject = bench_subject_create(&g->row->shape, zeros, g->be[threads], g->options->clock, err);
    v->setup_ns = (double)(dp_now_ns() - start_ns);
    return v->subject ? 0 : -1;
}

/* All variants that one backend computes. */
static int add_variants(struct group *g, int threads, struct dp_err *err)
{
    const struct bench_options *o = g->options;
    const double *sparsity = o->n_sparsities ? o->sparsity : g->row->sparsity;
    const int n = o->n_sparsities ? o->n_sparsities : g->row->n_sparsities;

    for (int i = 0; i < n; i++) {
        const bool is_dense = sparsity[i] == 0.0; /* of one granularity as of another */

        for (int k = 0; k < (is_dense ? 1 : o->n_granularities); k++) {
            const struct bench_zeros zeros = {.sparsity = sparsity[i], .block_rows = is_dense ? 1 : o->granularity[k]};

            if (add_variant(g, threads, &zeros, is_dense ? "none" : "random", "", err) < 0)
                return -1;
        }
    }
    for (int i = 0; i < o->n_masks; i++) {
        const struct bench_zeros trained = {.masks = g->masks[i]},
                                 shuffled = {.masks = g->masks[i], .is_shuffled = true};

        if (add_variant(g, threads, &trained, "", o->masks[i], err) < 0 ||
            add_variant(g, threads, &shuffled, "random, densities of ", o->masks[i], err) < 0)
            return -1;
    }
    return 0;
}

static int open_group(struct group *g, struct dp_err *err)
{
    const struct bench_options *o = g->options;

    g->variant = calloc(BENCH_MAX_VARIANTS, sizeof *g->variant);
    if (!g->variant)
        return dp_err_set(err, DP_ENOMEM, "no memory for the measured steps");
    for (int t = 0; t < o->n_threads; t++) {
        g->be[t] = dp_backend_create(o->backend, 0, o->threads[t], err);
        if (!g->be[t])
            return -1;
    }
    for (; g->n_masks < o->n_masks; g->n_masks++) {
        g->masks[g->n_masks] = bench_masks_load(o->masks[g->n_masks], g->be[0], err);
        if (!g->masks[g->n_masks])
            return -1;
    }
    for (int t = 0; t < o->n_threads; t++)
        if (add_variants(g, t, err) < 0)
            return -1;
    if (o->trace)
        bench_trace_begin(g->be, o->n_threads, o->clock);
    return 0;
}

static void close_group(struct group *g)
{
    for (int i = 0; i < g->n_variants; i++) {
        bench_subject_destroy(g->variant[i].subject);
        json_decref(g->variant[i].ops);
    }
    for (int i = 0; i < g->n_masks; i++)
        bench_masks_destroy(g->masks[i]);
    free(g->variant);
    for (int t = 0; t < BENCH_MAX_THREADS; t++)
        dp_backend_destroy(g->be[t]);
}

/* ---- measuring ---- */

/* 0 when a thread could not be started. */
static double peak_gflops(const struct bench_options *o, int threads)
{
    return dp_limit_measure(DP_LIMIT_FMA, o->backend, o->threads[threads], PEAK_FLOATS);
}

/* With a trace, one variant after the other: the trace knows no variants. */
static int trace_variants(struct group *g, struct dp_err *err)
{
    for (int i = 0; i < g->n_variants; i++) {
        struct bench_step step;

        bench_trace_clear();
        for (int k = 0; k < g->options->steps; k++)
            if (bench_subject_step(g->variant[i].subject, g->options->clip, &step, err) < 0)
                return -1;
        g->variant[i].ops = bench_trace_json((double)g->options->steps);
    }
    return 0;
}

static int measure(struct group *g, struct dp_err *err)
{
    for (int round = -1; round < g->options->steps; round++) { /* round -1 warms up */
        if (round == 0)
            bench_peak_rss_restart();
        for (int t = 0; t < g->options->n_threads && round >= 0; t++)
            g->peak[t][round] = peak_gflops(g->options, t);
        for (int i = 0; i < g->n_variants; i++)
            if (bench_subject_step(g->variant[i].subject, g->options->clip,
                                   &g->variant[i].step[round < 0 ? 0 : round], err) < 0)
                return -1;
    }
    return g->options->trace ? trace_variants(g, err) : 0;
}

/* ---- result ---- */

/* Median, least and most of one member of all steps. */
static json_t *spread_json(const struct variant *v, int steps, size_t member)
{
    double x[BENCH_MAX_STEPS];

    for (int i = 0; i < steps; i++)
        memcpy(&x[i], (const char *)&v->step[i] + member, sizeof x[i]);
    return bench_times_json(x, steps);
}

static double median_of(const struct variant *v, int steps, size_t member)
{
    json_t *o = spread_json(v, steps, member);
    double median = json_real_value(json_object_get(o, "median"));

    json_decref(o);
    return median;
}

static json_t *parts_json(const struct variant *v, int steps)
{
    json_t *parts = json_object();

    for (int p = 0; p < BENCH_N_PARTS; p++)
        json_object_set_new(parts, bench_part_names[p],
                            json_real(median_of(v, steps, offsetof(struct bench_step, part_ns[p]))));
    return parts;
}

static json_t *memory_json(const struct bench_subject *s)
{
    struct bench_memory m;

    bench_subject_memory(s, &m);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "weights", m.weights, "gradients", m.gradients,
                     "optimizer", m.optimizer, "indexes", m.indexes, "state",
                     m.weights + m.gradients + m.optimizer + m.indexes, "activations", m.activations);
}

/* Forward and backward time of the first variant with as many threads over this one's. */
static double speedup(const struct group *g, int i)
{
    const int n = g->n_variants / g->options->n_threads, steps = g->options->steps;
    const struct variant *v[] = {&g->variant[i / n * n], &g->variant[i]};
    double ns[2];

    for (int k = 0; k < 2; k++)
        ns[k] = median_of(v[k], steps, offsetof(struct bench_step, part_ns[BENCH_FORWARD])) +
                median_of(v[k], steps, offsetof(struct bench_step, part_ns[BENCH_BACKWARD]));
    return ns[0] / ns[1];
}

/* A step's time with the first number of threads over this one's. */
static double thread_speedup(const struct group *g, int i)
{
    const struct variant *first = &g->variant[i % (g->n_variants / g->options->n_threads)];
    const size_t ns = offsetof(struct bench_step, ns);

    return median_of(first, g->options->steps, ns) / median_of(&g->variant[i], g->options->steps, ns);
}

static json_t *variant_json(const struct group *g, int i, const double peak[BENCH_MAX_THREADS])
{
    const struct variant *v = &g->variant[i];
    const struct bench_subject *s = v->subject;
    const int steps = g->options->steps;
    const double tokens = (double)(s->shape.batch * s->shape.context);
    double ns = median_of(v, steps, offsetof(struct bench_step, ns));
    double flops = bench_flops_per_token(&s->shape, s->density), gflops = flops * tokens / ns;
    json_t *o = json_pack("{s:f, s:s, s:s, s:i, s:i, s:I}", "sparsity", 1.0 - s->density, "masks", v->masks,
                          "granularity", s->config.prune.granularity, "sparse_matrices", (int)s->n_sparse,
                          "prunable_matrices", (int)s->n_prunable, "parameters",
                          (json_int_t)bench_subject_parameters(s));

    json_object_set_new(o, "step_ns", spread_json(v, steps, offsetof(struct bench_step, ns)));
    json_object_set_new(o, "cpu_ns", spread_json(v, steps, offsetof(struct bench_step, cpu_ns)));
    json_object_set_new(o, "tokens_per_s", json_real(1e9 * tokens / ns));
    json_object_set_new(o, "flops_per_token", json_real(flops));
    json_object_set_new(o, "threads", json_integer(g->options->threads[v->threads]));
    json_object_set_new(o, "gflops", json_real(gflops));
    json_object_set_new(o, "peak_gflops", json_real(peak[v->threads]));
    json_object_set_new(o, "speedup", json_real(speedup(g, i)));
    json_object_set_new(o, "thread_speedup", json_real(thread_speedup(g, i)));
    json_object_set_new(o, "peak_fraction", json_real(gflops / peak[v->threads]));
    json_object_set_new(o, "parts_ns", parts_json(v, steps));
    json_object_set_new(o, "page_faults",
                        json_real(median_of(v, steps, offsetof(struct bench_step, faults))));
    json_object_set_new(o, "memory_bytes", memory_json(s));
    json_object_set_new(o, "setup_ns", json_real(v->setup_ns));
    if (!s->shape.is_stage)
        json_object_set_new(o, "loss", json_pack("[f, f]", v->step[0].loss, v->step[steps - 1].loss));
    json_object_set_new(o, "mask_spread", bench_spread_json(&s->spread));
    if (v->ops)
        json_object_set(o, "ops", v->ops);
    return o;
}

static json_t *shape_json(const struct bench_shape *s)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", s->name, "kind",
                     s->is_stage ? "stage" : "model", "blocks", (json_int_t)s->blocks, "channels",
                     (json_int_t)s->channels, "heads", (json_int_t)s->heads, "vocabulary",
                     (json_int_t)(s->is_stage ? 0 : s->vocabulary), "batch", (json_int_t)s->batch, "context",
                     (json_int_t)s->context);
}

json_t *bench_group_run(const struct bench_row *row, const struct bench_options *options, struct dp_err *err)
{
    struct group g = {.row = row, .options = options};
    json_t *result = NULL, *variants;
    double peak[BENCH_MAX_THREADS];

    if (open_group(&g, err) == 0 && measure(&g, err) == 0) {
        result = shape_json(&row->shape);
        for (int t = 0; t < options->n_threads; t++)
            peak[t] = dp_timed_median(g.peak[t], options->steps);
        json_object_set_new(result, "peak_rss_bytes", json_integer((json_int_t)bench_peak_rss_bytes()));
        variants = json_array();
        for (int i = 0; i < g.n_variants; i++)
            json_array_append_new(variants, variant_json(&g, i, peak));
        json_object_set_new(result, "variants", variants);
    }
    close_group(&g);
    return result;
}

/* ---- in turns with other programs ---- */

static void say(json_t *o)
{
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    fflush(stdout);
    json_decref(o);
}

static int follow_line(struct group *g, long steps, struct dp_err *err)
{
    const struct bench_options *o = g->options;
    double peak = peak_gflops(o, 0);
    struct bench_step step = {0};
    json_t *ns = json_array();

    for (long i = 0; i < steps; i++) {
        if (bench_subject_step(g->variant[0].subject, o->clip, &step, err) < 0) {
            json_decref(ns);
            return -1;
        }
        json_array_append_new(ns, json_real(step.ns));
    }
    say(json_pack("{s:o, s:f, s:f}", "ns", ns, "loss", step.loss, "peak_gflops", peak));
    return 0;
}

int bench_group_follow(json_t *head, const struct bench_row *row, const struct bench_options *options,
                       struct dp_err *err)
{
    struct group g = {.row = row, .options = options};
    char line[32];
    int rc = open_group(&g, err);

    if (rc == 0) {
        const struct bench_subject *s = g.variant[0].subject;
        json_t *hello = json_copy(head), *shape = shape_json(&row->shape);

        json_object_update(hello, shape);
        json_decref(shape);
        json_object_set_new(hello, "parameters", json_integer((json_int_t)bench_subject_parameters(s)));
        json_object_set_new(hello, "flops_per_token",
                            json_real(bench_flops_per_token(&s->shape, s->density)));
        say(hello);
    }
    while (rc == 0 && fgets(line, sizeof line, stdin)) {
        long steps = strtol(line, NULL, 10);

        line[strcspn(line, "\n")] = '\0';
        if (steps < 1 || steps > BENCH_MAX_STEPS)
            rc = dp_err_set(err, DP_EINVAL, "cannot make %.20s steps", line);
        else
            rc = follow_line(&g, steps, err);
    }
    close_group(&g);
    return rc;
}
