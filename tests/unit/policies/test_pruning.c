/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads to come: what a run's own history says about them, against what a run measured later. */
#include "policies/decide/pruning.h"

#include <math.h>

#include "policies/bench/recorded_loads.h"
#include "tests/unit/unit.h"

#define LAYERS 10
#define BLOCK 198272

/* Embedding, 8 blocks whose densities differ as they do in a run, head. */
static void loads_at(double density, struct dp_layer_load l[LAYERS])
{
    uint64_t ns = (uint64_t)(recorded_ms(density) * 1e6 / 8);

    l[0] = (struct dp_layer_load){20000, 0, 20000, 787768, 0, 49152, 49152};
    l[LAYERS - 1] = (struct dp_layer_load){470000, 350000, 350000, 529720, 790528, 33024, 33024};
    for (int i = 1; i < LAYERS - 1; i++) {
        double uneven = density < 1.0 ? 0.02 * (i - 4.5) : 0.0;

        l[i] = (struct dp_layer_load){ns / 3, ns / 3, ns / 3, 3173688, 2637824, BLOCK,
                                      (uint64_t)(BLOCK * density * (1.0 + uneven))};
    }
}

static double blocks_ms(const struct dp_layer_load l[LAYERS])
{
    uint64_t ns = 0;

    for (int i = 1; i < LAYERS - 1; i++)
        ns += l[i].fwd_ns + l[i].bwd_input_ns + l[i].bwd_weight_ns;
    return (double)ns / 1e6;
}

static void learn(struct dp_prune_trend *t, int level)
{
    struct dp_layer_load l[LAYERS];

    loads_at(recorded[level].density, l);
    for (int i = 0; i < 3; i++)
        dp_prune_learn(t, l, LAYERS);
}

/* From every density on, the time at the end is foreseen. */
static void the_end_is_foreseen(void **state)
{
    double end = recorded[RECORDED_LAST].ms, final = 1.0 - recorded[RECORDED_LAST].density;
    struct dp_layer_load now[LAYERS], then[LAYERS];
    struct dp_prune_trend t = {0};

    (void)state;
    for (int i = 0; i < RECORDED_LAST; i++) {
        double ms;

        learn(&t, i);
        loads_at(recorded[i].density, now);
        dp_loads_at_sparsity(now, NULL, dp_prune_slope(&t), LAYERS, final, then, NULL);
        ms = blocks_ms(then);
        print_message("# at density %.3f (%.1f ms): %.1f ms foreseen, %.1f ms came\n", recorded[i].density,
                      recorded[i].ms, ms, end);
        assert_true(fabs(ms - end) < 0.25 * end);
        assert_true(then[0].fwd_ns == now[0].fwd_ns && then[9].nnz == now[9].nnz);
    }
}

static void dense_times_give_no_slope(void **state)
{
    struct dp_prune_trend t = {0};

    (void)state;
    learn(&t, 0);
    learn(&t, 1);
    assert_true(dp_prune_slope(&t) == 0.0);
    learn(&t, 4);
    assert_true(dp_prune_slope(&t) > 0.0);
}

/* Pruning at every step makes no endless history, and keeps what is needed. */
static void a_long_history_stays_bounded(void **state)
{
    struct dp_prune_trend t = {0};
    struct dp_layer_load l[LAYERS];

    (void)state;
    for (double density = 1.0; density > 0.11; density *= 0.995) {
        loads_at(density, l);
        dp_prune_learn(&t, l, LAYERS);
    }
    assert_true(t.n <= DP_PRUNE_LEVELS && t.level[0].nnz == 8.0 * BLOCK);
    assert_true(dp_prune_slope(&t) > 0.0);
}

/* A frozen block is fast, and not because of its nonzeros: the dense time stays what it was. */
static void nothing_is_learnt_of_frozen_layers(void **state)
{
    struct dp_prune_trend t = {0}, before;
    struct dp_layer_load l[LAYERS], then[LAYERS];

    (void)state;
    learn(&t, 0);
    before = t;
    loads_at(1.0, l);
    l[1].bwd_input_ns = l[1].bwd_weight_ns = l[1].act_bytes = 0;
    dp_prune_learn(&t, l, LAYERS);
    assert_memory_equal(&t, &before, sizeof t);
    /* and what one would save is its own part, not that of a block that learns */
    dp_loads_at_sparsity(l, NULL, 1e6, LAYERS, 0.5, then, NULL);
    assert_float_equal((double)then[1].fwd_ns / (double)l[1].fwd_ns, 1.0 - DP_PRUNABLE_TIME * 0.5, 1e-3);
}

/* Nothing known: a part of the time goes with the nonzeros. */
static void without_history_a_part_is_proportional(void **state)
{
    struct dp_layer_load now[LAYERS], then[LAYERS];
    uint64_t opt[LAYERS] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, opt_then[LAYERS];

    (void)state;
    loads_at(1.0, now);
    dp_loads_at_sparsity(now, opt, 0.0, LAYERS, 0.9, then, opt_then);
    assert_true(fabs(blocks_ms(then) / blocks_ms(now) - (1.0 - DP_PRUNABLE_TIME * 0.9)) < 1e-3);
    assert_int_equal(then[1].nnz, (BLOCK + 5) / 10);
    assert_int_equal(opt_then[1], 1);
    assert_int_equal(opt_then[0], 10);
    loads_at(0.1076, now); /* denser than now: nothing changes */
    dp_loads_at_sparsity(now, NULL, 0.0, LAYERS, 0.5, then, NULL);
    assert_memory_equal(now, then, sizeof now);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_end_is_foreseen),
    cmocka_unit_test(dense_times_give_no_slope),
    cmocka_unit_test(a_long_history_stays_bounded),
    cmocka_unit_test(nothing_is_learnt_of_frozen_layers),
    cmocka_unit_test(without_history_a_part_is_proportional),
};
TEST_MAIN("pruning", tests)
