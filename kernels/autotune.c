/* SPDX-License-Identifier: BSD-3-Clause */
/* The crossover table and its measurement.
 *
 * For a shape, the time of the sparse ops relative to the dense ones is measured at a few sparsities,
 * dense and sparse in alternation, and the median over rounds taken. Sparse time is close to linear in
 * the density, so the crossover is found by straight lines between (and a little beyond) the measured
 * points; points out of order, which only noise can cause, are averaged first. The file of the table is
 * autotune_file.c.
 */
#include "kernels/autotune.h"

#include <string.h>

#include "common/clock.h"
#include "kernels/granularity.h"
#include "kernels/timed_linear.h"

#define N_POINTS 4 /* see above */
static const double points[N_POINTS] = {0.5, 0.7, 0.9, 0.98};

#define MIN_ROUNDS 3 /* for a median */
#define MAX_ROUNDS 15 /* of fast shapes, before the budget is used up */
#define BUDGET_NS 100000000u /* of one shape, beyond MIN_ROUNDS */
#define MOST_FLOPS 4e9   /* of one dense forward + backward: 256 tokens of 3072x768; 64 mislead */
#define LOWEST 0.2       /* no crossover below this is believed from a line through 0.5 and 0.7 */

static int64_t block_of(int64_t block_rows)
{
    return block_rows > 1 ? block_rows : 1;
}

bool dp_tune_is_entry(const struct dp_tune_entry *e)
{
    return e->c_out >= 1 && e->c_in >= 1 && e->n >= 1 && e->crossover >= 0.0 && e->crossover <= 1.0 &&
           dp_granularity_name(block_of(e->block_rows));
}

static const struct dp_tune_entry *find_entry(const struct dp_tune *tune, int64_t c_out, int64_t c_in,
                                              int64_t n, int64_t block_rows)
{
    for (uint32_t i = 0; i < tune->n_entries; i++) {
        const struct dp_tune_entry *e = &tune->entry[i];

        if (e->c_out == c_out && e->c_in == c_in && e->n == n && block_of(e->block_rows) == block_of(block_rows))
            return e;
    }
    return NULL;
}

bool dp_tune_is_sparse(const struct dp_tune *tune, int64_t c_out, int64_t c_in, int64_t n, int64_t block_rows,
                       int64_t nnz)
{
    const struct dp_tune_entry *e = find_entry(tune, c_out, c_in, n, block_rows);

    if (!e || e->crossover >= 1.0)
        return false;
    return 1.0 - (double)nnz / ((double)c_out * (double)c_in) >= e->crossover;
}

/* One round: ratio[i] = sparse time at points[i] / dense time, the three ops together. */
static int measure_round(struct dp_timed_linear *p, double ratio[N_POINTS], struct dp_err *err)
{
    double dense[DP_TIMED_N_OPS], sparse[DP_TIMED_N_OPS];

    if (dp_timed_linear_time(p, -1, NULL, dense, err) < 0)
        return -1;
    for (int i = 0; i < N_POINTS; i++) {
        if (dp_timed_linear_time(p, i, NULL, sparse, err) < 0)
            return -1;
        ratio[i] = (sparse[0] + sparse[1] + sparse[2]) / (dense[0] + dense[1] + dense[2] + 1.0);
    }
    return 0;
}

/* Make ratio[] fall with sparsity: neighbours out of order get their mean (pool adjacent violators). */
static void make_monotone(double ratio[N_POINTS])
{
    double sum[N_POINTS];
    int count[N_POINTS], n = 0;

    for (int i = 0; i < N_POINTS; i++) {
        sum[n] = ratio[i];
        count[n++] = 1;
        while (n > 1 && sum[n - 1] / count[n - 1] > sum[n - 2] / count[n - 2]) {
            sum[n - 2] += sum[n - 1];
            count[n - 2] += count[n - 1];
            n--;
        }
    }
    for (int g = 0, i = 0; g < n; g++)
        for (int k = 0; k < count[g]; k++)
            ratio[i++] = sum[g] / count[g];
}

/* Where the line through (points[i], ratio[i]) and the next point reaches 1. */
static double reaches_one(const double ratio[N_POINTS], int i)
{
    double fall = ratio[i] - ratio[i + 1];

    return fall > 0.0 ? points[i] + (ratio[i] - 1.0) / fall * (points[i + 1] - points[i]) : points[i + 1];
}

/* The sparsity from which on ratio <= 1; 1.0: nowhere. */
static double find_crossover(double ratio[N_POINTS])
{
    double s = 1.0;

    make_monotone(ratio);
    if (ratio[N_POINTS - 1] > 1.0)
        return 1.0;
    if (ratio[0] <= 1.0) {
        s = ratio[0] > ratio[1] ? reaches_one(ratio, 0) : points[0];
    } else {
        for (int i = 0; i + 1 < N_POINTS; i++)
            if (ratio[i] > 1.0 && ratio[i + 1] <= 1.0)
                s = reaches_one(ratio, i);
    }
    return s < LOWEST ? LOWEST : s;
}

/* Tokens to measure with: n, or as many whole tiles of 64 as fit the budget. */
static int64_t choose_tokens(int64_t c_out, int64_t c_in, int64_t n)
{
    double per_token = 6.0 * (double)c_out * (double)c_in;
    int64_t most = (int64_t)(MOST_FLOPS / per_token) / 64 * 64;

    most = most < 64 ? 64 : most;
    return n < most ? n : most;
}

static int measure(struct dp_backend *be, const struct dp_tune_entry *e, double *crossover, struct dp_err *err)
{
    double rounds[N_POINTS][MAX_ROUNDS], ratio[N_POINTS];
    struct dp_timed_pattern patterns[N_POINTS];
    struct dp_device_info info;
    struct dp_timed_linear *p;
    uint64_t start;
    int done = 0, rc = -1;

    if (be->ops->info(be, &info, err) < 0)
        return -1;

    for (int i = 0; i < N_POINTS; i++)
        patterns[i] = (struct dp_timed_pattern){.sparsity = points[i], .block_rows = e->block_rows};
    p = dp_timed_linear_create(be, e->c_out, e->c_in, choose_tokens(e->c_out, e->c_in, e->n), patterns, N_POINTS,
                               info.sparse_format, err);
    if (!p || measure_round(p, ratio, err) < 0) /* warms up */
        goto out;
    start = dp_now_ns();
    while (done < MIN_ROUNDS || (done < MAX_ROUNDS && dp_now_ns() - start < BUDGET_NS)) {
        if (measure_round(p, ratio, err) < 0)
            goto out;
        for (int i = 0; i < N_POINTS; i++)
            rounds[i][done] = ratio[i];
        done++;
    }
    for (int i = 0; i < N_POINTS; i++)
        ratio[i] = dp_timed_median(rounds[i], done);
    *crossover = find_crossover(ratio);
    rc = 0;
out:
    dp_timed_linear_destroy(p);
    return rc;
}

static void remove_entry(struct dp_tune *tune, uint32_t i)
{
    tune->n_entries--;
    memmove(tune->entry + i, tune->entry + i + 1, (tune->n_entries - i) * sizeof tune->entry[0]);
}

int dp_tune_add(struct dp_tune *tune, struct dp_backend *be, int64_t c_out, int64_t c_in, int64_t n,
                int64_t block_rows, struct dp_err *err)
{
    struct dp_tune_entry e = {.c_out = c_out, .c_in = c_in, .n = n, .block_rows = block_of(block_rows)};
    const struct dp_tune_entry *known = find_entry(tune, c_out, c_in, n, block_rows);

    if (known)
        e = *known;
    else if (measure(be, &e, &e.crossover, err) < 0)
        return dp_err_prefix(err, "autotune (%lld, %lld)", (long long)c_out, (long long)c_in);
    if (known)
        remove_entry(tune, (uint32_t)(known - tune->entry));
    else if (tune->n_entries >= DP_TUNE_MAX)
        remove_entry(tune, 0);
    tune->entry[tune->n_entries++] = e;
    return 0;
}
