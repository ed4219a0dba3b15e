/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench.h. */
#include "kernels/bench/bench.h"

#include "kernels/timed_linear.h"

struct dp_bench_result dp_bench_summarise(double *samples, int n)
{
    struct dp_bench_result r = {.median = dp_timed_median(samples, n)}; /* sorts them */

    r.spread = (samples[n - 1] - samples[0]) / r.median;
    return r;
}

json_t *bench_times_json(double *samples, int n)
{
    double median = dp_timed_median(samples, n); /* sorts them */

    return json_pack("{s:f, s:f, s:f}", "median", median, "min", samples[0], "max", samples[n - 1]);
}

json_t *bench_spread_json(const struct bench_spread *s)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "row_cv", s->row_cv, "col_cv", s->col_cv, "empty_rows", s->empty_rows,
                     "empty_cols", s->empty_cols);
}
