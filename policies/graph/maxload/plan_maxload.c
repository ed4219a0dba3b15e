/* SPDX-License-Identifier: BSD-3-Clause */
/* Max-load plans: a few orders first, whose answer bounds the search over all ideals; then that search, when
 * it is not too much; else a search for better orders (search/search.h); then the check of what came out, by code that
 * knows none of these (check.h). */
#include "policies/graph/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "policies/graph/check.h"
#include "policies/graph/line.h"
#include "policies/graph/maxload/bound.h"
#include "policies/graph/maxload/count.h"
#include "policies/graph/maxload/maxload.h"
#include "policies/graph/maxload/parts.h"
#include "policies/graph/maxload/refine.h"
#include "policies/graph/search/search.h"

#define MAX_STEPS UINT64_C(10000000000) /* a few minutes of one core */
#define MOVES 3u /* steps of moves for one of a cut, which takes several times as long */

struct search {
    const struct dp_graph *g;
    const struct dp_plan_maxload *ask;
    struct dp_units units;
    struct dp_maxload_answer best; /* n_stages 0: none yet */
    struct dp_graph_plan *out;
    const struct dp_plan_watch *watch; /* the caller's, or that of the search for orders */
    uint64_t work_ns;     /* the lower bound without traffic */
    uint64_t order_steps; /* the most that the cut of an order took */
    bool is_chain; /* there is one order only: its cuts are all ideals */
};

static void keep_better(struct search *s, struct dp_maxload_answer *a)
{
    struct dp_maxload_answer old = s->best;

    if (s->best.n_stages && s->best.load_ns <= a->load_ns)
        return;
    s->best = *a;
    *a = old;
}

static struct dp_maxload question(const struct search *s, const struct dp_ideals *ideals, uint64_t bound_ns)
{
    return (struct dp_maxload){.units = &s->units,
                               .ideals = ideals,
                               .n_accel = s->ask->n_accel,
                               .speed = s->ask->speed,
                               .n_cpus = s->ask->n_cpus,
                               .accel_bytes = s->ask->accel_bytes,
                               .bound_ns = bound_ns,
                               .watch = s->watch,
                               .is_lean = s->ask->is_lean,
                               .best_ns = s->best.n_stages ? s->best.load_ns : 0,
                               .lower_ns = s->out->bound_ns};
}

/* The best of one order, if it is within `known`: bounds from nearer to the lower bound up, since a near one saves much.
 * *a: the caller's to release. returns 0 or -1. */
static int cut_within(struct search *s, const struct dp_ideals *ideals, uint64_t known, struct dp_maxload_answer *a, struct dp_err *err)
{
    uint64_t low = s->work_ns, slack; /* measured: from the bound with traffic the search for orders finds less */
    int rc = DP_MAXLOAD_NONE;

    *a = (struct dp_maxload_answer){0};

    slack = s->best.n_stages && known > low ? (known - low) / 4 + 1 : low / 64 + 1;
    for (; rc == DP_MAXLOAD_NONE; slack *= 4) {
        bool is_last = low >= known || slack >= known - low;
        struct dp_maxload q = question(s, ideals, is_last ? known : low + slack);

        dp_maxload_release(a);
        rc = dp_maxload_solve(&q, a, err);
        s->out->steps += a->steps;
        s->out->was_ended |= rc == DP_MAXLOAD_ENDED;
        if (is_last || slack > UINT64_MAX / 8)
            break;
    }
    return rc < 0 ? -1 : 0;
}

static int try_order(struct search *s, const uint32_t *order, struct dp_err *err)
{
    uint64_t before = s->out->steps;
    struct dp_ideals ideals;
    struct dp_maxload_answer a;
    int rc;

    if (dp_ideals_create_chain(&ideals, &s->units, order, err) < 0)
        return -1;
    rc = cut_within(s, &ideals, s->best.n_stages ? s->best.load_ns : UINT64_MAX - 1, &a, err);
    if (a.n_stages) /* an ended search may have some answer */
        keep_better(s, &a);
    dp_maxload_release(&a);
    dp_ideals_release(&ideals);
    s->out->n_orders++;
    s->order_steps = s->out->steps - before > s->order_steps ? s->out->steps - before : s->order_steps;
    return rc;
}

static int try_orders(struct search *s, struct dp_err *err)
{
    size_t n = (size_t)s->units.n + 1;
    uint32_t *order = calloc(n, sizeof *order), *first = calloc(n, sizeof *first);
    int rc = order && first ? 0 : dp_err_set(err, DP_ENOMEM, "orders: out of memory");

    for (int kind = 0; rc == 0 && kind < DP_N_LINES && !s->is_chain && !s->out->was_ended; kind++) {
        rc = dp_line_make(&s->units, (enum dp_line_kind)kind, order, err);
        if (rc == 0 && kind > 0 && !memcmp(order, first, n * sizeof *order))
            continue;
        if (rc == 0 && kind == 0) {
            memcpy(first, order, n * sizeof *order);
            s->is_chain = dp_line_is_chain(&s->units, order);
        }
        if (rc == 0)
            rc = try_order(s, order, err);
    }
    free(order);
    free(first);
    s->out->line_ns = rc == 0 && s->best.n_stages ? s->best.load_ns : 0;
    return rc;
}

/* All ideals. returns: 0 with is_optimal told, or -1. */
static int try_exact(struct search *s, struct dp_err *err)
{
    struct dp_ideals ideals;
    struct dp_maxload q;
    struct dp_maxload_answer a;
    bool is_too_many;
    int rc;

    if (dp_ideals_create(&ideals, &s->units, s->ask->max_ideals ? s->ask->max_ideals : DP_IDEALS_CAP,
                         &is_too_many, err) < 0) {
        if (!is_too_many)
            return -1;
        snprintf(s->out->why, sizeof s->out->why, "the graph has more than %u ideals",
                 s->ask->max_ideals ? s->ask->max_ideals : DP_IDEALS_CAP);
        return 0;
    }
    s->out->n_ideals = ideals.n;
    q = question(s, &ideals, s->best.n_stages ? s->best.load_ns : UINT64_MAX - 1);
    q.max_steps = s->ask->max_steps ? s->ask->max_steps : MAX_STEPS;
    rc = dp_maxload_solve(&q, &a, err);
    s->out->steps += a.steps;
    if (rc == DP_MAXLOAD_TOO_MUCH)
        snprintf(s->out->why, sizeof s->out->why, "the search over its %u ideals is too long", ideals.n);
    else if (rc == DP_MAXLOAD_ENDED)
        s->out->was_ended = true;
    else
        s->out->is_optimal = rc >= 0;
    if (a.n_stages)
        keep_better(s, &a);
    dp_maxload_release(&a);
    dp_ideals_release(&ideals);
    return rc < 0 ? -1 : 0;
}

/* ---- better orders ---- */

struct order_search {
    struct search *s;
    struct dp_search orders;
};

static int cut_order(void *arg, const uint32_t *order, uint64_t limit_ns, uint32_t *stage, uint64_t *load_ns, uint64_t *steps,
                     struct dp_err *err)
{
    struct search *s = ((struct order_search *)arg)->s;
    uint64_t before = s->out->steps;
    struct dp_ideals ideals;
    struct dp_maxload_answer a;
    int rc;

    if (dp_ideals_create_chain(&ideals, &s->units, order, err) < 0)
        return -1;
    rc = cut_within(s, &ideals, limit_ns < UINT64_MAX ? limit_ns : UINT64_MAX - 1, &a, err);
    if (rc == 0 && a.n_stages) {
        *load_ns = a.load_ns;
        memcpy(stage, a.stage, s->units.n * sizeof *stage);
        keep_better(s, &a);
    }
    *steps += s->out->steps - before;
    dp_maxload_release(&a);
    dp_ideals_release(&ideals);
    return rc;
}

static int move_units(void *arg, uint32_t *stage, uint64_t seed, uint32_t heat, uint64_t max_steps, uint64_t *steps,
                      struct dp_err *err)
{
    struct search *s = ((struct order_search *)arg)->s;
    uint64_t made = 0;
    const struct dp_refine q = {.units = &s->units,
                                .accel_bytes = s->ask->accel_bytes,
                                .n_stages = s->ask->n_accel,
                                .seed = seed,
                                .max_steps = max_steps < UINT64_MAX / MOVES ? MOVES * max_steps : UINT64_MAX / 2,
                                .heat = heat,
                                .watch = s->watch,
                                .lower_ns = s->out->bound_ns};
    int rc;

    rc = dp_refine_run(&q, stage, &made, err);
    *steps += made / MOVES;
    return rc;
}

/* A dynamic program knows only how far it is itself. */
static bool go_on(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    const struct order_search *o = arg;
    const struct dp_plan_watch *watch = o->s->ask->watch;

    (void)searched;
    return watch->go_on(watch->arg, o->orders.searched, best_ns, bound_ns);
}

static int search_orders(struct search *s, struct dp_err *err)
{
    struct order_search o = {.s = s};
    const struct dp_plan_watch watch = {go_on, &o};
    int rc;

    o.orders = (struct dp_search){.units = &s->units,
                                  .algorithm = s->ask->algorithm < DP_PLAN_LINE ? DP_PLAN_LINE : s->ask->algorithm,
                                  .n_devices = s->ask->n_accel + s->ask->n_cpus,
                                  .seed = s->ask->seed,
                                  .max_steps = s->ask->search_steps,
                                  .order_steps = s->order_steps,
                                  .source = s->ask->source,
                                  .bound_ns = s->out->bound_ns,
                                  .watch = s->ask->watch ? &watch : NULL,
                                  .cut = cut_order,
                                  .refine = s->ask->speed || s->ask->n_cpus ? NULL : move_units,
                                  .arg = &o,
                                  .best_ns = s->best.n_stages ? s->best.load_ns : DP_SEARCH_NONE,
                                  .stage = calloc((size_t)s->units.n + 1, sizeof *o.orders.stage)};
    if (!o.orders.stage)
        return dp_err_set(err, DP_ENOMEM, "orders: out of memory");
    if (s->best.n_stages)
        memcpy(o.orders.stage, s->best.stage, s->units.n * sizeof *o.orders.stage);
    s->watch = o.orders.watch;
    rc = dp_search_run(&o.orders, err);
    s->watch = s->ask->watch;
    s->out->n_orders += o.orders.n_orders;
    s->out->was_ended |= o.orders.was_ended;
    dp_search_told(&o.orders, s->out);
    free(o.orders.stage);
    return rc;
}

/* ---- the plan ---- */

/* Stages of the nodes. An input goes where the first of its takers is. */
static void place_nodes(const struct search *s, uint32_t *stage_of)
{
    const struct dp_graph *g = s->g;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        stage_of[i] = s->units.unit_of[i] == DP_NO_UNIT ? UINT32_MAX : s->best.stage[s->units.unit_of[i]];
    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (g->node[g->edge[e].from].is_input && stage_of[g->edge[e].to] < stage_of[g->edge[e].from])
            stage_of[g->edge[e].from] = stage_of[g->edge[e].to];
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        stage_of[i] = stage_of[i] == UINT32_MAX ? 0 : stage_of[i];
}

static uint64_t memory_of(const struct dp_stage_load *load, uint64_t under_way)
{
    uint64_t bytes;

    return __builtin_mul_overflow(load->kept_bytes, under_way, &bytes) || __builtin_add_overflow(load->bytes, bytes, &bytes)
               ? UINT64_MAX
               : bytes;
}

static double speed_of(const double *speed, uint32_t accelerator)
{
    return speed ? speed[accelerator] : 1;
}

int dp_plan_maxload_evaluate(const struct dp_graph *g, const double *speed, struct dp_graph_plan *p, struct dp_err *err)
{
    struct dp_stage_load *load = calloc((size_t)p->n_stages + 1, sizeof *load);
    int rc = load ? 0 : dp_err_set(err, DP_ENOMEM, "plan: out of memory");

    p->load_ns = 0;
    if (rc == 0)
        rc = dp_graph_loads(g, p->stage_of, p->n_stages, load, err);
    for (uint32_t i = 0; rc == 0 && i < p->n_stages; i++) {
        struct dp_graph_stage *t = &p->stage[i];

        t->bytes = memory_of(&load[i], p->n_stages - i);
        t->compute_ns = t->is_cpu ? load[i].cpu_ns : dp_plan_time_ns(load[i].accel_ns, speed_of(speed, t->accelerator));
        t->traffic_ns = t->is_cpu ? 0 : load[i].traffic_ns;
        t->load_ns = t->compute_ns + t->traffic_ns;
        p->load_ns = t->load_ns > p->load_ns ? t->load_ns : p->load_ns;
        if (!t->is_cpu && load[i].only_on_cpu)
            rc = dp_err_set(err, DP_EINVAL, "stage %u of the answer cannot be on an accelerator", i);
    }
    free(load);
    return rc;
}

/* Does it keep what was asked for and what the search promised? */
static int check_plan(const struct search *s, struct dp_err *err)
{
    const struct dp_graph_plan *p = s->out;
    uint32_t n_cpus = 0;

    for (uint32_t i = 0; i < p->n_stages; i++) {
        n_cpus += p->stage[i].is_cpu;
        if (!p->stage[i].is_cpu && p->stage[i].bytes > s->ask->accel_bytes)
            return dp_err_set(err, DP_EINVAL, "stage %u of the answer cannot be on an accelerator", i);
    }
    if (n_cpus > s->ask->n_cpus || p->n_stages - n_cpus > s->ask->n_accel || p->load_ns != s->best.load_ns)
        return dp_err_set(err, DP_EINVAL, "the answer does not keep what it promises: %u stages, %llu ns", p->n_stages,
                          (unsigned long long)p->load_ns);
    return 0;
}

/* The answer as a plan, measured anew. */
static int write_plan(struct search *s, struct dp_err *err)
{
    struct dp_graph_plan *p = s->out;

    p->n_stages = p->n_devices = s->best.n_stages;
    p->stage = calloc((size_t)p->n_stages + 1, sizeof *p->stage);
    p->stage_of = calloc(s->g->n_nodes, sizeof *p->stage_of);
    if (!p->stage || !p->stage_of)
        return dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    place_nodes(s, p->stage_of);
    for (uint32_t i = 0; i < p->n_stages; i++)
        p->stage[i] = (struct dp_graph_stage){
            .is_cpu = s->best.is_cpu[i], .accelerator = s->best.accelerator[i], .machines = 1, .replicas = 1};
    if (dp_graph_check(s->g, p->stage_of, p->n_stages, err) < 0 || dp_plan_maxload_evaluate(s->g, s->ask->speed, p, err) < 0)
        return -1;
    return check_plan(s, err);
}

static void say_why(struct search *s)
{
    struct dp_graph_plan *p = s->out;
    char how[sizeof p->why];
    uint32_t slowest = 0;

    if (p->is_optimal)
        snprintf(how, sizeof how, "all %u ideals were searched", p->n_ideals);
    else if (p->load_ns == p->bound_ns && p->algorithm != DP_PLAN_DRL_PP)
        snprintf(how, sizeof how, "%u order%s of its %u units %s cut, and the lower bound is reached", p->n_orders, dp_plural(p->n_orders),
                 p->n_units, p->n_orders == 1 ? "was" : "were");
    else if (p->algorithm == DP_PLAN_DRL_PP)
        snprintf(how, sizeof how, "a network placed the units %u time%s, and nothing else was tried", p->n_orders, dp_plural(p->n_orders));
    else if (p->was_ended)
        snprintf(how, sizeof how, "the time limit ended the search, and a better plan may lie in the gap");
    else
        snprintf(how, sizeof how,
                 "%.100s: only %u order%s of its %u units %s cut, and a better plan may lie in the gap", *p->why ? p->why : "as asked",
                 p->n_orders, dp_plural(p->n_orders), p->n_units, p->n_orders == 1 ? "was" : "were");
    for (uint32_t i = 1; i < p->n_stages; i++)
        slowest = p->stage[i].load_ns > p->stage[slowest].load_ns ? i : slowest;
    if (s->ask->n_accel + s->ask->n_cpus == 1)
        snprintf(p->why, sizeof p->why, "there is one device only");
    else if (p->n_units == 1)
        snprintf(p->why, sizeof p->why, "nothing in this graph can be split");
    else if (p->n_stages == 1)
        snprintf(p->why, sizeof p->why, "%.180s; every cut costs more traffic than it saves compute", how);
    else
        snprintf(p->why, sizeof p->why,
                 "%.140s; stage %u sets the pace: %.4g ms of compute, %.4g ms of traffic", how, slowest,
                 (double)p->stage[slowest].compute_ns / 1e6, (double)p->stage[slowest].traffic_ns / 1e6);
}

static int no_answer(const struct search *s, struct dp_err *err)
{
    uint64_t total = 0, largest = 0;
    bool needs_cpu = false;

    for (uint32_t i = 0; i < s->units.n; i++) {
        uint64_t bytes = s->units.bytes[i] + s->units.kept_bytes[i];

        total += bytes;
        largest = bytes > largest ? bytes : largest;
        needs_cpu |= s->units.only_on_cpu[i];
    }
    if (needs_cpu && s->ask->n_cpus == 0)
        return dp_err_set(err, DP_EINVAL, "some nodes need a CPU: they cannot run on an accelerator");
    return dp_err_set(
        err, DP_ENOMEM,
        "found no plan that fits %u accelerators of %.4g GB and %u CPUs: all nodes need %.4g GB, the "
        "largest piece that cannot be split %.4g GB",
        s->ask->n_accel, (double)s->ask->accel_bytes / 1e9, s->ask->n_cpus, (double)total / 1e9,
        (double)largest / 1e9);
}

static int find_bound(struct search *s, struct dp_err *err)
{
    const struct dp_plan_maxload *ask = s->ask;
    struct dp_graph_plan *p = s->out;
    uint32_t unit = DP_NO_UNIT;

    if (dp_bound_maxload(&s->units, ask->n_accel, ask->speed, ask->n_cpus, ask->accel_bytes, &p->bound_ns, &p->bound_by, err) < 0)
        return -1;
    s->work_ns = p->bound_ns;
    if (p->bound_ns == UINT64_MAX)
        return 0;
    if (dp_bound_stage(&s->units, ask->n_accel, ask->speed, ask->n_cpus, 0, &p->bound_ns, &unit, err) < 0)
        return -1;
    if (unit == DP_NO_UNIT)
        return 0;
    p->bound_by = DP_PLAN_BOUND_STAGE;
    for (uint32_t i = s->g->n_nodes; i-- > 0;) /* the unit's first, or the first that computes */
        if (s->units.unit_of[i] == unit)
            p->bound_node = i;
    for (uint32_t i = s->g->n_nodes; i-- > 0;)
        if (s->units.unit_of[i] == unit && dp_graph_accel_ns(&s->g->node[i]))
            p->bound_node = i;
    return 0;
}

/* With a plan at hand there is more to say: how many stages there would have to be. */
static int raise_bound(struct search *s, struct dp_err *err)
{
    struct dp_graph_plan *p = s->out;
    int rc;

    if (p->is_optimal || !s->best.n_stages || s->ask->n_cpus || s->ask->speed)
        return 0;
    rc = dp_bound_count(&s->units, s->ask->n_accel, s->best.load_ns, 0, &p->bound_ns, err);
    if (rc > 0) {
        p->bound_by = DP_PLAN_BOUND_COUNT;
        p->bound_node = 0;
    }
    return rc < 0 ? -1 : 0;
}

/* Orders, ideals and more orders. */
static int try_all(struct search *s, struct dp_err *err)
{
    struct dp_graph_plan *p = s->out;

    if (p->bound_ns != UINT64_MAX && try_orders(s, err) < 0)
        return -1;
    p->n_ideals = s->is_chain ? s->units.n + 1 : 0;
    p->is_optimal = s->is_chain && !p->was_ended;
    if (s->ask->algorithm <= DP_PLAN_EXACT && p->bound_ns != UINT64_MAX && !p->was_ended && !p->is_optimal && try_exact(s, err) < 0)
        return -1;
    if (s->ask->algorithm == DP_PLAN_EXACT && !p->is_optimal && *p->why)
        return dp_err_set(err, DP_ENOMEM, "no exact answer: %s", p->why);
    if (p->bound_ns != UINT64_MAX && !p->was_ended && !p->is_optimal && search_orders(s, err) < 0)
        return -1;
    return 0;
}

static int search_all(struct search *s, struct dp_err *err)
{
    struct dp_graph_plan *p = s->out;
    double fastest = 1;

    p->n_units = s->units.n;
    for (uint32_t i = 0; i < s->units.n; i++)
        p->single_ns += s->units.accel_ns[i];
    for (uint32_t i = 0; i < s->ask->n_accel; i++)
        fastest = i == 0 || speed_of(s->ask->speed, i) > fastest ? speed_of(s->ask->speed, i) : fastest;
    p->single_ns = dp_plan_time_ns(p->single_ns, fastest);
    if (find_bound(s, err) < 0)
        return -1;
    if (s->ask->algorithm != DP_PLAN_DRL_PP ? try_all(s, err) < 0
                                            : p->bound_ns != UINT64_MAX && dp_parts_try(&s->units, s->ask, &s->best, p, err) < 0)
        return -1;
    if (raise_bound(s, err) < 0)
        return -1;
    if (!s->best.n_stages && p->was_ended)
        return dp_err_set(err, DP_ETIMEOUT, "the time limit ended the search before there was a plan");
    if (!s->best.n_stages)
        return no_answer(s, err);
    if (s->ask->algorithm <= DP_PLAN_EXACT)
        p->algorithm = p->is_optimal ? DP_PLAN_EXACT : DP_PLAN_LINE;
    else
        p->algorithm = s->ask->algorithm;
    if (write_plan(s, err) < 0)
        return -1;
    say_why(s);
    p->is_optimal |= p->load_ns == p->bound_ns;
    return 0;
}

static int check_placer(const struct dp_plan_maxload *ask, struct dp_err *err)
{
    if (!ask->placer)
        return dp_err_set(err, DP_EINVAL, "no network to place units by");
    if (ask->n_cpus || ask->speed)
        return dp_err_set(err, DP_EINVAL, "drl-pp knows equal accelerators alone: no CPUs, and no speeds");
    if (ask->n_accel > ask->placer->most_devices || ask->n_accel > DP_PARTS_MOST)
        return dp_err_set(err, DP_EINVAL, "drl-pp: its network knows %u devices at most, not %u", ask->placer->most_devices, ask->n_accel);
    return 0;
}

int dp_plan_maxload_find(const struct dp_graph *g, const struct dp_plan_maxload *ask, struct dp_graph_plan *out,
                         struct dp_err *err)
{
    struct search s = {.g = g, .ask = ask, .out = out, .watch = ask->watch};
    int rc = -1;

    *out = (struct dp_graph_plan){0};
    if (ask->n_accel + ask->n_cpus == 0)
        return dp_err_set(err, DP_EINVAL, "a plan for no device");
    if (ask->algorithm == DP_PLAN_LEARNED && !ask->source)
        return dp_err_set(err, DP_EINVAL, "no networks to learn orders from");
    if (ask->algorithm == DP_PLAN_DRL_PP && check_placer(ask, err) < 0)
        return -1;
    if (ask->n_cpus && g->kind == DP_GRAPH_PROFILE)
        return dp_err_set(err, DP_EINVAL, "a profile has no CPU times");
    if (dp_units_create(&s.units, g, err) < 0)
        return -1;
    if (s.units.n == 0)
        dp_err_set(err, DP_EINVAL, "the graph has nothing but inputs");
    else
        rc = search_all(&s, err);
    dp_units_release(&s.units);
    dp_maxload_release(&s.best);
    return rc;
}
