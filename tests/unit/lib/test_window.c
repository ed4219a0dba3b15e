/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a report against a slow one that keeps every step and takes medians by counting. */
#include <math.h>

#include "common/clock.h"
#include "lib/window.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#define MAX_STEPS 200
#define MAX_LAYERS 5

/* All steps since the last report, oldest first. */
static struct {
    uint32_t n, first, n_layers;
    struct dp_window_step step[MAX_STEPS];
    struct dp_layer_load load[MAX_STEPS][MAX_LAYERS];
} slow;

static struct dp_window *fresh(uint32_t report_ms)
{
    struct dp_err err;
    struct dp_window *w = dp_window_create(3, report_ms, &err);

    assert_non_null(w);
    memset(&slow, 0, sizeof slow);
    return w;
}

/* Of the newest steps, as many as a window has: one value each. */
struct column {
    uint32_t n;
    uint64_t value[DP_WINDOW_STEPS];
};

static uint32_t first_of_window(void)
{
    return slow.n > DP_WINDOW_STEPS ? slow.n - DP_WINDOW_STEPS : 0;
}

static struct column steps_at(size_t offset)
{
    struct column c = {0};

    for (uint32_t s = first_of_window(); s < slow.n; s++)
        memcpy(&c.value[c.n++], (const char *)&slow.step[s] + offset, sizeof c.value[0]);
    return c;
}

static struct column loads_at(uint32_t layer, size_t offset)
{
    struct column c = {0};

    for (uint32_t s = first_of_window(); s < slow.n; s++)
        memcpy(&c.value[c.n++], (const char *)&slow.load[s][layer] + offset, sizeof c.value[0]);
    return c;
}

/* The value that as many are below as above, or one fewer: the lower one of two. */
static uint64_t counted_median(struct column c)
{
    for (uint32_t i = 0; i < c.n; i++) {
        uint32_t below = 0, equal = 0;

        for (uint32_t j = 0; j < c.n; j++) {
            below += c.value[j] < c.value[i];
            equal += c.value[j] == c.value[i];
        }
        if (below <= (c.n - 1) / 2 && (c.n - 1) / 2 < below + equal)
            return c.value[i];
    }
    return 0;
}

static uint64_t counted_median_known(struct column c)
{
    struct column known = {0};

    for (uint32_t i = 0; i < c.n; i++)
        if (c.value[i])
            known.value[known.n++] = c.value[i];
    return 2 * known.n < c.n ? 0 : counted_median(known);
}

#define STEPS(name) counted_median(steps_at(offsetof(struct dp_window_step, name)))
#define STEPS_KNOWN(name) counted_median_known(steps_at(offsetof(struct dp_window_step, name)))
#define LOADS(i, name) counted_median(loads_at((i), offsetof(struct dp_layer_load, name)))

static void check_report(struct dp_window *w)
{
    const struct dp_msg_report *r = dp_window_report(w);
    const struct dp_window_step *m = dp_window_medians(w), *last = &slow.step[slow.n - 1];

    assert_int_equal(r->rank, 3);
    assert_int_equal(r->window_steps, slow.n - first_of_window());
    assert_int_equal(r->step, last->step);
    assert_int_equal(r->epoch, last->epoch);
    assert_true(r->loss == last->loss);
    assert_true(isnan(r->grad_norm));
    assert_int_equal(r->step_ns, STEPS(wall_ns));
    assert_int_equal(r->wait_ns, STEPS(wait_ns));
    assert_int_equal(r->optimizer_ns, STEPS(optimizer_ns));
    assert_int_equal(r->busy_ns, STEPS(busy_ns));
    assert_int_equal(r->lost_ns, STEPS(lost_ns));
    assert_int_equal(r->ahead_ns, STEPS_KNOWN(ahead_ns));
    assert_int_equal(r->held_ns, STEPS_KNOWN(held_ns));
    assert_int_equal(m->message_ns, STEPS(message_ns));
    assert_int_equal(m->rest_ns, STEPS(rest_ns));
    assert_int_equal(r->first_layer, slow.first);
    assert_int_equal(r->n_layers, slow.n_layers);
    for (uint32_t i = 0; i < slow.n_layers; i++) {
        const struct dp_layer_load *load = &slow.load[slow.n - 1][i];

        assert_int_equal(r->layer[i].fwd_ns, LOADS(i, fwd_ns));
        assert_int_equal(r->layer[i].bwd_input_ns, LOADS(i, bwd_input_ns));
        assert_int_equal(r->layer[i].bwd_weight_ns, LOADS(i, bwd_weight_ns));
        assert_int_equal(r->layer[i].state_bytes, load->state_bytes);
        assert_int_equal(r->layer[i].act_bytes, load->act_bytes);
        assert_int_equal(r->layer[i].params, load->params);
        assert_int_equal(r->layer[i].nnz, load->nnz);
    }
}

/* Few values, so that many are equal; most are known. */
static uint64_t some(uint64_t *seed)
{
    return random_below(seed, 4) ? random_below(seed, 20) : 0;
}

static void take_step(struct dp_window *w, uint64_t *seed, uint64_t number, uint64_t epoch)
{
    struct dp_window_step *s = &slow.step[slow.n];
    struct dp_layer_load *load = slow.load[slow.n++];

    assert_true(slow.n <= MAX_STEPS);
    *s = (struct dp_window_step){.step = number, .epoch = epoch, .wall_ns = some(seed), .wait_ns = some(seed), .optimizer_ns = some(seed),
                                 .busy_ns = some(seed), .lost_ns = some(seed), .ahead_ns = random_below(seed, 2) * some(seed),
                                 .held_ns = some(seed), .message_ns = some(seed), .rest_ns = some(seed), .loss = (double)number / 7,
                                 .grad_norm = NAN};
    for (uint32_t i = 0; i < slow.n_layers; i++)
        load[i] = (struct dp_layer_load){.fwd_ns = some(seed), .bwd_input_ns = some(seed), .bwd_weight_ns = some(seed),
                                         .state_bytes = some(seed), .act_bytes = some(seed), .params = some(seed), .nnz = some(seed)};
    dp_window_add(w, s, slow.first, load, slow.n_layers);
}

/* Layers that change with the epoch: nobody says so to the window. */
static void change_layers(uint64_t *seed)
{
    slow.first = random_below(seed, 3);
    slow.n_layers = random_below(seed, MAX_LAYERS + 1);
    slow.n = 0;
}

/* Runs of random length, reports in between. */
static void medians_are_those_of_a_slow_window(void **state)
{
    uint64_t seed = 14, epoch = 1, number = 0;
    struct dp_window *w = fresh(0);
    uint32_t n_full = 0;

    (void)state;
    for (uint32_t turn = 0; turn < 600; turn++) {
        uint32_t what = random_below(&seed, 30);

        if (what == 0) {
            dp_window_reported(w, dp_now_ns());
            slow.n = 0;
        } else if (what == 1) {
            dp_window_forget(w);
            slow.n = 0;
        } else if (what == 2 || slow.n > MAX_STEPS - 12) {
            change_layers(&seed);
            epoch++;
        }
        for (uint32_t n = 1 + random_below(&seed, 11); n > 0; n--)
            take_step(w, &seed, ++number, epoch);
        n_full += slow.n > DP_WINDOW_STEPS;
        assert_false(dp_window_is_empty(w));
        check_report(w);
        check_report(w); /* looking does not end it */
    }
    assert_in_range(n_full, 50, 550);
    dp_window_destroy(w);
}

/* Steps of one layout beside those of another: the same layers, another epoch. */
static void another_layout_begins_a_new_window(void **state)
{
    struct dp_layer_load load[2] = {{.fwd_ns = 5}, {.fwd_ns = 6}};
    struct dp_window_step s = {.step = 1, .epoch = 1, .wall_ns = 100};
    struct dp_window *w = fresh(0);

    (void)state;
    dp_window_add(w, &s, 0, load, 2);
    s.wall_ns = 200;
    dp_window_add(w, &s, 0, load, 2);
    assert_int_equal(dp_window_report(w)->window_steps, 2);
    s.epoch = 2;
    s.wall_ns = 300;
    dp_window_add(w, &s, 0, load, 2);
    assert_int_equal(dp_window_report(w)->window_steps, 1);
    assert_int_equal(dp_window_report(w)->step_ns, 300);
    dp_window_add(w, &s, 4, load, 2); /* the same epoch, other layers: a caller that counts no epochs */
    assert_int_equal(dp_window_report(w)->window_steps, 1);
    assert_int_equal(dp_window_report(w)->first_layer, 4);
    dp_window_add(w, &s, 4, load, 1);
    assert_int_equal(dp_window_report(w)->window_steps, 1);
    assert_int_equal(dp_window_report(w)->n_layers, 1);
    dp_window_destroy(w);
}

static void a_window_without_steps_reports_none(void **state)
{
    struct dp_layer_load load = {.fwd_ns = 5};
    struct dp_window_step s = {.step = 9, .epoch = 1, .wall_ns = 100, .lost_ns = 3, .message_ns = 4};
    struct dp_window *w = fresh(0);
    const struct dp_msg_report *r = dp_window_report(w);

    (void)state;
    assert_int_equal(r->window_steps, 0);
    dp_window_add(w, &s, 0, &load, 1);
    assert_int_equal(dp_window_report(w)->step_ns, 100);
    dp_window_forget(w);
    r = dp_window_report(w);
    assert_int_equal(r->window_steps, 0);
    assert_int_equal(r->step_ns, 0);
    assert_int_equal(r->lost_ns, 0);
    assert_int_equal(r->n_layers, 0);
    assert_int_equal(dp_window_medians(w)->message_ns, 0);
    dp_window_destroy(w);
    dp_window_destroy(NULL);
}

static void a_report_is_due_after_its_interval(void **state)
{
    struct dp_window_step s = {.step = 1};
    struct dp_window *w = fresh(1000);
    const uint64_t now = dp_now_ns() + 10000 * DP_SECOND_NS; /* however slow this machine is */

    (void)state;
    assert_false(dp_window_is_due(w, now)); /* no step */
    dp_window_add(w, &s, 0, NULL, 0);
    assert_true(dp_window_is_due(w, now));
    dp_window_reported(w, now);
    assert_false(dp_window_is_due(w, now + 9 * DP_SECOND_NS));
    dp_window_add(w, &s, 0, NULL, 0);
    assert_false(dp_window_is_due(w, now + DP_SECOND_NS - 1));
    assert_true(dp_window_is_due(w, now + DP_SECOND_NS));
    dp_window_set_interval(w, 4000000); /* more nanoseconds than fit into 32 bits */
    assert_false(dp_window_is_due(w, now + 4000 * DP_SECOND_NS - 1));
    assert_true(dp_window_is_due(w, now + 4000 * DP_SECOND_NS));
    dp_window_destroy(w);
}

static void overhead_is_a_mean_over_steps(void **state)
{
    struct dp_window_step s = {.step = 1};
    struct dp_window *w = fresh(0);

    (void)state;
    for (int i = 0; i < 100; i++) /* more than the ring has */
        dp_window_add(w, &s, 0, NULL, 0);
    dp_window_add_overhead(w, 600);
    assert_int_equal(dp_window_overhead_ns(w, 400), 10);
    assert_true(dp_window_report(w)->overhead_ns >= 6);
    assert_int_equal(dp_window_overhead_ns(w, 0), 6); /* the report's own costs are told, not kept */
    dp_window_forget(w);
    assert_int_equal(dp_window_overhead_ns(w, 0), 0);
    dp_window_destroy(w);
}

/* As many layers as a model may have. */
static void the_largest_stage_fits(void **state)
{
    static struct dp_layer_load load[DP_MAX_LAYERS];
    struct dp_window_step s = {.step = 1};
    struct dp_window *w = fresh(0);

    (void)state;
    for (uint32_t i = 0; i < DP_MAX_LAYERS; i++)
        load[i].bwd_weight_ns = i + 1;
    for (uint32_t n = 0; n < DP_WINDOW_STEPS + 1; n++)
        dp_window_add(w, &s, 0, load, DP_MAX_LAYERS);
    assert_int_equal(dp_window_report(w)->n_layers, DP_MAX_LAYERS);
    assert_int_equal(dp_window_report(w)->layer[DP_MAX_LAYERS - 1].bwd_weight_ns, DP_MAX_LAYERS);
    dp_window_destroy(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(medians_are_those_of_a_slow_window),
    cmocka_unit_test(another_layout_begins_a_new_window),
    cmocka_unit_test(a_window_without_steps_reports_none),
    cmocka_unit_test(a_report_is_due_after_its_interval),
    cmocka_unit_test(overhead_is_a_mean_over_steps),
    cmocka_unit_test(the_largest_stage_fits),
};
TEST_MAIN("window", tests)
