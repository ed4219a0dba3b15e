/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules: every operation once, dependencies can be met, 1F1B keeps its memory bound. */
#include "tests/unit/unit.h"

#include <stdio.h>

#include "common/schedule/schedule.h"
#include "worker/step/pipeline.h"

#define MAX_S 9
#define MAX_M 17

/* Play all stages against each other. returns: false when they wait for each other for ever. */
static bool play(struct dp_action actions[MAX_S][2 * MAX_M], uint32_t s, uint32_t m)
{
    uint32_t at[MAX_S] = {0}, fwd[MAX_S] = {0}, bwd[MAX_S] = {0}, left = s * 2 * m;
    bool moved = true;

    while (left && moved) {
        moved = false;
        for (uint32_t i = 0; i < s; i++) {
            struct dp_action action;
            bool can;

            if (at[i] == 2 * m)
                continue;
            action = actions[i][at[i]];
            if (action.kind == DP_ACTION_BACKWARD)
                can = fwd[i] > action.mb && (i + 1 == s || bwd[i + 1] > action.mb);
            else
                can = i == 0 || fwd[i - 1] > action.mb;
            if (!can)
                continue;
            action.kind == DP_ACTION_BACKWARD ? bwd[i]++ : fwd[i]++;
            at[i]++;
            left--;
            moved = true;
        }
    }
    return left == 0;
}

static void check(enum dp_schedule_kind kind, uint32_t s, uint32_t m)
{
    struct dp_action actions[MAX_S][2 * MAX_M];

    for (uint32_t i = 0; i < s; i++) {
        uint32_t fwd = 0, bwd = 0, most = 0;

        dp_schedule_fill(kind, i, s, m, actions[i]);
        for (uint32_t k = 0; k < 2 * m; k++) {
            uint32_t *next = actions[i][k].kind == DP_ACTION_BACKWARD ? &bwd : &fwd;

            assert_int_equal(actions[i][k].mb, *next); /* both directions in order 0..m-1 */
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
    assert_true(play(actions, s, m));
}

static void every_size(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= MAX_S; s++)
        for (uint32_t m = 1; m <= MAX_M; m++) {
            for (int k = 0; k < DP_N_SCHEDULES_TRAINED; k++)
                check((enum dp_schedule_kind)k, s, m);
        }
}

static void one_f_one_b_of_two_stages(void **state)
{
    static const struct dp_action want[] = {{0, 0, DP_ACTION_FORWARD},  {1, 0, DP_ACTION_FORWARD}, {0, 0, DP_ACTION_BACKWARD},
                                       {2, 0, DP_ACTION_FORWARD}, {1, 0, DP_ACTION_BACKWARD}, {2, 0, DP_ACTION_BACKWARD}};
    struct dp_action got[6];

    (void)state;
    dp_schedule_fill(DP_SCHED_1F1B, 0, 2, 3, got);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(got[i].mb, want[i].mb);
        assert_int_equal(got[i].kind, want[i].kind);
    }
}

/* Numbers are in messages, in journals and in policies that sites have compiled. */
static void numbers_stay(void **state)
{
    (void)state;
    assert_int_equal(DP_SCHED_1F1B, 0);
    assert_int_equal(DP_SCHED_GPIPE, 1);
    assert_true(DP_N_SCHEDULES_TRAINED >= 2);
}

/* A worker has one part of the model and runs whole backwards; a policy is told of 1F1B or GPipe by what is kept. */
static void workers_know_their_own(void **state)
{
    enum dp_schedule_kind kind;
    struct dp_err err;

    (void)state;
    for (unsigned k = 0; k < DP_N_SCHEDULES; k++) {
        const struct dp_schedule *s = &dp_schedules[k];

        assert_int_equal(s->is_trained, dp_schedule_is_trained(k));
        assert_int_equal(dp_schedule_find(s->name, &kind, &err), 0);
        assert_int_equal(kind, k);
        assert_int_equal(dp_schedule_find_trained(s->name, &kind, &err), s->is_trained ? 0 : -1);
        if (s->is_trained)
            assert_false(s->rule->is_split || s->rule->has_chunks);
        assert_string_equal(dp_schedule_name(k), s->name);
    }
    assert_false(dp_schedule_is_trained(DP_N_SCHEDULES_TRAINED));
    assert_false(dp_schedule_is_trained(255));
    assert_string_equal(dp_schedule_name(255), "?");
    assert_int_equal(dp_schedule_find_trained("zb-h1", &kind, &err), -1);
    assert_string_equal(err.text, "only the simulator knows schedule 'zb-h1'; workers know 1f1b, gpipe");
    assert_int_equal(dp_schedule_find_trained("1F1B", &kind, &err), -1);
    assert_string_equal(err.text, "unknown schedule '1F1B'; workers know 1f1b, gpipe");
}

/* Whatever filled the configuration: a name that workers do not know is not run as another schedule. */
static void the_pipeline_refuses_others(void **state)
{
    struct dp_train_config c;
    struct dp_err err;

    (void)state;
    assert_int_equal(dp_train_config_load(NULL, 0, NULL, &c, &err), 0);
    snprintf(c.pipeline.schedule, sizeof c.pipeline.schedule, "interleaved");
    assert_null(dp_pipeline_create(&c, &(struct dp_device_wait){0}, 0, NULL, &err));
    assert_string_equal(err.text, "pipeline.schedule: only the simulator knows schedule 'interleaved'; workers know 1f1b, gpipe");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_size),
    cmocka_unit_test(numbers_stay),
    cmocka_unit_test(workers_know_their_own),
    cmocka_unit_test(the_pipeline_refuses_others),
    cmocka_unit_test(one_f_one_b_of_two_stages),
};
TEST_MAIN("schedule", tests)
