/* SPDX-License-Identifier: BSD-3-Clause */
/* Planners of other papers on small random graphs against all that they may answer: every way to cut the orders that they look at,
 * every shape. What an answer is worth is found from nodes and edges here, by the formulas of papers.h. */
#include "tests/unit/unit.h"

#include <math.h>

#include "policies/graph/bench/cells.h"
#include "policies/graph/check.h"
#include "policies/graph/line.h"
#include "policies/graph/papers/papers.h"
#include "policies/graph/papers/pieces.h"
#include "tests/unit/policies/graph_util.h"
#include "tests/unit/policies/simulated.h"

#define MAX_NODES 6

struct instance {
    struct dp_graph g;
    struct dp_units u;
    struct dp_plan_hierarchical net;
    struct dp_paper_ask ask;
    uint32_t order[MAX_NODES + 1];
    /* the plan that is looked at */
    uint32_t stage_of[MAX_NODES];
    struct dp_graph_stage stage[MAX_NODES];
    struct dp_graph_plan p;
    double best_s;
    bool is_heavy; /* of parameters: few replicas pay */
};

static void make(struct instance *t, uint64_t *seed, uint32_t n_levels)
{
    uint32_t n = 1 + random_below(seed, MAX_NODES);

    *t = (struct instance){.best_s = (double)INFINITY, .is_heavy = random_below(seed, 2)};
    dp_graph_init(&t->g, DP_GRAPH_PROFILE);
    graph_make_nodes(&t->g, seed, n, 20 + random_below(seed, 60));
    for (uint32_t i = 0; i < n; i++) {
        struct dp_graph_node *node = &t->g.node[i];

        node->forward_ns = 1000 * (1 + random_below(seed, 20));
        node->backward_ns = 1000 * (1 + random_below(seed, 40));
        node->cpu_ns = node->send_ns = 0;
        node->output_bytes = random_below(seed, 4) ? random_below(seed, t->is_heavy ? 3000 : 30000) : 0;
        node->param_bytes = random_below(seed, 3) ? random_below(seed, t->is_heavy ? 200000 : 9000) : 0;
        node->bytes = 4 * node->param_bytes;
        node->kept_bytes = (1 + random_below(seed, 40)) * node->output_bytes;
    }
    assert_int_equal(dp_graph_finish(&t->g, NULL, NULL), 0);
    assert_int_equal(dp_units_create(&t->u, &t->g, NULL), 0);
    t->net = (struct dp_plan_hierarchical){.n_levels = n_levels, .accel_bytes = UINT64_MAX, .microbatches = 1 + random_below(seed, 12)};
    for (uint32_t l = 0; l < n_levels; l++) {
        t->net.devices[l] = 1 + random_below(seed, n_levels == 1 ? 6 : 3);
        t->net.bytes_per_s[l] = 1e9 * (1 + random_below(seed, 4)) / (l + 1);
    }
    if (n_levels == 1 && random_below(seed, 2))
        t->net.accel_bytes = 20000 + random_below(seed, t->is_heavy ? 2000000 : 3000000);
    t->ask = (struct dp_paper_ask){.net = &t->net, .latency_ns = random_below(seed, 2) ? 1000 * random_below(seed, 60) : 0};
}

static void drop(struct instance *t)
{
    dp_units_release(&t->u);
    dp_graph_release(&t->g);
}

/* Loads of the plan, and whether it fits. */
static bool weigh(struct instance *t, struct dp_stage_load *load)
{
    t->p.stage = t->stage;
    t->p.stage_of = t->stage_of;
    assert_int_equal(dp_graph_check(&t->g, t->stage_of, t->p.n_stages, NULL), 0);
    assert_int_equal(dp_graph_loads(&t->g, t->stage_of, t->p.n_stages, load, NULL), 0);
    assert_int_equal(dp_plan_hierarchical_evaluate(&t->g, &t->net, &t->p, NULL), 0);
    for (uint32_t s = 0; s < t->p.n_stages; s++)
        if (t->p.stage[s].bytes > t->net.accel_bytes)
            return false;
    return true;
}

/* Cut the order behind unit i where bit i of `cuts` is set. */
static void place(struct instance *t, uint32_t cuts)
{
    uint32_t stage_of_unit[MAX_NODES], s = 0;

    for (uint32_t i = 0; i < t->u.n; i++) {
        stage_of_unit[t->order[i]] = s;
        s += cuts >> i & 1;
    }
    t->p.n_stages = s + 1;
    for (uint32_t i = 0; i < t->g.n_nodes; i++)
        t->stage_of[i] = stage_of_unit[t->u.unit_of[i]];
}

/* ---- PipeDream-2BW ---- */

static double weigh_2bw(const struct instance *t, const struct dp_stage_load *load)
{
    double worst = 0, b = t->p.microbatch, bytes_per_s = t->net.bytes_per_s[0];
    uint32_t n = t->p.n_stages;

    for (uint32_t s = 0; s < n; s++) {
        double w = t->p.stage[s].replicas, compute = (double)load[s].accel_ns + (t->p.recomputes ? (double)load[s].forward_ns : 0);
        double in = s > 0 ? (double)load[s - 1].out_bytes : 0, out = s + 1 < n ? (double)load[s].out_bytes : 0;
        double late = (double)t->ask.latency_ns / 1e9 * ((s > 0) + (s + 1 < n));
        double sync = 2 * (w - 1) / w * (double)load[s].param_bytes / bytes_per_s;

        worst = fmax(worst, fmax(compute / 1e9 * b + (in + out) * b / bytes_per_s + late, sync * w * b / t->net.microbatches) / (w * b));
    }
    return worst;
}

static void try_2bw(struct instance *t, uint32_t width)
{
    struct dp_stage_load load[MAX_NODES];

    for (uint32_t s = 0; s < t->p.n_stages; s++)
        t->stage[s] = (struct dp_graph_stage){.machines = 1, .replicas = width};
    t->p.more_weights = 1;
    for (uint32_t b = 1; b == 1 || b * width <= t->net.microbatches; b *= 2)
        for (int r = 0; r < 2; r++) {
            t->p.microbatch = b;
            t->p.recomputes = r;
            if (weigh(t, load))
                t->best_s = fmin(t->best_s, weigh_2bw(t, load));
        }
}

/* ---- Alpa ---- */

/* Stages s.. from device `at` on. sum, most: of the stages before. */
static void try_alpa(struct instance *t, uint32_t s, uint32_t at, double sum, double most)
{
    uint32_t each = t->net.devices[0], all = each * (t->net.n_levels > 1 ? t->net.devices[1] : 1);
    struct dp_stage_load load[MAX_NODES];

    assert_int_equal(dp_graph_loads(&t->g, t->stage_of, t->p.n_stages, load, NULL), 0);
    if (s == t->p.n_stages) {
        if (weigh(t, load))
            t->best_s = fmin(t->best_s, sum + (t->net.microbatches - 1) * most);
        return;
    }
    for (; at < all; at++) /* or it is idle */
        for (uint32_t m = 1; at + m <= all; m++) {
            bool is_power = !(m & (m - 1)), is_part = m < each && is_power && at / each == (at + m - 1) / each;
            uint32_t inside = m < each ? m : each, machines = m / inside;
            bool is_whole = m % each == 0 && at % each == 0 && (!(machines & (machines - 1)) || m == all);
            double params = (double)load[s].param_bytes, time = (double)load[s].accel_ns / 1e9;

            if (!is_part && !is_whole)
                continue;
            time = (time + 2.0 * (inside - 1) * params / t->net.bytes_per_s[0] * (t->net.n_levels > 1 ? t->net.devices[1] : 1) /
                               t->net.microbatches) / inside;
            if (t->net.n_levels > 1)
                time = (time + 2.0 * (machines - 1) * params / t->net.bytes_per_s[1] / t->net.microbatches) / machines;
            t->stage[s] = (struct dp_graph_stage){.machines = machines, .replicas = m, .group = at / each};
            try_alpa(t, s + 1, at + m, sum + time, fmax(most, time));
        }
}

/* ---- DAPPLE ---- */

/* Stages that compute and that transfer, in turn. */
struct phases {
    uint32_t n;
    double forward_s[2 * MAX_NODES], backward_s[2 * MAX_NODES], sync_s[2 * MAX_NODES];
};

static double sum(const double *v, uint32_t first, uint32_t last)
{
    double s = 0;

    for (uint32_t i = first; i <= last; i++)
        s += v[i];
    return s;
}

/* By papers.h, with stage q as the pivot. */
static double latency_by(const struct phases *p, uint32_t q, uint32_t microbatches)
{
    double ending = -(double)INFINITY;

    for (uint32_t s = 0; s < p->n; s++)
        ending = fmax(ending, p->sync_s[s] + (s <= q ? sum(p->backward_s, s, q) : -sum(p->backward_s, q, s)));
    return sum(p->forward_s, 0, q) + (microbatches - 1.0) * (p->forward_s[q] + p->backward_s[q]) + ending;
}

/* The paper's walk to the pivot. */
static uint32_t walk_to_pivot(const struct phases *p, uint32_t microbatches)
{
    double steps = microbatches - 1.0;
    uint32_t q = p->n - 1;

    for (uint32_t s = p->n - 1; s-- > 0;) {
        double between = 0;

        for (uint32_t a = s + 1; a < q; a++)
            between += p->forward_s[a] + p->backward_s[a];
        if (steps * (p->forward_s[s] + p->backward_s[s]) > steps * (p->forward_s[q] + p->backward_s[q]) + between)
            q = s;
    }
    return q;
}

static uint32_t n_pivots, n_same_pivot;

static double weigh_dapple(const struct instance *t, const struct dp_stage_load *load)
{
    struct phases p = {.n = 0};
    double bytes_per_s = t->net.bytes_per_s[0], longest = 0, walked;

    for (uint32_t s = 0; s < t->p.n_stages; s++, p.n++) {
        double r = t->stage[s].replicas;

        p.forward_s[p.n] = (double)load[s].forward_ns / 1e9 / r;
        p.backward_s[p.n] = (double)(load[s].accel_ns - load[s].forward_ns) / 1e9 / r;
        p.sync_s[p.n] = 2 * (r - 1) / r * (double)load[s].param_bytes / bytes_per_s;
        if (s + 1 < t->p.n_stages) {
            p.n++;
            p.forward_s[p.n] = p.backward_s[p.n] = (double)load[s].out_bytes / bytes_per_s / fmin(r, t->stage[s + 1].replicas);
        }
    }
    for (uint32_t q = 0; q < p.n; q++)
        longest = fmax(longest, latency_by(&p, q, t->net.microbatches));
    walked = latency_by(&p, walk_to_pivot(&p, t->net.microbatches), t->net.microbatches);
    assert_true(walked <= longest);
    n_pivots++;
    n_same_pivot += walked >= longest * 0.999;
    return longest;
}

/* Replicas of stages s.. , of so many devices. */
static void try_dapple(struct instance *t, uint32_t s, uint32_t devices)
{
    struct dp_stage_load load[MAX_NODES];

    if (s == t->p.n_stages) {
        if (weigh(t, load))
            t->best_s = fmin(t->best_s, weigh_dapple(t, load));
        return;
    }
    for (uint32_t r = 1; r <= devices; r++) {
        t->stage[s] = (struct dp_graph_stage){.machines = 1, .replicas = r};
        try_dapple(t, s + 1, devices - r);
    }
}

/* ---- Piper ---- */

/* Some nodes have ways, of which the first one's numbers are the node's. */
static void add_ways(struct instance *t, uint64_t *seed)
{
    for (uint32_t i = 0; i < t->g.n_nodes; i++) {
        struct dp_graph_node *node = &t->g.node[i];

        if (!random_below(seed, 4))
            continue;
        node->n_ways = 2 + random_below(seed, 2);
        node->way = calloc(node->n_ways, sizeof *node->way);
        assert_non_null(node->way);
        for (uint32_t k = 0; k < node->n_ways; k++)
            node->way[k] = (struct dp_graph_way){.forward_ns = node->forward_ns * (4 + k) / 4,
                                                 .backward_ns = node->backward_ns * (4 + k) / 4,
                                                 .param_bytes = node->param_bytes + random_below(seed, 2) * 1000 * k,
                                                 .bytes = node->bytes + random_below(seed, 2) * 3000 * k,
                                                 .kept_bytes = node->kept_bytes / (1 + 3 * k)};
    }
}

/* Bytes that enter or leave a stage. */
static double moved_bytes(const struct instance *t, uint32_t stage)
{
    double bytes = 0;

    for (uint32_t i = 0; i < t->g.n_nodes; i++) {
        bool moves = false;

        for (uint32_t e = 0; e < t->g.n_edges; e++)
            if (t->g.edge[e].from == i && t->stage_of[i] != t->stage_of[t->g.edge[e].to])
                moves |= t->stage_of[i] == stage || t->stage_of[t->g.edge[e].to] == stage;
        bytes += moves ? (double)t->g.node[i].output_bytes : 0;
    }
    return bytes;
}

/* Nodes i.. of a stage, each in every way. s, bytes: of those before. returns: the least time that fits. */
static double try_ways(const struct instance *t, uint32_t stage, uint32_t i, uint64_t under_way, double s, uint64_t bytes)
{
    double d = t->stage[stage].replicas, least = (double)INFINITY;

    for (; i < t->g.n_nodes && t->stage_of[i] != stage;)
        i++;
    if (i == t->g.n_nodes)
        return bytes <= t->net.accel_bytes ? s : least;
    for (uint32_t k = 0; k == 0 || k < t->g.node[i].n_ways; k++) {
        const struct dp_graph_node *n = &t->g.node[i];
        struct dp_graph_way w = {n->forward_ns, n->backward_ns, n->param_bytes, n->bytes, n->kept_bytes};

        if (n->n_ways)
            w = n->way[k];
        least = fmin(least, try_ways(t, stage, i + 1, under_way,
                                     s + (double)(w.forward_ns + w.backward_ns) / 1e9 / d +
                                         4 * (d - 1) / d * (double)w.param_bytes / t->net.bytes_per_s[0] / t->net.microbatches,
                                     bytes + w.bytes + w.kept_bytes * under_way));
    }
    return least;
}

/* Replicas of stages s.. , of so many devices, all of which have work: behind a stage lie those that are left. */
static void try_piper(struct instance *t, uint32_t s, uint32_t devices, double worst)
{
    if (s == t->p.n_stages) {
        if (devices == 0)
            t->best_s = fmin(t->best_s, worst);
        return;
    }
    for (uint32_t r = 1; r <= devices; r++) {
        t->stage[s].replicas = r;
        try_piper(t, s + 1, devices - r, fmax(worst, try_ways(t, s, 0, (devices + r - 1) / r,
                                                             2 * moved_bytes(t, s) / t->net.bytes_per_s[0] / r, 0)));
    }
}

/* All ways to give units to stages in which no edge leads backwards. */
static void try_stages(struct instance *t, uint32_t node, uint32_t n_stages)
{
    if (node < t->g.n_nodes) {
        for (t->stage_of[node] = 0; t->stage_of[node] < n_stages; t->stage_of[node]++)
            try_stages(t, node + 1, n_stages);
        return;
    }
    t->p.n_stages = n_stages;
    if (dp_graph_check(&t->g, t->stage_of, n_stages, NULL) < 0)
        return;
    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t held = 0;

        for (uint32_t i = 0; i < t->g.n_nodes; i++)
            held += t->stage_of[i] == s;
        if (!held)
            return;
    }
    for (uint32_t devices = n_stages; devices <= t->net.devices[0]; devices++)
        try_piper(t, 0, devices, 0);
}

/* ---- all ---- */

static void brute_force(struct instance *t, enum dp_plan_algorithm a)
{
    uint32_t all = t->net.devices[0] * (t->net.n_levels > 1 ? t->net.devices[1] : 1);

    for (int kind = 0; kind < DP_N_LINES; kind++) {
        assert_int_equal(dp_line_make(&t->u, (enum dp_line_kind)kind, t->order, NULL), 0);
        for (uint32_t cuts = 0; cuts < 1u << (t->u.n - 1); cuts++) {
            place(t, cuts);
            if (t->p.n_stages > all)
                continue;
            if (a == DP_PLAN_ALPA)
                try_alpa(t, 0, 0, 0, 0);
            else if (a == DP_PLAN_DAPPLE)
                try_dapple(t, 0, all);
            else if (all % t->p.n_stages == 0)
                try_2bw(t, all / t->p.n_stages);
        }
    }
}

static uint32_t n_refused, n_recompute, n_large, n_wide, n_deep;

/* The planner finds what brute force has found, or as it that nothing fits. returns: there is a plan; to be released in any case. */
static bool finds_the_best(const struct instance *t, enum dp_plan_algorithm a, uint64_t k, struct dp_graph_plan *p)
{
    struct dp_err err = {.text = ""};

    if (dp_paper_find(&t->g, a, &t->ask, p, &err) < 0) {
        assert_int_equal(err.code, DP_ENOMEM);
        if (!isinf(t->best_s))
            fail_msg("case %llu: %s, yet there is %.9f", (unsigned long long)k, err.text, t->best_s);
        return false;
    }
    if (!(fabs((double)p->objective_ns / 1e9 - t->best_s) <= 2e-9))
        fail_msg("case %llu: %.9f instead of %.9f: %s", (unsigned long long)k, (double)p->objective_ns / 1e9, t->best_s, p->why);
    assert_int_equal(dp_graph_check(&t->g, p->stage_of, p->n_stages, NULL), 0);
    assert_true(p->bound_ns <= p->load_ns + 1);
    return true;
}

static void count(const struct instance *t, const struct dp_graph_plan *p)
{
    n_recompute += p->recomputes;
    n_large += p->microbatch > 1;
    n_deep += p->n_stages > 1;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        n_wide += p->stage[s].replicas > 1;
        assert_true(p->stage[s].bytes <= t->net.accel_bytes);
    }
}

static void compare(enum dp_plan_algorithm a, uint32_t n_levels, uint32_t n_cases)
{
    n_refused = n_recompute = n_large = n_wide = n_deep = 0;
    for (uint64_t i = 0; i < n_cases; i++) {
        uint64_t seed = i * 7919 + n_levels;
        struct instance t;
        struct dp_graph_plan p;

        make(&t, &seed, n_levels);
        brute_force(&t, a);
        if (finds_the_best(&t, a, i, &p))
            count(&t, &p);
        else
            n_refused++;
        dp_graph_plan_release(&p);
        drop(&t);
    }
    print_message("# %u refused, %u recompute, %u with larger microbatches, %u stages with replicas, %u plans of several stages\n",
                  n_refused, n_recompute, n_large, n_wide, n_deep);
}

static void two_bw_is_the_best_of_its_shapes(void **state)
{
    (void)state;
    compare(DP_PLAN_2BW, 1, 2000);
    assert_true(n_refused > 20 && n_recompute > 20 && n_large > 20 && n_wide > 100 && n_deep > 100);
}

static void alpa_is_the_best_of_its_submeshes(void **state)
{
    (void)state;
    compare(DP_PLAN_ALPA, 1, 400);
    assert_true(n_refused > 20 && n_wide > 100 && n_deep > 50);
    compare(DP_PLAN_ALPA, 2, 200);
    assert_true(n_wide > 100 && n_deep > 30);
}

static void dapple_is_the_best_of_its_stages(void **state)
{
    (void)state;
    compare(DP_PLAN_DAPPLE, 1, 1500);
    assert_true(n_refused > 20 && n_wide > 100 && n_deep > 100);
    print_message("# the paper's walk finds the pivot in %u of %u plans\n", n_same_pivot, n_pivots);
    assert_true(n_same_pivot > n_pivots / 2);
}

static void piper_is_the_best_of_all_cuts(void **state)
{
    (void)state;
    uint32_t n_none = 0, n_slower = 0, n_several = 0;

    for (uint64_t i = 0; i < 500; i++) {
        uint64_t seed = i * 7919 + 4;
        struct instance t;
        struct dp_graph_plan p;

        make(&t, &seed, 1);
        add_ways(&t, &seed);
        if (t.net.accel_bytes != UINT64_MAX) /* about what a part of the graph keeps */
            t.net.accel_bytes = 1 + t.net.accel_bytes / (1 + random_below(&seed, 4));
        if (t.net.devices[0] > 4)
            t.net.devices[0] = 4;
        for (uint32_t n = 1; n <= t.u.n && n <= t.net.devices[0]; n++)
            try_stages(&t, 0, n);
        if (!finds_the_best(&t, DP_PLAN_PIPER, i, &p)) {
            n_none++;
        } else {
            for (uint32_t s = 0; s < p.n_stages; s++)
                assert_true(p.stage[s].bytes <= t.net.accel_bytes);
            for (uint32_t k = 0; k < t.g.n_nodes; k++)
                n_slower += p.way_of[k] > 0;
            n_several += p.n_stages > 1;
        }
        dp_graph_plan_release(&p);
        drop(&t);
    }
    print_message("# %u refused, %u nodes in a slower way, %u plans of several stages\n", n_none, n_slower, n_several);
    assert_true(n_none > 20 && n_slower > 50 && n_several > 50);
}

/* ---- clusters ---- */

/* The least dearest cut of all ways to have at most `most` pieces of at most most_ns, or of one unit; UINT64_MAX: there is none. */
static uint64_t least_dearest(const struct dp_pieces *c, uint32_t most, uint64_t most_ns)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t cuts = 0; cuts < 1u << (c->n - 1); cuts++) {
        uint64_t dearest = 0;
        uint32_t pieces = 0, from = 0;
        bool may = true;

        for (uint32_t end = 1; end <= c->n; end++) {
            if (end < c->n && !(cuts >> (end - 1) & 1))
                continue;
            may &= end - from == 1 || c->compute_ns[end] - c->compute_ns[from] <= most_ns;
            if (end < c->n && c->cross_bytes[end] > dearest)
                dearest = c->cross_bytes[end];
            from = end;
            pieces++;
        }
        if (may && pieces <= most && dearest < least)
            least = dearest;
    }
    return least;
}

static void clusters_have_the_cheapest_cuts(void **state)
{
    (void)state;
    uint32_t compared = 0;

    for (uint64_t i = 0; i < 600; i++) {
        uint64_t seed = i, least, dearest = 0;
        struct instance t;
        struct dp_pieces units, c;
        uint32_t most;

        make(&t, &seed, 1);
        assert_int_equal(dp_line_make(&t.u, DP_LINE_TIGHT, t.order, NULL), 0);
        most = 1 + random_below(&seed, t.u.n);
        assert_int_equal(dp_pieces_create(&units, &t.g, &t.u, t.order, UINT32_MAX, NULL), 0);
        assert_int_equal(dp_pieces_create(&c, &t.g, &t.u, t.order, most, NULL), 0);
        assert_true(units.n == t.u.n && c.n <= most && c.n >= 1);
        assert_int_equal(c.compute_ns[c.n], units.compute_ns[units.n]);
        for (uint32_t k = 1; k < c.n; k++)
            dearest = c.cross_bytes[k] > dearest ? c.cross_bytes[k] : dearest;
        least = least_dearest(&units, most, units.compute_ns[units.n] / most + units.compute_ns[units.n] / most / 2);
        if (least < UINT64_MAX && most < t.u.n) {
            assert_int_equal(dearest, least);
            compared++;
        }
        dp_pieces_release(&units);
        dp_pieces_release(&c);
        drop(&t);
    }
    assert_true(compared > 100);
}

/* ---- what comes of it ---- */

/* The simulator sees the same memory in a plan, and no faster device: with recomputation and larger microbatches, too. */
static void plans_are_what_is_simulated(void **state)
{
    (void)state;

    uint32_t n_same = 0, n_stages = 0;

    n_recompute = n_large = n_wide = n_deep = 0;
    for (uint64_t i = 0; i < 2400; i++) {
        uint64_t seed = i * 31 + 5;
        struct dp_sim_case c = {.schedule = DP_SCHED_1F1B, .chunks = 1, .replicas = 1, .buckets = 1, .iterations = 1, .microbatches = 48};
        struct instance t;
        struct dp_graph_plan p;
        struct dp_err err;
        struct seen seen;

        make(&t, &seed, 1);
        t.net.microbatches = c.microbatches;
        c.devices = t.net.devices[0];
        if (dp_paper_find(&t.g, i % 4 ? DP_PLAN_2BW : i % 8 ? DP_PLAN_ALPA : DP_PLAN_DAPPLE, &t.ask, &p, &err) == 0) {
            count(&t, &p);
            simulate_plan(&t.g, &p, &t.net, &c, &seen);
            assert_true((double)seen.iteration_ns + 3 * 48 >= (double)p.load_ns * 48);
            if (p.algorithm == DP_PLAN_DAPPLE) /* whose latency no order of the work undercuts, if not by what rounding does */
                assert_true(seen.iteration_ns + 3 * 48 + 24 >= p.objective_ns);
            n_stages += seen.n_used;
            for (uint32_t d = 0; d < seen.n_used; d++) { /* those with too few microbatches need less */
                assert_true(seen.mem[d] <= p.stage[seen.stage_of[d]].bytes);
                n_same += seen.mem[d] == p.stage[seen.stage_of[d]].bytes;
            }
        }
        dp_graph_plan_release(&p);
        drop(&t);
    }
    print_message("# %u of %u devices need just what the plan says\n", n_same, n_stages);
    assert_true(n_same > n_stages / 100 * 95);
    assert_true(n_recompute > 20 && n_large > 10 && n_wide > 100 && n_deep > 100);
}

/* A graph with too many units for a chain: it is clustered, and ends soon. */
static void large_graphs_are_planned(void **state)
{
    (void)state;
    struct dp_graph g;
    struct dp_plan_hierarchical net = {.n_levels = 1, .devices = {8}, .bytes_per_s = {12e9}, .accel_bytes = UINT64_MAX, .microbatches = 32};
    struct dp_paper_ask ask = {.net = &net};
    struct dp_graph_plan p;

    assert_int_equal(dp_cells_make(&g, 1250, 7, NULL), 0);
    assert_int_equal(dp_paper_find(&g, DP_PLAN_2BW, &ask, &p, NULL), 0);
    assert_true(p.load_ns >= p.bound_ns && p.n_devices == 8);
    dp_graph_plan_release(&p);
    assert_int_equal(dp_paper_find(&g, DP_PLAN_ALPA, &ask, &p, NULL), 0);
    assert_true(p.load_ns >= p.bound_ns && p.load_ns < p.single_ns / 4);
    dp_graph_plan_release(&p);
    assert_int_equal(dp_paper_find(&g, DP_PLAN_PIPER, &ask, &p, NULL), 0);
    assert_true(p.load_ns >= p.bound_ns && p.load_ns < p.single_ns / 4);
    dp_graph_plan_release(&p);
    assert_int_equal(dp_paper_find(&g, DP_PLAN_DAPPLE, &ask, &p, NULL), 0);
    assert_true(p.load_ns >= p.bound_ns && p.load_ns < p.single_ns / 4);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
}

static bool stop(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    (void)searched;
    (void)best_ns;
    (void)bound_ns;
    return --*(int *)arg > 0;
}

static void questions_are_refused(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct instance t;
    struct dp_graph_plan p;
    struct dp_err err;
    int calls = 1;
    struct dp_plan_watch watch = {stop, &calls};

    make(&t, &seed, 1);
    t.net = (struct dp_plan_hierarchical){.n_levels = 2, .devices = {2, 2}, .bytes_per_s = {1e9, 1e9}, .accel_bytes = UINT64_MAX,
                                          .microbatches = 4};
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_2BW, &t.ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_LINE, &t.ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    t.net.devices[0] = 5000;
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_ALPA, &t.ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    t.net.n_levels = 1;
    t.net.devices[0] = 65;
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_DAPPLE, &t.ask, &p, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    t.net.devices[0] = 2;
    t.net.watch = &watch;
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_ALPA, &t.ask, &p, &err), -1);
    assert_int_equal(err.code, DP_ETIMEOUT);
    calls = 2;
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_ALPA, &t.ask, &p, &err), 0);
    assert_true(p.was_ended);
    dp_graph_plan_release(&p);
    t.g.kind = DP_GRAPH_COSTS;
    assert_int_equal(dp_paper_find(&t.g, DP_PLAN_ALPA, &t.ask, &p, &err), -1);
    drop(&t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_bw_is_the_best_of_its_shapes), cmocka_unit_test(alpa_is_the_best_of_its_submeshes),
    cmocka_unit_test(piper_is_the_best_of_all_cuts),    cmocka_unit_test(dapple_is_the_best_of_its_stages),
    cmocka_unit_test(clusters_have_the_cheapest_cuts),
    cmocka_unit_test(plans_are_what_is_simulated),      cmocka_unit_test(large_graphs_are_planned),
    cmocka_unit_test(questions_are_refused),
};
TEST_MAIN("graph_papers", tests)
