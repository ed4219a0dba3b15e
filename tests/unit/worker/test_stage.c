/* SPDX-License-Identifier: BSD-3-Clause */
/* The model trains right, and the same, however it is cut into stages: gradients against differences of
 * the loss; losses and layers bit for bit over cuts, orders of microbatches, pruning and layers that
 * move as bytes. */
#include "tests/unit/worker/staged_model.h"

#include <math.h>

#include "worker/model/model.h"

static double mean_loss(struct model *m)
{
    const struct dp_train_config *c = m->config;
    double sum = 0;

    tie_weights(m);
    for (uint32_t mb = 0; mb < (uint32_t)c->train.microbatches; mb++)
        sum += model_forward(m, 0, mb, false);
    return sum / (double)(c->train.batch * c->model.context * c->train.microbatches);
}

/* Difference of the loss along `dir` of length 1, by central differences with Richardson's step. */
static double slope(struct model *m, struct dp_param *p, const double *dir, const float *w)
{
    const double h = 0.02;
    double d[2];

    for (int i = 0; i < 2; i++) {
        double at[2];

        for (int side = 0; side < 2; side++) {
            for (int64_t k = 0; k < p->n; k++)
                p->w[k] = (float)(w[k] + (side ? 1 : -1) * h / (i + 1) * dir[k]);
            if (p->sparse)
                m->be->ops->sparse_refresh(m->be, p->sparse, p->w, NULL);
            at[side] = mean_loss(m);
        }
        d[i] = (at[1] - at[0]) / (2 * h / (i + 1));
    }
    return (4 * d[1] - d[0]) / 3;
}

/* The gradient of one parameter, along itself and along a random direction. */
static void check_param(struct model *m, uint32_t layer, struct dp_param *p)
{
    size_t n = (size_t)p->n;
    double *dir = calloc(n, sizeof *dir), norm = 0, dot, length, got;
    float *w = calloc(n, sizeof *w);
    uint32_t seed = 5;

    memcpy(w, p->w, n * sizeof *w);
    for (int64_t k = 0; k < p->n; k++)
        norm += (double)p->g[k] * p->g[k];
    norm = sqrt(norm);
    assert_true(norm > 1e-4);
    for (int way = 0; way < 2; way++) {
        dot = length = 0;
        for (int64_t k = 0; k < p->n; k++) {
            seed = seed * 1664525u + 1013904223u;
            dir[k] = way ? (double)(seed >> 8) / 16777216.0 - 0.5 : p->g[k];
            length += dir[k] * dir[k];
        }
        for (int64_t k = 0; k < p->n; k++) {
            dir[k] /= sqrt(length);
            dot += dir[k] * p->g[k];
        }
        got = slope(m, p, dir, w);
        if (!(fabs(got - dot) <= 2e-3 * norm + 2e-5)) /* fp32: 1e-7 * loss / h is 2e-5 */
            fail_msg("layer %u, %s, way %d: slope %.8g, gradient %.8g", layer, p->name, way, got, dot);
    }
    memcpy(p->w, w, n * sizeof *w);
    if (p->sparse)
        m->be->ops->sparse_refresh(m->be, p->sparse, p->w, NULL);
    free(dir);
    free(w);
}

static void check_gradients(bool tied, double sparsity, double crossover)
{
    struct dp_train_config c = tiny_config();
    const uint32_t cut[] = {0, 4};
    struct model m;

    c.model.tied_head = tied;
    m = model_open(&c, cut, 1, crossover);
    model_settle(&m);
    for (uint32_t i = 0; i < dp_model_layers(&c); i++)
        shake(model_layer(&m, i), i + 1);
    tie_weights(&m);
    if (sparsity > 0)
        model_prune(&m, sparsity, cut, 1);
    model_gradients(&m, 0);
    for (uint32_t i = 0; i < dp_model_layers(&c); i++) {
        struct dp_layer *l = model_layer(&m, i);

        for (uint32_t j = 0; j < l->n_params; j++)
            if (l->param[j].m && !l->param[j].keep)
                check_param(&m, i, &l->param[j]);
        for (uint32_t j = 0; j < l->n_params; j++)
            assert_int_equal(crossover < 1 && sparsity > 0 && l->param[j].prunable, l->param[j].sparse != NULL);
    }
    model_close(&m);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    check_gradients(false, 0, 1);
    check_gradients(true, 0, 1);
    check_gradients(false, 0.6, 0.05);
    check_gradients(false, 0.6, 1.0);
}

#define STEPS 12

/* 12 steps with prunings at 4 and 8 where the layers are cut anew; bytes: of all layers at the end. */
static void train(bool tied, const char *granularity, const uint32_t *cut, uint32_t n_stages, const uint32_t *cut2, uint32_t n2,
                  bool gpipe, double crossover, double *loss, uint8_t **bytes, size_t *n_bytes)
{
    struct dp_train_config c = tiny_config();
    struct model m;

    c.model.tied_head = tied;
    snprintf(c.prune.granularity, sizeof c.prune.granularity, "%s", granularity);
    if (!strcmp(granularity, "32x32")) {
        c.model.channels = 64;
        c.model.heads = 4;
    }
    m = model_open(&c, cut, n_stages, crossover);
    model_settle(&m);
    m.all_forwards_first = gpipe;
    for (uint64_t step = 0; step < STEPS; step++) {
        if (step == 4)
            model_prune(&m, 0.5, cut2, n2);
        if (step == 8)
            model_prune(&m, 0.9, cut2, n2);
        loss[step] = model_step(&m, step);
    }
    model_bytes(&m, bytes, n_bytes);
    model_close(&m);
}

static void cuts_change_nothing(void **state)
{
    static const uint32_t whole[] = {0, 4}, half[] = {0, 2, 4}, three[] = {0, 1, 3, 4};
    static const uint32_t four[] = {0, 1, 2, 3, 4};

    (void)state;
    for (int way = 0; way < 6; way++) {
        const bool tied = way == 1;
        const double crossover = way % 3 == 2 ? 0.3 : 0.7;
        const char *granularity = way < 3 ? "weight" : way == 3 ? "4x1" : "32x32";
        double a[STEPS], b[STEPS];
        uint8_t *x, *y;
        size_t n, k;

        train(tied, granularity, whole, 1, whole, 1, false, crossover, a, &x, &n);
        assert_true(a[0] > 2.7 && a[0] < 3.0); /* ln 17 = 2.83 */
        train(tied, granularity, half, 2, whole, 1, true, crossover, b, &y, &k);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(n, k);
        assert_memory_equal(x, y, n);
        free(y);
        train(tied, granularity, three, 3, half, 2, false, crossover, b, &y, &k);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(x, y, n);
        free(y);
        train(tied, granularity, four, 4, three, 3, true, crossover, b, &y, &k);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(x, y, n);
        free(y);
        free(x);
    }
}

static void training_learns_and_memory_stands(void **state)
{
    struct dp_train_config c = tiny_config();
    const uint32_t cut[] = {0, 2, 4};
    uint64_t act[4] = {0};
    double first = 0, last = 0;
    size_t bytes = 0;
    struct model m;

    (void)state;
    c.train.steps = 80;
    c.train.lr = 0.01;
    m = model_open(&c, cut, 2, 1.0);
    model_settle(&m);
    for (uint64_t i = 0; i < 80; i++) {
        last = model_gradients(&m, 0); /* the same tokens every time */
        first = i ? first : last;
        for (uint32_t s = 0; s < 2; s++)
            assert_int_equal(dp_stage_step(m.stage[s], i, 1.0, NULL), 0);
        if (i == 1)
            bytes = dp_stage_bytes(m.stage[0], act);
    }
    assert_true(last < 0.3 * first);
    assert_int_equal(dp_stage_bytes(m.stage[0], act), bytes);
    assert_int_equal(act[0], 0);
    assert_int_equal(dp_stage_bytes(m.stage[0], NULL), bytes);
    assert_true(act[1] >= 10 * 120 * sizeof(float)); /* ten (n, c) tensors */
    assert_true(model_layer(&m, 1)->timed_microbatches == 160);
    assert_true(model_layer(&m, 1)->fwd_ns > 0 && model_layer(&m, 1)->bwd_weight_ns > 0);
    model_close(&m);
}

static void misuse_is_refused(void **state)
{
    struct dp_train_config c = tiny_config();
    const uint32_t cut[] = {0, 4};
    uint32_t tokens[10] = {0};
    struct dp_layer *wrong[2];
    struct dp_err err;
    struct model m = model_open(&c, cut, 1, 1.0);

    (void)state;
    model_settle(&m);
    assert_int_equal(dp_stage_backward(m.stage[0], 0, NULL, tokens, &err), -1);
    assert_non_null(strstr(err.text, "without its forward"));
    assert_int_equal(dp_stage_forward(m.stage[0], 2, NULL, tokens, NULL, NULL, NULL, true, &err), -1);
    assert_int_equal(dp_stage_forward(m.stage[0], 0, NULL, NULL, NULL, NULL, NULL, true, &err), -1);
    assert_int_equal(dp_stage_forward(m.stage[0], 0, NULL, tokens, NULL, NULL, NULL, true, &err), 0);
    assert_int_equal(dp_stage_forward(m.stage[0], 0, NULL, tokens, NULL, NULL, NULL, true, &err), -1);
    assert_non_null(strstr(err.text, "in flight"));
    assert_int_equal(dp_stage_backward(m.stage[0], 0, NULL, tokens, &err), -1);
    assert_non_null(strstr(err.text, "no targets"));
    wrong[0] = layer_at(&c, 1, m.be, &m.tune);
    wrong[1] = layer_at(&c, 3, m.be, &m.tune);
    assert_null(dp_stage_create(&c, m.be, wrong, 2, 1, &err));
    dp_layer_destroy(wrong[0]); /* still ours */
    dp_layer_destroy(wrong[1]);
    struct dp_stage *empty = dp_stage_create(&c, m.be, NULL, 0, 0, &err);
    assert_non_null(empty);
    assert_int_equal(dp_stage_forward(empty, 0, NULL, tokens, NULL, NULL, NULL, true, &err), -1);
    assert_int_equal(dp_stage_step(empty, 0, 1.0, &err), 0);
    dp_stage_destroy(empty);
    model_close(&m);
}

/* Losses and norms of a step whose microbatches are run in this order: n the forward of n, ~n its backward. */
static void ordered_step(struct dp_train_config *c, uint32_t in_flight, const int *order, double losses[], double squares[])
{
    struct dp_tune tune = tune_at(c, 1.0);
    struct dp_backend *be = cpu();
    struct dp_layer *layers[64];
    uint32_t n = dp_model_layers(c), tokens[256], targets[256];
    struct dp_err err = {0};
    struct dp_stage *stage;
    double eval = 0;

    for (uint32_t i = 0; i < n; i++)
        layers[i] = layer_at(c, i, be, &tune);
    stage = dp_stage_create(c, be, layers, n, in_flight, &err);
    assert_non_null(stage);
    for (int64_t i = 0; i < 2 * c->train.microbatches; i++) {
        uint32_t mb = (uint32_t)(order[i] < 0 ? ~order[i] : order[i]);

        fake_tokens(c, 0, mb, tokens, targets);
        if (order[i] >= 0)
            check(dp_stage_forward(stage, mb, NULL, tokens, targets, NULL, &losses[mb], true, &err), &err);
        else
            check(dp_stage_backward(stage, mb, NULL, tokens, &err), &err);
    }
    check(dp_stage_sum_squares(stage, &err), &err);
    check(dp_stage_grad_squares(stage, squares, &err), &err);
    fake_tokens(c, 0, 0, tokens, targets); /* an evaluation, in what is left of a slot */
    check(dp_stage_forward(stage, 0, NULL, tokens, targets, NULL, &eval, false, &err), &err);
    assert_true(eval == losses[0]);
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
}

/* Slots: whichever the memory of a microbatch, its bits are the same; and one that is in use is not used again. */
static void slots(void **state)
{
    static const int gpipe[] = {0, 1, 2, 3, ~0, ~1, ~2, ~3}, two[] = {0, 1, ~0, 2, ~1, 3, ~2, ~3},
                     one[] = {0, ~0, 1, ~1, 2, ~2, 3, ~3};
    double loss[3][4], squares[3][16];
    struct dp_train_config c = tiny_config();
    uint32_t tokens[256], targets[256];
    struct dp_layout layout = {.n_workers = 3, .n_layers = 7, .cut = {0, 3, 3, 7}};
    struct dp_stage *stage;
    struct dp_layer *layer;
    struct dp_err err = {0};
    struct dp_backend *be;
    struct dp_tune tune;

    (void)state;
    c.model.blocks = 5;
    c.train.microbatches = 4;
    ordered_step(&c, 4, gpipe, loss[0], squares[0]);
    ordered_step(&c, 2, two, loss[1], squares[1]);
    ordered_step(&c, 1, one, loss[2], squares[2]);
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(loss[i], loss[0], sizeof loss[0]);
        assert_memory_equal(squares[i], squares[0], dp_model_layers(&c) * sizeof squares[0][0]);
    }
    assert_int_equal(dp_stage_in_flight(&c, &layout, 0), 2);
    assert_int_equal(dp_stage_in_flight(&c, &layout, 1), 0);
    assert_int_equal(dp_stage_in_flight(&c, &layout, 2), 1);
    snprintf(c.pipeline.schedule, sizeof c.pipeline.schedule, "gpipe");
    assert_int_equal(dp_stage_in_flight(&c, &layout, 2), 4);
    tune = tune_at(&c, 1.0);
    be = cpu();
    layer = layer_at(&c, 6, be, &tune);
    assert_null(dp_stage_create(&c, be, &layer, 1, 0, &err));
    stage = dp_stage_create(&c, be, &layer, 1, 2, &err);
    fake_tokens(&c, 0, 0, tokens, targets);
    float x[256] = {0}, y[256];
    check(dp_stage_forward(stage, 0, x, tokens, targets, NULL, NULL, true, &err), &err);
    check(dp_stage_forward(stage, 1, x, tokens, targets, NULL, NULL, true, &err), &err);
    assert_int_equal(dp_stage_forward(stage, 2, x, tokens, targets, NULL, NULL, true, &err), -1);
    assert_string_equal(err.text, "stage: forward of microbatch 2 while microbatch 0 is in flight");
    assert_int_equal(dp_stage_backward(stage, 2, x, tokens, &err), -1);
    assert_int_equal(dp_stage_backward(stage, 0, NULL, tokens, &err), 0); /* nobody wants what comes out below */
    dp_stage_destroy(stage);
    layer = layer_at(&c, 5, be, &tune);
    stage = dp_stage_create(&c, be, &layer, 1, 2, &err);
    check(dp_stage_forward(stage, 0, x, NULL, NULL, y, NULL, true, &err), &err);
    assert_int_equal(dp_stage_backward(stage, 0, NULL, NULL, &err), -1);
    assert_string_equal(err.text, "stage: backward of microbatch 0 without a gradient");
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
}

static void learning_rate(void **state)
{
    struct dp_train_config c = tiny_config();

    (void)state;
    c.train.steps = 100;
    c.train.warmup = 10;
    c.train.lr = 1.0;
    c.train.min_lr = 0.1;
    assert_true(fabs(dp_train_lr(&c, 0) - 0.1) < 1e-12);
    assert_true(fabs(dp_train_lr(&c, 9) - 1.0) < 1e-12);
    assert_true(fabs(dp_train_lr(&c, 10) - 1.0) < 1e-12);
    assert_true(fabs(dp_train_lr(&c, 99) - 0.1) < 1e-12);
    assert_true(fabs(dp_train_lr(&c, 54) - 0.558) < 1e-2);
    c.train.warmup = 0;
    c.train.steps = 1;
    assert_true(dp_train_lr(&c, 0) > 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gradients_are_slopes), cmocka_unit_test(cuts_change_nothing),
    cmocka_unit_test(training_learns_and_memory_stands), cmocka_unit_test(misuse_is_refused),
    cmocka_unit_test(slots), cmocka_unit_test(learning_rate),
};
TEST_MAIN("stage", tests)
