/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a report: medians, means per microbatch, resets, a changed stage, the price of it all.
 * The stage is a stand-in with counters that the test sets; metrics.c is the real one. */
#include <math.h>

#include "common/clock.h"
#include "lib/window.h"
#include "tests/unit/unit.h"
#include "worker/train/log/metrics.h"

#define MAX 8

struct dp_stage {
    uint32_t n;
    struct dp_layer layer[MAX];
};

static struct dp_stage stage;

uint32_t dp_stage_n_layers(const struct dp_stage *s)
{
    return s->n;
}

struct dp_layer *dp_stage_layer(struct dp_stage *s, uint32_t i)
{
    return &s->layer[i];
}

size_t dp_stage_bytes(const struct dp_stage *s, uint64_t *act_bytes)
{
    for (uint32_t i = 0; act_bytes && i < s->n; i++)
        act_bytes[i] = 1000 + i;
    return 123456;
}

size_t dp_layer_state_bytes(const struct dp_layer *l)
{
    return 10 * l->index;
}

static void set_stage(uint32_t first, uint32_t n)
{
    memset(&stage, 0, sizeof stage);
    stage.n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct dp_layer *l = &stage.layer[i];

        l->index = first + i;
        l->n_params = 2;
        l->param[0] = (struct dp_param){.rows = 4, .cols = 5, .n = 20, .nnz = 7};
        l->param[1] = (struct dp_param){.rows = 4, .cols = 1, .n = 4, .nnz = 4};
    }
}

static struct dp_step_sample sample_of(uint64_t step, uint64_t epoch, uint64_t wall)
{
    return (struct dp_step_sample){.step = step, .epoch = epoch, .wall_ns = wall, .wait_ns = wall / 10,
                                   .optimizer_ns = 50, .microbatches = 4, .loss = 2.5, .grad_norm = NAN};
}

/* A step in which each layer spent 4 microbatches of (ns, 2 ns, 3 ns). */
static void step(struct dp_metrics *m, uint64_t n, uint64_t epoch, uint64_t wall, uint64_t ns)
{
    struct dp_step_sample s = sample_of(n, epoch, wall);

    for (uint32_t i = 0; i < stage.n; i++) {
        stage.layer[i].fwd_ns = 4 * ns;
        stage.layer[i].bwd_input_ns = 8 * ns;
        stage.layer[i].bwd_weight_ns = 12 * ns;
        stage.layer[i].timed_microbatches = 4;
    }
    dp_metrics_step(m, &s, &stage);
}

static struct dp_metrics *fresh(uint32_t report_ms)
{
    struct dp_err err;
    struct dp_metrics *m = dp_metrics_create(3, report_ms, &err);

    assert_non_null(m);
    return m;
}

/* What is left of a step when layers and optimizer are taken away. */
static void the_rest_of_a_step(void **state)
{
    struct dp_metrics *m = fresh(1000000);
    const struct dp_metrics_rest *rest = dp_metrics_get_rest(m);

    (void)state;
    set_stage(0, 1);
    for (uint64_t n = 1; n <= 3; n++) {
        struct dp_step_sample s = sample_of(n, 1, 10000);

        stage.layer[0] = (struct dp_layer){.fwd_ns = 400, .bwd_input_ns = 300, .bwd_weight_ns = 300, .timed_microbatches = 4};
        s.pipeline = (struct dp_pipeline_times){.data_ns = 3, .border_ns = 220, .receive_ns = 100};
        s.rest_ns = 4;
        s.wait_ns = 8000;
        dp_metrics_step(m, &s, &stage);
    }
    assert_non_null(dp_metrics_window(m, &stage));
    assert_int_equal(rest->message_ns, (220 + 100) / 4);
    assert_int_equal(rest->rest_ns, 7);
    assert_int_equal(rest->lost_ns, 10000 - 8000 - (1000 + 220 + 50 + 7)); /* receiving is part of waiting */
    dp_metrics_destroy(m);
}

/* Steps in which nobody knows when the message came do not count, unless they are most. */
static void messages_are_timed_where_they_were_waited_for(void **state)
{
    struct dp_metrics *m = fresh(1000000);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(0, 1);
    for (uint64_t n = 1; n <= 5; n++) {
        struct dp_step_sample s = sample_of(n, 1, 10000);

        s.pipeline = (struct dp_pipeline_times){.ahead_ns = n > 2 ? 100 * n : 0, .held_ns = n > 3 ? 7 : 0};
        dp_metrics_step(m, &s, &stage);
    }
    r = dp_metrics_window(m, &stage);
    assert_non_null(r);
    assert_int_equal(r->ahead_ns, 400);
    assert_int_equal(r->held_ns, 0);
    dp_metrics_destroy(m);
}

/* Looking at a window does not end it. */
static void a_window_goes_on(void **state)
{
    struct dp_metrics *m = fresh(1000000);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(5, 2);
    assert_null(dp_metrics_window(m, &stage));
    step(m, 1, 9, 100, 10);
    r = dp_metrics_window(m, &stage);
    assert_non_null(r);
    assert_int_equal(r->window_steps, 1);
    step(m, 2, 9, 120, 12);
    step(m, 3, 9, 130, 13);
    r = dp_metrics_window(m, &stage);
    assert_non_null(r);
    assert_int_equal(r->window_steps, 3);
    assert_int_equal(r->step_ns, 120);
    assert_int_equal(r->layer[1].fwd_ns, 12);
    assert_int_equal(dp_metrics_report(m, dp_now_ns(), &stage)->window_steps, 3);
    assert_null(dp_metrics_window(m, &stage));
    dp_metrics_destroy(m);
}

static void a_report_holds_medians(void **state)
{
    struct dp_metrics *m = fresh(0);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(5, 2);
    step(m, 1, 9, 100, 10);
    step(m, 2, 9, 9000, 900); /* an outlier moves no median */
    step(m, 3, 9, 120, 12);
    assert_int_equal(stage.layer[0].fwd_ns, 0); /* read and reset */
    assert_int_equal(stage.layer[0].timed_microbatches, 0);
    assert_true(dp_metrics_is_due(m, dp_now_ns()));
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_int_equal(r->rank, 3);
    assert_int_equal(r->epoch, 9);
    assert_int_equal(r->step, 3);
    assert_int_equal(r->window_steps, 3);
    assert_int_equal(r->step_ns, 120);
    assert_int_equal(r->wait_ns, 12);
    assert_int_equal(r->optimizer_ns, 50);
    assert_int_equal(r->busy_ns, 2 * 24 * 12 + 50);
    assert_true(r->loss == 2.5);
    assert_true(isnan(r->grad_norm));
    assert_int_equal(r->mem_bytes, 123456);
    assert_true(r->rss_bytes > 100000);
    assert_int_equal(r->first_layer, 5);
    assert_int_equal(r->n_layers, 2);
    assert_int_equal(r->layer[1].fwd_ns, 12);
    assert_int_equal(r->layer[1].bwd_input_ns, 24);
    assert_int_equal(r->layer[1].bwd_weight_ns, 36);
    assert_int_equal(r->layer[1].state_bytes, 60);
    assert_int_equal(r->layer[1].act_bytes, 1001);
    assert_int_equal(r->layer[1].params, 24);
    assert_int_equal(r->layer[1].nnz, 11);
    dp_metrics_destroy(m);
}

static void a_report_tells_of_copies(void **state)
{
    struct dp_copies_cost cost = {.n_own = 2, .n_own_whole = 1, .n_held = 3, .n_held_whole = 2, .holder = 4, .held_bytes = 1000,
                                  .step_bytes = 70};
    struct dp_metrics *m = fresh(0);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(5, 2);
    step(m, 1, 9, 100, 10);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_true(!r->copy_layers && !r->copy_whole && !r->copy_held && !r->copy_bytes && !r->copy_step_bytes);
    dp_metrics_set_copies(m, &cost);
    step(m, 2, 9, 100, 10);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_true(r->copy_layers == 2 && r->copy_whole == 1 && r->copy_holder == 4 && r->copy_held == 3);
    assert_true(r->copy_bytes == 1000 && r->copy_step_bytes == 70);
    assert_int_equal(r->mem_bytes, 123456 + 1000);
    cost.n_own = 5; /* of a stage that is another one by now */
    dp_metrics_set_copies(m, &cost);
    step(m, 3, 9, 100, 10);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_true(r->copy_layers == 0 && r->copy_whole == 0);
    cost = (struct dp_copies_cost){.n_own = 2, .holder = DP_COPY_NOWHERE};
    dp_metrics_set_copies(m, &cost);
    step(m, 4, 9, 100, 10);
    assert_int_equal(dp_metrics_report(m, dp_now_ns(), &stage)->copy_layers, 0);
    dp_metrics_destroy(m);
}

static void a_window_ends_with_its_report(void **state)
{
    struct dp_metrics *m = fresh(1000);
    uint64_t now = dp_now_ns();
    const struct dp_msg_report *r;

    (void)state;
    set_stage(0, 1);
    dp_metrics_report(m, now, &stage); /* however long ago it was made */
    step(m, 1, 1, 100, 1);
    assert_false(dp_metrics_is_due(m, now + 900000000u));
    assert_true(dp_metrics_is_due(m, now + 1100000000u));
    dp_metrics_report(m, now + 1100000000u, &stage);
    assert_false(dp_metrics_is_due(m, now + 9000000000u)); /* no step since */
    step(m, 2, 1, 500, 5);
    assert_false(dp_metrics_is_due(m, now + 1200000000u));
    dp_metrics_set_interval(m, 50);
    assert_true(dp_metrics_is_due(m, now + 1200000000u));
    r = dp_metrics_report(m, now + 1200000000u, &stage);
    assert_int_equal(r->window_steps, 1);
    assert_int_equal(r->step_ns, 500);
    dp_metrics_destroy(m);
}

static void the_newest_steps_count(void **state)
{
    struct dp_metrics *m = fresh(0);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(0, 1);
    for (uint64_t i = 0; i < 3 * DP_WINDOW_STEPS; i++)
        step(m, i, 1, i < 2 * DP_WINDOW_STEPS ? 1 : 1000, 1);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_int_equal(r->window_steps, DP_WINDOW_STEPS);
    assert_int_equal(r->step_ns, 1000);
    dp_metrics_destroy(m);
}

static void a_changed_stage_begins_a_new_window(void **state)
{
    struct dp_metrics *m = fresh(0);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(0, 3);
    step(m, 1, 1, 100, 1);
    set_stage(1, 3); /* shifted by a hand-over */
    step(m, 2, 2, 200, 2);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_int_equal(r->window_steps, 1);
    assert_int_equal(r->first_layer, 1);
    assert_int_equal(r->layer[0].fwd_ns, 2);
    step(m, 3, 2, 200, 2);
    step(m, 4, 3, 300, 3); /* same layers, new epoch */
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_int_equal(r->window_steps, 1);
    assert_int_equal(r->step_ns, 300);
    set_stage(0, 0); /* emptied */
    step(m, 5, 4, 400, 4);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_int_equal(r->n_layers, 0);
    assert_int_equal(r->busy_ns, 50);
    dp_metrics_destroy(m);
}

static void reset_forgets(void **state)
{
    struct dp_metrics *m = fresh(0);

    (void)state;
    set_stage(0, 2);
    step(m, 1, 1, 100, 1);
    stage.layer[0].fwd_ns = 77; /* an evaluation */
    dp_metrics_reset(m, &stage);
    assert_int_equal(stage.layer[0].fwd_ns, 0);
    assert_false(dp_metrics_is_due(m, dp_now_ns() + 1000000000u));
    dp_metrics_destroy(m);
}

static void overhead_is_counted(void **state)
{
    struct dp_metrics *m = fresh(0);
    const struct dp_msg_report *r;

    (void)state;
    set_stage(0, MAX);
    for (uint64_t i = 0; i < 20; i++)
        step(m, i, 1, 100, 1);
    dp_metrics_add_overhead(m, 20 * 5000000);
    r = dp_metrics_report(m, dp_now_ns(), &stage);
    assert_true(r->overhead_ns > 5000000);
    assert_true(r->overhead_ns < 10000000); /* 5 ms were added: the rest is microseconds */
    print_message("# overhead with %d layers: %llu us a step\n", MAX,
                  (unsigned long long)(r->overhead_ns - 5000000) / 1000);
    dp_metrics_destroy(m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(messages_are_timed_where_they_were_waited_for),
    cmocka_unit_test(a_window_goes_on),
    cmocka_unit_test(the_rest_of_a_step),
    cmocka_unit_test(a_report_holds_medians),
    cmocka_unit_test(a_report_tells_of_copies),
    cmocka_unit_test(a_window_ends_with_its_report),
    cmocka_unit_test(the_newest_steps_count),
    cmocka_unit_test(a_changed_stage_begins_a_new_window),
    cmocka_unit_test(reset_forgets),
    cmocka_unit_test(overhead_is_counted),
};
TEST_MAIN("metrics", tests)
