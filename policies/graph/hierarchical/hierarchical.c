/* SPDX-License-Identifier: BSD-3-Clause */
/* See hierarchical.h. The search is ranges.c's, over the ideals of the network, or where they are too many
 * over those of linear orders of it: a few (line.h), then those that search/search.h looks for. Here it is asked, and its
 * answer becomes a plan.
 */
#include "policies/graph/hierarchical/hierarchical.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/check.h"
#include "policies/graph/hierarchical/ranges.h"
#include "policies/graph/hierarchical/straight.h"
#include "policies/graph/line.h"
#include "policies/graph/search/search.h"

#define MAX_UNITS 20000u /* of a graph whose ideals are listed: they are sets of them */

struct search {
    struct dp_ranges ranges;
    struct dp_graph_plan *out;
    int n_lines;   /* orders that may be cut at first, where ideals are too many */
    uint64_t order_steps; /* the most that the cut of one took */
    bool is_chain; /* there is one order only, and it was cut everywhere */
    uint32_t each; /* devices, or machines, in a group of the last search that ended */
};

/* ---- the answer ---- */

struct answer {
    double time_s;
    uint32_t n_stages;
    struct dp_graph_stage *stage; /* [room] from the last to the first */
    uint32_t *stage_of_unit;      /* [units] numbered so */
    uint32_t room;
};

static int add_stage(const struct dp_ranges *h, struct answer *a, uint32_t from, uint32_t to,
                     struct dp_graph_stage stage)
{
    if (a->n_stages == a->room)
        return -1;
    for (uint32_t i = from; i < to && h->ideals.rank; i++)
        a->stage_of_unit[h->ideals.sub[i].unit] = a->n_stages;
    for (uint32_t v = 0; v < h->units.n && !h->ideals.rank; v++) {
        if (dp_ideal_has(&h->ideals, to, v) && !dp_ideal_has(&h->ideals, from, v))
            a->stage_of_unit[v] = a->n_stages;
    }
    a->stage[a->n_stages++] = stage;
    return 0;
}

/* The stages of one machine's range, each on `machines` of them. */
static int trace_inner(struct dp_ranges *h, struct answer *a, uint32_t base, uint32_t to, uint32_t group,
                       uint32_t machines)
{
    struct dp_ranges_level l = dp_ranges_at(h, 0);
    uint32_t m = l.n;

    if (h->ask->n_levels > 1)
        dp_ranges_solve(h, &l, base);
    while (to != base) {
        struct dp_ranges_choice c = dp_ranges_last_stage(h, &l, base, to, &m);
        struct dp_graph_stage s = {.group = group, .machines = machines, .replicas = c.replicas * l.each * machines};

        if (c.replicas == 0 || add_stage(h, a, c.from, to, s) < 0)
            return -1;
        to = c.from;
    }
    return 0;
}

static int trace_outer(struct dp_ranges *h, struct answer *a)
{
    struct dp_ranges_level l = dp_ranges_at(h, 1);
    struct dp_ranges_choice *range =
        calloc((size_t)l.n + 1, sizeof *range); /* from, replicas; ends where the last began */
    uint32_t n = 0, m = l.n, to = h->ideals.n - 1;
    int rc = range ? 0 : -1;

    while (rc == 0 && to != 0) { /* before trace_inner() overwrites the table */
        range[n] = dp_ranges_last_stage(h, &l, 0, to, &m);
        rc = range[n].replicas == 0 ? -1 : 0;
        to = range[n++].from;
    }
    to = h->ideals.n - 1;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = trace_inner(h, a, range[i].from, to, i, range[i].replicas * l.each);
        to = range[i].from;
    }
    free(range);
    return rc;
}

/* One device a stage, along an order. */
static int solve_straight(struct dp_ranges *h, struct answer *a)
{
    uint32_t *end = calloc(h->ask->devices[0], sizeof *end), n = 0;
    double time = end ? dp_straight_solve(h, end, &n) : -1;
    int rc = time < 0 ? -1 : 0;

    if (rc == 0 && time < INFINITY) {
        a->time_s = time;
        a->n_stages = 0;
        while (rc == 0 && n-- > 0)
            rc = add_stage(h, a, n ? end[n - 1] : 0, end[n], (struct dp_graph_stage){.machines = 1, .replicas = 1});
    }
    free(end);
    return rc;
}

/* The best plan over h->ideals, into *a where it is better than that. returns 0 or -1 (memory). */
static int solve_states(struct dp_ranges *h, struct answer *a)
{
    struct dp_ranges_level top = dp_ranges_at(h, h->ask->n_levels - 1);
    double time;

    if (dp_ranges_create(h) < 0)
        return -1;
    h->below_s = a->time_s;
    if (h->has_no_table)
        return solve_straight(h, a);
    if (h->ask->n_levels > 1)
        dp_ranges_solve_inner(h);
    for (uint32_t m = 0; m <= top.n; m++)
        dp_ranges_times(h, top.n, 0)[m] = 0.0;
    dp_ranges_solve(h, &top, 0);
    time = dp_ranges_times(h, top.n, h->ideals.n - 1)[top.n];
    if (h->was_ended || h->is_too_long || !(time < a->time_s))
        return 0;
    a->time_s = time;
    a->n_stages = 0;
    return h->ask->n_levels > 1 ? trace_outer(h, a) : trace_inner(h, a, 0, h->ideals.n - 1, 0, 1);
}

/* What the tables of an order cost besides, in such steps as the search for orders counts. */
static uint64_t order_overhead(const struct dp_ranges *h)
{
    uint64_t n = h->units.n, inner = h->ask->n_levels > 1 ? n * h->ask->devices[0] : 0;

    return (inner + (uint64_t)dp_ranges_at(h, 0).n * 16 + 256) * n;
}

/* The best plan over an order, into *a where it is better than that. h->ranges is to be released, whatever comes back. */
static int cut_order(struct search *h, const uint32_t *order, struct answer *a, struct dp_err *err)
{
    uint64_t before = h->ranges.steps, steps;

    if (dp_ideals_create_chain(&h->ranges.ideals, &h->ranges.units, order, err) < 0)
        return -1;
    if (solve_states(&h->ranges, a) < 0)
        return dp_err_set(err, DP_ENOMEM, "a plan of %u units: out of memory", h->ranges.units.n);
    h->out->n_orders++;
    steps = h->ranges.steps - before + order_overhead(&h->ranges);
    h->order_steps = steps > h->order_steps ? steps : h->order_steps;
    return 0;
}

static int solve_lines(struct search *h, struct answer *a, struct dp_err *err)
{
    size_t n = (size_t)h->ranges.units.n + 1;
    uint32_t *order = calloc(n, sizeof *order), *first = calloc(n, sizeof *first);
    int rc = order && first ? 0 : dp_err_set(err, DP_ENOMEM, "orders: out of memory");

    h->ranges.max_steps = UINT64_MAX; /* there must be an answer */
    h->ranges.has_no_table = dp_straight_is_for(&h->ranges, h->ranges.units.n + 1.0);
    dp_ranges_group(&h->ranges, h->ranges.units.n + 1.0);
    h->each = h->ranges.each;
    h->n_lines =
        dp_ranges_work(&h->ranges, h->ranges.units.n + 1.0) > DP_RANGES_MAX_WORK / 8 ? 1 : DP_N_LINES;
    for (int kind = 0; rc == 0 && kind < h->n_lines && !h->ranges.was_ended; kind++) {
        rc = dp_line_make(&h->ranges.units, (enum dp_line_kind)kind, order, err);
        if (rc == 0 && kind > 0 && !memcmp(order, first, n * sizeof *order))
            continue;
        if (kind == 0 && rc == 0) {
            memcpy(first, order, n * sizeof *order);
            h->is_chain = dp_line_is_chain(&h->ranges.units, order);
        }
        if (rc == 0)
            rc = cut_order(h, order, a, err);
        h->is_chain = h->is_chain && (h->ranges.step == 1 || h->ranges.has_no_table);
        dp_ranges_release(&h->ranges);
        if (h->is_chain)
            break;
    }
    h->ranges.has_no_table = false;
    free(order);
    free(first);
    return rc;
}

static int solve(struct search *h, struct answer *a, struct dp_err *err)
{
    uint32_t cap = h->ranges.ask->max_ideals ? h->ranges.ask->max_ideals : DP_IDEALS_CAP;
    bool is_too_many = true;
    int rc = 0;

    dp_ranges_group(&h->ranges, h->ranges.units.n + 1.0);
    if (!dp_straight_is_for(&h->ranges, h->ranges.units.n + 1.0) && dp_ranges_are_too_many(&h->ranges, h->ranges.units.n + 1.0))
        return dp_err_set(err, DP_ENOMEM,
                          "%u units on so many devices are too many for the hierarchical algorithm; "
                          "`dynpipe plan --algorithm=line` takes them",
                          h->ranges.units.n);
    if (solve_lines(h, a, err) < 0)
        return -1;
    h->out->was_ended = h->ranges.was_ended;
    if (h->is_chain) {
        h->out->n_ideals = h->ranges.units.n + 1;
        h->out->is_optimal = !h->ranges.was_ended && h->ranges.each == 1;
        return 0;
    }
    if (h->ranges.units.n <= MAX_UNITS &&
        dp_ideals_create(&h->ranges.ideals, &h->ranges.units, cap, &is_too_many, err) < 0 && !is_too_many)
        return -1;
    h->out->n_ideals = is_too_many ? 0 : h->ranges.ideals.n;
    dp_ranges_group(&h->ranges, h->ranges.ideals.n);
    if (!is_too_many && !h->ranges.was_ended && !dp_ranges_are_too_many(&h->ranges, h->ranges.ideals.n)) {
        h->ranges.steps = 0;
        h->ranges.max_steps = h->ranges.ask->max_steps ? h->ranges.ask->max_steps : DP_RANGES_MAX_STEPS;
        rc = solve_states(&h->ranges, a) < 0
                 ? dp_err_set(err, DP_ENOMEM, "a plan of %u ideals: out of memory", h->ranges.ideals.n)
                 : 0;
        h->out->is_optimal = rc == 0 && !h->ranges.was_ended && !h->ranges.is_too_long && h->ranges.each == 1;
        h->each = h->ranges.is_too_long ? h->each : h->ranges.each;
    }
    h->out->was_ended = h->ranges.was_ended;
    dp_ranges_release(&h->ranges);
    return rc;
}

/* ---- better orders ---- */

struct order_search {
    struct search *h;
    struct answer *best, *one; /* so far; of an order, in turn */
    const struct dp_plan_watch *watch; /* the caller's */
    struct dp_search orders;
};

static void take_stages(const struct dp_ranges *h, const struct answer *a, uint32_t *stage)
{
    for (uint32_t v = 0; v < h->units.n; v++)
        stage[v] = a->n_stages - 1 - a->stage_of_unit[v];
}

static int try_order(void *arg, const uint32_t *order, uint64_t limit_ns, uint32_t *stage, uint64_t *load_ns, uint64_t *steps,
                     struct dp_err *err)
{
    struct order_search *o = arg;
    struct dp_ranges *r = &o->h->ranges;
    uint64_t before = r->steps;
    int rc;

    o->one->time_s = limit_ns < DP_SEARCH_NONE / 4 ? ((double)limit_ns + 0.5) / 1e9 : INFINITY;
    o->one->n_stages = 0;
    rc = cut_order(o->h, order, o->one, err);
    dp_ranges_release(r);
    *steps += r->steps - before + order_overhead(r);
    if (rc < 0 || o->one->n_stages == 0)
        return rc;
    take_stages(r, o->one, stage);
    *load_ns = (uint64_t)(o->one->time_s * 1e9 + 0.5);
    if (o->one->time_s < o->best->time_s) {
        struct answer old = *o->best;

        *o->best = *o->one;
        *o->one = old;
    }
    return 0;
}

/* The dynamic program knows only how far it is itself. */
static bool go_on(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    const struct order_search *o = arg;

    (void)searched;
    (void)best_ns;
    return o->watch->go_on(o->watch->arg, o->orders.searched, o->orders.best_ns < DP_SEARCH_NONE ? o->orders.best_ns : 0, bound_ns);
}

static int search_with(struct order_search *o, struct dp_err *err)
{
    struct search *h = o->h;
    const struct dp_plan_hierarchical *ask = h->ranges.ask;
    const struct dp_plan_watch watch = {go_on, o};
    struct dp_plan_hierarchical watched = *ask;
    uint32_t n = h->ranges.units.n, *stage = calloc((size_t)n + 1, sizeof *stage);
    int rc;

    o->one->stage = calloc((size_t)o->best->room + 1, sizeof *o->one->stage);
    o->one->stage_of_unit = calloc((size_t)n + 1, sizeof *o->one->stage_of_unit);
    if (!stage || !o->one->stage || !o->one->stage_of_unit) {
        free(stage);
        return dp_err_set(err, DP_ENOMEM, "orders: out of memory");
    }
    o->orders = (struct dp_search){.units = &h->ranges.units,
                                   .algorithm = DP_PLAN_LINE,
                                   .n_devices = ask->devices[0] * (ask->n_levels > 1 ? ask->devices[1] : 1),
                                   .seed = ask->seed,
                                   .max_steps = ask->search_steps,
                                   .order_steps = h->order_steps,
                                   .source = ask->source,
                                   .bound_ns = h->out->bound_ns,
                                   .watch = ask->watch ? &watch : NULL,
                                   .cut = try_order,
                                   .arg = o,
                                   .best_ns = DP_SEARCH_NONE,
                                   .stage = stage};
    if (o->best->n_stages) {
        o->orders.best_ns = (uint64_t)(o->best->time_s * 1e9 + 0.5);
        take_stages(&h->ranges, o->best, stage);
    }
    watched.watch = o->orders.watch;
    h->ranges.ask = &watched;
    h->ranges.max_steps = UINT64_MAX;
    h->ranges.is_too_long = false;
    h->ranges.has_no_table = dp_straight_is_for(&h->ranges, n + 1.0);
    dp_ranges_group(&h->ranges, n + 1.0);
    o->one->room = o->best->room;
    rc = dp_search_run(&o->orders, err);
    h->ranges.ask = ask;
    h->ranges.has_no_table = false;
    h->out->was_ended |= o->orders.was_ended;
    dp_search_told(&o->orders, h->out);
    free(stage);
    return rc;
}

static int search_orders(struct search *h, struct answer *best, struct dp_err *err)
{
    struct answer one = {.room = 0};
    struct order_search o = {.h = h, .best = best, .one = &one, .watch = h->ranges.ask->watch};
    bool is_too_long = h->ranges.is_too_long;
    uint32_t each = h->ranges.each;
    int rc = search_with(&o, err);

    h->ranges.is_too_long = is_too_long; /* of the search over all ideals, for say_why() */
    h->ranges.each = each;
    free(one.stage);
    free(one.stage_of_unit);
    return rc;
}

/* Turn the stages round, place the nodes, and weigh what came out. */
static int write_plan(struct search *h, const struct answer *a, struct dp_err *err)
{
    struct dp_graph_plan *p = h->out;
    double weighed;

    p->n_stages = a->n_stages;
    p->stage = calloc((size_t)a->n_stages + 1, sizeof *p->stage);
    p->stage_of = calloc(h->ranges.g->n_nodes, sizeof *p->stage_of);
    if (!p->stage || !p->stage_of)
        return dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    for (uint32_t s = 0; s < a->n_stages; s++) {
        p->stage[s] = a->stage[a->n_stages - 1 - s];
        p->stage[s].group = a->stage[a->n_stages - 1].group - p->stage[s].group;
        p->n_devices += p->stage[s].replicas;
    }
    for (uint32_t i = 0; i < h->ranges.g->n_nodes; i++) {
        uint32_t unit = h->ranges.units.unit_of[i];

        p->stage_of[i] = unit == DP_NO_UNIT ? 0 : a->n_stages - 1 - a->stage_of_unit[unit];
    }
    if (dp_graph_check(h->ranges.g, p->stage_of, p->n_stages, err) < 0 ||
        dp_plan_hierarchical_evaluate(h->ranges.g, h->ranges.ask, p, err) < 0)
        return -1;
    weighed = (double)p->load_ns / 1e9;
    if (!(fabs(weighed - a->time_s) <= 1e-9 + 1e-9 * a->time_s))
        return dp_err_set(err, DP_EINVAL, "the answer does not keep what it promises: %g s instead of %g s",
                          weighed, a->time_s);
    return 0;
}

/* ---- around it ---- */

/* Everything everywhere: gradients of all parameters among all devices, level by level. And no plan is below its bound. */
static int set_baselines(struct search *h, struct dp_err *err)
{
    struct dp_graph_plan *p = h->out;
    double params = 0.0;
    uint64_t n;

    for (uint32_t i = 0; i < h->ranges.units.n; i++) {
        p->single_ns += h->ranges.units.accel_ns[i];
        params += (double)h->ranges.param_bytes[i];
    }
    p->data_parallel_ns = dp_plan_data_parallel_ns(h->ranges.ask, p->single_ns, params, &n);
    if (dp_plan_hierarchical_bound(h->ranges.g, &h->ranges.units, h->ranges.ask, &p->bound_ns, &p->bound_by, err) < 0)
        return -1;
    h->ranges.bound_ns = p->bound_ns;
    return 0;
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
    else if (p->was_ended)
        snprintf(how, sizeof how, "the time limit ended the search, and a better plan may lie in the gap");
    else if (p->n_ideals && !h->ranges.is_too_long && h->each > 1)
        snprintf(how, sizeof how, "all %u ideals were searched with %s in groups of %u", p->n_ideals,
                 h->ranges.ask->n_levels > 1 ? "machines" : "devices", h->each);
    else if (p->n_ideals)
        snprintf(how, sizeof how,
                 "the search over its %u ideals is too long: %u order(s) of its units were cut", p->n_ideals,
                 p->n_orders);
    else
        snprintf(how, sizeof how, "the graph has too many ideals: %u order(s) of its units were cut",
                 p->n_orders);
    if (h->ranges.ask->devices[0] == 1 && (h->ranges.ask->n_levels == 1 || h->ranges.ask->devices[1] == 1))
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

/* Where time ended before anything was cut: all of it on each device, if it fits there. */
static int write_data_parallel(struct search *h, struct answer *a, struct dp_err *err)
{
    const struct dp_plan_hierarchical *ask = h->ranges.ask;
    uint32_t machines = ask->n_levels > 1 ? ask->devices[1] : 1;

    a->time_s = (double)h->out->data_parallel_ns / 1e9;
    a->n_stages = 1;
    a->stage[0] = (struct dp_graph_stage){.machines = machines, .replicas = ask->devices[0] * machines};
    memset(a->stage_of_unit, 0, h->ranges.units.n * sizeof *a->stage_of_unit);
    h->out->was_ended = true;
    if (write_plan(h, a, err) < 0)
        return -1;
    if (ask->accel_bytes != UINT64_MAX && h->out->stage[0].bytes > ask->accel_bytes)
        return dp_err_set(err, DP_ETIMEOUT, "the time limit ended the search before there was a plan");
    return 0;
}

static int plan_units(struct search *h, struct dp_err *err)
{
    uint64_t n_devices = 1;
    struct answer a = {.time_s = INFINITY};
    int rc = -1;

    for (uint32_t l = 0; l < h->ranges.ask->n_levels; l++)
        n_devices *= h->ranges.ask->devices[l];
    a.room = n_devices < h->ranges.units.n ? (uint32_t)n_devices : h->ranges.units.n;
    a.stage = calloc((size_t)a.room + 1, sizeof *a.stage);
    a.stage_of_unit = calloc((size_t)h->ranges.units.n + 1, sizeof *a.stage_of_unit);
    h->ranges.param_bytes = calloc((size_t)h->ranges.units.n + 1, sizeof *h->ranges.param_bytes);
    if (!a.stage || !a.stage_of_unit || !h->ranges.param_bytes) {
        dp_err_set(err, DP_ENOMEM, "plan: out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < h->ranges.g->n_nodes; i++) {
        if (h->ranges.units.unit_of[i] != DP_NO_UNIT)
            h->ranges.param_bytes[h->ranges.units.unit_of[i]] += h->ranges.g->node[i].param_bytes;
    }
    h->out->n_units = h->ranges.units.n;
    h->out->algorithm = DP_PLAN_HIERARCHICAL;
    if (set_baselines(h, err) < 0 || solve(h, &a, err) < 0)
        goto out;
    if (!h->out->is_optimal && !h->is_chain && !h->out->was_ended && search_orders(h, &a, err) < 0)
        goto out;
    if (a.n_stages == 0 && h->ranges.was_ended)
        rc = write_data_parallel(h, &a, err);
    else if (a.n_stages == 0)
        dp_err_set(err, DP_ENOMEM, "found no plan that fits %u devices of %.4g GB", h->ranges.ask->devices[0],
                   (double)h->ranges.ask->accel_bytes / 1e9);
    else
        rc = write_plan(h, &a, err);
    if (rc == 0)
        say_why(h);
out:
    free(a.stage);
    free(a.stage_of_unit);
    free(h->ranges.param_bytes);
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
                          "memory limits are supported for devices of one level, not for machines");
    return 0;
}

int dp_plan_hierarchical_find(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                              struct dp_graph_plan *out, struct dp_err *err)
{
    struct search h = {.ranges = {.g = g, .ask = ask, .each = 1}, .out = out, .each = 1};
    int rc = -1;

    *out = (struct dp_graph_plan){0};
    if (check_question(g, ask, err) < 0 || dp_units_create(&h.ranges.units, g, err) < 0)
        return -1;
    if (h.ranges.units.n == 0)
        dp_err_set(err, DP_EINVAL, "the graph has nothing but inputs");
    else
        rc = plan_units(&h, err);
    dp_units_release(&h.ranges.units);
    return rc;
}
