/* SPDX-License-Identifier: BSD-3-Clause */
/* What bench_linear prints for people, from its JSON: see linear.h. */
#include "kernels/bench/linear.h"

#include <stdio.h>
#include <string.h>

static const char *const columns[] = {"forward", "dx", "dw", "all"};
#define N_COLUMNS 4 /* of columns[] */

static double number(json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static double inner(json_t *o, const char *key, const char *member)
{
    return number(json_object_get(o, key), member);
}

static const char *text(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "?";
}

static bool is(json_t *o, const char *key, const char *value)
{
    return !strcmp(text(o, key), value);
}

static void print_zeros(json_t *row)
{
    printf("%7.0f  ", number(row, "threads"));
    if (is(row, "granularity", "dense"))
        printf("       dense   ");
    else
        printf("%7s %5.1f %%", is(row, "granularity", "weight") ? "" : text(row, "granularity"), 100.0 * number(row, "sparsity"));
}

/* A name that says more than "random". */
static const char *name_of(json_t *row)
{
    return is(row, "masks", "none") || is(row, "masks", "random") ? "" : text(row, "masks");
}

static void print_name(json_t *row)
{
    printf("%s%s\n", *name_of(row) ? "  " : "", name_of(row));
}

/* figure: what is printed of the rounds, "median" or "min" */
static void print_times(json_t *rows, const char *figure)
{
    size_t i;
    json_t *row;

    printf("threads         zeros   forward ms (x)      dx ms (x)       dw ms (x)      all x   plan MB\n");
    json_array_foreach(rows, i, row)
    {
        json_t *ns = json_object_get(row, "ns");

        print_zeros(row);
        for (int c = 0; c < N_COLUMNS - 1; c++)
            printf("  %8.3f (%5.2f)", inner(ns, columns[c], figure) * 1e-6,
                   inner(row, "speedup", columns[c]));
        printf("  %6.2f  %7.2f", inner(row, "speedup", "all"), number(row, "plan_bytes") * 1e-6);
        print_name(row);
    }
}

static void print_thread_speedup(json_t *rows)
{
    const double first = number(json_array_get(rows, 0), "threads");
    size_t i;
    json_t *row;

    if (number(json_array_get(rows, json_array_size(rows) - 1), "threads") == first)
        return;
    printf("threads     zeros   x %.0f thread%s: forward      dx      dw     all\n", first,
           first > 1.0 ? "s" : "");
    json_array_foreach(rows, i, row)
    {
        if (number(row, "threads") == first)
            continue;
        print_zeros(row);
        printf("             ");
        for (int c = 0; c < N_COLUMNS; c++)
            printf("  %6.2f", inner(row, "thread_speedup", columns[c]));
        print_name(row);
    }
}

/* How even the nonzeros lie, where they come from a file. */
static void print_spread(json_t *rows)
{
    const double first = number(json_array_get(rows, 0), "threads");
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        if (!*name_of(row) || number(row, "threads") != first)
            continue;
        printf("nonzeros: deviation per row %.2f, per column %.2f of the mean; empty: %.2f %% of rows, %.2f "
               "%% of "
               "columns  (%s)\n",
               inner(row, "mask_spread", "row_cv"), inner(row, "mask_spread", "col_cv"),
               100.0 * inner(row, "mask_spread", "empty_rows"),
               100.0 * inner(row, "mask_spread", "empty_cols"), name_of(row));
    }
}

void linear_table_print(json_t *result)
{
    json_t *rows = json_object_get(result, "rows");

    printf("\nw (%.0f, %.0f), %.0f tokens; dense %.0f GFLOP/s; %s of %.0f, spread up to %.0f %%\n",
           number(result, "c_out"), number(result, "c_in"), number(result, "tokens"),
           number(json_array_get(rows, 0), "gflops"), text(result, "figure"), number(result, "rounds"),
           100.0 * number(result, "spread"));
    print_times(rows, text(result, "figure"));
    print_thread_speedup(rows);
    print_spread(rows);
    fflush(stdout);
}
