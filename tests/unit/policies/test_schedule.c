/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules: every operation once, dependencies can be met, 1F1B keeps its memory bound. */
#include "tests/unit/unit.h"

#include "common/schedule.h"
#include "policies/sim/iteration/order.h"

#define MAX_S 9
#define MAX_M 17

/* Play all stages against each other. returns: false when they wait for each other for ever. */
static bool play(struct dp_op ops[MAX_S][2 * MAX_M], uint32_t s, uint32_t m)
{
    uint32_t at[MAX_S] = {0}, fwd[MAX_S] = {0}, bwd[MAX_S] = {0}, left = s * 2 * m;
    bool moved = true;

    while (left && moved) {
        moved = false;
        for (uint32_t i = 0; i < s; i++) {
            struct dp_op op;
            bool can;

            if (at[i] == 2 * m)
                continue;
            op = ops[i][at[i]];
            if (op.is_backward)
                can = fwd[i] > op.mb && (i + 1 == s || bwd[i + 1] > op.mb);
            else
                can = i == 0 || fwd[i - 1] > op.mb;
            if (!can)
                continue;
            op.is_backward ? bwd[i]++ : fwd[i]++;
            at[i]++;
            left--;
            moved = true;
        }
    }
    return left == 0;
}

static void check(enum dp_schedule_kind kind, uint32_t s, uint32_t m)
{
    struct dp_op ops[MAX_S][2 * MAX_M];

    for (uint32_t i = 0; i < s; i++) {
        uint32_t fwd = 0, bwd = 0, most = 0;

        dp_schedule_fill(kind, i, s, m, ops[i]);
        for (uint32_t k = 0; k < 2 * m; k++) {
            uint32_t *next = ops[i][k].is_backward ? &bwd : &fwd;

            assert_int_equal(ops[i][k].mb, *next); /* both directions in order 0..m-1 */
            ++*next;
            assert_true(fwd >= bwd);
            if (fwd - bwd > most)
                most = fwd - bwd;
        }
        assert_int_equal(fwd, m);
        assert_int_equal(bwd, m);
        assert_int_equal(most, dp_schedule_in_flight(kind, i, s, m));
        if (kind == DP_SCHED_1F1B)
            assert_true(most <= s - i);
    }
    assert_true(play(ops, s, m));
}

static void every_size(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= MAX_S; s++)
        for (uint32_t m = 1; m <= MAX_M; m++) {
            check(DP_SCHED_1F1B, s, m);
            check(DP_SCHED_GPIPE, s, m);
        }
}

static void one_f_one_b_of_two_stages(void **state)
{
    static const struct dp_op want[] = {{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {2, 1}};
    struct dp_op got[6];

    (void)state;
    dp_schedule_fill(DP_SCHED_1F1B, 0, 2, 3, got);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(got[i].mb, want[i].mb);
        assert_int_equal(got[i].is_backward, want[i].is_backward);
    }
}

/* The simulator predicts what the worker does: both have the same lists. */
static void the_simulator_has_the_same_lists(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= MAX_S; s++)
        for (uint32_t m = 1; m <= MAX_M; m++)
            for (int gpipe = 0; gpipe < 2; gpipe++) {
                struct dp_sim_order o;
                struct dp_op mine[2 * MAX_M];

                assert_int_equal(dp_sim_order_create(gpipe ? DP_SIM_GPIPE : DP_SIM_1F1B, s, 1, m, &o, NULL), 0);
                for (uint32_t i = 0; i < s; i++) {
                    dp_schedule_fill(gpipe ? DP_SCHED_GPIPE : DP_SCHED_1F1B, i, s, m, mine);
                    for (uint32_t k = 0; k < 2 * m; k++) {
                        assert_int_equal(o.op[i * 2 * m + k].mb, mine[k].mb);
                        assert_int_equal(o.op[i * 2 * m + k].kind, mine[k].is_backward ? DP_SIM_BACKWARD : DP_SIM_FORWARD);
                    }
                }
                dp_sim_order_release(&o);
            }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_size),
    cmocka_unit_test(the_simulator_has_the_same_lists),
    cmocka_unit_test(one_f_one_b_of_two_stages),
};
TEST_MAIN("schedule", tests)
