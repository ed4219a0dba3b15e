/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is at which step and has which layers after a loss: what follows (worker/train/lost/rescue_plan.h). */
#include "tests/unit/unit.h"

#include <string.h>

#include "worker/train/lost/rescue_plan.h"

#define N 4
#define LAYERS 6
#define AT 20 /* the step that was ordered last */

static struct dp_rescue_offer offer[N];
static struct dp_rescue_plan plan;
static struct dp_layout next;

static void give(uint32_t rank, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        dp_layer_set_add(offer[rank].layers, i);
}

/* Worker 3 was lost, and had none; all others have done step AT. */
static void begin(void)
{
    memset(offer, 0, sizeof offer);
    next = (struct dp_layout){.epoch = 2, .n_workers = N, .n_layers = LAYERS, .cut = {0, 1, 3, 6, 6}, .gone = {0, 0, 0, 1}};
    for (uint32_t r = 0; r < N; r++)
        offer[r].standing = (struct dp_standing){.step = AT, .given = AT, .order = {.step = AT, .grad_norm = 3.0}};
    give(0, 0, 2);
    give(1, 2, 4);
    give(2, 4, 6);
}

static void make(void)
{
    dp_rescue_plan_make(offer, &next, &plan);
}

static void layers_go_to_whom_the_layout_says(void **state)
{
    static const uint16_t provider[LAYERS] = {0, 0, 1, 1, 2, 2};

    (void)state;
    begin();
    make();
    assert_true(plan.is_possible && !plan.has_new);
    assert_int_equal(plan.step, AT);
    assert_memory_equal(plan.provider, provider, sizeof provider);
    give(1, 1, 2); /* whoever is to have it, and has it, keeps it */
    make();
    assert_int_equal(plan.provider[1], 1);
}

static void a_layer_that_nobody_has_ends_it(void **state)
{
    (void)state;
    begin();
    memset(offer[1].layers, 0, sizeof offer[1].layers);
    give(1, 3, 4);
    give(3, 2, 3); /* which is not there any more */
    make();
    assert_false(plan.is_possible);
    assert_string_equal(plan.why_not, "layer 2 is lost: no other worker has it, or a whole copy");
    memset(offer[2].layers, 0, sizeof offer[2].layers);
    make();
    assert_string_equal(plan.why_not, "3 layers are lost, layer 2 is the first: no other worker has them, or whole copies");
}

/* It does the step with the order of another one, if it has all gradients of it. */
static void one_is_a_step_behind(void **state)
{
    (void)state;
    begin();
    offer[1].standing.step = AT - 1;
    offer[1].standing.order.step = AT - 1;
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.step, AT);
    assert_float_equal(plan.order.grad_norm, 3.0, 0);
    offer[1].standing.given = AT - 1;
    make();
    assert_false(plan.is_possible);
    assert_string_equal(plan.why_not, "worker 1 has done 19 steps, and others 20");
    offer[1].standing.given = AT;
    offer[1].standing.step = AT - 2;
    make();
    assert_false(plan.is_possible);
}

/* All have given their part, one has the order, and nobody has done the step. */
static void an_order_is_enough(void **state)
{
    (void)state;
    begin();
    for (uint32_t r = 0; r < N; r++) {
        offer[r].standing.step = AT - 1;
        offer[r].standing.order.step = r == 2 ? AT : AT - 1;
    }
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.step, AT);
    offer[2].standing.order.step = AT - 1; /* it never left the leader: the step is made again */
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.step, AT - 1);
}

/* Where a worker that has no layers is does not matter. */
static void whoever_has_none_may_be_anywhere(void **state)
{
    (void)state;
    begin();
    memset(offer[0].layers, 0, sizeof offer[0].layers);
    give(1, 0, 2);
    offer[0].standing = (struct dp_standing){.step = 3};
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.step, AT);
}

static void copy(uint32_t rank, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        dp_layer_set_add(offer[rank].copies, i);
    offer[rank].copies_step = AT;
}

/* Of a worker that was lost with two layers. */
static void a_copy_is_as_good(void **state)
{
    (void)state;
    begin();
    memset(offer[1].layers, 0, sizeof offer[1].layers);
    copy(2, 2, 4);
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.n_copies, 2);
    assert_int_equal(plan.provider[2], 2);
    assert_int_equal(plan.provider[3], 2);
    copy(0, 2, 4); /* an owner to be takes its own */
    copy(1, 2, 3);
    make();
    assert_int_equal(plan.provider[2], 1);
    assert_int_equal(plan.provider[3], 2);
    give(1, 3, 4); /* and layers come before copies */
    next.cut[1] = 4;
    next.cut[2] = 4;
    offer[0].copies_step = AT - 3;
    make();
    assert_int_equal(plan.provider[3], 1);
    assert_int_equal(plan.n_copies, 1);
}

static void a_copy_is_a_step_behind_or_too_old(void **state)
{
    (void)state;
    begin();
    memset(offer[1].layers, 0, sizeof offer[1].layers);
    copy(2, 2, 4);
    offer[2].copies_step = AT - 1;
    offer[2].can_copies_step = true;
    make();
    assert_true(plan.is_possible);
    offer[2].can_copies_step = false;
    make();
    assert_false(plan.is_possible);
    offer[2].can_copies_step = true;
    offer[2].copies_step = AT - 2;
    make();
    assert_false(plan.is_possible);
}

/* One has layers of others alone, and has not pruned them. */
static void copies_count_when_something_is_pruned(void **state)
{
    (void)state;
    begin();
    memset(offer[1].layers, 0, sizeof offer[1].layers);
    copy(1, 2, 4);
    for (uint32_t r = 0; r < N; r++) {
        offer[r].standing.order.flags = DP_ORDER_SCHEME;
        offer[r].standing.order.scheme[DP_SCHEME_PRUNE].is_due = 1;
        offer[r].standing.schemes_done = r == 1 ? 0 : 1u << DP_SCHEME_PRUNE;
    }
    make();
    assert_false(plan.is_possible);
    offer[1].standing.schemes_done = 1u << DP_SCHEME_PRUNE;
    make();
    assert_true(plan.is_possible);
}

static void before_the_first_step(void **state)
{
    (void)state;
    begin();
    for (uint32_t r = 0; r < N; r++)
        offer[r].standing = (struct dp_standing){.given = r == 1};
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.step, 0);
    assert_int_equal(plan.order.step, 0);
}

static void set_scheme(enum dp_scheme_id id)
{
    for (uint32_t r = 0; r < N; r++) {
        offer[r].standing.order.flags = DP_ORDER_SCHEME;
        offer[r].standing.order.scheme[id].is_due = 1;
    }
}

static void what_nobody_has_pruned_is_pruned(void **state)
{
    const uint32_t bit = 1u << DP_SCHEME_PRUNE;

    (void)state;
    begin();
    set_scheme(DP_SCHEME_PRUNE);
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.schemes_missing, bit);
    for (uint32_t r = 0; r < 3; r++)
        offer[r].standing.schemes_done = bit;
    make();
    assert_int_equal(plan.schemes_missing | plan.schemes_catch_up, 0);
    offer[2].standing.schemes_done = 0;
    make();
    assert_false(plan.is_possible);
    assert_string_equal(plan.why_not, "prune was under way at step 20: some layers are changed, and others not");
}

static void what_some_have_frozen_the_others_freeze(void **state)
{
    const uint32_t bit = 1u << DP_SCHEME_FREEZE;

    (void)state;
    begin();
    set_scheme(DP_SCHEME_FREEZE);
    offer[0].standing.schemes_done = offer[0].standing.schemes_told = bit;
    make();
    assert_true(plan.is_possible);
    assert_int_equal(plan.schemes_catch_up, bit);
    assert_int_equal(plan.schemes_missing, 0);
    assert_int_equal(plan.schemes_told, bit);
}

static void a_checkpoint_counts_and_an_evaluation_that_was_told(void **state)
{
    (void)state;
    begin();
    offer[1].standing.done = DP_ORDER_SAVE | DP_ORDER_EVAL;
    make();
    assert_int_equal(plan.done, DP_ORDER_SAVE);
    offer[0].standing.told = DP_ORDER_EVAL;
    make();
    assert_int_equal(plan.done, DP_ORDER_SAVE | DP_ORDER_EVAL);
    offer[0].standing.order.step = AT - 1; /* of a boundary before */
    offer[1].standing.order.step = AT - 1;
    make();
    assert_int_equal(plan.done, 0);
}

static void a_newcomer_has_nothing(void **state)
{
    (void)state;
    begin();
    offer[2].is_new = true;
    make();
    assert_false(plan.is_possible); /* its layers do not count */
    give(1, 4, 6);
    make();
    assert_true(plan.is_possible && plan.has_new);
    offer[2].is_new = false;
    offer[0].is_new = true;
    give(1, 0, 2);
    make();
    assert_false(plan.is_possible);
    assert_string_equal(plan.why_not, "worker 0, which leads now, has only just come");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_go_to_whom_the_layout_says),
        cmocka_unit_test(a_layer_that_nobody_has_ends_it),
        cmocka_unit_test(one_is_a_step_behind),
        cmocka_unit_test(an_order_is_enough),
        cmocka_unit_test(whoever_has_none_may_be_anywhere),
        cmocka_unit_test(a_copy_is_as_good),
        cmocka_unit_test(a_copy_is_a_step_behind_or_too_old),
        cmocka_unit_test(copies_count_when_something_is_pruned),
        cmocka_unit_test(before_the_first_step),
        cmocka_unit_test(what_nobody_has_pruned_is_pruned),
        cmocka_unit_test(what_some_have_frozen_the_others_freeze),
        cmocka_unit_test(a_checkpoint_counts_and_an_evaluation_that_was_told),
        cmocka_unit_test(a_newcomer_has_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
