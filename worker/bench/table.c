/* SPDX-License-Identifier: BSD-3-Clause */
/* See table.h. */
#include "worker/bench/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/bench/machine.h"

static double number(json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static const char *text(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "?";
}

static double inner(json_t *o, const char *key, const char *member)
{
    return number(json_object_get(o, key), member);
}

void bench_table_head(json_t *root)
{
    bench_machine_print(root);
    printf("backend %s, median of %.0f steps by the %s clock, %s gradient clipping\n", text(root, "backend"),
           number(root, "steps"), text(root, "clock"),
           json_is_true(json_object_get(root, "clip")) ? "with" : "no");
    printf("FLOPs of a token: 6 (12 L C^2 density + V C) + 6 L C T; peak: multiply-adds in registers, in "
           "alternation\n");
}

static void print_speed(json_t *variants, bool is_stage)
{
    size_t i;
    json_t *v;

    printf("  zeros  threads  step ms (min-max)            tok/s  GFLOP/s  of peak  x dense  x 1st threads  "
           "ms: forward  backward   clip  optimizer%s\n",
           is_stage ? "" : "    tied  embedding    blocks      head");
    json_array_foreach(variants, i, v)
    {
        json_t *ns = json_object_get(v, "step_ns"), *p = json_object_get(v, "parts_ns");

        printf("  %5.1f %% %6.0f %8.1f (%8.1f-%8.1f) %8.1f %8.1f %7.1f %% %8.2f %14.2f %12.1f %9.1f %6.1f "
               "%10.1f",
               100.0 * number(v, "sparsity"), number(v, "threads"), number(ns, "median") * 1e-6,
               number(ns, "min") * 1e-6, number(ns, "max") * 1e-6, number(v, "tokens_per_s"),
               number(v, "gflops"), 100.0 * number(v, "peak_fraction"), number(v, "speedup"),
               number(v, "thread_speedup"), number(p, "forward") * 1e-6, number(p, "backward") * 1e-6,
               number(p, "clip") * 1e-6, number(p, "optimizer") * 1e-6);
        if (!is_stage)
            printf(" %7.1f %10.1f %9.1f %9.1f", number(p, "tied") * 1e-6, number(p, "embedding") * 1e-6,
                   number(p, "blocks") * 1e-6, number(p, "head") * 1e-6);
        printf("  %s%s%s\n", strcmp(text(v, "granularity"), "weight") ? text(v, "granularity") : "",
               strcmp(text(v, "granularity"), "weight") ? " " : "",
               strchr(text(v, "masks"), '/') ? text(v, "masks") : ""); /* of a checkpoint */
    }
}

/* The same for every number of threads. */
static bool is_repeated(json_t *variants, json_t *v)
{
    return number(v, "threads") != number(json_array_get(variants, 0), "threads");
}

static void print_memory(json_t *variants)
{
    double first = inner(json_array_get(variants, 0), "memory_bytes", "state");
    size_t i;
    json_t *v;

    printf("  zeros  MB: weights  gradients  optimizer  indexes     all  of first  activations  stored "
           "sparse  faults\n");
    json_array_foreach(variants, i, v)
    {
        json_t *m = json_object_get(v, "memory_bytes");

        if (is_repeated(variants, v))
            continue;
        printf("  %5.1f %% %10.1f %10.1f %10.1f %8.1f %7.1f %9.3f %12.1f %9.0f/%-4.0f %7.0f\n",
               100.0 * number(v, "sparsity"), number(m, "weights") * 1e-6, number(m, "gradients") * 1e-6,
               number(m, "optimizer") * 1e-6, number(m, "indexes") * 1e-6, number(m, "state") * 1e-6,
               number(m, "state") / first, number(m, "activations") * 1e-6, number(v, "sparse_matrices"),
               number(v, "prunable_matrices"), number(v, "page_faults"));
    }
}

/* How even the zeros lie, where some come from a checkpoint. */
static void print_masks(json_t *variants)
{
    size_t i;
    json_t *v;

    json_array_foreach(variants, i, v)
    {
        json_t *m = json_object_get(v, "mask_spread");

        if (strchr(text(v, "masks"), '/') && !is_repeated(variants, v))
            printf("  %5.1f %% nonzeros: deviation per row %.2f, per column %.2f of the mean; empty: %.2f %% "
                   "of rows, "
                   "%.2f %% of columns  (%s)\n",
                   100.0 * number(v, "sparsity"), number(m, "row_cv"), number(m, "col_cv"),
                   100.0 * number(m, "empty_rows"), 100.0 * number(m, "empty_cols"), text(v, "masks"));
    }
}

static void print_ops(json_t *variant)
{
    json_t *ops = json_object_get(variant, "ops"), *e;
    double sum = 0.0;
    size_t i;

    if (!ops)
        return;
    json_array_foreach(ops, i, e) sum += number(e, "ns");
    printf("  operations at %.1f %% zeros: %.1f ms a step\n", 100.0 * number(variant, "sparsity"),
           sum * 1e-6);
    json_array_foreach(ops, i, e)
    {
        bool is_product = json_object_get(e, "gflops") != NULL;

        printf("    %-18s %-36s %5.0f x %9.3f ms = %8.2f ms %5.1f %%  %7.2f %s\n", text(e, "op"),
               text(e, "shape"), number(e, "calls"), number(e, "ns") / number(e, "calls") * 1e-6,
               number(e, "ns") * 1e-6, 100.0 * number(e, "ns") / sum,
               number(e, is_product ? "gflops" : "elements_per_ns"), is_product ? "GFLOP/s" : "elements/ns");
    }
}

void bench_table_row(json_t *row)
{
    json_t *variants = json_object_get(row, "variants"), *v;
    bool is_stage = !strcmp(text(row, "kind"), "stage");
    size_t i;

    printf("\n%s: %s of %.0f blocks, %.0f channels, %.0f heads", text(row, "name"), text(row, "kind"),
           number(row, "blocks"), number(row, "channels"), number(row, "heads"));
    if (!is_stage)
        printf(", vocabulary %.0f", number(row, "vocabulary"));
    printf(", batch %.0f x %.0f tokens, %.1f M parameters; peak %.1f GFLOP/s; largest resident set %.0f MB\n",
           number(row, "batch"), number(row, "context"),
           number(json_array_get(variants, 0), "parameters") * 1e-6,
           number(json_array_get(variants, 0), "peak_gflops"), number(row, "peak_rss_bytes") * 1e-6);
    print_speed(variants, is_stage);
    print_memory(variants);
    print_masks(variants);
    json_array_foreach(variants, i, v) print_ops(v);
}
