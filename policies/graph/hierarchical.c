/* See hierarchical.h. States are ideals; for a fixed base (the ideal before the range that is planned) one
 * table time[ideal][devices] holds the best of every range from it. The lower of two levels is solved once
 * from every base and leaves inner[base][ideal], its time with all devices of a machine; the upper one, and
 * an only level, are solved from the empty base. Cuts are tried from the one that shares the compute best
 * outwards, as far as compute alone allows. Tables hold times, no choices: those are found again, by the
 * same arithmetic, on the few ranges of the answer.
 */
#include "config.h"

#include "policies/graph/hierarchical.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/check.h"
#include "policies/graph/ideals.h"
#include "policies/graph/line.h"

#define MAX_WORK 3e10        /* of the innermost loop, before anything is cut off: minutes */
#define MAX_TABLE (1u << 27) /* doubles */

struct search {
    const struct dp_graph *g;
    const struct dp_plan_hierarchical *ask;
    struct dp_units units;
    uint64_t *param_bytes; /* [units] */
    struct dp_graph_plan *out;
    int n_lines; /* orders that were cut, where ideals were too many */
    /* of one set of ideals */
    struct dp_ideals ideals;
    uint64_t *compute_ns, *params, *memory; /* [ideals] sums */
    uint64_t *leaves;                       /* [ideals] bytes of outputs that a later unit takes */
    uint32_t *by_compute;                   /* [ideals] ascending in compute_ns */
    double *inner;                          /* [ideals * ideals], two levels */
    double *time;                           /* [ideals * (devices + 1)] */
};

/* One level, and the range from `base` on. */
struct level {
    uint32_t index, n; /* n: devices, or machines */
    double bytes_per_s;
};

static struct level level_of(const struct search *h, uint32_t index)
{
    return (struct level){index, h->ask->devices[index], h->ask->bytes_per_s[index]};
}

/* A range on one device, or one machine. */
static double piece_s(const struct search *h, const struct level *l, uint32_t from, uint32_t to)
{
    return l->index ? h->inner[(size_t)from * h->ideals.n + to]
                    : (double)(h->compute_ns[to] - h->compute_ns[from]) / 1e9;
}

static double stage_s(const struct search *h, const struct level *l, uint32_t from, uint32_t to, uint32_t m,
                      bool is_first)
{
    double sync = 4.0 * (m - 1) * (double)(h->params[to] - h->params[from]) / (l->bytes_per_s * m);

    if (is_first && l->index)
        sync /= h->ask->devices[0];
    return (piece_s(h, l, from, to) + sync) / m;
}

/* A stage that is not the first, with the transfers on both sides. */
static double later_stage_s(const struct search *h, const struct level *l, uint32_t from, uint32_t to,
                            uint32_t m)
{
    double t = stage_s(h, l, from, to, m, false);

    t = fmax(t, 2.0 * (double)h->leaves[from] / (l->bytes_per_s * m));
    return to + 1 < h->ideals.n ? fmax(t, 2.0 * (double)h->leaves[to] / (l->bytes_per_s * m)) : t;
}

/* Do m replicas of a stage keep what is under way, with `end` devices used up to its end? */
static bool has_room(const struct search *h, const struct level *l, uint32_t from, uint32_t to, uint32_t m,
                     uint32_t end)
{
    uint32_t versions = (l->n - end + m - 1) / m + 1;

    if (h->ask->accel_bytes == UINT64_MAX)
        return true;
    return h->memory[to] - h->memory[from] <= h->ask->accel_bytes / versions;
}

static double *times_of(const struct search *h, uint32_t n, uint32_t ideal)
{
    return h->time + (size_t)ideal * (n + 1);
}

/* Least time of so much compute on one level-l thing: replicas below share it at best evenly. */
static double least_s(const struct search *h, const struct level *l, uint64_t compute_ns)
{
    return (double)compute_ns / 1e9 / (l->index ? h->ask->devices[0] : 1);
}

/* First place in by_compute whose ideal has at least so much compute. */
static uint32_t find_compute(const struct search *h, double compute_ns)
{
    uint32_t low = 0, high = h->ideals.n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if ((double)h->compute_ns[h->by_compute[mid]] < compute_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A plan of base..to with m devices, r of them for the last stage, which begins at `from`. */
static double plan_s(const struct search *h, const struct level *l, uint32_t base, uint32_t from, uint32_t to,
                     uint32_t m, uint32_t r)
{
    if (from == base || from == to || !dp_ideal_is_within(&h->ideals, base, from) ||
        !dp_ideal_is_within(&h->ideals, from, to) || !has_room(h, l, from, to, r, m))
        return INFINITY;
    return fmax(times_of(h, l->n, from)[m - r], later_stage_s(h, l, from, to, r));
}

/* The best cut of base..to into m - r devices and r, if it beats `best`: from the one that shares the compute
 * best outwards, as long as what lies on either side could be done in time. */
static double cut_best(const struct search *h, const struct level *l, uint32_t base, uint32_t to, uint32_t m,
                       uint32_t r, double best)
{
    uint64_t first = h->compute_ns[base], last = h->compute_ns[to];
    uint32_t middle = find_compute(h, (double)first + (double)(last - first) * (m - r) / m);

    for (uint32_t i = middle; i-- > 0;) {
        uint32_t from = h->by_compute[i];

        if (h->compute_ns[from] < first || !(least_s(h, l, last - h->compute_ns[from]) / r < best))
            break;
        best = fmin(best, plan_s(h, l, base, from, to, m, r));
    }
    for (uint32_t i = middle; i < h->ideals.n; i++) {
        uint32_t from = h->by_compute[i];

        if (h->compute_ns[from] > last || !(least_s(h, l, h->compute_ns[from] - first) / (m - r) < best))
            break;
        best = fmin(best, plan_s(h, l, base, from, to, m, r));
    }
    return best;
}

/* base..to as the first stage, with m devices of which the first may stay idle. replicas: = how many do
 * not; may be NULL. */
static double first_stage_s(const struct search *h, const struct level *l, uint32_t base, uint32_t to,
                            uint32_t m, uint32_t *replicas)
{
    uint32_t most = h->ask->is_straight ? 1 : m;
    uint32_t least = h->ask->accel_bytes == UINT64_MAX ? most : 1; /* idle ones in front save memory */
    double best = INFINITY;

    for (uint32_t r = most; r >= least; r--) {
        double t = has_room(h, l, base, to, r, m) ? stage_s(h, l, base, to, r, true) : INFINITY;

        if (t < best) {
            best = t;
            if (replicas)
                *replicas = r;
        }
    }
    return best;
}

/* All ranges from `base`: h->time[ideal][0..n], INFINITY where there is no plan. */
static void solve_from(struct search *h, const struct level *l, uint32_t base)
{
    for (uint32_t to = base + 1; to < h->ideals.n; to++) {
        double *best = times_of(h, l->n, to);

        for (uint32_t m = 0; m <= l->n; m++)
            best[m] = INFINITY;
        if (!dp_ideal_is_within(&h->ideals, base, to))
            continue;
        for (uint32_t m = 1; m <= l->n; m++) {
            best[m] = fmin(best[m - 1], first_stage_s(h, l, base, to, m, NULL));
            for (uint32_t r = 1; r < m && (r == 1 || !h->ask->is_straight); r++)
                best[m] = cut_best(h, l, base, to, m, r, best[m]);
        }
    }
}

struct choice {
    uint32_t from, replicas;
};

/* The last stage of the best plan of base..to with m devices; *m = what is left for those before it. */
static struct choice last_stage(struct search *h, const struct level *l, uint32_t base, uint32_t to,
                                uint32_t *m)
{
    double best = times_of(h, l->n, to)[*m];
    struct choice first = {base, 0};

    while (*m > 1 && times_of(h, l->n, to)[*m - 1] == best)
        (*m)--;
    if (first_stage_s(h, l, base, to, *m, &first.replicas) == best) {
        *m = 0;
        return first;
    }
    for (uint32_t from = base + 1; from < to; from++) {
        for (uint32_t r = 1; r < *m && (r == 1 || !h->ask->is_straight); r++) {
            if (plan_s(h, l, base, from, to, *m, r) == best) {
                *m -= r;
                return (struct choice){from, r};
            }
        }
    }
    return (struct choice){UINT32_MAX, 0}; /* cannot be */
}

/* ---- states ---- */

static int by_compute(const void *a, const void *b, void *compute_ns)
{
    const uint64_t *c = compute_ns;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return c[x] != c[y] ? (c[x] < c[y] ? -1 : 1) : x < y ? -1 : x > y;
}

static void sum_ideals(struct search *h)
{
    const struct dp_ideals *d = &h->ideals;
    const struct dp_graph *g = h->g;

    for (uint32_t i = 1; i < d->n; i++) {
        struct dp_ideal_step s = d->sub[d->sub_at[i]];

        h->compute_ns[i] = h->compute_ns[s.id] + h->units.accel_ns[s.unit];
        h->params[i] = h->params[s.id] + h->param_bytes[s.unit];
        h->memory[i] = h->memory[s.id] + h->units.bytes[s.unit];
        for (uint32_t e = 0; e < g->n_edges;) {
            uint32_t from = g->edge[e].from;
            bool is_inside =
                h->units.unit_of[from] != DP_NO_UNIT && dp_ideal_has(d, i, h->units.unit_of[from]);
            bool leaves = false;

            for (; e < g->n_edges && g->edge[e].from == from; e++)
                leaves |= is_inside && !dp_ideal_has(d, i, h->units.unit_of[g->edge[e].to]);
            if (leaves)
                h->leaves[i] += g->node[from].output_bytes;
        }
    }
}

static void release_states(struct search *h)
{
    free(h->compute_ns);
    free(h->params);
    free(h->memory);
    free(h->leaves);
    free(h->by_compute);
    free(h->inner);
    free(h->time);
    h->compute_ns = h->params = h->memory = h->leaves = NULL;
    h->by_compute = NULL;
    h->inner = h->time = NULL;
    dp_ideals_release(&h->ideals);
}

static int make_states(struct search *h)
{
    size_t n = h->ideals.n, most = h->ask->devices[0];

    if (h->ask->n_levels > 1 && h->ask->devices[1] > most)
        most = h->ask->devices[1];
    h->compute_ns = calloc(n, sizeof *h->compute_ns);
    h->params = calloc(n, sizeof *h->params);
    h->memory = calloc(n, sizeof *h->memory);
    h->leaves = calloc(n, sizeof *h->leaves);
    h->by_compute = calloc(n, sizeof *h->by_compute);
    h->time = malloc(n * (most + 1) * sizeof *h->time);
    h->inner = h->ask->n_levels > 1 ? malloc(n * n * sizeof *h->inner) : NULL;
    if (!h->compute_ns || !h->params || !h->memory || !h->leaves || !h->by_compute || !h->time ||
        (h->ask->n_levels > 1 && !h->inner))
        return -1;
    sum_ideals(h);
    for (uint32_t i = 0; i < n; i++)
        h->by_compute[i] = i;
    qsort_r(h->by_compute, n, sizeof *h->by_compute, by_compute, h->compute_ns);
    return 0;
}

/* Steps of the innermost loop, as they were measured: a few cuts near the best, and a share of the rest. */
static double work_of(const struct search *h, double n)
{
    const uint32_t *m = h->ask->devices;
    double cut = 16 + n / 16, inner = (double)m[0] * m[0] / 2, outer = (double)m[1] * m[1] / 2;

    return h->ask->n_levels == 1 ? n * inner * cut : (n * n / 2 * inner + n * outer) * cut;
}

static bool is_too_much(const struct search *h, double n)
{
    double most = h->ask->devices[0];

    if (h->ask->n_levels > 1 && h->ask->devices[1] > most)
        most = h->ask->devices[1];
    return work_of(h, n) > MAX_WORK || n * (most + 1) > MAX_TABLE ||
           (h->ask->n_levels > 1 && n * n > MAX_TABLE);
}

/* ---- the answer ---- */

struct answer {
    double time_s;
    uint32_t n_stages;
    struct dp_graph_stage *stage; /* [room] from the last to the first */
    uint32_t *stage_of_unit;      /* [units] numbered so */
    uint32_t room;
};

static int add_stage(const struct search *h, struct answer *a, uint32_t from, uint32_t to,
                     struct dp_graph_stage stage)
{
    if (a->n_stages == a->room)
        return -1;
    for (uint32_t v = 0; v < h->units.n; v++) {
        if (dp_ideal_has(&h->ideals, to, v) && !dp_ideal_has(&h->ideals, from, v))
            a->stage_of_unit[v] = a->n_stages;
    }
    a->stage[a->n_stages++] = stage;
    return 0;
}

/* The stages of one machine's range, each on `machines` of them. */
static int trace_inner(struct search *h, struct answer *a, uint32_t base, uint32_t to, uint32_t group,
                       uint32_t machines)
{
    struct level l = level_of(h, 0);
    uint32_t m = l.n;

    if (h->ask->n_levels > 1)
        solve_from(h, &l, base);
    while (to != base) {
        struct choice c = last_stage(h, &l, base, to, &m);
        struct dp_graph_stage s = {.group = group, .machines = machines, .replicas = c.replicas * machines};

        if (c.replicas == 0 || add_stage(h, a, c.from, to, s) < 0)
            return -1;
        to = c.from;
    }
    return 0;
}

static int trace_outer(struct search *h, struct answer *a)
{
    struct level l = level_of(h, 1);
    struct choice *range =
        calloc((size_t)l.n + 1, sizeof *range); /* from, replicas; ends where the last began */
    uint32_t n = 0, m = l.n, to = h->ideals.n - 1;
    int rc = range ? 0 : -1;

    while (rc == 0 && to != 0) { /* before trace_inner() overwrites the table */
        range[n] = last_stage(h, &l, 0, to, &m);
        rc = range[n].replicas == 0 ? -1 : 0;
        to = range[n++].from;
    }
    to = h->ideals.n - 1;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = trace_inner(h, a, range[i].from, to, i, range[i].replicas);
        to = range[i].from;
    }
    free(range);
    return rc;
}

static void solve_inner(struct search *h)
{
    struct level l = level_of(h, 0);
    uint32_t n = h->ideals.n;

    for (uint32_t base = 0; base < n; base++) {
        solve_from(h, &l, base);
        for (uint32_t to = 0; to < n; to++)
            h->inner[(size_t)base * n + to] = to > base ? times_of(h, l.n, to)[l.n] : INFINITY;
    }
}

/* The best plan over h->ideals, into *a where it is better than that. returns 0 or -1 (memory). */
static int solve_states(struct search *h, struct answer *a)
{
    struct level top = level_of(h, h->ask->n_levels - 1);
    double time;

    if (make_states(h) < 0)
        return -1;
    if (h->ask->n_levels > 1)
        solve_inner(h);
    for (uint32_t m = 0; m <= top.n; m++)
        times_of(h, top.n, 0)[m] = 0.0;
    solve_from(h, &top, 0);
    time = times_of(h, top.n, h->ideals.n - 1)[top.n];
    if (!(time < a->time_s))
        return 0;
    a->time_s = time;
    a->n_stages = 0;
    return h->ask->n_levels > 1 ? trace_outer(h, a) : trace_inner(h, a, 0, h->ideals.n - 1, 0, 1);
}

static int solve_lines(struct search *h, struct answer *a, struct dp_err *err)
{
    uint32_t *order = calloc((size_t)h->units.n + 1, sizeof *order);
    int rc = order ? 0 : dp_err_set(err, DP_ENOMEM, "orders: out of memory");

    h->n_lines = work_of(h, h->units.n + 1.0) > MAX_WORK / 8 ? 1 : DP_N_LINES;
    for (int kind = 0; rc == 0 && kind < h->n_lines; kind++) {
        rc = dp_line_make(&h->units, (enum dp_line_kind)kind, order, err);
        if (rc == 0)
            rc = dp_ideals_create_chain(&h->ideals, &h->units, order, err);
        if (rc == 0 && solve_states(h, a) < 0)
            rc = dp_err_set(err, DP_ENOMEM, "a plan of %u units: out of memory", h->units.n);
        release_states(h);
    }
    free(order);
    return rc;
}

static int solve(struct search *h, struct answer *a, struct dp_err *err)
{
    uint32_t cap = h->ask->max_ideals ? h->ask->max_ideals : DP_IDEALS_CAP;
    bool is_too_many = true;
    int rc = 0;

    if (is_too_much(h, h->units.n + 1.0))
        return dp_err_set(err, DP_ENOMEM,
                          "%u units on so many devices are too much for the hierarchical algorithm; "
                          "--algorithm=line is not",
                          h->units.n);
    if (dp_ideals_create(&h->ideals, &h->units, cap, &is_too_many, err) < 0 && !is_too_many)
        return -1;
    h->out->n_ideals = is_too_many ? 0 : h->ideals.n;
    if (!is_too_many && !is_too_much(h, h->ideals.n)) {
        h->out->is_optimal = true;
        rc = solve_states(h, a) < 0
                 ? dp_err_set(err, DP_ENOMEM, "a plan of %u ideals: out of memory", h->ideals.n)
                 : 0;
    }
    release_states(h);
    return h->out->is_optimal ? rc : solve_lines(h, a, err);
}

/* Turn the stages round, place the nodes, and weigh what came out. */
static int write_plan(struct search *h, const struct answer *a, struct dp_err *err)
{
    struct dp_graph_plan *p = h->out;
    double weighed;

    p->n_stages = a->n_stages;
    p->stage = calloc((size_t)a->n_stages + 1, sizeof *p->stage);
    p->stage_of = calloc(h->g->n_nodes, sizeof *p->stage_of);
    if (!p->stage || !p->stage_of)
        return dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    for (uint32_t s = 0; s < a->n_stages; s++) {
        p->stage[s] = a->stage[a->n_stages - 1 - s];
        p->stage[s].group = a->stage[a->n_stages - 1].group - p->stage[s].group;
        p->n_devices += p->stage[s].replicas;
    }
    for (uint32_t i = 0; i < h->g->n_nodes; i++) {
        uint32_t unit = h->units.unit_of[i];

        p->stage_of[i] = unit == DP_NO_UNIT ? 0 : a->n_stages - 1 - a->stage_of_unit[unit];
    }
    if (dp_graph_check(h->g, p->stage_of, p->n_stages, err) < 0 ||
        dp_plan_hierarchical_weigh(h->g, h->ask, p, err) < 0)
        return -1;
    weighed = (double)p->load_ns / 1e9;
    if (!(fabs(weighed - a->time_s) <= 1e-9 + 1e-9 * a->time_s))
        return dp_err_set(err, DP_EINVAL, "the answer does not keep what it promises: %g s instead of %g s",
                          weighed, a->time_s);
    return 0;
}

/* ---- around it ---- */

/* Everything everywhere: gradients of all parameters among all devices, level by level. */
static void set_baselines(struct search *h)
{
    struct dp_graph_plan *p = h->out;
    double params = 0.0, t;
    uint64_t n = 1, dearest = 0;

    for (uint32_t i = 0; i < h->units.n; i++) {
        p->single_ns += h->units.accel_ns[i];
        params += (double)h->param_bytes[i];
    }
    t = (double)p->single_ns / 1e9;
    for (uint32_t l = 0; l < h->ask->n_levels; l++) {
        uint32_t m = h->ask->devices[l];
        double sync = 4.0 * (m - 1) * params / (h->ask->bytes_per_s[l] * m);

        t = (t + (l ? sync / h->ask->devices[0] : sync)) / m;
        n *= m;
    }
    p->data_parallel_ns = (uint64_t)(t * 1e9 + 0.5);
    for (uint32_t i = 0; i < h->units.n && h->ask->n_levels == 1;
         i++) { /* some number of replicas serves it */
        double least = INFINITY;

        for (uint32_t m = 1; m <= (h->ask->is_straight ? 1 : h->ask->devices[0]); m++) {
            double sync = 4.0 * (m - 1) * (double)h->param_bytes[i] / (h->ask->bytes_per_s[0] * m);

            least = fmin(least, ((double)h->units.accel_ns[i] / 1e9 + sync) / m);
        }
        dearest = (uint64_t)(least * 1e9) > dearest ? (uint64_t)(least * 1e9) : dearest;
    }
    p->bound_ns = p->single_ns / n;
    p->bound_ns = dearest > p->bound_ns ? dearest : p->bound_ns;
}

static void say_why(struct search *h)
{
    struct dp_graph_plan *p = h->out;
    char how[160];
    uint32_t slowest = 0;
    bool is_traffic, is_sync;

    for (uint32_t s = 1; s < p->n_stages; s++)
        slowest = p->stage[s].load_ns > p->stage[slowest].load_ns ? s : slowest;
    is_traffic = p->stage[slowest].traffic_ns >= p->stage[slowest].load_ns;
    is_sync = p->stage[slowest].sync_ns > p->stage[slowest].compute_ns;
    if (p->is_optimal)
        snprintf(how, sizeof how, "all %u ideals were searched", p->n_ideals);
    else if (p->n_ideals)
        snprintf(how, sizeof how,
                 "the search over its %u ideals is too long: %d order(s) of its units were cut", p->n_ideals,
                 h->n_lines);
    else
        snprintf(how, sizeof how, "the graph has too many ideals: %d order(s) of its units were cut",
                 h->n_lines);
    if (h->ask->devices[0] == 1 && (h->ask->n_levels == 1 || h->ask->devices[1] == 1))
        snprintf(p->why, sizeof p->why, "there is one device only");
    else if (p->n_stages == 1 && p->stage[0].replicas == 1)
        snprintf(p->why, sizeof p->why,
                 "%s; sending activations or gradients costs more than other devices save", how);
    else if (p->n_stages == 1)
        snprintf(p->why, sizeof p->why, "%s; cutting the network gains nothing over data parallelism", how);
    else
        snprintf(p->why, sizeof p->why, "%s; stage %u sets the pace, by %s", how, slowest,
                 is_traffic ? "its activations on the network"
                 : is_sync  ? "its gradients on the network"
                            : "its compute");
}

static int plan_units(struct search *h, struct dp_err *err)
{
    uint64_t n_devices = 1;
    struct answer a = {.time_s = INFINITY};
    int rc = -1;

    for (uint32_t l = 0; l < h->ask->n_levels; l++)
        n_devices *= h->ask->devices[l];
    a.room = n_devices < h->units.n ? (uint32_t)n_devices : h->units.n;
    a.stage = calloc((size_t)a.room + 1, sizeof *a.stage);
    a.stage_of_unit = calloc((size_t)h->units.n + 1, sizeof *a.stage_of_unit);
    h->param_bytes = calloc((size_t)h->units.n + 1, sizeof *h->param_bytes);
    if (!a.stage || !a.stage_of_unit || !h->param_bytes) {
        dp_err_set(err, DP_ENOMEM, "plan: out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < h->g->n_nodes; i++) {
        if (h->units.unit_of[i] != DP_NO_UNIT)
            h->param_bytes[h->units.unit_of[i]] += h->g->node[i].param_bytes;
    }
    h->out->n_units = h->units.n;
    h->out->algorithm = DP_PLAN_HIERARCHICAL;
    set_baselines(h);
    if (solve(h, &a, err) < 0)
        goto out;
    if (a.n_stages == 0)
        dp_err_set(err, DP_ENOMEM, "found no plan that fits %u devices of %.4g GB", h->ask->devices[0],
                   (double)h->ask->accel_bytes / 1e9);
    else
        rc = write_plan(h, &a, err);
    if (rc == 0)
        say_why(h);
out:
    free(a.stage);
    free(a.stage_of_unit);
    free(h->param_bytes);
    return rc;
}

static int check_question(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                          struct dp_err *err)
{
    if (g->kind != DP_GRAPH_PROFILE)
        return dp_err_set(err, DP_EINVAL,
                          "replicas need the sizes of parameters, which this graph does not have");
    if (ask->n_levels < 1 || ask->n_levels > DP_PLAN_LEVELS)
        return dp_err_set(err, DP_EINVAL, "a network of %u levels; 1 or 2 can be planned for", ask->n_levels);
    for (uint32_t l = 0; l < ask->n_levels; l++) {
        if (ask->devices[l] < 1 || ask->devices[l] > 65535 || !(ask->bytes_per_s[l] > 0.0))
            return dp_err_set(err, DP_EINVAL, "level %u of the network: %u devices, %g bytes/s", l,
                              ask->devices[l], ask->bytes_per_s[l]);
    }
    if (ask->n_levels > 1 && ask->accel_bytes != UINT64_MAX)
        return dp_err_set(err, DP_EINVAL,
                          "memory limits are known for devices of one level, not for machines");
    return 0;
}

int dp_plan_hierarchical(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                         struct dp_graph_plan *out, struct dp_err *err)
{
    struct search h = {.g = g, .ask = ask, .out = out};
    int rc = -1;

    *out = (struct dp_graph_plan){0};
    if (check_question(g, ask, err) < 0 || dp_units_create(&h.units, g, err) < 0)
        return -1;
    if (h.units.n == 0)
        dp_err_set(err, DP_EINVAL, "the graph has nothing but inputs");
    else
        rc = plan_units(&h, err);
    dp_units_release(&h.units);
    return rc;
}
