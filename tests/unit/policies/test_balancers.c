/* SPDX-License-Identifier: BSD-3-Clause */
/* The balancers side by side: baselines against what the programs that they stand for answer, our own
 * never worse than any of them, and every policy on snapshots of all kinds. */
#include <config.h>

#include "tests/unit/unit.h"

#include "policies/balancer.h"
#include "policies/predict/answer.h"
#include "policies/solve/chain.h"
#include "policies/solve/nicol.h"
#include "tests/unit/policies/snapshots.h"

/* What DeepSpeed's, and torchgpipe's, own functions answer to these weights. */
static void baselines_answer_as_the_originals(void **state)
{
    (void)state;
    static const struct {
        dp_balancer_fn *fn;
        uint32_t n, p;
        uint64_t weight[10];
        uint32_t cut[5];
    } known[] = {
        {dp_balancer_deepspeed, 6, 2, {1, 2, 3, 4, 5, 6}, {0, 4, 6}},
        {dp_balancer_deepspeed, 9, 3, {5, 5, 5, 5, 1, 1, 1, 1, 9}, {0, 2, 6, 9}},
        {dp_balancer_deepspeed, 10, 4, {9, 1, 1, 1, 9, 1, 1, 2, 3, 8}, {0, 3, 6, 9, 10}},
        {dp_balancer_deepspeed, 3, 2, {10, 1, 1}, {0, 0, 3}}, /* its defect: all of it on the second */
        {dp_balancer_deepspeed, 2, 4, {10, 1}, {0, 1, 2, 2, 2}},
        {dp_balancer_deepspeed_range, 9, 3, {5, 5, 5, 5, 1, 1, 1, 1, 9}, {0, 2, 6, 9}},
        {dp_balancer_deepspeed_range, 10, 4, {9, 1, 1, 1, 9, 1, 1, 2, 3, 8}, {0, 3, 5, 9, 10}},
        {dp_balancer_torchgpipe, 6, 2, {1, 2, 3, 4, 5, 6}, {0, 4, 6}},
        {dp_balancer_torchgpipe, 9, 3, {5, 5, 5, 5, 1, 1, 1, 1, 9}, {0, 3, 6, 9}},
        {dp_balancer_torchgpipe, 10, 4, {9, 1, 1, 1, 9, 1, 1, 2, 3, 8}, {0, 2, 5, 8, 10}},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct dp_partition q = {.n = known[i].n, .p = known[i].p, .weight = known[i].weight};
        struct dp_balancer_note note = {""};
        uint32_t cut[5] = {0};

        assert_int_equal(known[i].fn(&q, cut, &note, NULL), 0);
        assert_memory_equal(cut, known[i].cut, (q.p + 1) * sizeof *cut);
    }
}

static void dynmo_keeps_the_order(void **state)
{
    (void)state;
    uint64_t weight[8] = {9, 9, 1, 1, 1, 1, 1, 1}, bytes[8] = {1, 1, 1, 1, 1, 1, 1, 1}, cap[3] = {9, 9, 3};
    uint32_t cut[4], now[4] = {0, 4, 6, 8};
    struct dp_partition q = {.n = 8, .p = 3, .weight = weight, .prefer = now};
    struct dp_balancer_note note = {""};

    assert_int_equal(dp_balancer_dynmo(&q, cut, &note, NULL), 0);
    assert_memory_equal(cut, ((uint32_t[]){0, 1, 2, 8}), sizeof cut);
    q.fixed_bytes = bytes;
    q.cap_bytes = cap;
    assert_int_equal(dp_balancer_dynmo(&q, cut, &note, NULL), 0);
    assert_memory_equal(cut, now, sizeof cut); /* no room on the last one for a second layer more */
    assert_string_equal(note.text, "no room to move layer 3: stays");
    q.cap_bytes = NULL;
    assert_int_equal(dp_balancer_dynmo_diffusion(&q, cut, &note, NULL), 0);
    assert_memory_equal(cut, ((uint32_t[]){0, 1, 2, 8}), sizeof cut);
    assert_string_equal(note.text, "6 moves");
}

/* No pipeline is faster than its heaviest layer, or than all work spread evenly. */
static uint64_t lower_bound(const struct snapshot *t)
{
    uint64_t sum = 0, heaviest = 0;

    for (uint32_t l = 0; l < t->in.n_layers; l++) {
        uint64_t w = dp_policy_layer_work_ns(&t->in, l);

        sum += w;
        heaviest = w > heaviest ? w : heaviest;
    }
    sum = (sum + t->in.n_devices - 1) / t->in.n_devices;
    return sum > heaviest ? sum : heaviest;
}

static uint64_t run(const struct dp_policy *policy, const struct snapshot *t)
{
    static struct dp_policy_out out;
    struct dp_err err;

    if (dp_policy_run(policy, NULL, &t->in, &out, &err) < 0)
        fail_msg("%s: %s", policy->name, err.text);
    return out.bottleneck_ns;
}

static void never_worse_than_a_baseline(void **state)
{
    (void)state;
    enum { INSTANCES = DP_INSTANCES(1000), MOST = 64 };
    double ratio[MOST] = {0}, worst[MOST] = {0};
    size_t n = 0;

    for (uint64_t i = 0; i < INSTANCES; i++) {
        struct snapshot t;
        uint64_t seed = i, best, bound;

        make(&t, &seed);
        best = run(&dp_policy_time, &t);
        bound = lower_bound(&t);
        assert_true(best >= bound);
        assert_int_equal(run(&dp_policy_nicol, &t), best);
        assert_int_equal(run(&dp_policy_diffusion_time, &t), best);
        for (n = 0; dp_policy_at(n); n++) {
            uint64_t ns = run(dp_policy_at(n), &t);

            assert_true(best <= ns);
            ratio[n] += (double)ns / (double)bound;
            worst[n] = (double)ns / (double)bound > worst[n] ? (double)ns / (double)bound : worst[n];
        }
    }
    print_message("# slowest device over the lower bound, %d pruned models of 24 to %d layers on 4 to %d devices:\n",
                  INSTANCES, MAX_N, MAX_P);
    for (size_t k = 0; k < n; k++)
        print_message("# %-22s mean %.3f, at most %.3f\n", dp_policy_at(k)->name, ratio[k] / INSTANCES, worst[k]);
}

/* --- models and devices of every shape, each objective on its own --- */

/* What a policy is after: the objective in which nobody may beat it. */
enum aim { AIM_SLOWEST, AIM_ITERATION, AIM_PARAMETERS, N_AIMS };

static uint64_t fullest(const struct snapshot *t, const struct dp_layout *l)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        uint64_t sum = 0;

        for (uint32_t i = l->cut[d]; i < l->cut[d + 1]; i++)
            sum += t->layer[i].nnz;
        most = sum > most ? sum : most;
    }
    return most;
}

/* value: = [N_AIMS]. returns: is there a layout at all? */
static bool ask(const struct dp_policy *policy, const struct snapshot *t, uint64_t *value)
{
    static struct dp_policy_out out;

    if (dp_policy_run(policy, NULL, &t->in, &out, NULL) < 0)
        return false;
    value[AIM_SLOWEST] = out.bottleneck_ns;
    value[AIM_ITERATION] = out.iteration_ns;
    value[AIM_PARAMETERS] = fullest(t, &out.layout);
    return true;
}

static double bound_of(const struct snapshot *t)
{
    double sum = 0.0, heaviest = 0.0, speed = 0.0, fastest = 0.0;

    for (uint32_t l = 0; l < t->in.n_layers; l++) {
        double w = (double)dp_policy_layer_work_ns(&t->in, l);

        sum += w;
        heaviest = w > heaviest ? w : heaviest;
    }
    for (uint32_t d = 0; d < t->in.n_devices; d++) {
        speed += t->device[d].speed;
        fastest = t->device[d].speed > fastest ? t->device[d].speed : fastest;
    }
    return sum / speed > heaviest / fastest ? sum / speed : heaviest / fastest;
}

static size_t number_of(const struct dp_policy *policy)
{
    size_t k = 0;

    while (dp_policy_at(k) != policy)
        assert_non_null(dp_policy_at(k++));
    return k;
}

/* how: 1 unequal speeds, 2 limits of memory, 3 both */
static void compare_shapes(uint32_t how)
{
    enum { MOST = 64, INSTANCES = DP_INSTANCES(SHAPES * OF_SHAPE) };
    static const struct {
        const struct dp_policy *policy;
        enum aim aim;
        bool knows_depth; /* that empty devices keep fewer activations before them */
    } ours[] = {{&dp_policy_time, AIM_SLOWEST, true},
                {&dp_policy_param, AIM_PARAMETERS, true},
                {&dp_policy_iteration, AIM_ITERATION, true},
                {&dp_policy_nicol, AIM_SLOWEST, false},
                {&dp_policy_diffusion_time, AIM_SLOWEST, false},
                {&dp_policy_diffusion_param, AIM_PARAMETERS, false}};
    uint32_t n = 0, compared = 0;
    double ratio = 0.0;

    for (uint32_t i = 0; i < INSTANCES; i++) {
        uint64_t seed = i * 4 + how, best[N_AIMS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, answer[MOST][N_AIMS], slack;
        bool is_possible = false, has_answer[MOST] = {false};
        struct snapshot t;

        make_shape(&t, &seed, i % SHAPES, how & 1, how & 2);
        /* the simulator rounds forward and backward up to whole ns on a device of another speed */
        slack = how & 1 ? 2 * t.in.microbatches + 1 : 0;
        for (uint32_t k = 0; dp_policy_at(k); k++) {
            assert_true(k < MOST);
            has_answer[k] = ask(dp_policy_at(k), &t, answer[k]);
            if (!has_answer[k])
                continue;
            is_possible = true;
            compared++;
            for (int a = 0; a < N_AIMS; a++)
                best[a] = answer[k][a] < best[a] ? answer[k][a] : best[a];
        }
        for (size_t k = 0; is_possible && k < sizeof ours / sizeof *ours; k++) {
            const uint64_t *value = answer[number_of(ours[k].policy)];

            if ((how & 2) && !ours[k].knows_depth)
                continue;
            if (!has_answer[number_of(ours[k].policy)])
                fail_msg("instance %u of %u: %s finds no layout", i, how, ours[k].policy->name);
            if (value[ours[k].aim] > best[ours[k].aim] + (ours[k].aim == AIM_SLOWEST ? slack : 0))
                fail_msg("instance %u of %u: %s is beaten: %llu, %llu", i, how, ours[k].policy->name,
                         (unsigned long long)value[ours[k].aim], (unsigned long long)best[ours[k].aim]);
            if (ours[k].policy == &dp_policy_time && bound_of(&t) > 0.0) {
                ratio += (double)value[AIM_SLOWEST] / bound_of(&t);
                n++;
            }
        }
    }
    print_message("# %s devices%s: slowest device of policy time over the lower bound: mean %.3f of %u models of %d shapes\n",
                  how & 1 ? "unequal" : "equal", how & 2 ? ", limits of memory" : "", ratio / n, n, SHAPES);
    assert_true(n > INSTANCES / 2 && compared > 5 * n);
}

static void never_worse_on_any_shape(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 4; how++)
        compare_shapes(how);
}

static uint64_t largest(const struct dp_chain *c, const uint32_t *cut, bool *fits)
{
    uint64_t most = 0;

    *fits = true;
    for (uint32_t b = 0; b < c->q->p; b++) {
        uint64_t load = dp_chain_load(c, b, cut[b], cut[b + 1]);

        assert_true(cut[b] <= cut[b + 1]);
        most = load > most ? load : most;
        *fits = *fits && dp_chain_fits(c, b, cut[b], cut[b + 1]);
    }
    assert_true(cut[0] == 0 && cut[c->q->p] == c->q->n);
    return most;
}

/* Unequal devices with limits of memory and costs: whatever fits is not better than ours. */
static void never_worse_on_unequal_devices(void **state)
{
    (void)state;
    static dp_balancer_fn *const fn[] = {dp_balancer_deepspeed, dp_balancer_deepspeed_range, dp_balancer_torchgpipe,
                                         dp_balancer_dynmo, dp_balancer_dynmo_diffusion, dp_balancer_diffusion};
    uint32_t compared = 0;

    for (uint64_t i = 0; i < DP_INSTANCES(3000); i++) {
        uint64_t seed = i, best, weight[MAX_N], fixed[MAX_N], cap[MAX_P], cost[MAX_P];
        uint32_t cut[MAX_P + 1], start[MAX_P + 1] = {0};
        double speed[MAX_P];
        struct dp_partition q = {.p = 1 + random_below(&seed, MAX_P), .weight = weight, .speed = speed, .cost = cost,
                                 .fixed_bytes = fixed, .cap_bytes = cap, .prefer = start};
        struct dp_chain c;
        bool fits;

        q.n = q.p + random_below(&seed, MAX_N - q.p + 1);
        for (uint32_t k = 0; k < q.n; k++) {
            weight[k] = random_below(&seed, 1000);
            fixed[k] = random_below(&seed, 10);
        }
        for (uint32_t b = 0; b < q.p; b++) {
            speed[b] = 0.5 + random_below(&seed, 8) * 0.25;
            cap[b] = random_below(&seed, 2) ? 0 : 20 + 10 * q.n / q.p;
            cost[b] = random_below(&seed, 100);
            start[b + 1] = b + 1 < q.p ? start[b] + random_below(&seed, q.n - start[b] + 1) : q.n;
        }
        if (dp_partition_minmax(&q, cut, &best, NULL) < 0)
            continue;
        assert_int_equal(dp_chain_init(&c, &q, NULL), 0);
        assert_int_equal(largest(&c, cut, &fits), best);
        assert_true(fits);
        for (size_t k = 0; k < sizeof fn / sizeof *fn; k++) {
            struct dp_balancer_note note = {""};

            assert_int_equal(fn[k](&q, cut, &note, NULL), 0);
            assert_true(largest(&c, cut, &fits) >= best || !fits);
            compared += fits;
            if (fn[k] == dp_balancer_diffusion) { /* it knows no costs; without them it is exact */
                struct dp_partition free_of_cost = q;
                struct dp_chain f;
                uint32_t other[MAX_P + 1];
                uint64_t least;

                free_of_cost.cost = NULL;
                assert_int_equal(dp_partition_minmax(&free_of_cost, other, &least, NULL), 0);
                assert_int_equal(dp_chain_init(&f, &free_of_cost, NULL), 0);
                assert_int_equal(largest(&f, cut, &fits), least);
                dp_chain_release(&f);
            }
        }
        dp_chain_release(&c);
    }
    assert_true(compared > DP_INSTANCES(3000));
}

/* Messages that stop computing: where they are dear, only both ends, with one border each, hold layers. */
static void messages_count(void **state)
{
    (void)state;
    struct snapshot t;
    struct dp_policy_out out;
    uint64_t seed = 1;

    make(&t, &seed);
    assert_int_equal(dp_policy_run(&dp_policy_time_comm, NULL, &t.in, &out, NULL), 0);
    assert_int_equal(dp_layout_active(&out.layout), t.in.n_devices);
    t.in.link_bytes_per_s = 1e3;
    assert_int_equal(dp_policy_run(&dp_policy_time_comm, NULL, &t.in, &out, NULL), 0);
    assert_int_equal(dp_layout_active(&out.layout), 1); /* any border costs more than all work */
}

/* Anything that passes dp_policy_in_check(): each policy answers or says why not. */
static void any_snapshot(void **state)
{
    (void)state;
    uint32_t answers = 0, errors = 0;

    for (uint64_t i = 0; i < DP_INSTANCES(2000); i++) {
        uint64_t seed = i;
        struct snapshot t;

        make(&t, &seed);
        if (random_below(&seed, 2))
            t.in.n_layers = t.layout.n_layers = 1 + random_below(&seed, MAX_N);
        for (uint32_t d = 0; d < t.in.n_devices; d++) {
            t.device[d].is_allowed = random_below(&seed, 4) > 0;
            t.device[d].speed = random_below(&seed, 20) ? 0.1 + random_below(&seed, 50) : 1e-6;
            t.device[d].mem_limit_bytes = random_below(&seed, 3) ? 0 : random_below(&seed, 20000);
            t.layout.cut[d + 1] = d + 1 < t.in.n_devices ? random_below(&seed, t.in.n_layers + 1) : t.in.n_layers;
            if (t.layout.cut[d + 1] < t.layout.cut[d])
                t.layout.cut[d + 1] = t.layout.cut[d];
        }
        for (uint32_t l = 0; l < t.in.n_layers; l++) {
            uint64_t huge = random_below(&seed, 50) ? 1 : 1 + (random_u64(&seed) >> random_below(&seed, 64)) % 1000000000;

            t.layer[l].fwd_ns = random_below(&seed, 5) * huge;
            t.layer[l].nnz = random_below(&seed, 3) * huge;
            t.layer[l].state_bytes *= huge;
        }
        if (dp_policy_in_check(&t.in, NULL) < 0)
            continue;
        for (size_t k = 0; dp_policy_at(k); k++) {
            struct dp_policy_out out;
            struct dp_err err = {0};

            if (dp_policy_run(dp_policy_at(k), NULL, &t.in, &out, &err) == 0) {
                assert_true(*out.reason);
                answers++;
            } else {
                assert_true(*err.text);
                assert_false(dp_policy_is_broken(&err));
                errors++;
            }
        }
    }
    assert_true(answers > DP_INSTANCES(1000) && errors > DP_INSTANCES(1000));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(baselines_answer_as_the_originals),
    cmocka_unit_test(dynmo_keeps_the_order),
    cmocka_unit_test(never_worse_than_a_baseline),
    cmocka_unit_test(never_worse_on_any_shape),
    cmocka_unit_test(never_worse_on_unequal_devices),
    cmocka_unit_test(messages_count),
    cmocka_unit_test(any_snapshot),
};
TEST_MAIN("balancers", tests)
