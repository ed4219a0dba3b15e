/* SPDX-License-Identifier: BSD-3-Clause */
/* See evaluate.h. */
#include "policies/learn/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "policies/graph/plan.h"
#include "policies/graph/search/draw.h"
#include "policies/learn/propose.h"

#define EXACT_IDEALS 30000u /* at most, for the best known load: below a second */
#define LONGER 4u           /* times the steps of a search, for the same */
#define LONG_STEPS UINT64_C(20000000) /* likewise, where searches end by time: 0.3 to 0.6 s of a core */
#define MOST_P 0.05         /* of a win that is one */

#define NAME(ID, name, help) name,
static const char *const names[] = {DP_RIVALS(NAME)};
#undef NAME
#define HELP(ID, name, help) help,
static const char *const helps[] = {DP_RIVALS(HELP)};
#undef HELP

const char *dp_rival_name(enum dp_rival r)
{
    return names[r];
}

const char *dp_rival_help(enum dp_rival r)
{
    return helps[r];
}

/* ---- a source without orders: what is left of a search are its moves ---- */

static int begin_none(const void *arg, const struct dp_units *units, uint32_t n_devices, void **walk, struct dp_err *err)
{
    (void)arg;
    (void)units;
    (void)n_devices;
    (void)err;
    *walk = NULL;
    return 0;
}

static int order_none(void *walk, uint64_t seed, uint64_t number, uint64_t max_steps, uint32_t *order, uint64_t *steps, struct dp_err *err)
{
    (void)walk;
    (void)seed;
    (void)number;
    (void)max_steps;
    (void)order;
    (void)steps;
    (void)err;
    return 0;
}

static void end_none(void *walk)
{
    (void)walk;
}

/* ---- the same time for all ---- */

struct stopwatch {
    struct dp_plan_watch watch;
    uint64_t begin_ns, most_ns;
};

static bool is_within(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    const struct stopwatch *s = arg;

    (void)searched;
    (void)bound_ns;
    return best_ns == 0 || dp_thread_cpu_ns() - s->begin_ns < s->most_ns; /* the few orders are always cut */
}

static uint64_t time_for(const struct dp_graph *g)
{
    uint64_t ns = g->n_nodes * DP_EVALUATE_NODE_NS;

    return ns < DP_EVALUATE_MOST_NS ? ns : DP_EVALUATE_MOST_NS;
}

/* ---- one question ---- */

static int plan(const struct dp_graph *g, const struct dp_plan_maxload *ask, uint64_t *load_ns, struct dp_err *err)
{
    struct dp_graph_plan p;
    int rc = dp_plan_maxload_find(g, ask, &p, err);

    *load_ns = p.load_ns;
    dp_graph_plan_release(&p);
    return rc;
}

int dp_evaluate(const struct dp_graph *g, uint32_t n_devices, const struct dp_weights *w, const struct dp_weights *shuffled,
                uint64_t seed, uint64_t steps, bool looks_longer, struct dp_evaluation *out, struct dp_err *err)
{
    static const enum dp_plan_algorithm algorithm[DP_N_RIVALS] = {
        [DP_RIVAL_NETWORKS] = DP_PLAN_LEARNED, [DP_RIVAL_RULES] = DP_PLAN_LINE,      [DP_RIVAL_MOVES] = DP_PLAN_LEARNED,
        [DP_RIVAL_ANNEAL] = DP_PLAN_ANNEAL,    [DP_RIVAL_GENETIC] = DP_PLAN_GENETIC, [DP_RIVAL_SHUFFLED] = DP_PLAN_LEARNED};
    const struct dp_order_source source[DP_N_RIVALS] = {
        [DP_RIVAL_NETWORKS] = dp_weights_source(w),
        [DP_RIVAL_MOVES] = {.begin = begin_none, .order = order_none, .end = end_none},
        [DP_RIVAL_SHUFFLED] = dp_weights_source(shuffled)};
    struct dp_plan_maxload ask = {.n_accel = n_devices, .accel_bytes = g->accel_bytes, .max_ideals = EXACT_IDEALS, .seed = seed,
                                  .search_steps = steps ? steps : UINT64_MAX};
    struct stopwatch stopwatch = {.watch = {is_within, &stopwatch}, .most_ns = time_for(g)};
    uint64_t longer;

    *out = (struct dp_evaluation){.best_ns = UINT64_MAX};
    for (int r = 0; r < DP_N_RIVALS; r++) {
        stopwatch.begin_ns = dp_thread_cpu_ns();
        ask.watch = steps ? NULL : &stopwatch.watch;
        ask.algorithm = algorithm[r];
        ask.source = algorithm[r] == DP_PLAN_LEARNED ? &source[r] : NULL;
        if (plan(g, &ask, &out->load_ns[r], err) < 0)
            return -1;
        out->cpu_s[r] = (double)(dp_thread_cpu_ns() - stopwatch.begin_ns) / 1e9;
        out->best_ns = out->load_ns[r] < out->best_ns ? out->load_ns[r] : out->best_ns;
    }
    if (!looks_longer)
        return 0;
    ask.algorithm = DP_PLAN_AUTO; /* exact, or `line` for longer */
    ask.source = NULL;
    ask.watch = NULL;
    ask.seed = seed + 1;
    ask.search_steps = !steps ? LONG_STEPS : steps < UINT64_MAX / LONGER ? steps * LONGER : steps;
    if (plan(g, &ask, &longer, err) < 0)
        return -1;
    out->best_ns = longer < out->best_ns ? longer : out->best_ns;
    return 0;
}

/* ---- shuffled weights ---- */

/* Numbers of each array of a network, one after the other. */
static const uint32_t parts[] = {
#define ARRAY(name) sizeof(((struct dp_net *)NULL)->name) / sizeof(float)
#define ROUND(r) ARRAY(round[r].own), ARRAY(round[r].before), ARRAY(round[r].behind), ARRAY(round[r].bias)
#define GATE(g) ARRAY(g.of_unit), ARRAY(g.of_memory), ARRAY(g.bias)
    ARRAY(in),      ARRAY(in_bias),   ROUND(0),       ROUND(1),    ROUND(2),   ROUND(3),       GATE(reset), GATE(update), GATE(fresh),
    ARRAY(of_unit), ARRAY(of_memory), ARRAY(of_look), ARRAY(bias), ARRAY(out), ARRAY(direct),
};
_Static_assert(DP_NET_ROUNDS == 4, "parts[] has as many rounds as a network");

static void shuffle(float *of, uint32_t n, uint64_t *draws)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = dp_draw_below(draws, i);
        float old = of[i - 1];

        of[i - 1] = of[k];
        of[k] = old;
    }
}

int dp_weights_shuffle(const struct dp_weights *w, uint64_t seed, struct dp_weights *out, struct dp_err *err)
{
    *out = *w;
    out->net = calloc(w->n, sizeof *out->net);
    if (!out->net)
        return dp_err_set(err, DP_ENOMEM, "shuffled networks: out of memory");
    for (uint32_t i = 0; i < w->n; i++) {
        uint64_t draws = dp_draw_stream(seed, i);
        float *at = dp_net_numbers(&out->net[i]);

        out->net[i] = w->net[i];
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            shuffle(at, parts[k], &draws);
            at += parts[k];
        }
    }
    return 0;
}

/* ---- many questions ---- */

double dp_evaluation_gap(const struct dp_evaluation *e, enum dp_rival r)
{
    return e->best_ns ? 100.0 * ((double)e->load_ns[r] - (double)e->best_ns) / (double)e->best_ns : 0;
}

void dp_evaluation_add(struct dp_evaluation_sums *s, const struct dp_evaluation *e)
{
    s->n++;
    for (int r = 0; r < DP_N_RIVALS; r++) {
        double gap = dp_evaluation_gap(e, (enum dp_rival)r);

        s->gap[r] += gap;
        s->worst[r] = gap > s->worst[r] ? gap : s->worst[r];
        s->cpu_s[r] += e->cpu_s[r];
        s->wins[r] += e->load_ns[DP_RIVAL_NETWORKS] < e->load_ns[r];
        s->losses[r] += e->load_ns[DP_RIVAL_NETWORKS] > e->load_ns[r];
    }
}

double dp_sign_test(uint32_t wins, uint32_t losses)
{
    uint32_t n = wins + losses, fewer = wins < losses ? wins : losses;
    double sum = 0;

    for (uint32_t k = 0; k <= fewer; k++) /* n over k, by logarithms: n may be large */
        sum += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) - n * log(2.0));
    return 2 * sum < 1 ? 2 * sum : 1;
}

bool dp_evaluation_wins(const struct dp_evaluation_sums *s, enum dp_rival r)
{
    return s->wins[r] > s->losses[r] && dp_sign_test(s->wins[r], s->losses[r]) < MOST_P;
}

bool dp_evaluation_wins_all(const struct dp_evaluation_sums *s)
{
    for (int r = 0; r < DP_N_RIVALS; r++)
        if (r != DP_RIVAL_NETWORKS && !dp_evaluation_wins(s, (enum dp_rival)r))
            return false;
    return true;
}
