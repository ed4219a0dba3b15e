/* SPDX-License-Identifier: BSD-3-Clause */
/* See linear.h. Every row is warmed up by one round that does not count, then all rows take turns: dense with
 * one number of threads, each pattern with it, dense with the next number, ...
 */
#include "kernels/bench/linear.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "kernels/bench/bench.h"

static const char *const op_names[DP_TIMED_N_OPS] = {"forward", "dx", "dw"};

struct run {
    const struct linear_case *c;
    const struct linear_options *o;
    int n_rows; /* of each number of threads: dense, then the patterns */
    struct dp_timed_pattern pattern[BENCH_MAX_PATTERNS];
    char name[BENCH_MAX_PATTERNS][1100]; /* where the zeros come from */
    struct dp_timed_linear *timed[BENCH_MAX_THREADS];
    double (*ns)[DP_TIMED_N_OPS][DP_BENCH_MAX_ROUNDS]; /* [n_threads * n_rows] */
};

static uint64_t wall_ns(struct dp_backend *be)
{
    (void)be;
    return dp_now_ns();
}

static void add_pattern(struct run *r, double sparsity, int64_t block_rows, const uint64_t *keep,
                        const char *prefix, const char *name)
{
    int i = r->n_rows++ - 1;

    r->pattern[i] = (struct dp_timed_pattern){.sparsity = sparsity, .block_rows = block_rows, .keep = keep};
    snprintf(r->name[i], sizeof r->name[i], "%s%s", prefix, name);
}

static void choose_patterns(struct run *r)
{
    const struct linear_options *o = r->o;
    const struct bench_mask *m = r->c->mask;

    r->n_rows = 1;
    if (m) {
        const double sparsity = 1.0 - (double)m->nnz / (double)(m->rows * m->cols);
        const int64_t block = bench_mask_block_rows(m);

        add_pattern(r, sparsity, block, m->keep, "", r->c->path);
        add_pattern(r, sparsity, block, NULL, "random, density of ", r->c->path);
        return;
    }
    for (int g = 0; g < o->n_granularities; g++) {
        const int64_t block = o->granularity[g];
        const bool fits = r->c->c_out % block == 0 && r->c->c_in % dp_block_cols(block) == 0;

        for (int i = 0; i < o->n_sparsities && fits; i++)
            add_pattern(r, o->sparsity[i], block, NULL, "random", "");
    }
}

static int measure(struct run *r, struct dp_backend *const be[], struct dp_err *err)
{
    dp_timed_clock_fn *now = r->o->clock == CLOCK_MONOTONIC ? wall_ns : NULL;

    for (int t = 0; t < r->o->n_threads; t++) {
        r->timed[t] = dp_timed_linear_create(be[t], r->c->c_out, r->c->c_in, r->c->tokens, r->pattern, r->n_rows - 1,
                                             r->o->format, err);
        if (!r->timed[t])
            return -1;
    }
    for (int round = -1; round < r->o->rounds; round++)
        for (int i = 0; i < r->o->n_threads * r->n_rows; i++) {
            double ns[DP_TIMED_N_OPS];

            if (dp_timed_linear_time(r->timed[i / r->n_rows], i % r->n_rows - 1, now, ns, err) < 0)
                return -1;
            for (int op = 0; round >= 0 && op < DP_TIMED_N_OPS; op++)
                r->ns[i][op][round] = ns[op];
        }
    return 0;
}

/* ---- result ---- */

static json_t *spread_json(const struct dp_sparse *sp, struct dp_err *err)
{
    int64_t *in_row = calloc((size_t)(sp->rows + sp->cols), sizeof *in_row), *in_col = in_row + sp->rows;
    const int64_t block = dp_sparse_block(sp), width = dp_block_cols(block);
    struct bench_spread s;

    if (!in_row) {
        dp_err_set(err, DP_ENOMEM, "no memory to count nonzeros");
        return NULL;
    }
    for (int64_t row = 0; row < sp->rows; row++) {
        int64_t begin = sp->row_ptr[row / block], end = sp->row_ptr[row / block + 1];

        in_row[row] = (end - begin) * width;
        for (int64_t i = begin; i < end; i++)
            for (int64_t c = 0; c < width; c++)
                in_col[sp->col[i] * width + c]++;
    }
    bench_spread_get(in_row, sp->rows, in_col, sp->cols, &s);
    free(in_row);
    return bench_spread_json(&s);
}

/* a's times over b's, for each operation and for all three. */
static json_t *ratio_json(const double a[DP_TIMED_N_OPS], const double b[DP_TIMED_N_OPS])
{
    json_t *o = json_object();
    double sum[2] = {0.0, 0.0};

    for (int op = 0; op < DP_TIMED_N_OPS; op++) {
        json_object_set_new(o, op_names[op], json_real(a[op] / b[op]));
        sum[0] += a[op];
        sum[1] += b[op];
    }
    json_object_set_new(o, "all", json_real(sum[0] / sum[1]));
    return o;
}

static const char *granularity_of(const struct dp_sparse *sp)
{
    return sp ? dp_granularity_name(dp_sparse_block(sp)) : "dense";
}

/* Row i; ns: the times that count, of all rows. */
static json_t *row_json(struct run *r, int i, double (*ns)[DP_TIMED_N_OPS], struct dp_err *err)
{
    const int row = i % r->n_rows;
    const struct dp_timed_linear *timed = r->timed[i / r->n_rows];
    const struct dp_sparse *sp = row ? dp_timed_linear_sparse(timed, row - 1) : NULL;
    const double size = (double)r->c->c_out * (double)r->c->c_in, nnz = sp ? (double)sp->nnz : size;
    json_t *o = json_pack("{s:i, s:f, s:s, s:s}", "threads", r->o->threads[i / r->n_rows], "sparsity",
                          1.0 - nnz / size, "granularity", granularity_of(sp), "masks",
                          sp ? r->name[row - 1] : "none"),
           *times = json_object();
    double all_ns = 0.0;

    for (int op = 0; op < DP_TIMED_N_OPS; op++) {
        json_object_set_new(times, op_names[op], bench_times_json(r->ns[i][op], r->o->rounds));
        all_ns += ns[i][op];
    }
    json_object_set_new(o, "ns", times);
    json_object_set_new(o, "gflops", json_real(6.0 * nnz * (double)r->c->tokens / all_ns));
    json_object_set_new(o, "speedup", ratio_json(ns[i - row], ns[i]));
    json_object_set_new(o, "thread_speedup", ratio_json(ns[row], ns[i]));
    if (sp) {
        json_t *spread = spread_json(sp, err);

        json_object_set_new(o, "plan_bytes", json_integer((json_int_t)dp_timed_linear_plan_bytes(timed, row - 1)));
        if (!spread) {
            json_decref(o);
            return NULL;
        }
        json_object_set_new(o, "mask_spread", spread);
    }
    return o;
}

static json_t *case_json(struct run *r, struct dp_err *err)
{
    const int n = r->o->n_threads * r->n_rows;
    double ns[BENCH_MAX_THREADS * (BENCH_MAX_PATTERNS + 1)][DP_TIMED_N_OPS], spread = 0.0;
    json_t *rows = json_array();

    for (int i = 0; i < n; i++)
        for (int op = 0; op < DP_TIMED_N_OPS; op++) {
            struct dp_bench_result s = dp_bench_summarise(r->ns[i][op], r->o->rounds);

            ns[i][op] = r->o->is_best ? r->ns[i][op][0] : s.median; /* they are sorted now */
            spread = s.spread > spread ? s.spread : spread;
        }
    for (int i = 0; i < n; i++) {
        json_t *row = row_json(r, i, ns, err);

        if (!row) {
            json_decref(rows);
            return NULL;
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:I, s:I, s:I, s:s?, s:f, s:i, s:s, s:o}", "c_out", (json_int_t)r->c->c_out, "c_in",
                     (json_int_t)r->c->c_in, "tokens", (json_int_t)r->c->tokens, "mask", r->c->path, "spread",
                     spread, "rounds", r->o->rounds, "figure", r->o->is_best ? "min" : "median", "rows",
                     rows);
}

json_t *linear_case_run(const struct linear_case *c, const struct linear_options *o,
                        struct dp_backend *const be[BENCH_MAX_THREADS], struct dp_err *err)
{
    struct run r = {.c = c, .o = o};
    json_t *result = NULL;

    choose_patterns(&r);
    r.ns = calloc((size_t)(o->n_threads * r.n_rows), sizeof *r.ns);
    if (!r.ns)
        dp_err_set(err, DP_ENOMEM, "no memory for the measured times");
    else if (measure(&r, be, err) == 0)
        result = case_json(&r, err);
    for (int t = 0; t < o->n_threads; t++)
        dp_timed_linear_destroy(r.timed[t]);
    free(r.ns);
    return result;
}
