/* See maxload.h. For each ideal I, in the order of their size, a depth-first walk down the lattice
 * visits every ideal J below I once and keeps the sums of I - J on the way: one unit more or less costs
 * as much as the unit has nets. Compute, memory and "only on a CPU" never fall as J shrinks, so a walk
 * turns round where neither kind of device could take I - J within the bound; with a bound near the
 * optimum little is left of the square of the number of ideals. Nor is an ideal looked at with fewer devices
 * than its own work needs within the bound, or with so many that too few are left for the rest. The table
 * holds values only: the stages of the answer are found by walking once more from each ideal on the way back.
 */
#include "policies/graph/maxload.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/bound.h"

#define NEVER UINT64_MAX
#define TABLE_MAX (UINT64_C(1) << 30) /* bytes */

struct walk {
    const struct dp_maxload *q;
    uint64_t most_ns;           /* that the fastest accelerator does within the bound, or a little more */
    uint32_t *seen;             /* [ideals] ideal whose walk came here last, + 1 */
    uint32_t *held;             /* [nets] units of the net in I - J */
    struct dp_ideal_step *path; /* [units] the steps from I down to J */
    uint32_t *next;             /* [units + 1] next step to try at each depth */
    uint32_t depth;
    uint64_t accel_ns, cpu_ns, bytes, kept_bytes, traffic_ns; /* of I - J */
    uint32_t n_only_on_cpu;
    uint64_t steps;
};

struct table {
    uint64_t *best;      /* [ideals][n_cpus + 1][n_accel + 1] */
    uint32_t row, size;  /* n_accel + 1, and of one ideal */
    uint64_t *work_ns;   /* [ideals] of what an accelerator can run, on one */
    uint64_t *spared_ns; /* [n_cpus + 1] at most so much of it can so many CPUs take */
};

/* Numbers of accelerators that make sense for an ideal. */
struct window {
    uint32_t low, high; /* low > high: none */
};

static void add_unit(struct walk *w, uint32_t v)
{
    const struct dp_units *u = w->q->units;

    w->accel_ns += u->accel_ns[v];
    w->cpu_ns += u->cpu_ns[v];
    w->bytes += u->bytes[v];
    w->kept_bytes += u->kept_bytes[v];
    w->n_only_on_cpu += u->only_on_cpu[v];
    for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++) {
        uint32_t net = u->net_of[i], held = ++w->held[net];

        if (held == 1)
            w->traffic_ns += u->net_ns[net];
        else if (held == u->net_size[net])
            w->traffic_ns -= u->net_ns[net];
    }
}

static void remove_unit(struct walk *w, uint32_t v)
{
    const struct dp_units *u = w->q->units;

    w->accel_ns -= u->accel_ns[v];
    w->cpu_ns -= u->cpu_ns[v];
    w->bytes -= u->bytes[v];
    w->kept_bytes -= u->kept_bytes[v];
    w->n_only_on_cpu -= u->only_on_cpu[v];
    for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++) {
        uint32_t net = u->net_of[i], held = w->held[net]--;

        if (held == 1)
            w->traffic_ns -= u->net_ns[net];
        else if (held == u->net_size[net])
            w->traffic_ns += u->net_ns[net];
    }
}

/* Could an accelerator take this and more, if traffic were free? */
static bool accel_may(const struct walk *w)
{
    return w->q->n_accel && w->accel_ns <= w->most_ns && w->bytes <= w->q->accel_bytes &&
           w->kept_bytes <= w->q->accel_bytes - w->bytes && !w->n_only_on_cpu;
}

/* The first accelerator with few enough behind it for what it would keep; n_accel + 1: none. What accel_may() take. */
static uint32_t first_with_room(const struct walk *w)
{
    uint64_t may_keep = w->q->accel_bytes - w->bytes;
    uint32_t n = w->q->n_accel;

    if (!w->kept_bytes || may_keep / w->kept_bytes >= n)
        return 1;
    return n + 1 - (uint32_t)(may_keep / w->kept_bytes);
}

static bool cpu_may(const struct walk *w)
{
    return w->q->n_cpus && w->cpu_ns <= w->q->bound_ns;
}

/* On accelerator k, from 1; where they are alike on any. */
static uint64_t accel_load(const struct walk *w, uint32_t k)
{
    uint64_t load = dp_plan_time_ns(w->accel_ns, w->q->speed ? w->q->speed[k - 1] : 1) + w->traffic_ns;

    return accel_may(w) && load <= w->q->bound_ns ? load : NEVER;
}

static uint64_t cpu_load(const struct walk *w)
{
    return cpu_may(w) ? w->cpu_ns : NEVER;
}

static void walk_begin(struct walk *w, uint32_t from)
{
    w->depth = 0;
    w->next[0] = w->q->ideals->sub_at[from];
    w->path[0].id = from; /* overwritten by the first step */
    w->accel_ns = w->cpu_ns = w->bytes = w->kept_bytes = w->traffic_ns = 0;
    w->n_only_on_cpu = 0;
}

/* On to the next ideal below `from`. returns: its number, or UINT32_MAX at the end; then all sums are 0. */
static uint32_t walk_next(struct walk *w, uint32_t from)
{
    const struct dp_ideals *d = w->q->ideals;

    for (;;) {
        uint32_t at = w->depth ? w->path[w->depth - 1].id : from;

        while (w->next[w->depth] < d->sub_at[at + 1]) {
            struct dp_ideal_step s = d->sub[w->next[w->depth]++];

            if (w->seen[s.id] == from + 1)
                continue;
            w->seen[s.id] = from + 1;
            w->steps++;
            add_unit(w, s.unit);
            if (!accel_may(w) && !cpu_may(w)) {
                remove_unit(w, s.unit);
                continue;
            }
            w->path[w->depth++] = s;
            w->next[w->depth] = d->sub_at[s.id];
            return s.id;
        }
        if (w->depth == 0)
            return UINT32_MAX;
        remove_unit(w, w->path[--w->depth].unit);
    }
}

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

/* Accelerators that so much work needs, when `cpus` CPUs help. */
static uint32_t least_accel(const struct walk *w, const struct table *t, uint64_t work_ns, uint32_t cpus)
{
    uint64_t left = work_ns > t->spared_ns[cpus] ? work_ns - t->spared_ns[cpus] : 0, n;

    if (left == 0)
        return 0;
    n = w->most_ns ? (left - 1) / w->most_ns + 1 : UINT32_MAX;
    return n < w->q->n_accel + 1 ? (uint32_t)n : w->q->n_accel + 1;
}

static struct window window_of(const struct walk *w, const struct table *t, uint32_t ideal, uint32_t cpus)
{
    uint64_t all = t->work_ns[w->q->ideals->n - 1], own = t->work_ns[ideal];
    uint32_t rest = least_accel(w, t, all - own, w->q->n_cpus - cpus);

    if (rest > w->q->n_accel)
        return (struct window){1, 0};
    return (struct window){least_accel(w, t, own, cpus), w->q->n_accel - rest};
}

/* Accelerators [from, high] as the last stage of `ideal`. */
static void try_accel(const struct walk *w, const struct table *t, uint32_t ideal, uint32_t below, uint32_t c, uint32_t from,
                      uint32_t high)
{
    uint64_t *to = row_of(t, ideal, c), *before = row_of(t, below, c), load = accel_load(w, from);

    if (!w->q->speed) {
        if (load != NEVER)
            improve(to + from, before + from - 1, load, high - from + 1);
        return;
    }
    for (uint32_t k = from; k <= high; k++) {
        load = accel_load(w, k);
        if (load != NEVER)
            improve(to + k, before + k - 1, load, 1);
    }
}

/* Fill the table for one ideal, whose windows, one for each number of CPUs, are not all empty. */
static void solve_ideal(struct walk *w, const struct table *t, uint32_t ideal, const struct window *win)
{
    uint32_t below, n_cpus = w->q->n_cpus;

    walk_begin(w, ideal);
    while ((below = walk_next(w, ideal)) != UINT32_MAX) {
        bool may = accel_may(w);
        uint64_t cpu = cpu_load(w);
        uint32_t first = may ? first_with_room(w) : 1;

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
static uint32_t last_stage(struct walk *w, const struct table *t, uint32_t ideal, uint32_t k, uint32_t c,
                           bool *is_cpu, uint32_t stage, uint32_t *stage_of)
{
    uint64_t best = row_of(t, ideal, c)[k], least_traffic = NEVER;
    uint32_t below, choice = UINT32_MAX;

    memset(w->seen, 0, w->q->ideals->n * sizeof *w->seen);
    walk_begin(w, ideal);
    while ((below = walk_next(w, ideal)) != UINT32_MAX) {
        uint64_t accel = k ? accel_load(w, k) : NEVER, cpu = cpu_load(w);
        bool with_accel = accel <= best && k && k >= first_with_room(w) && row_of(t, below, c)[k - 1] <= best;
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
static int trace_back(struct walk *w, const struct table *t, struct dp_maxload_answer *out)
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

static int sum_work(const struct dp_maxload *q, struct table *t)
{
    for (uint32_t i = 1; i < q->ideals->n; i++) {
        struct dp_ideal_step s = q->ideals->sub[q->ideals->sub_at[i]];

        t->work_ns[i] = t->work_ns[s.id] + (q->units->only_on_cpu[s.unit] ? 0 : q->units->accel_ns[s.unit]);
    }
    for (uint32_t c = 0; c <= q->n_cpus; c++) {
        uint64_t time;

        if (__builtin_mul_overflow(q->bound_ns, (uint64_t)c, &time))
            time = UINT64_MAX;
        if (dp_bound_cpus_take(q->units, time, &t->spared_ns[c], NULL) < 0)
            return -1;
    }
    return 0;
}

static int solve(struct walk *w, struct table *t, struct window *win, struct dp_maxload_answer *out)
{
    uint32_t n = w->q->ideals->n;

    memset(t->best, 0xff, (size_t)n * t->size * sizeof *t->best);
    memset(t->best, 0, t->size * sizeof *t->best);
    for (uint32_t i = 1; i < n; i++) {
        bool is_of_use = false;

        for (uint32_t c = 0; c <= w->q->n_cpus; c++) {
            win[c] = window_of(w, t, i, c);
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

int dp_maxload_solve(const struct dp_maxload *asked, struct dp_maxload_answer *out, struct dp_err *err)
{
    struct dp_maxload q = *asked;
    uint32_t n = q.units->n;
    struct walk w = {.q = &q, .most_ns = asked->bound_ns};
    double fastest = 0;
    struct window *win;
    struct table t;
    int rc = -1;

    *out = (struct dp_maxload_answer){0};
    q.n_accel = q.n_accel < n || q.speed ? q.n_accel : n; /* more have nothing to do */
    q.n_cpus = q.n_cpus < n ? q.n_cpus : n;
    for (uint32_t k = 0; q.speed && k < q.n_accel; k++)
        fastest = q.speed[k] > fastest ? q.speed[k] : fastest;
    if (fastest > 0) {
        double most = (double)q.bound_ns * fastest * (1 + 1e-9) + 2;

        w.most_ns = most < 1e19 ? (uint64_t)most : UINT64_MAX;
    }
    t.row = q.n_accel + 1;
    if ((uint64_t)t.row * (q.n_cpus + 1) * q.ideals->n > TABLE_MAX / sizeof *t.best)
        return DP_MAXLOAD_TOO_MUCH;
    t.size = t.row * (q.n_cpus + 1);
    t.best = malloc((size_t)q.ideals->n * t.size * sizeof *t.best);
    w.seen = calloc(q.ideals->n, sizeof *w.seen);
    w.held = calloc((size_t)q.units->n_nets + 1, sizeof *w.held);
    w.path = calloc((size_t)n + 1, sizeof *w.path);
    w.next = calloc((size_t)n + 1, sizeof *w.next);
    t.work_ns = calloc(q.ideals->n, sizeof *t.work_ns);
    t.spared_ns = calloc((size_t)q.n_cpus + 1, sizeof *t.spared_ns);
    win = calloc((size_t)q.n_cpus + 1, sizeof *win);
    if (t.best && w.seen && w.held && w.path && w.next && t.work_ns && t.spared_ns && win &&
        sum_work(&q, &t) == 0)
        rc = solve(&w, &t, win, out);
    if (rc < 0)
        dp_err_set(err, DP_ENOMEM, "a table of %u ideals: out of memory", q.ideals->n);
    free(t.best);
    free(t.work_ns);
    free(t.spared_ns);
    free(win);
    free(w.seen);
    free(w.held);
    free(w.path);
    free(w.next);
    return rc;
}

void dp_maxload_release(struct dp_maxload_answer *a)
{
    free(a->stage);
    free(a->is_cpu);
    free(a->accelerator);
    *a = (struct dp_maxload_answer){0};
}
