/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer dropout: how often a block is left out, that the same ones are wherever they lie and in whatever order microbatches come,
 * and that a block which ran for nobody has no gradient. */
#include "tests/unit/worker/staged_model.h"

#include <math.h>

#include "worker/model/model.h"

static struct dp_train_config drop_config(double rate)
{
    struct dp_train_config c = tiny_config();

    c.model.blocks = 4;
    c.drop.rate = rate;
    return c;
}

/* Of 40000 draws: five standard deviations are 0.0125 at most. The draws are the same ones every time. */
static void deeper_blocks_are_left_out_more_often(void **state)
{
    struct dp_train_config c = drop_config(0.6);
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_backend *be = cpu();
    dp_layer_runs_fn *runs = dp_schemes_runs(&c);
    uint32_t both = 0;

    (void)state;
    assert_non_null(runs);
    for (uint32_t i = 0; i < dp_model_layers(&c); i++) {
        struct dp_layer *l = layer_at(&c, i, be, &tune), *next = layer_at(&c, i ? i - 1 : 1, be, &tune);
        double left_out = 0, rate = l->kind == DP_LAYER_BLOCK ? 0.6 * i / 4 : 0;

        for (uint64_t step = 0; step < 10000; step++)
            for (uint32_t mb = 0; mb < 4; mb++) {
                left_out += !runs(l, step, mb);
                both += i == 4 && !runs(l, step, mb) && !runs(next, step, mb);
            }
        left_out /= 40000;
        if (fabs(left_out - rate) > (rate > 0 ? 0.0125 : 0))
            fail_msg("layer %u: left out for %g of the microbatches, not %g", i, left_out, rate);
        dp_layer_destroy(l);
        dp_layer_destroy(next);
    }
    assert_true(fabs(both / 40000.0 - 0.6 * 0.45) < 0.0125); /* each by itself */
    c.drop.rate = 0;
    assert_null(dp_schemes_runs(&c));
    dp_backend_destroy(be);
}

/* Wherever the layer is, and whatever else it has drawn. */
static void a_draw_is_of_layer_step_and_microbatch(void **state)
{
    struct dp_train_config c = drop_config(0.5), other = drop_config(0.5);
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_backend *be = cpu();
    struct dp_layer *a = layer_at(&c, 4, be, &tune), *b, *seed;
    dp_layer_runs_fn *runs = dp_schemes_runs(&c);
    uint32_t differ[3] = {0};
    uint8_t *data;
    size_t n;

    (void)state;
    a->rng_counter = 77;
    assert_int_equal(dp_layer_write(a, &data, &n, NULL), 0);
    b = dp_layer_read(&c, be, &tune, data, n, NULL); /* on another worker */
    assert_non_null(b);
    other.train.seed++;
    seed = layer_at(&other, 4, be, &tune);
    for (uint64_t step = 0; step < 500; step++)
        for (uint32_t mb = 0; mb < 2; mb++) {
            assert_int_equal(runs(a, step, mb), runs(b, step, mb));
            differ[0] += runs(a, step, mb) != runs(a, step, mb + 2);
            differ[1] += runs(a, step, mb) != runs(a, step + 1, mb);
            differ[2] += runs(a, step, mb) != runs(seed, step, mb);
        }
    for (int i = 0; i < 3; i++)
        assert_in_range(differ[i], 400, 600); /* of 1000 */
    free(data);
    dp_layer_destroy(a);
    dp_layer_destroy(b);
    dp_layer_destroy(seed);
    dp_backend_destroy(be);
}

#define STEPS 14

/* 14 steps, pruned at 5 and cut anew there and at 9. */
static void train(const uint32_t *cut, uint32_t n_stages, const uint32_t *cut2, uint32_t n2, bool gpipe, double crossover, double *loss,
                  uint8_t **bytes, size_t *n_bytes)
{
    struct dp_train_config c = drop_config(0.7);
    struct model m = model_open(&c, cut, n_stages, crossover);

    model_settle(&m);
    m.all_forwards_first = gpipe;
    for (uint64_t step = 0; step < STEPS; step++) {
        if (step == 5)
            model_prune(&m, 0.6, cut2, n2);
        if (step == 9)
            model_cut(&m, cut, n_stages);
        loss[step] = model_step(&m, step);
    }
    model_bytes(&m, bytes, n_bytes);
    model_close(&m);
}

static void cuts_change_nothing(void **state)
{
    static const uint32_t whole[] = {0, 6}, three[] = {0, 1, 3, 6}, six[] = {0, 1, 2, 3, 4, 5, 6};

    (void)state;
    for (int way = 0; way < 2; way++) {
        double a[STEPS], b[STEPS];
        uint8_t *x, *y;
        size_t n, k;

        train(whole, 1, whole, 1, false, way ? 0.3 : 1.0, a, &x, &n);
        train(three, 3, six, 6, true, way ? 0.3 : 1.0, b, &y, &k);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(n, k);
        assert_memory_equal(x, y, n);
        free(y);
        train(six, 6, whole, 1, false, way ? 0.3 : 1.0, b, &y, &k);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(x, y, n);
        free(y);
        free(x);
    }
}

/* The first step from 2 on in which it runs for nobody. */
static uint64_t idle_step(const struct dp_layer *l, dp_layer_runs_fn *runs)
{
    for (uint64_t step = 2; step < 100; step++)
        if (!runs(l, step, 0) && !runs(l, step, 1) && (runs(l, step - 1, 0) || runs(l, step - 1, 1)))
            return step;
    fail_msg("layer %u always runs", l->index);
    return 0;
}

/* Its matrices have the gradients of an earlier step in their memory, dense or sparse: they do not count. */
static void a_block_that_ran_for_nobody_has_no_gradient(void **state)
{
    const uint32_t cut[] = {0, 6};

    (void)state;
    for (int is_pruned = 0; is_pruned < 3; is_pruned++) { /* dense, bitmaps, sparse */
        struct dp_train_config c = drop_config(0.5);
        struct model m = model_open(&c, cut, 1, is_pruned == 2 ? 0.3 : 1.0);
        dp_layer_runs_fn *runs = dp_schemes_runs(&c);
        double squares[6];
        struct dp_layer *l;
        uint64_t idle;

        model_settle(&m);
        if (is_pruned)
            model_prune(&m, 0.6, cut, 1);
        l = model_layer(&m, 4);
        idle = idle_step(l, runs);
        for (uint64_t step = 0; step < idle; step++) {
            model_gradients(&m, step);
            model_squares(&m, squares);
            assert_true((squares[4] > 0) == (runs(l, step, 0) || runs(l, step, 1)));
            model_optimize(&m, step, squares);
        }
        for (uint32_t j = 0; j < l->n_params; j++) /* what a stale gradient would move, and weight decay does not */
            for (int64_t k = 0; k < l->param[j].n; k++)
                l->param[j].m[k] = l->param[j].v[k] = 0;
        model_gradients(&m, idle);
        model_squares(&m, squares);
        assert_true(squares[4] == 0 && squares[5] > 0 && squares[0] > 0);
        model_optimize(&m, idle, squares);
        for (uint32_t j = 0; j < l->n_params; j++)
            for (int64_t k = 0; k < l->param[j].n; k++)
                assert_true(l->param[j].m[k] == 0 && l->param[j].v[k] == 0);
        model_gradients(&m, idle + 1); /* and the next gradient begins from zero */
        model_squares(&m, squares);
        assert_true((squares[4] > 0) == (runs(l, idle + 1, 0) || runs(l, idle + 1, 1)));
        assert_int_equal(l->timed_microbatches, 2 * (idle + 2)); /* left out or not */
        model_close(&m);
    }
}

static void evaluations_run_all(void **state)
{
    const uint32_t cut[] = {0, 3, 6};
    struct dp_train_config c = drop_config(0.9), all = drop_config(0);
    struct model m = model_open(&c, cut, 2, 1.0), same = model_open(&all, cut, 2, 1.0);
    uint32_t differ = 0;

    (void)state;
    model_settle(&m);
    model_settle(&same);
    for (uint32_t i = 0; i < 6; i++) {
        shake(model_layer(&m, i), i + 1);
        shake(model_layer(&same, i), i + 1);
    }
    for (uint64_t step = 0; step < 4; step++) {
        double a = model_gradients(&m, step), b = model_gradients(&same, step);

        differ += a != b;
        for (uint32_t mb = 0; mb < 2; mb++)
            assert_true(model_forward(&m, step, mb, false) == model_forward(&same, step, mb, false));
    }
    assert_true(differ > 0);
    model_close(&m);
    model_close(&same);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(deeper_blocks_are_left_out_more_often),
    cmocka_unit_test(a_draw_is_of_layer_step_and_microbatch),
    cmocka_unit_test(cuts_change_nothing),
    cmocka_unit_test(a_block_that_ran_for_nobody_has_no_gradient),
    cmocka_unit_test(evaluations_run_all),
};
TEST_MAIN("drop", tests)
