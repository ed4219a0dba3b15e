/* SPDX-License-Identifier: BSD-3-Clause */
/* See ranges.h. For a fixed base (the ideal before the range that is planned) one table time[ideal][devices]
 * holds the best of every range from it. The lower of two levels is solved once from every base and leaves
 * inner[base][ideal], its time with all devices of a machine; the upper one, and an only level, are solved
 * from the empty base. Cuts are tried from the one that shares the compute best outwards, as far as compute
 * alone allows. Only what is faster than a plan that is known already (below_s) is of interest: so a range has
 * neither fewer devices than its compute needs, nor so many that too few are left for the rest; near the optimum
 * these are few numbers. Tables hold times, no choices: those are found again, by the same arithmetic, on the few
 * ranges of the answer.
 */
#include "config.h"

#include "policies/graph/hierarchical/ranges.h"

#include <math.h>
#include <stdlib.h>

#define MAX_TABLE (1u << 27) /* doubles */
#define GROUPS 64u /* at most so many, of devices or machines */
#define MAX_SINGLE_WORK 2e8 /* beyond, many devices are planned for in groups */

struct dp_ranges_level dp_ranges_at(const struct dp_ranges *h, uint32_t index)
{
    uint32_t each = index + 1 == h->ask->n_levels ? h->each : 1;

    return (struct dp_ranges_level){index, h->ask->devices[index] / each, each};
}

/* ---- times ---- */

/* A range on one device, or one machine. */
static double piece_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t from, uint32_t to)
{
    return l->index ? h->inner[(size_t)from * h->ideals.n + to]
                    : (double)(h->compute_ns[to] - h->compute_ns[from]) / 1e9;
}

static double stage_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t from, uint32_t to,
                      uint32_t m, bool is_first)
{
    double sync = dp_plan_sync_s(h->ask, l->index, (double)(h->params[to] - h->params[from]), m * l->each, is_first);

    return (piece_s(h, l, from, to) + sync) / (m * l->each);
}

/* With what leaves it. */
static double front_stage_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t from, uint32_t to, uint32_t m)
{
    double t = stage_s(h, l, from, to, m, true);

    if (to + 1 == h->ideals.n || !h->ask->microbatches)
        return t;
    return fmax(t, dp_plan_transfer_s(h->ask, l->index, (double)h->leaves[to], m * l->each));
}

/* A stage that is not the first, with the transfers on both sides. */
static double later_stage_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t from,
                            uint32_t to, uint32_t m)
{
    double t = stage_s(h, l, from, to, m, false);

    t = fmax(t, dp_plan_transfer_s(h->ask, l->index, (double)h->leaves[from], m * l->each));
    return to + 1 < h->ideals.n ? fmax(t, dp_plan_transfer_s(h->ask, l->index, (double)h->leaves[to], m * l->each)) : t;
}

bool dp_ranges_has_room(const struct dp_ranges *h, uint32_t from, uint32_t to, uint32_t m, uint32_t end)
{
    uint32_t under_way = (dp_ranges_at(h, 0).n - end + m - 1) / m + 1;
    uint64_t state = h->state[to] - h->state[from], kept = h->kept[to] - h->kept[from];

    if (h->ask->accel_bytes == UINT64_MAX)
        return true;
    return state <= h->ask->accel_bytes && kept <= (h->ask->accel_bytes - state) / under_way;
}

double *dp_ranges_times(const struct dp_ranges *h, uint32_t n, uint32_t ideal)
{
    return h->time + (size_t)ideal * (n + 1);
}

/* Least time of so much compute on one group: replicas below share it at best evenly. */
static double least_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint64_t compute_ns)
{
    return (double)compute_ns / 1e9 / ((l->index ? h->ask->devices[0] : 1) * (double)l->each);
}

/* First place in by_compute whose ideal has at least so much compute. */
static uint32_t find_compute(const struct dp_ranges *h, double compute_ns)
{
    uint32_t low = 0, high = h->n_cuts;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if ((double)h->compute_ns[h->by_compute[mid]] < compute_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_top(const struct dp_ranges *h, const struct dp_ranges_level *l)
{
    return l->index + 1 == h->ask->n_levels;
}

/* Ranges of a level that take so long are of no use: those of a machine are shared by all machines at best. */
static double limit_s(const struct dp_ranges *h, const struct dp_ranges_level *l)
{
    return is_top(h, l) ? h->below_s : h->below_s * h->ask->devices[1];
}

/* Are n things of this level enough for so much compute? With room for what doubles round. */
static bool are_enough(const struct dp_ranges *h, const struct dp_ranges_level *l, uint64_t compute_ns, uint32_t n)
{
    return compute_ns == 0 || least_s(h, l, compute_ns) <= limit_s(h, l) * n * (1 + 1e-12);
}

/* Numbers of devices that a range of the top level may have: low > high: none. */
struct window {
    uint32_t low, high;
};

static struct window window_of(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t to)
{
    struct window w = {1, l->n};
    uint64_t all = h->compute_ns[h->ideals.n - 1];

    if (!is_top(h, l) || h->below_s == INFINITY)
        return w;
    while (w.low <= l->n && !are_enough(h, l, h->compute_ns[to], w.low))
        w.low++;
    while (w.high > 0 && !are_enough(h, l, all - h->compute_ns[to], l->n - w.high))
        w.high--;
    return w;
}

/* A plan of base..to with m devices, r of them for the last stage, which begins at `from`; what is not below `best` may
 * be INFINITY. */
static double plan_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t base, uint32_t from,
                     uint32_t to, uint32_t m, uint32_t r, double best)
{
    double before;

    if (from == base || from == to)
        return INFINITY;
    before = dp_ranges_times(h, l->n, from)[m - r];
    if (!(before < best) || !dp_ideal_is_within(&h->ideals, base, from) || !dp_ideal_is_within(&h->ideals, from, to) ||
        !dp_ranges_has_room(h, from, to, r, m))
        return INFINITY;
    return fmax(before, later_stage_s(h, l, from, to, r));
}

/* The best cut of base..to into m - r devices and r, if it beats `best`: from the one that shares the compute
 * best outwards, as long as what lies on either side could be done in time. */
static double cut_best(struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t base, uint32_t to,
                       uint32_t m, uint32_t r, double best)
{
    uint64_t first = h->compute_ns[base], last = h->compute_ns[to];
    uint32_t middle = find_compute(h, (double)first + (double)(last - first) * (m - r) / m);

    for (uint32_t i = middle; i-- > 0; h->steps++) {
        uint32_t from = h->by_compute[i];

        if (h->compute_ns[from] < first || !(least_s(h, l, last - h->compute_ns[from]) / r < best) ||
            (is_top(h, l) && !are_enough(h, l, h->compute_ns[h->ideals.n - 1] - h->compute_ns[from], l->n - (m - r))))
            break;
        best = fmin(best, plan_s(h, l, base, from, to, m, r, best));
    }
    for (uint32_t i = middle; i < h->n_cuts; i++, h->steps++) {
        uint32_t from = h->by_compute[i];

        if (h->compute_ns[from] > last || !(least_s(h, l, h->compute_ns[from] - first) / (m - r) < best))
            break;
        best = fmin(best, plan_s(h, l, base, from, to, m, r, best));
    }
    return best;
}

/* base..to as the first stage, with m devices of which the first may stay idle. replicas: = how many do
 * not; may be NULL. */
static double first_stage_s(const struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t base,
                            uint32_t to, uint32_t m, uint32_t *replicas)
{
    uint32_t most = h->ask->is_straight ? 1 : m;
    uint32_t least = h->ask->accel_bytes == UINT64_MAX ? most : 1; /* idle ones in front save memory */
    double best = INFINITY;

    for (uint32_t r = most; r >= least; r--) {
        double t = dp_ranges_has_room(h, base, to, r, m) ? front_stage_s(h, l, base, to, r) : INFINITY;

        if (t < best) {
            best = t;
            if (replicas)
                *replicas = r;
        }
    }
    return best;
}

static bool is_cut(const struct dp_ranges *h, uint32_t ideal)
{
    return ideal % h->step == 0 || ideal + 1 == h->ideals.n;
}

static void ask_watch(struct dp_ranges *h, double searched)
{
    const struct dp_plan_watch *watch = h->ask->watch;
    uint64_t best_ns = h->below_s < INFINITY ? (uint64_t)(h->below_s * 1e9 + 0.5) : 0;

    if (watch && !h->was_ended)
        h->was_ended = !watch->go_on(watch->arg, searched, best_ns, h->bound_ns);
}

/* All ranges from `base`: h->time[ideal][0..n], INFINITY where there is no plan. */
void dp_ranges_solve(struct dp_ranges *h, const struct dp_ranges_level *l, uint32_t base)
{
    double limit = limit_s(h, l);

    for (uint32_t to = base + 1; to < h->ideals.n; to++) {
        double *best = dp_ranges_times(h, l->n, to);
        struct window w = window_of(h, l, to);

        for (uint32_t m = 0; m <= l->n; m++)
            best[m] = INFINITY;
        if (!is_cut(h, to) || h->was_ended || h->is_too_long || !dp_ideal_is_within(&h->ideals, base, to))
            continue;
        for (uint32_t m = w.low; m <= w.high; m++) {
            double t = fmin(fmin(best[m - 1], first_stage_s(h, l, base, to, m, NULL)), limit);

            for (uint32_t r = 1; r < m && (r == 1 || !h->ask->is_straight); r++)
                t = cut_best(h, l, base, to, m, r, t);
            best[m] = t < limit ? t : INFINITY;
        }
        h->is_too_long = h->steps > h->max_steps;
        if (is_top(h, l) && to % 64 == 0)
            ask_watch(h, (double)to / h->ideals.n);
    }
}

/* The last stage of the best plan of base..to with m devices; *m = what is left for those before it. */
struct dp_ranges_choice dp_ranges_last_stage(struct dp_ranges *h, const struct dp_ranges_level *l,
                                             uint32_t base, uint32_t to, uint32_t *m)
{
    double best = dp_ranges_times(h, l->n, to)[*m];
    struct dp_ranges_choice first = {base, 0};

    while (*m > 1 && dp_ranges_times(h, l->n, to)[*m - 1] == best)
        (*m)--;
    if (first_stage_s(h, l, base, to, *m, &first.replicas) == best) {
        *m = 0;
        return first;
    }
    for (uint32_t from = base + 1; from < to; from++) {
        for (uint32_t r = 1; r < *m && (r == 1 || !h->ask->is_straight); r++) {
            if (plan_s(h, l, base, from, to, *m, r, INFINITY) == best) {
                *m -= r;
                return (struct dp_ranges_choice){from, r};
            }
        }
    }
    return (struct dp_ranges_choice){UINT32_MAX, 0}; /* cannot be */
}

/* ---- states ---- */

static int by_compute(const void *a, const void *b, void *compute_ns)
{
    const uint64_t *c = compute_ns;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return c[x] != c[y] ? (c[x] < c[y] ? -1 : 1) : x < y ? -1 : x > y;
}

/* Outputs of nodes within ideal i that a later unit takes. */
static void sum_leaves(struct dp_ranges *h, uint32_t i)
{
    const struct dp_ideals *d = &h->ideals;
    const struct dp_graph *g = h->g;

    for (uint32_t e = 0; e < g->n_edges;) {
        uint32_t from = g->edge[e].from;
        bool is_inside = h->units.unit_of[from] != DP_NO_UNIT && dp_ideal_has(d, i, h->units.unit_of[from]);
        bool leaves = false;

        for (; e < g->n_edges && g->edge[e].from == from; e++)
            leaves |= is_inside && !dp_ideal_has(d, i, h->units.unit_of[g->edge[e].to]);
        if (leaves)
            h->leaves[i] += g->node[from].output_bytes;
    }
}

/* The same for all ideals of an order: an output leaves those from its unit on to before the last unit that takes it. */
static void sum_leaves_of_order(struct dp_ranges *h)
{
    const struct dp_graph *g = h->g;

    for (uint32_t e = 0; e < g->n_edges;) {
        uint32_t from = g->edge[e].from, unit = h->units.unit_of[from], last = 0;

        for (; e < g->n_edges && g->edge[e].from == from; e++) {
            uint32_t to = h->ideals.rank[h->units.unit_of[g->edge[e].to]] + 1;

            last = to > last ? to : last;
        }
        if (unit == DP_NO_UNIT || h->ideals.rank[unit] + 1 >= last)
            continue;
        h->leaves[h->ideals.rank[unit] + 1] += g->node[from].output_bytes; /* changes, for now */
        h->leaves[last] -= g->node[from].output_bytes;
    }
    for (uint32_t i = 1; i < h->ideals.n; i++)
        h->leaves[i] += h->leaves[i - 1];
}

static void sum_ideals(struct dp_ranges *h)
{
    const struct dp_ideals *d = &h->ideals;

    for (uint32_t i = 1; i < d->n; i++) {
        struct dp_ideal_step s = d->sub[d->sub_at[i]];

        h->compute_ns[i] = h->compute_ns[s.id] + h->units.accel_ns[s.unit];
        h->params[i] = h->params[s.id] + h->param_bytes[s.unit];
        h->state[i] = h->state[s.id] + h->units.bytes[s.unit];
        h->kept[i] = h->kept[s.id] + h->units.kept_bytes[s.unit];
        if (!d->rank)
            sum_leaves(h, i);
    }
    if (d->rank)
        sum_leaves_of_order(h);
}

void dp_ranges_release(struct dp_ranges *h)
{
    free(h->compute_ns);
    free(h->params);
    free(h->state);
    free(h->kept);
    free(h->leaves);
    free(h->by_compute);
    free(h->inner);
    free(h->time);
    h->compute_ns = h->params = h->state = h->kept = h->leaves = NULL;
    h->by_compute = NULL;
    h->inner = h->time = NULL;
    dp_ideals_release(&h->ideals);
}

int dp_ranges_create(struct dp_ranges *h)
{
    size_t n = h->ideals.n, most = dp_ranges_at(h, 0).n;

    if (h->ask->n_levels > 1 && dp_ranges_at(h, 1).n > most)
        most = dp_ranges_at(h, 1).n;
    h->compute_ns = calloc(n, sizeof *h->compute_ns);
    h->params = calloc(n, sizeof *h->params);
    h->state = calloc(n, sizeof *h->state);
    h->kept = calloc(n, sizeof *h->kept);
    h->leaves = calloc(n, sizeof *h->leaves);
    h->by_compute = calloc(n, sizeof *h->by_compute);
    h->time = malloc(h->has_no_table ? 1 : n * (most + 1) * sizeof *h->time);
    h->inner = h->ask->n_levels > 1 ? malloc(n * n * sizeof *h->inner) : NULL;
    if (!h->compute_ns || !h->params || !h->state || !h->kept || !h->leaves || !h->by_compute || !h->time ||
        (h->ask->n_levels > 1 && !h->inner))
        return -1;
    sum_ideals(h);
    h->step = h->ideals.rank ? (uint32_t)((n + DP_RANGES_MAX_CUTS - 1) / DP_RANGES_MAX_CUTS) : 1;
    h->n_cuts = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_cut(h, i))
            h->by_compute[h->n_cuts++] = i;
    qsort_r(h->by_compute, h->n_cuts, sizeof *h->by_compute, by_compute, h->compute_ns);
    return 0;
}

/* Steps of the innermost loop, as they were measured: a few cuts near the best, and a share of the rest. */
double dp_ranges_work(const struct dp_ranges *h, double n)
{
    double m[DP_PLAN_LEVELS] = {dp_ranges_at(h, 0).n, h->ask->n_levels > 1 ? dp_ranges_at(h, 1).n : 1};
    double cut = 16 + n / 16, inner = m[0] * m[0] / 2, outer = m[1] * m[1] / 2;

    return h->ask->n_levels == 1 ? n * inner * cut : (n * n / 2 * inner + n * outer) * cut;
}

void dp_ranges_group(struct dp_ranges *h, double n)
{
    uint32_t devices = h->ask->devices[h->ask->n_levels - 1], least = (devices + GROUPS - 1) / GROUPS;

    h->each = 1;
    if (h->ask->is_straight || devices <= GROUPS || dp_ranges_work(h, n) <= MAX_SINGLE_WORK)
        return;
    h->each = least;
    for (uint32_t each = least; each < 2 * least; each++) /* rather one that leaves nobody idle */
        if (devices % each == 0) {
            h->each = each;
            return;
        }
}

bool dp_ranges_are_too_many(const struct dp_ranges *h, double n)
{
    double most = dp_ranges_at(h, 0).n;

    if (h->ask->n_levels > 1 && dp_ranges_at(h, 1).n > most)
        most = dp_ranges_at(h, 1).n;
    return (h->ask->n_levels > 1 && dp_ranges_work(h, n) > DP_RANGES_MAX_WORK) || n * (most + 1) > MAX_TABLE ||
           (h->ask->n_levels > 1 && n * n > MAX_TABLE);
}

void dp_ranges_solve_inner(struct dp_ranges *h)
{
    struct dp_ranges_level l = dp_ranges_at(h, 0);
    uint32_t n = h->ideals.n;

    for (uint32_t base = 0; base < n; base++) {
        dp_ranges_solve(h, &l, base);
        ask_watch(h, (double)base / n);
        for (uint32_t to = 0; to < n; to++)
            h->inner[(size_t)base * n + to] = to > base ? dp_ranges_times(h, l.n, to)[l.n] : INFINITY;
    }
}
