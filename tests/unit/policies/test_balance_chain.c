/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies on cases of any size: the same answers as those of a running job's, and some that are far larger. */
#include "tests/unit/unit.h"

#include <time.h>

#include "policies/list.h"
#include "policies/sim/balance.h"
#include "policies/sim/balance_chain.h"
#include "tests/unit/random.h"

struct example {
    struct dp_sim_case c;
    struct dp_sim_layer *layer;
    uint32_t *count, *answer;
    struct dp_sim_layout layout;
};

static void make(struct example *t, uint64_t *seed, uint32_t n, uint32_t p)
{
    struct dp_err err;

    *t = (struct example){.c = {.schedule = random_below(seed, 2) ? DP_SCHED_1F1B : DP_SCHED_GPIPE, .devices = p, .chunks = 1,
                                .replicas = 1,
                                .buckets = 1, .microbatches = 1 + random_below(seed, 24), .n_layers = n, .iterations = 1}};
    t->layer = calloc(n, sizeof *t->layer);
    t->count = calloc(p, sizeof *t->count);
    t->answer = calloc(p, sizeof *t->answer);
    t->c.speed = calloc(p, sizeof *t->c.speed);
    assert_true(t->layer && t->count && t->answer && t->c.speed);
    for (uint32_t i = 0; i < n; i++)
        t->layer[i] = (struct dp_sim_layer){.fwd_ns = 1000 + random_below(seed, 9000), .bwd_input_ns = random_below(seed, 9000),
                                            .bwd_weight_ns = random_below(seed, 9000), .opt_ns = random_below(seed, 900),
                                            .state_bytes = 1000 + random_below(seed, 900), .act_bytes = random_below(seed, 90),
                                            .output_bytes = 5000, .params = 100, .nnz = random_below(seed, 100)};
    for (uint32_t d = 0; d < p; d++)
        t->c.speed[d] = random_below(seed, 2) ? 1.0 : 0.25 * (1 + random_below(seed, 8));
    if (random_below(seed, 3) == 0)
        t->c.memory_bytes = 3000ull * n / p + random_below(seed, 20000);
    t->c.inside = (struct dp_sim_tier){.latency_ns = random_below(seed, 900), .bytes_per_s = random_below(seed, 2) ? 1e9 : 0.0};
    for (uint32_t i = 0; i < n; i++)
        t->count[random_below(seed, p)]++;
    assert_int_equal(dp_sim_layout_create(&t->c, &t->layout, &err), 0);
    assert_int_equal(dp_sim_layout_set(&t->c, t->count, p, &t->layout, &err), 0);
}

static void destroy(struct example *t)
{
    free(t->layer);
    free(t->count);
    free(t->answer);
    free(t->c.speed);
    dp_sim_layout_release(&t->layout);
}

/* Layers of each device. */
static void count_layers(const struct example *t, uint32_t *count)
{
    memset(count, 0, t->c.devices * sizeof *count);
    for (uint32_t k = 0; k < t->layout.n_used; k++)
        count[t->layout.used[k]] = t->layout.cut[k + 1] - t->layout.cut[k];
}

static void answers_as_a_running_job(void **state)
{
    (void)state;
    uint32_t same = 0, none = 0;

    for (uint64_t i = 0; i < 300; i++)
        for (size_t k = 0; dp_policy_at(k); k++) {
            const char *name = dp_policy_at(k)->name;
            uint64_t seed = i;
            struct example t;
            struct dp_err err;
            uint32_t count[8], n = 4 + random_below(&seed, 30), p = 1 + random_below(&seed, 8);

            make(&t, &seed, n, p);
            memcpy(t.answer, t.count, p * sizeof *t.answer);
            if (dp_policy_at(k) != &dp_policy_iteration && dp_sim_balance(&t.c, t.layer, name, p, &t.layout, &err) == 0) {
                count_layers(&t, count);
                assert_int_equal(dp_sim_balance_chain(&t.c, t.layer, name, p, t.answer, &err), 0);
                assert_memory_equal(count, t.answer, p * sizeof *count);
                same++;
            } else {
                none++;
            }
            destroy(&t);
        }
    print_message("# %u answers are the same, %u have no layout or are policy iteration's\n", same, none);
    assert_true(same > 4000);
}

static uint64_t iteration_of(struct example *t, const char *policy)
{
    struct dp_sim_stages stages;
    struct dp_sim_out out = {0};
    struct dp_err err;

    if (dp_sim_balance(&t->c, t->layer, policy, t->c.devices, &t->layout, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(dp_sim_stages_create(&t->c, &stages, &err), 0);
    assert_int_equal(dp_sim_stages_fill(&t->c, t->layer, &t->layout, &stages, &err), 0);
    assert_int_equal(dp_sim_iterate(&stages.in, &out, &err), 0);
    dp_sim_stages_release(&stages);
    return out.iteration_ns;
}

static void large_cases(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1500, 100}, {700, 600}, {100000, 10000}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t seed = i, best;
        clock_t begin = clock();
        struct example t;

        make(&t, &seed, sizes[i][0], sizes[i][1]);
        t.c.memory_bytes = 0;
        best = iteration_of(&t, "iteration");
        for (size_t k = 0; dp_policy_at(k); k++)
            if (sizes[i][0] < 100000 || !strstr(dp_policy_at(k)->name, "range")) /* which takes minutes there */
                assert_true(iteration_of(&t, dp_policy_at(k)->name) >= best);
        print_message("# %u layers on %u devices: %.1f s for all answers and their simulations\n", sizes[i][0], sizes[i][1],
                      (double)(clock() - begin) / CLOCKS_PER_SEC);
        destroy(&t);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(answers_as_a_running_job),
    cmocka_unit_test(large_cases),
};
TEST_MAIN("balance_chain", tests)
