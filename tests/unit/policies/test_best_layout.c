/* SPDX-License-Identifier: BSD-3-Clause */
/* What the policies promise against every layout there is: time and time-comm are the best and of those the nearest to
 * what is in force, iteration is close to the best where it cannot try all, and never worse than any other. */
#include "tests/unit/unit.h"

#include "policies/list.h"
#include "policies/predict/answer.h"
#include "policies/solve/partition.h"
#include "tests/unit/policies/snapshots.h"

/* --- what time and time-comm promise, against every layout --- */

/* The slowest device of a layout: its work and, where messages stop computing, both ends of each border. */
static uint64_t slowest_of(const struct snapshot *t, const struct dp_layout *l, bool pays_messages)
{
    uint64_t slowest = 0, border = pays_messages ? (uint64_t)dp_policy_message_ns(&t->in) : 0;

    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        uint64_t work = 0, ns = 0;

        if (l->cut[d + 1] == l->cut[d])
            continue;
        for (uint32_t i = l->cut[d]; i < l->cut[d + 1]; i++)
            work += dp_policy_layer_work_ns(&t->in, i);
        ns = dp_partition_time(t->device[d].speed, work);
        ns += border * ((dp_layout_prev(l, d) >= 0) + (dp_layout_next(l, d) >= 0));
        slowest = ns > slowest ? ns : slowest;
    }
    return slowest;
}

static uint64_t moved_cuts(const struct snapshot *t, const struct dp_layout *l)
{
    uint64_t sum = 0;

    for (uint32_t d = 1; d < t->in.n_devices; d++)
        sum += l->cut[d] > t->layout.cut[d] ? l->cut[d] - t->layout.cut[d] : t->layout.cut[d] - l->cut[d];
    return sum;
}

struct every {
    const struct snapshot *t;
    bool pays_messages;
    uint64_t slowest, moved; /* the best so far, and of those the nearest */
};

/* Every layout on the allowed devices from d on that the simulator finds room for. */
static void try_every(struct every *e, struct dp_policy_out *out, uint32_t d)
{
    uint32_t n = e->t->in.n_layers;
    uint64_t ns, moved;

    if (d < e->t->in.n_devices) {
        uint32_t least = d + 1 == e->t->in.n_devices ? n : out->layout.cut[d];

        for (uint32_t to = least; to <= (e->t->device[d].is_allowed ? n : out->layout.cut[d]); to++) {
            out->layout.cut[d + 1] = to;
            try_every(e, out, d + 1);
        }
        return;
    }
    if (dp_policy_predict(&e->t->in, out, NULL) < 0)
        return;
    ns = slowest_of(e->t, &out->layout, e->pays_messages);
    moved = moved_cuts(e->t, &out->layout);
    if (ns < e->slowest || (ns == e->slowest && moved < e->moved)) {
        e->slowest = ns;
        e->moved = moved;
    }
}

/* A small run in any state: devices of several speeds and sizes, some of them not allowed, cuts anywhere. */
static void make_small(struct snapshot *t, uint64_t *seed)
{
    uint32_t n = 2 + random_below(seed, 7), p = 2 + random_below(seed, 3);

    make_shape(t, seed, random_below(seed, SHAPES), random_below(seed, 2), false);
    t->in.n_layers = t->layout.n_layers = n;
    t->in.n_devices = t->layout.n_workers = t->in.n_slots = p;
    for (uint32_t d = 0; d < p; d++) {
        t->device[d] = (struct dp_device){.speed = random_below(seed, 2) ? 1.0 : 0.25 * (1 + random_below(seed, 8)),
                                          .slot = d, .is_allowed = random_below(seed, 4) > 0};
        t->device[d].mem_limit_bytes = random_below(seed, 2) ? 0 : 1000 + random_below(seed, 16000);
        t->layout.cut[d + 1] = t->layout.cut[d] + random_below(seed, n - t->layout.cut[d] + 1);
    }
    t->layout.cut[p] = n;
    t->in.link_bytes_per_s = random_below(seed, 3) ? 1e8 * (1 + random_below(seed, 100)) : 0.0;
}

static void best_and_nearest_of_all_layouts(void **state)
{
    (void)state;
    static const struct dp_policy *const ours[] = {&dp_policy_time, &dp_policy_time_comm};
    uint32_t answers = 0, none = 0;

    for (uint64_t i = 0; i < 6000; i++) {
        struct every e = {.pays_messages = i % 2, .slowest = UINT64_MAX};
        static struct dp_policy_out out;
        struct snapshot t;
        uint64_t seed = i;
        int rc;

        make_small(&t, &seed);
        e.t = &t;
        out.layout = t.layout;
        out.layout.cut[0] = 0;
        try_every(&e, &out, 0);
        rc = dp_policy_run(ours[i % 2], NULL, &t.in, &out, NULL);
        if ((rc < 0) != (e.slowest == UINT64_MAX) ||
            (rc == 0 && (slowest_of(&t, &out.layout, i % 2) != e.slowest || moved_cuts(&t, &out.layout) != e.moved)))
            fail_msg("instance %llu: %s has %llu ns and moves cuts by %llu, possible are %llu and %llu",
                     (unsigned long long)i, ours[i % 2]->name,
                     rc < 0 ? 0ULL : (unsigned long long)slowest_of(&t, &out.layout, i % 2),
                     (unsigned long long)moved_cuts(&t, &out.layout), (unsigned long long)e.slowest,
                     (unsigned long long)e.moved);
        answers += rc == 0;
        none += rc < 0;
    }
    print_message("# %u answers are the best and of those the nearest; %u times there is no layout\n", answers, none);
    assert_true(answers > 4000 && none > 100);
}

/* --- what iteration finds where it cannot try everything --- */

static uint64_t adversarial(uint64_t *seed, uint32_t shape, uint32_t i, uint32_t n)
{
    switch (shape) {
    case 0: return random_below(seed, 2) ? 1 : 1000000000; /* nothing or very much */
    case 1: return i == n / 2 ? 400000000 : 1000 + random_below(seed, 9000000);
    }
    return shaped(seed, shape, i, n, n / 2);
}

/* Few layers whose work, devices whose speed, and links that differ by factors of up to 300,000. */
static void make_adversarial(struct snapshot *t, uint64_t *seed)
{
    uint32_t n = 7 + random_below(seed, 8), p = 3 + random_below(seed, 3), shape = random_below(seed, SHAPES), how = random_below(seed, 3);
    bool has_limits = random_below(seed, 2);

    make_shape(t, seed, shape, false, false);
    for (uint32_t l = 0; l < n; l++) {
        uint64_t ns = adversarial(seed, shape, l, n);

        t->layer[l] = (struct dp_layer_load){ns, ns, ns / 2, 1000 + random_below(seed, 1000), 100 + random_below(seed, 100),
                                             ns / 1000, ns / 1000};
        t->opt[l] = random_below(seed, 3) ? ns / 20 : ns * 10;
    }
    for (uint32_t d = 0; d < p; d++) {
        double speed = how == 1 ? 0.25 * (1 + random_below(seed, 8)) : random_below(seed, 2) ? 1.0 : random_below(seed, 2) ? 1e-4 : 30.0;

        t->device[d] = (struct dp_device){how ? speed : 1.0, 0, d, true};
        if (has_limits && random_below(seed, 2))
            t->device[d].mem_limit_bytes = 3000ull * n / p + random_below(seed, 20000);
    }
    t->layout.n_workers = t->in.n_devices = t->in.n_slots = p;
    t->layout.n_layers = t->in.n_layers = n;
    dp_chain_uniform(n, p, t->layout.cut);
    t->in.link_latency_s = random_below(seed, 4) ? 1e-5 : random_below(seed, 2) ? 0.01 : 1.0;
}

/* The first layers are frozen: they only go forward, and no gradients come to them. Few microbatches, and a latency that
 * weighs as much as some layers, so that a bound which counts gradients there is above what is possible. */
static void freeze(struct snapshot *t, uint64_t *seed)
{
    uint32_t layers = random_below(seed, t->in.n_layers);

    t->in.microbatches = 1 + random_below(seed, 4);
    t->in.link_latency_s = 1e-4 * (1 + random_below(seed, 100));
    t->in.link_bytes_per_s = 0.0;
    for (uint32_t l = 0; l < layers; l++)
        t->layer[l].bwd_input_ns = t->layer[l].bwd_weight_ns = t->layer[l].act_bytes = 0;
}

struct least {
    const struct snapshot *t;
    uint64_t ns;
};

static void try_least(struct least *e, struct dp_policy_out *out, uint32_t d)
{
    uint32_t n = e->t->in.n_layers, p = e->t->in.n_devices;

    for (uint32_t to = d + 1 == p ? n : out->layout.cut[d]; to <= n; to++) {
        out->layout.cut[d + 1] = to;
        if (d + 1 < p)
            try_least(e, out, d + 1);
        else if (dp_policy_predict(&e->t->in, out, NULL) == 0 && out->iteration_ns < e->ns)
            e->ns = out->iteration_ns;
    }
}

/* The bound that the reason names, in us; 0: it tried everything. */
static double bound_us(const char *reason)
{
    const char *at = strstr(reason, "none is below ");

    return at ? 1000.0 * strtod(at + strlen("none is below "), NULL) : 0.0;
}

static void iteration_is_near_the_best(void **state)
{
    (void)state;
    uint32_t climbs = 0, best = 0;
    double worst = 1.0;

    for (uint64_t i = 0; i < 1200; i++) {
        static struct dp_policy_out out, other;
        struct snapshot t;
        struct least e = {&t, UINT64_MAX};
        uint64_t seed = i;
        int rc;

        make_adversarial(&t, &seed);
        if (i % 3 == 2)
            freeze(&t, &seed);
        other.layout = t.layout;
        try_least(&e, &other, 0);
        rc = dp_policy_run(&dp_policy_iteration, NULL, &t.in, &out, NULL);
        assert_true((rc < 0) == (e.ns == UINT64_MAX));
        if (rc < 0)
            continue;
        assert_true(bound_us(out.reason) <= (double)e.ns / 1e3);
        for (size_t k = 0; dp_policy_at(k); k++)
            assert_true(dp_policy_run(dp_policy_at(k), NULL, &t.in, &other, NULL) < 0 || other.iteration_ns >= out.iteration_ns);
        if (!bound_us(out.reason)) {
            assert_true(out.iteration_ns == e.ns);
            continue;
        }
        climbs++;
        best += out.iteration_ns == e.ns;
        if (e.ns)
            worst = (double)out.iteration_ns / (double)e.ns > worst ? (double)out.iteration_ns / (double)e.ns : worst;
    }
    print_message("# of %u runs with too many layouts to try, %u answers are the best, the worst takes %.3f times as long\n", climbs,
                  best, worst);
    assert_true(climbs > 400 && best >= climbs * 98 / 100);
    assert_true(worst < 1.2);
}

/* Long chains, on which policies that take more than linear time are slow. */
static void iteration_is_never_worse_on_long_chains(void **state)
{
    (void)state;
    enum { N = 320, P = 64 };
    struct dp_layer_load *layer = calloc(N, sizeof *layer);
    struct dp_device *device = calloc(P, sizeof *device);
    struct dp_layout *now = calloc(1, sizeof *now);
    struct dp_policy_out *out = calloc(2, sizeof *out);

    assert_true(layer && device && now && out);
    for (uint32_t shape = 0; shape < SHAPES; shape++) {
        uint64_t seed = shape;
        uint32_t n = N - random_below(&seed, 100), p = P - random_below(&seed, 40);
        struct dp_policy_in in = {.n_layers = n, .n_devices = p, .n_slots = p, .layer = layer, .current = now, .device = device,
                                  .microbatches = 8 + random_below(&seed, 24), .stage_message_bytes = 1000000,
                                  .link_bytes_per_s = shape % 2 ? 1e8 : 1e11, .steps_total = 1000};

        for (uint32_t l = 0; l < n; l++) {
            uint64_t ns = adversarial(&seed, shape, l, n);

            layer[l] = (struct dp_layer_load){ns, ns, ns / 2, 1000, 100, ns / 1000, ns / 1000};
        }
        for (uint32_t d = 0; d < p; d++)
            device[d] = (struct dp_device){shape % 3 ? 1.0 : 0.01 * (1 + random_below(&seed, 400)), 0, d, true};
        now->n_workers = p;
        now->n_layers = n;
        dp_chain_uniform(n, p, now->cut);
        assert_int_equal(dp_policy_run(&dp_policy_iteration, NULL, &in, &out[0], NULL), 0);
        assert_true(bound_us(out[0].reason) * 1e3 <= (double)out[0].iteration_ns);
        for (size_t k = 0; dp_policy_at(k); k++)
            if (dp_policy_run(dp_policy_at(k), NULL, &in, &out[1], NULL) == 0 && out[1].iteration_ns < out[0].iteration_ns)
                fail_msg("shape %u: %s takes %.3f ms, iteration %.3f ms", shape, dp_policy_at(k)->name,
                         (double)out[1].iteration_ns / 1e6, (double)out[0].iteration_ns / 1e6);
    }
    free(layer);
    free(device);
    free(now);
    free(out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(best_and_nearest_of_all_layouts),
    cmocka_unit_test(iteration_is_near_the_best),
    cmocka_unit_test(iteration_is_never_worse_on_long_chains),
};
TEST_MAIN("best_layout", tests)
