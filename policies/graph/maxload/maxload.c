/* SPDX-License-Identifier: BSD-3-Clause */
/* See maxload.h. For each ideal I, in the order of their size, a walk (walk.h) visits the ideals below it that are near
 * enough; with a bound near the optimum little is left of the square of the number of ideals. Nor is an ideal looked at
 * with fewer devices than its own work needs within the bound, or with so many that too few are left for the rest. The
 * table holds values only: the stages of the answer are found by walking once more from each ideal on the way back. Where
 * it would be too large the search goes without (lean.h).
 */
#include "policies/graph/maxload/maxload.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/maxload/lean.h"
#include "policies/graph/maxload/walk.h"

#define NEVER DP_WALK_NEVER
#define TABLE_MAX (UINT64_C(1) << 30)       /* bytes */
#define ORDER_TABLE_MAX (UINT64_C(1) << 25) /* likewise, of one order: lean.h is quick there */

struct table {
    uint64_t *best;     /* [ideals][n_cpus + 1][n_accel + 1] */
    uint32_t row, size; /* n_accel + 1, and of one ideal */
};

/* to = min(to, max(from, load)), place by place. */
static void improve(uint64_t *to, const uint64_t *from, uint64_t load, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = from[i] > load ? from[i] : load;

        to[i] = v < to[i] ? v : to[i];
    }
}

static void least_of(uint64_t *to, const uint64_t *from, uint32_t n)
{
    improve(to, from, 0, n);
}

static uint64_t *row_of(const struct table *t, uint32_t ideal, uint32_t cpus)
{
    return t->best + (size_t)ideal * t->size + (size_t)cpus * t->row;
}

/* Accelerators [from, high] as the last stage of `ideal`. */
static void try_accel(const struct dp_walk *w, const struct table *t, uint32_t ideal, uint32_t below, uint32_t c, uint32_t from,
                      uint32_t high)
{
    uint64_t *to = row_of(t, ideal, c), *before = row_of(t, below, c), load = dp_walk_accel_load(w, from);

    if (!w->q->speed) {
        if (load != NEVER)
            improve(to + from, before + from - 1, load, high - from + 1);
        return;
    }
    for (uint32_t k = from; k <= high; k++) {
        load = dp_walk_accel_load(w, k);
        if (load != NEVER)
            improve(to + k, before + k - 1, load, 1);
    }
}

/* Fill the table for one ideal, whose windows, one for each number of CPUs, are not all empty. */
static void solve_ideal(struct dp_walk *w, const struct table *t, uint32_t ideal, const struct dp_walk_window *win)
{
    uint32_t below, n_cpus = w->q->n_cpus;

    dp_walk_begin(w, ideal);
    while ((below = dp_walk_next(w, ideal)) != UINT32_MAX) {
        bool may = dp_walk_accel_may(w);
        uint64_t cpu = dp_walk_cpu_load(w);
        uint32_t first = may ? dp_walk_first_with_room(w) : 1;

        for (uint32_t c = 0; c <= n_cpus; c++) {
            uint32_t low = win[c].low, from = low > first ? low : first;

            if (win[c].high < low)
                continue;
            if (may && from <= win[c].high)
                try_accel(w, t, ideal, below, c, from, win[c].high);
            if (c && cpu != NEVER)
                improve(row_of(t, ideal, c) + low, row_of(t, below, c - 1) + low, cpu, win[c].high - low + 1);
        }
    }
    for (uint32_t c = 0; c <= n_cpus; c++) { /* a device may stay idle */
        uint64_t *row = row_of(t, ideal, c);

        if (c && win[c].low <= win[c].high)
            least_of(row + win[c].low, row_of(t, ideal, c - 1) + win[c].low, win[c].high - win[c].low + 1);
        for (uint32_t k = win[c].low + 1; k <= win[c].high; k++)
            row[k] = row[k - 1] < row[k] ? row[k - 1] : row[k];
    }
}

/* The last stage of the best answer for `ideal` with k accelerators and c CPUs: marks its units.
 * returns: the ideal before it. */
static uint32_t last_stage(struct dp_walk *w, const struct table *t, uint32_t ideal, uint32_t k, uint32_t c,
                           bool *is_cpu, uint32_t stage, uint32_t *stage_of)
{
    uint64_t best = row_of(t, ideal, c)[k], least_traffic = NEVER;
    uint32_t below, choice = UINT32_MAX;

    dp_walk_begin(w, ideal);
    while ((below = dp_walk_next(w, ideal)) != UINT32_MAX) {
        uint64_t accel = k ? dp_walk_accel_load(w, k) : NEVER, cpu = dp_walk_cpu_load(w);
        bool with_accel = accel <= best && k && k >= dp_walk_first_with_room(w) && row_of(t, below, c)[k - 1] <= best;
        bool with_cpu = c && cpu <= best && row_of(t, below, c - 1)[k] <= best;

        if ((!with_accel && !with_cpu) || w->traffic_ns >= least_traffic)
            continue;
        least_traffic = w->traffic_ns;
        choice = below;
        *is_cpu = !with_accel;
        for (uint32_t v = 0; v < w->q->units->n; v++) {
            if (stage_of[v] == stage)
                stage_of[v] = UINT32_MAX;
        }
        for (uint32_t i = 0; i < w->depth; i++)
            stage_of[w->path[i].unit] = stage;
    }
    return choice;
}

/* Stages from the last to the first, then numbered from the first. */
static int trace_back(struct dp_walk *w, const struct table *t, struct dp_maxload_answer *out)
{
    uint32_t n = w->q->units->n, ideal = w->q->ideals->n - 1, k = w->q->n_accel, c = w->q->n_cpus;
    uint32_t *accelerator;
    bool *is_cpu;

    out->stage = malloc(((size_t)n + 1) * sizeof *out->stage);
    out->is_cpu = is_cpu = calloc((size_t)k + c + 1, sizeof *is_cpu);
    out->accelerator = accelerator = calloc((size_t)k + c + 1, sizeof *accelerator);
    if (!out->stage || !is_cpu || !accelerator)
        return -1;
    memset(out->stage, 0xff, ((size_t)n + 1) * sizeof *out->stage);
    while (k && row_of(t, ideal, c)[k - 1] == out->load_ns)
        k--;
    while (c && row_of(t, ideal, c - 1)[k] == out->load_ns)
        c--;
    while (ideal != 0) {
        uint32_t s = out->n_stages++;

        while (w->q->speed && k && row_of(t, ideal, c)[k - 1] == row_of(t, ideal, c)[k]) /* the k-th is idle, or need not be busy */
            k--;
        ideal = last_stage(w, t, ideal, k, c, &is_cpu[s], s, out->stage);
        accelerator[s] = w->q->speed && !is_cpu[s] ? k - 1 : 0;
        k -= !is_cpu[s];
        c -= is_cpu[s];
    }
    for (uint32_t v = 0; v < n; v++)
        out->stage[v] = out->n_stages - 1 - out->stage[v];
    for (uint32_t s = 0; s < out->n_stages / 2; s++) {
        uint32_t other = out->n_stages - 1 - s, place = accelerator[s];
        bool swap = is_cpu[s];

        is_cpu[s] = is_cpu[other];
        is_cpu[other] = swap;
        accelerator[s] = accelerator[other];
        accelerator[other] = place;
    }
    return 0;
}

static int solve(struct dp_walk *w, struct table *t, struct dp_walk_window *win, struct dp_maxload_answer *out)
{
    uint32_t n = w->q->ideals->n;

    memset(t->best, 0xff, (size_t)n * t->size * sizeof *t->best);
    memset(t->best, 0, t->size * sizeof *t->best);
    for (uint32_t i = 1; i < n; i++) {
        bool is_of_use = false;

        for (uint32_t c = 0; c <= w->q->n_cpus; c++) {
            win[c] = dp_walk_window_at(w, i, c);
            is_of_use |= win[c].low <= win[c].high;
        }
        if (is_of_use)
            solve_ideal(w, t, i, win);
        if (w->q->max_steps && w->steps > w->q->max_steps)
            return DP_MAXLOAD_TOO_MUCH;
        if (w->q->watch && i % 64 == 0 && !w->q->watch->go_on(w->q->watch->arg, (double)i / n, w->q->best_ns, w->q->lower_ns))
            return DP_MAXLOAD_ENDED;
    }
    out->steps = w->steps;
    out->load_ns = row_of(t, n - 1, w->q->n_cpus)[w->q->n_accel];
    if (out->load_ns == NEVER)
        return DP_MAXLOAD_NONE;
    return trace_back(w, t, out) < 0 ? -1 : DP_MAXLOAD_FOUND;
}

/* Is the table too large, or a waste? */
static bool is_lean(const struct dp_maxload *q, uint32_t size)
{
    uint64_t bytes = (uint64_t)q->ideals->n * size * sizeof(uint64_t);

    return q->is_lean || bytes > TABLE_MAX || (q->ideals->rank && bytes > ORDER_TABLE_MAX);
}

int dp_maxload_solve(const struct dp_maxload *asked, struct dp_maxload_answer *out, struct dp_err *err)
{
    struct dp_maxload q = *asked;
    uint32_t n = q.units->n;
    struct dp_walk_window *win;
    struct dp_walk w;
    struct table t = {0};
    int rc = -1;

    *out = (struct dp_maxload_answer){0};
    q.n_accel = q.n_accel < n || q.speed ? q.n_accel : n; /* more have nothing to do */
    q.n_cpus = q.n_cpus < n ? q.n_cpus : n;
    t.row = q.n_accel + 1;
    t.size = t.row * (q.n_cpus + 1);
    if (is_lean(&q, t.size))
        return dp_lean_solve(&q, out, err);
    win = calloc((size_t)q.n_cpus + 1, sizeof *win);
    t.best = malloc((size_t)q.ideals->n * t.size * sizeof *t.best);
    if (dp_walk_create(&w, &q) == 0 && t.best && win)
        rc = solve(&w, &t, win, out);
    if (rc < 0)
        dp_err_set(err, DP_ENOMEM, "a table of %u ideals: out of memory", q.ideals->n);
    free(t.best);
    free(win);
    dp_walk_release(&w);
    return rc;
}

void dp_maxload_release(struct dp_maxload_answer *a)
{
    free(a->stage);
    free(a->is_cpu);
    free(a->accelerator);
    *a = (struct dp_maxload_answer){0};
}
