/* SPDX-License-Identifier: BSD-3-Clause */
/* What rank 0 orders, and what two workers make of their parts of a step. */
#include <math.h>

#include "tests/unit/worker/procs.h"
#include "worker/step/step_sync.h"

static struct dp_train_config config_of(void)
{
    struct dp_train_config c = {
        .model = {.context = 4},
        .train = {.steps = 100, .batch = 2, .microbatches = 3},
        .data = {.eval_every = 20},
        .prune = {.begin = 10, .end = 30, .every = 10, .final = 0.5},
        .freeze = {.every = 1},
        .checkpoint = {.dir = "x", .every = 25},
    };

    return c;
}

static struct dp_step_order decide(const struct dp_train_config *c, uint64_t step, uint32_t requests, uint64_t migration)
{
    struct dp_step_order_input in = {.requests = requests, .migration = migration};
    struct dp_step_order o = {.step = step, .loss = 1, .grad_norm = 1};

    dp_step_order_decide(c, step, &in, &o);
    return o;
}

static void what_is_due_is_ordered(void **state)
{
    struct dp_train_config c = config_of();
    struct dp_step_order o;

    (void)state;
    assert_int_equal(decide(&c, 1, 0, 0).flags, 0);
    assert_int_equal(decide(&c, 10, 0, 0).flags, 0); /* initial sparsity 0: nothing to prune yet */
    o = decide(&c, 30, 0, 0);
    assert_int_equal(o.flags, DP_ORDER_SCHEME);
    assert_true(o.scheme[DP_SCHEME_PRUNE].is_due && o.scheme[DP_SCHEME_PRUNE].target == 0.5);
    assert_int_equal(decide(&c, 40, 0, 0).flags, DP_ORDER_EVAL);
    assert_int_equal(decide(&c, 75, 0, 0).flags, DP_ORDER_SAVE);
    o = decide(&c, 7, 0, 42);
    assert_int_equal(o.flags, DP_ORDER_HANDOVER);
    assert_int_equal(o.migration, 42);
    o = decide(&c, 100, 0, 42);
    assert_int_equal(o.flags, DP_ORDER_EVAL | DP_ORDER_SAVE | DP_ORDER_STOP);
    assert_int_equal(o.reason, DP_STOP_COMPLETED);
}

static void requests_are_granted(void **state)
{
    struct dp_train_config c = config_of();
    struct dp_step_order o;

    (void)state;
    assert_int_equal(decide(&c, 7, DP_REQUEST_SAVE, 0).flags, DP_ORDER_SAVE);
    assert_int_equal(decide(&c, 7, DP_REQUEST_COPIES, 0).flags, DP_ORDER_COPIES);
    assert_int_equal(decide(&c, 7, DP_REQUEST_COPIES | DP_REQUEST_STOP, 0).flags, DP_ORDER_SAVE | DP_ORDER_STOP);
    o = decide(&c, 7, DP_REQUEST_STOP, 42);
    assert_int_equal(o.flags, DP_ORDER_SAVE | DP_ORDER_STOP);
    assert_int_equal(o.reason, DP_STOP_SIGNAL);
    o = decide(&c, 7, DP_REQUEST_END, 42);
    assert_int_equal(o.flags, DP_ORDER_SAVE | DP_ORDER_STOP);
    assert_int_equal(o.reason, DP_STOP_TIME);
    assert_int_equal(decide(&c, 7, DP_REQUEST_END | DP_REQUEST_STOP, 0).reason, DP_STOP_SIGNAL);
    assert_int_equal(decide(&c, 100, DP_REQUEST_END, 0).reason, DP_STOP_COMPLETED);
    c.checkpoint.dir[0] = '\0';
    assert_int_equal(decide(&c, 7, DP_REQUEST_SAVE, 0).flags, 0);
    assert_int_equal(decide(&c, 7, DP_REQUEST_STOP, 0).flags, DP_ORDER_STOP);
}

static struct dp_step_order copying(uint64_t step, uint32_t requests, uint64_t migration, const struct dp_step_shadow *shadow)
{
    struct dp_train_config c = config_of();
    struct dp_step_order_input in = {.requests = requests, .migration = migration, .shadow = *shadow};
    struct dp_step_order o = {.step = step, .loss = 1, .grad_norm = 1};

    dp_step_order_decide(&c, step, &in, &o);
    return o;
}

#define ORDERS(o, want_flags, want_shadow)                                                         \
    do {                                                                                           \
        struct dp_step_order is = o;                                                               \
        assert_int_equal(is.flags, want_flags);                                                    \
        assert_int_equal(is.shadow, want_shadow);                                                  \
    } while (0)

/* Of a hand-over that may be copied for: announced, begun, gone on with, done. Pruning is due at step 20. */
static void layers_are_copied_before(void **state)
{
    struct dp_step_shadow s = {.is_allowed = true};
    const uint32_t more = DP_REQUEST_SHADOW, no = DP_REQUEST_UNSHADOW, late = DP_REQUEST_UNPREPARED;

    (void)state;
    ORDERS(copying(7, 0, 0, &s), 0, DP_SHADOW_NONE);
    ORDERS(copying(7, 0, 42, &s), 0, DP_SHADOW_ANNOUNCE);
    assert_int_equal(copying(7, 0, 42, &s).migration, 42);
    s.migration = 42;
    ORDERS(copying(8, 0, 42, &s), DP_ORDER_HANDOVER, DP_SHADOW_NONE); /* nobody has much to send */
    ORDERS(copying(8, more, 42, &s), 0, DP_SHADOW_BEGIN);
    ORDERS(copying(8, more | late, 42, &s), 0, DP_SHADOW_ANNOUNCE);
    ORDERS(copying(20, more, 42, &s), DP_ORDER_SCHEME | DP_ORDER_EVAL, DP_SHADOW_BEGIN); /* behind what changes layers there */
    s.n_waits = DP_SHADOW_WAITS;
    ORDERS(copying(8, more | late, 42, &s), DP_ORDER_HANDOVER, DP_SHADOW_NONE);
    s.is_copying = true;
    ORDERS(copying(9, more, 42, &s), 0, DP_SHADOW_GO_ON);
    ORDERS(copying(25, more, 42, &s), DP_ORDER_SAVE, DP_SHADOW_GO_ON);
    ORDERS(copying(9, 0, 42, &s), DP_ORDER_HANDOVER, DP_SHADOW_NONE);
    ORDERS(copying(9, more | no, 42, &s), DP_ORDER_HANDOVER, DP_SHADOW_DROP);
    ORDERS(copying(9, more, 0, &s), 0, DP_SHADOW_DROP);  /* aborted */
    ORDERS(copying(9, more, 43, &s), 0, DP_SHADOW_DROP); /* and there is another one */
    ORDERS(copying(20, more, 42, &s), DP_ORDER_SCHEME | DP_ORDER_EVAL, DP_SHADOW_GO_ON);
    ORDERS(copying(20, 0, 42, &s), DP_ORDER_SCHEME | DP_ORDER_EVAL | DP_ORDER_HANDOVER, DP_SHADOW_NONE);
    ORDERS(copying(20, more | no, 42, &s), DP_ORDER_SCHEME | DP_ORDER_EVAL | DP_ORDER_HANDOVER, DP_SHADOW_DROP);
    ORDERS(copying(9, more | DP_REQUEST_STOP, 42, &s), DP_ORDER_SAVE | DP_ORDER_STOP, DP_SHADOW_DROP);
    ORDERS(copying(100, more, 42, &s), DP_ORDER_EVAL | DP_ORDER_SAVE | DP_ORDER_STOP, DP_SHADOW_DROP);
    ORDERS(copying(9, more | late, 42, &(struct dp_step_shadow){0}), DP_ORDER_HANDOVER, DP_SHADOW_NONE);
}

static void a_run_that_diverged_only_stops(void **state)
{
    struct dp_train_config c = config_of();
    struct dp_step_order o = {.step = 100, .loss = NAN};
    struct dp_step_order_input in = {.requests = DP_REQUEST_SAVE};

    (void)state;
    dp_step_order_decide(&c, 100, &in, &o);
    assert_int_equal(o.flags, DP_ORDER_STOP);
    assert_int_equal(o.reason, DP_STOP_DIVERGED);
}

/* Layers with squares that add up differently in another order; worker 1 owns nothing. */
static int body(struct dp_transport *t, uint32_t rank)
{
    static const double squares[3][2] = {{1e16, 1}, {0}, {1, 1}}, losses[3] = {1, 2, 3};
    struct dp_layout layout = {.n_workers = 3, .n_layers = 4, .cut = {0, 2, 2, 4}};
    struct dp_train_config c = config_of();
    struct dp_step_part part = {.requests = rank == 1 ? DP_REQUEST_SAVE : 0, .squares = squares[rank], .losses = losses};
    struct dp_err err = {0};
    struct dp_step_order o;
    struct dp_collectives s;

    dp_collectives_init(&s, t, &layout, rank);
    if (dp_step_sync(&s, &c, 7, &part, &(struct dp_reached){0}, 0, &(struct dp_step_shadow){0}, &o, &err) < 0)
        return 1;
    if (o.step != 7 || o.flags != DP_ORDER_SAVE || o.loss != 6.0 / 24 || o.grad_norm != sqrt(((1e16 + 1) + 1) + 1))
        return 2;
    /* A worker that is at another step does not follow. */
    if (dp_step_sync(&s, &c, rank == 2 ? 9 : 8, &part, &(struct dp_reached){0}, 0, &(struct dp_step_shadow){0}, &o, &err) < 0)
        return rank == 2 && err.code == DP_EPROTO ? 0 : 3;
    return rank == 2 ? 4 : 0;
}

static void sums_in_layer_order(void **state)
{
    (void)state;
    procs_run(3, (procs_body_fn *[]){body, body, body}, (int[]){0, 0, 0}, false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_due_is_ordered),
    cmocka_unit_test(requests_are_granted),
    cmocka_unit_test(layers_are_copied_before),
        cmocka_unit_test(a_run_that_diverged_only_stops),
    cmocka_unit_test(sums_in_layer_order),
};
TEST_MAIN("step_sync", tests)
