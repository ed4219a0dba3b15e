/* SPDX-License-Identifier: BSD-3-Clause */
/* Frozen layers: when, by which rule, and that what the others learn is the same bits as if the frozen ones were there and did not
 * move, wherever the cuts lie; what it saves; that a frozen layer survives its byte stream, and nothing else passes for one. */
#include "tests/unit/worker/staged_model.h"

#include <math.h>

#include "common/crc32c.h"
#include "worker/model/activations.h"
#include "worker/model/model.h"
#include "worker/scheme/events.h"

static const struct dp_scheme *freezing(void)
{
    return dp_scheme_at(DP_SCHEME_FREEZE);
}

static struct dp_train_config freeze_config(const char *rule, int64_t layers, int64_t begin, int64_t end, int64_t every)
{
    struct dp_train_config c = tiny_config();
    struct dp_err err = {0};

    c.freeze.layers = layers;
    c.freeze.begin = begin;
    c.freeze.end = end;
    c.freeze.every = every;
    snprintf(c.freeze.rule, sizeof c.freeze.rule, "%s", rule);
    c.train.steps = end > c.train.steps ? end : c.train.steps;
    c.model.blocks = layers > 5 ? layers - 1 : 4; /* six layers at least */
    check(freezing()->check(&c, &err), &err);
    return c;
}

/* ---- events ---- */

static void events(void **state)
{
    const struct dp_events one = {.begin = 7, .end = 7, .every = 20}, late = {.begin = 10, .end = 45, .every = 20},
                           even = {.begin = 0, .end = 40, .every = 20}, long_ones = {.begin = 1, .end = 1000000001, .every = 1};
    uint64_t i = 99, chosen[64];

    (void)state;
    assert_int_equal(dp_events_last(&one), 0);
    assert_int_equal(dp_events_step(&one, 0), 7);
    assert_true(dp_events_at(&one, 7, &i) && i == 0);
    assert_false(dp_events_at(&one, 6, &i) || dp_events_at(&one, 8, &i) || dp_events_at(&one, 27, &i));
    assert_int_equal(dp_events_until(&one, 6), 0);
    assert_int_equal(dp_events_until(&one, 7), 1);
    assert_int_equal(dp_events_choose(&one, 2, chosen), 1);

    assert_int_equal(dp_events_last(&late), 2); /* 10, 30, 45 */
    assert_int_equal(dp_events_step(&late, 1), 30);
    assert_int_equal(dp_events_step(&late, 2), 45);
    assert_true(dp_events_at(&late, 30, &i) && i == 1);
    assert_true(dp_events_at(&late, 45, &i) && i == 2);
    assert_false(dp_events_at(&late, 50, &i));
    assert_int_equal(dp_events_until(&late, 44), 2);
    assert_int_equal(dp_events_until(&late, 1000), 3);

    assert_int_equal(dp_events_last(&even), 2); /* 0, 20, 40: none twice */
    assert_true(dp_events_at(&even, 40, &i) && i == 2);
    assert_int_equal(dp_events_until(&even, 0), 1);
    assert_int_equal(dp_events_choose(&even, 3, chosen), 3);
    assert_int_equal(dp_events_choose(&even, 2, chosen), 2);
    assert_true(chosen[0] == 0 && chosen[1] == 2);

    for (int again = 0; again < 1000; again++) /* a walk through them would never come back */
        assert_int_equal(dp_events_choose(&long_ones, 64, chosen), 64);
    assert_true(chosen[0] == 0 && chosen[63] == 1000000000);
    for (int k = 1; k < 64; k++)
        assert_true(chosen[k] > chosen[k - 1]);
}

/* ---- by schedule ---- */

static double ordered_after(const struct dp_train_config *c, uint64_t step, uint32_t frozen)
{
    const struct dp_scheme_in in = {.step = step, .n_layers = dp_model_layers(c), .reached = {.frozen = frozen}};
    struct dp_scheme_order out = {0};

    freezing()->decide(c, &in, &out);
    return out.is_due ? out.target : 0;
}

static void schedules_are_their_formulas(void **state)
{
    static const int linear[] = {2, 5, 7, 10}, geometric[] = {3, 5, 7, 8, 8, 9};
    struct dp_train_config c = freeze_config("linear", 10, 4, 19, 5);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal((int)ordered_after(&c, 4 + 5 * (uint64_t)i, 0), linear[i]);
    for (uint64_t step = 0; step < 40; step++)
        assert_true(ordered_after(&c, step, 0) == 0 || (step >= 4 && step <= 19 && (step - 4) % 5 == 0));
    assert_true(ordered_after(&c, 9, 5) == 0); /* there already */
    assert_true(ordered_after(&c, 9, 4) == 5);
    c = freeze_config("geometric", 10, 10, 60, 10); /* L (1 - (2/3)^(i + 1)) */
    for (int i = 0; i < 6; i++)
        assert_int_equal((int)ordered_after(&c, 10 + 10 * (uint64_t)i, 0), geometric[i]);
    c.freeze.share = 0.5;
    for (int i = 0; i < 6; i++)
        assert_int_equal((int)ordered_after(&c, 10 + 10 * (uint64_t)i, 0), 10 - (int)ceil(10.0 / (2 << i)));
    c = freeze_config("linear", 3, 7, 7, 100);
    assert_true(ordered_after(&c, 7, 0) == 3);
}

static void plans_are_short_and_in_order(void **state)
{
    static const char *const rules[] = {"linear", "geometric"};
    struct dp_change out[DP_CHANGES_MAX];
    struct dp_err err = {0};
    uint32_t n;

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct dp_train_config c = freeze_config(rules[k], 100, 1, 1000000000, 1);

        for (int again = 0; again < 100; again++)
            n = freezing()->plan(&c, DP_CHANGES_MAX, out);
        assert_int_equal(n, DP_CHANGES_MAX);
        check(dp_changes_check(out, n, dp_model_layers(&c), &err), &err);
        assert_true(out[0].step == 1 && out[n - 1].step == 1000000000);
        assert_true(out[n - 1].value == 100); /* so many times a third of what is left: less than 1e-16 */
        c = freeze_config(rules[k], 10, 4, 40, 7);
        n = freezing()->plan(&c, DP_CHANGES_MAX, out);
        assert_int_equal(n, 7);
        for (uint32_t i = 0; i < n; i++) /* exactly what is ordered then */
            assert_true(out[i].value == ordered_after(&c, out[i].step, 0) && out[i].kind == DP_CHANGE_FREEZE);
        c.prune.end = 4; /* half of the places for each */
        n = dp_schemes_plan(&c, out);
        check(dp_changes_check(out, n, dp_model_layers(&c), &err), &err);
        assert_true(out[0].kind == DP_CHANGE_PRUNE && out[n - 1].kind == DP_CHANGE_FREEZE);
    }
    struct dp_train_config c = freeze_config("change", 3, 4, 40, 7);
    assert_int_equal(freezing()->plan(&c, DP_CHANGES_MAX, out), 0);
    c = freeze_config("linear", 3, 0, 0, 20);
    assert_int_equal(freezing()->plan(&c, DP_CHANGES_MAX, out), 1);
    assert_true(out[0].step == 0 && out[0].value == 3);
}

/* ---- by what is measured ---- */

static double decided(const struct dp_train_config *c, uint64_t step, uint32_t frozen, const double *measured)
{
    const struct dp_scheme_in in = {.step = step, .n_layers = dp_model_layers(c), .reached = {.frozen = frozen}};
    struct dp_scheme_order out[DP_N_SCHEMES];

    dp_schemes_decide(c, &in, measured, out);
    return out[DP_SCHEME_FREEZE].is_due ? out[DP_SCHEME_FREEZE].target : 0;
}

/* Six layers, the head the last one. */
static void rules_choose_a_prefix(void **state)
{
    struct dp_train_config c = freeze_config("change", 5, 4, 20, 4);
    const double rising[] = {1, 2, 3, 4, 5, 0}, falling[] = {5, 4, 3, 2, 1, 0}, gap[] = {1, 2, 9, 1, 9, 0}, same[] = {3, 3, 3, 3, 3, 0},
                 unknown[] = {1, 2, -1, 4, 5, 0}, late[] = {-1, -1, 3, 4, 5, 0}, small[] = {0, 0.01, 0.02, 0.03, 0.04, 0.0},
                 nobody[] = {-1, -1, -1, -1, -1, 0};

    (void)state;
    assert_true(decided(&c, 8, 0, rising) == 2); /* the median is 3 */
    assert_true(decided(&c, 9, 0, rising) == 0); /* no event */
    assert_true(decided(&c, 8, 1, rising) == 2); /* of four the lower one, 3 */
    assert_true(decided(&c, 8, 0, falling) == 0);
    assert_true(decided(&c, 8, 0, gap) == 1); /* the median is 2: not what is behind it */
    assert_true(decided(&c, 8, 0, same) == 0);
    assert_true(decided(&c, 8, 0, unknown) == 0); /* nobody decides by a part */
    assert_true(decided(&c, 8, 2, late) == 3);    /* those that are frozen have no say: of 3, 4, 5 */
    assert_true(decided(&c, 8, 5, nobody) == 0);  /* all but the head are */
    c.freeze.layers = 1;
    assert_true(decided(&c, 8, 0, rising) == 1);
    c = freeze_config("noise", 5, 4, 20, 4);
    assert_true(decided(&c, 8, 0, small) == 5); /* all below 0.05, but never the head */
    c.freeze.layers = 4;
    assert_true(decided(&c, 8, 0, small) == 4);
    c.freeze.noise = 0.02;
    assert_true(decided(&c, 8, 0, small) == 2);
    assert_true(decided(&c, 8, 3, small) == 0);
    c.freeze.noise = 0;
    assert_true(decided(&c, 8, 0, small) == 0);
}

/* What a layer's arrays say, the slow way. */
static double norm_of(const struct dp_layer *l)
{
    double sum = 0;

    for (uint32_t j = 0; j < l->n_params; j++)
        for (int64_t k = 0; k < l->param[j].n; k++)
            sum += (double)l->param[j].g[k] * l->param[j].g[k];
    return sqrt(sum);
}

/* After `step` steps. */
static double noise_of(const struct dp_layer *l, const struct dp_train_config *c, double step)
{
    double mm = 0, v = 0, b1 = c->train.beta1, floor_of_noise = (1 - b1) / (1 + b1), r;

    for (uint32_t j = 0; j < l->n_params; j++)
        for (int64_t k = 0; k < l->param[j].n; k++) {
            mm += pow((double)l->param[j].m[k] / (1 - pow(b1, step)), 2);
            v += (double)l->param[j].v[k] / (1 - pow(c->train.beta2, step));
        }
    r = mm / v;
    return fmax(0, (r - floor_of_noise) / (1 - floor_of_noise));
}

static void near(double is, double should, const char *what, uint64_t step, uint32_t layer)
{
    if (!(fabs(is - should) <= 1e-4 * fabs(should) + 1e-7))
        fail_msg("%s of layer %u after %u steps: %.10g, slowly %.10g", what, layer, (unsigned)step, is, should);
}

/* Intervals of 5, 4, 4 and 2 steps: a shorter one is no change. */
static void measures_are_what_arrays_say(void **state)
{
    static const char *const rules[] = {"change", "noise"};
    const uint32_t cut[] = {0, 2, 6};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct dp_train_config c = freeze_config(rules[k], 5, 5, 15, 4);
        struct model m = model_open(&c, cut, 2, 1.0);
        double sum[6] = {0}, before[6] = {0}, squares[6], measured[6] = {0}, n = 0;
        struct dp_err err = {0};
        uint32_t n_measured = 0;

        model_settle(&m);
        for (uint64_t step = 1; step <= 16; step++) {
            bool is_event = step == 5 || step == 9 || step == 13 || step == 15;

            model_gradients(&m, step - 1);
            model_squares(&m, squares);
            n++;
            assert_int_equal(dp_schemes_measured(&c, step), is_event);
            for (uint32_t i = 0; i < 6; i++)
                sum[i] += norm_of(model_layer(&m, i));
            if (is_event) {
                check(dp_schemes_measure(m.stage[0], &c, step, squares, measured, &err), &err);
                check(dp_schemes_measure(m.stage[1], &c, step, squares + 2, measured + 2, &err), &err);
            }
            for (uint32_t i = 0; is_event && i < 6; i++, n_measured++) {
                if (k)
                    near(measured[i], noise_of(model_layer(&m, i), &c, (double)step - 1), "pi", step, i);
                else if (step == 5)
                    assert_true(measured[i] < 0); /* nothing to compare with */
                else
                    near(measured[i], fabs(before[i] - sum[i] / n) / before[i], "eta", step, i);
                before[i] = sum[i] / n;
                sum[i] = 0;
            }
            n = is_event ? 0 : n;
            model_optimize(&m, step - 1, squares);
        }
        assert_int_equal(n_measured, 24);
        for (uint32_t i = 0; i < 6; i++) /* behind the last event nobody remembers anything */
            assert_int_equal(model_layer(&m, i)->notes.rule, 0);
        model_close(&m);
    }
}

/* A rule that another one's notes came to begins anew. */
static void another_rule_begins_anew(void **state)
{
    const uint32_t cut[] = {0, 6};
    struct dp_train_config c = freeze_config("noise", 5, 5, 20, 4);
    struct model m = model_open(&c, cut, 1, 1.0);
    double squares[6], measured[6];
    struct dp_err err = {0};

    (void)state;
    model_settle(&m);
    for (uint64_t step = 0; step < 6; step++)
        model_step(&m, step);
    assert_int_equal(model_layer(&m, 2)->notes.value[1], 6);
    snprintf(c.freeze.rule, sizeof c.freeze.rule, "change");
    for (uint64_t step = 6; step < 13; step++) {
        model_gradients(&m, step);
        model_squares(&m, squares);
        if (step == 8 || step == 12)
            check(dp_schemes_measure(m.stage[0], &c, step + 1, squares, measured, &err), &err);
        if (step == 8)
            assert_true(measured[1] < 0);
        model_optimize(&m, step, squares);
    }
    assert_true(measured[1] >= 0);
    model_close(&m);
}

/* ---- what a frozen stage computes ---- */

static float *copy_of(const float *x, int64_t n)
{
    float *y = malloc((size_t)n * sizeof *y);

    assert_non_null(y);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

/* Beside it a model whose first layers have all that they ever had, and get their weights back after every step. */
static void the_others_learn_as_before(void **state)
{
    const uint32_t cut[] = {0, 3, 6};
    struct dp_train_config c = freeze_config("linear", 5, 20, 20, 4);

    (void)state;
    for (uint32_t frozen = 1; frozen <= 5; frozen++) {
        struct model a = model_open(&c, cut, 2, 1.0), b = model_open(&c, cut, 2, 1.0);

        model_settle(&a);
        model_settle(&b);
        for (uint64_t step = 0; step < 3; step++)
            assert_true(model_step(&a, step) == model_step(&b, step));
        model_freeze(&a, frozen);
        for (uint64_t step = 3; step < 7; step++) {
            double squares[2][6];
            float *w[6][DP_LAYER_MAX_PARAMS];

            a.all_forwards_first = step % 2;
            assert_true(model_gradients(&a, step) == model_gradients(&b, step));
            model_squares(&a, squares[0]);
            model_squares(&b, squares[1]);
            for (uint32_t i = 0; i < 6; i++) {
                const struct dp_layer *l = model_layer(&b, i);

                for (uint32_t j = 0; i < frozen && j < l->n_params; j++)
                    w[i][j] = copy_of(l->param[j].w, l->param[j].n);
                for (uint32_t j = 0; i >= frozen && j < l->n_params; j++)
                    assert_memory_equal(model_layer(&a, i)->param[j].g, l->param[j].g, (size_t)l->param[j].n * sizeof(float));
                assert_true(i < frozen ? squares[0][i] == 0 && squares[1][i] > 0 : squares[0][i] == squares[1][i]);
                squares[1][i] = squares[0][i];
            }
            model_optimize(&a, step, squares[0]);
            model_optimize(&b, step, squares[1]);
            for (uint32_t i = 0; i < frozen; i++) {
                struct dp_layer *l = model_layer(&b, i);

                for (uint32_t j = 0; j < l->n_params; j++) {
                    assert_memory_equal(model_layer(&a, i)->param[j].w, w[i][j], (size_t)l->param[j].n * sizeof(float));
                    memcpy(l->param[j].w, w[i][j], (size_t)l->param[j].n * sizeof(float));
                    free(w[i][j]);
                }
            }
        }
        for (uint32_t mb = 0; mb < 2; mb++) { /* an evaluation, and that it is one of these weights */
            double one = model_forward(&a, 9, mb, false);

            assert_true(one == model_forward(&b, 9, mb, false) && one > 0);
        }
        model_close(&a);
        model_close(&b);
    }
}

static size_t weights_of(const struct dp_layer *l)
{
    size_t n = 0;

    for (uint32_t j = 0; j < l->n_params; j++)
        n += (size_t)l->param[j].n * sizeof(float);
    return n;
}

/* Of a stage of embedding and four blocks, with room for two microbatches. */
static void memory_is_given_back(void **state)
{
    struct dp_train_config c = freeze_config("linear", 5, 20, 20, 4);
    struct dp_layout layout = {.n_workers = 2, .n_layers = 6, .cut = {0, 5, 6}};
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_backend *be = cpu();
    struct dp_stage *stage = stage_of(&c, 0, 5, be, &tune);
    size_t block = dp_activations_bytes(&c, &be->info, DP_LAYER_BLOCK), bytes = dp_stage_bytes(stage, NULL), first, before[2];
    struct dp_err err = {0};

    (void)state;
    for (uint32_t n = 1; n <= 5; n++) {
        struct dp_layer *l = dp_stage_layer(stage, n - 1);
        size_t state_bytes = dp_layer_state_bytes(l), now;
        uint64_t act[5];

        before[0] = dp_stage_activation_bytes(&c, be, &layout, 0, n - 1);
        before[1] = bytes;
        check(dp_stage_freeze(stage, n, &err), &err);
        assert_int_equal(dp_stage_n_frozen(stage), n);
        assert_int_equal(dp_layer_state_bytes(l), state_bytes - 3 * weights_of(l));
        now = dp_stage_bytes(stage, act);
        for (uint32_t i = 0; i < 5; i++)
            assert_true(i < n ? act[i] == 0 : act[i] == block);
        /* two microbatches' less; of the first three layers one set stays */
        if (n > 1)
            assert_int_equal(before[1] - now, 3 * weights_of(l) + (n > 3 ? 2 : 1) * block);
        assert_int_equal(before[0] - dp_stage_activation_bytes(&c, be, &layout, 0, n), n == 1 ? 0 : (n > 3 ? 2 : 1) * block);
        bytes = now;
    }
    first = bytes;
    check(dp_stage_freeze(stage, 2, &err), &err); /* fewer than are frozen */
    assert_int_equal(dp_stage_n_frozen(stage), 5);
    assert_int_equal(dp_stage_bytes(stage, NULL), first);
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
}

static void a_stage_of_frozen_layers_only_goes_forward(void **state)
{
    struct dp_train_config c = freeze_config("linear", 3, 0, 0, 4);
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_backend *be = cpu();
    struct dp_stage *stage = stage_of(&c, 1, 3, be, &tune), *other;
    struct dp_layer *layers[2];
    float x[120], y[2][120];
    struct dp_err err = {0};

    (void)state;
    for (int k = 0; k < 120; k++)
        x[k] = (float)(k % 7) - 3.0f;
    check(dp_stage_forward(stage, 0, x, NULL, NULL, y[0], NULL, true, &err), &err);
    check(dp_stage_backward(stage, 0, y[1], NULL, &err), &err);
    check(dp_stage_freeze(stage, 2, &err), &err);
    assert_int_equal(dp_stage_layer(stage, 0)->timed_microbatches, 1);
    for (int again = 0; again < 3; again++) { /* nobody takes what it keeps, so it may go on */
        check(dp_stage_forward(stage, 1, x, NULL, NULL, y[1], NULL, true, &err), &err);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        memset(y[1], 0, sizeof y[1]);
    }
    check(dp_stage_forward(stage, 1, x, NULL, NULL, y[1], NULL, false, &err), &err);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_int_equal(dp_stage_layer(stage, 1)->timed_microbatches, 4); /* without the evaluation */
    assert_int_equal(dp_stage_backward(stage, 1, y[1], NULL, &err), -1);
    assert_non_null(strstr(err.text, "without its forward"));
    check(dp_stage_step(stage, 5, 1.0, &err), &err);

    layers[0] = layer_at(&c, 1, be, &tune); /* frozen is a prefix */
    layers[1] = layer_at(&c, 2, be, &tune);
    check(dp_layer_freeze(layers[1], &err), &err);
    other = dp_stage_create(&c, be, layers, 2, 1, &err);
    assert_null(other);
    assert_string_equal(err.text, "stage: layer 2 is frozen and layer 1 below it is not");
    dp_layer_destroy(layers[0]);
    dp_layer_destroy(layers[1]);
    assert_int_equal(dp_prune_run(stage, NULL, &c, 0.5, NULL, NULL, NULL, &err), -1);
    assert_string_equal(err.text, "layer 1 is frozen, and cannot be pruned");
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
}

/* ---- cuts ---- */

#define STEPS 16

struct way {
    const char *rule;
    int64_t layers, begin, end;
    double prune, drop;
    double crossover;
};

/* What a leader would do after step `step`, of all stages. */
static uint32_t ordered(struct model *m, uint64_t step, uint32_t frozen, const double *squares)
{
    double measured[64] = {0}, *out = measured, target;
    struct dp_err err = {0};

    for (uint32_t s = 0; s < m->n_stages; s++) {
        uint32_t n = dp_stage_n_layers(m->stage[s]);

        check(dp_schemes_measure(m->stage[s], m->config, step, squares, out, &err), &err);
        squares += n;
        out += n;
    }
    target = decided(m->config, step, frozen, measured);
    return target > frozen ? (uint32_t)target : frozen;
}

/* 16 steps, cut anew at 3, 6 and 12, each time between the freezings or at one. returns: layers frozen in the end. */
static uint32_t train(const struct way *way, const uint32_t *cut[4], const uint32_t n_stages[4], bool gpipe, double *loss,
                      uint8_t **bytes, size_t *n_bytes)
{
    struct dp_train_config c = freeze_config(way->rule, way->layers, way->begin, way->end, 3);
    uint32_t frozen = 0, part = 0;
    struct model m;

    c.freeze.noise = 0.5; /* so early most is signal */
    c.drop.rate = way->drop;
    m = model_open(&c, cut[0], n_stages[0], way->crossover);
    model_settle(&m);
    m.all_forwards_first = gpipe;
    if (way->end == 0)
        model_freeze(&m, frozen = (uint32_t)way->layers);
    for (uint64_t step = 0; step < STEPS; step++) {
        double squares[64];

        if (step == 3 || step == 6 || step == 12)
            model_cut(&m, cut[part + 1], n_stages[part + 1]), part++;
        if (step == 3 && way->prune > 0)
            model_prune(&m, way->prune, cut[part], n_stages[part]);
        loss[step] = model_gradients(&m, step);
        model_squares(&m, squares);
        frozen = ordered(&m, step + 1, frozen, squares);
        model_optimize(&m, step, squares);
        model_freeze(&m, frozen);
    }
    model_bytes(&m, bytes, n_bytes);
    for (uint32_t i = 0; i < dp_model_layers(&c); i++)
        assert_int_equal(model_layer(&m, i)->is_frozen, i < frozen);
    model_close(&m);
    return frozen;
}

static void cuts_change_nothing(void **state)
{
    static const struct way ways[] = {
        {"linear", 5, 4, 13, 0, 0, 0.7},   {"geometric", 5, 4, 13, 0, 0, 0.7}, {"change", 4, 4, 13, 0, 0, 0.7},
        {"noise", 5, 4, 13, 0, 0, 0.7},    {"linear", 3, 0, 0, 0, 0, 0.7},     {"linear", 5, 4, 13, 0.6, 0, 0.3},
        {"change", 4, 4, 13, 0.6, 0, 0.7}, {"linear", 4, 4, 13, 0, 0.5, 0.7},
    };
    static const uint32_t one[] = {0, 6}, two[] = {0, 3, 6}, three[] = {0, 1, 3, 6}, six[] = {0, 1, 2, 3, 4, 5, 6}, head[] = {0, 5, 6};
    const uint32_t *whole[] = {one, one, one, one}, *first[] = {two, three, six, two}, *second[] = {six, one, head, three};

    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double a[STEPS], b[STEPS];
        uint8_t *x, *y;
        size_t n, k;
        uint32_t frozen = train(&ways[w], whole, (const uint32_t[]){1, 1, 1, 1}, false, a, &x, &n);

        assert_true(frozen > 0 && frozen <= ways[w].layers);
        for (int i = 1; i < STEPS; i++)
            assert_true(a[i] != a[i - 1]);
        assert_int_equal(train(&ways[w], first, (const uint32_t[]){2, 3, 6, 2}, true, b, &y, &k), frozen);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(n, k);
        assert_memory_equal(x, y, n);
        free(y);
        assert_int_equal(train(&ways[w], second, (const uint32_t[]){6, 1, 2, 3}, false, b, &y, &k), frozen);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(n, k);
        assert_memory_equal(x, y, n);
        free(y);
        free(x);
    }
}

/* 1, then 4 of them, are the same 4 as at once. */
static void freezing_in_several_goes(void **state)
{
    const uint32_t cut[] = {0, 2, 6};
    struct dp_train_config c = freeze_config("linear", 5, 20, 20, 4);
    struct model a = model_open(&c, cut, 2, 1.0), b = model_open(&c, cut, 2, 1.0);

    (void)state;
    model_settle(&a);
    model_settle(&b);
    model_step(&a, 0);
    model_step(&b, 0);
    for (uint32_t n = 1; n <= 4; n++)
        model_freeze(&a, n);
    model_freeze(&b, 4);
    for (uint64_t step = 1; step < 5; step++)
        assert_true(model_step(&a, step) == model_step(&b, step));
    for (int s = 0; s < 2; s++)
        assert_int_equal(dp_stage_bytes(a.stage[s], NULL), dp_stage_bytes(b.stage[s], NULL));
    model_close(&a);
    model_close(&b);
}

/* ---- before a run, and in a new one ---- */

static void a_run_begins_with_what_is_due(void **state)
{
    struct dp_train_config c = freeze_config("linear", 4, 4, 10, 2); /* 1 to 4 layers at 4, 6, 8, 10 */
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_backend *be = cpu();
    struct dp_reached reached = {0};
    struct dp_scheme_site site = {.config = &c, .stage = stage_of(&c, 1, 6, be, &tune), .reached = &reached};
    struct dp_err err = {0};

    (void)state;
    check(dp_schemes_begin(&site, 3, &err), &err);
    assert_int_equal(reached.frozen, 0);
    check(dp_schemes_begin(&site, 7, &err), &err); /* from a checkpoint that never froze: layers 0 and 1 */
    assert_int_equal(reached.frozen, 2);
    assert_int_equal(dp_stage_n_frozen(site.stage), 1);
    reached.frozen = 3; /* another configuration did more: that stays */
    check(dp_schemes_begin(&site, 7, &err), &err);
    assert_int_equal(reached.frozen, 3);
    c.freeze.layers = 0;
    c.prune.end = 9;
    assert_int_equal(dp_schemes_begin(&site, 7, &err), -1);
    assert_non_null(strstr(err.text, "prune.end: 9 is still to come, and layers 0 to 2 are frozen"));
    check(dp_schemes_begin(&site, 9, &err), &err);
    dp_stage_destroy(site.stage);
    dp_backend_destroy(be);
}

static void a_layer_begins_anew(void **state)
{
    struct dp_train_config c = freeze_config("change", 4, 4, 10, 2);
    const uint32_t cut[] = {0, 6};
    struct dp_err err = {0};

    (void)state;
    for (int is_frozen = 0; is_frozen < 2; is_frozen++) {
        struct model m = model_open(&c, cut, 1, 0.3);

        model_settle(&m);
        for (uint64_t step = 0; step < 3; step++)
            model_step(&m, step);
        model_prune(&m, 0.6, cut, 1);
        model_freeze(&m, is_frozen ? 3 : 0);
        for (uint32_t i = 0; i < 6; i++) {
            struct dp_layer *l = model_layer(&m, i);
            float *w[DP_LAYER_MAX_PARAMS];
            uint8_t *data;
            size_t n;

            for (uint32_t j = 0; j < l->n_params; j++)
                w[j] = copy_of(l->param[j].w, l->param[j].n);
            l->rng_counter = 5;
            check(dp_layer_renew(l, &err), &err);
            assert_true(!l->is_frozen && !l->notes.rule && l->rng_counter == 0);
            for (uint32_t j = 0; j < l->n_params; j++) {
                const struct dp_param *p = &l->param[j];

                assert_memory_equal(p->w, w[j], (size_t)p->n * sizeof(float));
                assert_true(!p->sparse == !p->prunable);
                for (int64_t k = 0; k < p->n; k++)
                    assert_true(p->m[k] == 0 && p->v[k] == 0 && (p->g[k] == 0 || p->g_is_void));
                free(w[j]);
            }
            check(dp_layer_write(l, &data, &n, &err), &err);
            assert_int_equal(data[7], 1);
            free(data);
        }
        model_cut(&m, cut, 1); /* a stage that knows it: everything learns */
        model_step(&m, 0);
        for (uint32_t i = 0; i < 6; i++)
            assert_true(model_layer(&m, i)->param[0].m[0] != 0);
        model_close(&m);
    }
}

/* ---- byte streams ---- */

static void same_stream(const struct dp_layer *l, uint8_t version)
{
    struct dp_err err = {0};
    struct dp_layer *back;
    uint8_t *x, *y;
    size_t n, k;

    check(dp_layer_write(l, &x, &n, &err), &err);
    assert_int_equal(x[7], version);
    back = dp_layer_read(l->config, l->be, l->tune, x, n, &err);
    if (!back)
        fail_msg("%s", err.text);
    check(dp_layer_write(back, &y, &k, &err), &err);
    assert_int_equal(n, k);
    assert_memory_equal(x, y, n);
    assert_int_equal(back->is_frozen, l->is_frozen);
    assert_memory_equal(back->notes.value, l->notes.value, sizeof l->notes.value);
    assert_int_equal(back->notes.rule, l->notes.rule);
    assert_int_equal(dp_layer_state_bytes(back), dp_layer_state_bytes(l));
    assert_true(!back->param[0].g == back->is_frozen && !back->param[0].m == back->is_frozen);
    for (size_t i = 0; i < n; i += i < 1000 ? 1 : 17) {
        x[i] ^= (uint8_t)(1u << (i % 8));
        assert_null(dp_layer_read(l->config, l->be, l->tune, x, n, &err));
        assert_int_equal(err.code, DP_ECORRUPT);
        x[i] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t i = 0; i < 400; i++)
        assert_null(dp_layer_read(l->config, l->be, l->tune, x, i, &err));
    dp_layer_destroy(back);
    free(x);
    free(y);
}

static void streams_read_back(void **state)
{
    struct dp_train_config c = freeze_config("linear", 5, 4, 10, 2);
    const uint32_t cut[] = {0, 6};
    struct model m = model_open(&c, cut, 1, 0.3);
    struct dp_err err = {0};
    uint8_t *data;
    size_t whole, frozen;

    (void)state;
    model_settle(&m);
    for (uint32_t i = 0; i < 6; i++)
        shake(model_layer(&m, i), i + 3);
    same_stream(model_layer(&m, 0), 1);
    same_stream(model_layer(&m, 5), 1);
    check(dp_layer_write(model_layer(&m, 1), &data, &whole, &err), &err);
    free(data);
    for (uint32_t i = 0; i < 6; i++)
        model_layer(&m, i)->notes = (struct dp_layer_notes){.rule = 3, .value = {0.25 + i, 2, -7e300}};
    same_stream(model_layer(&m, 0), 2);
    same_stream(model_layer(&m, 3), 2);
    same_stream(model_layer(&m, 5), 2);
    model_freeze(&m, 5);
    same_stream(model_layer(&m, 0), 2);
    same_stream(model_layer(&m, 4), 2);
    check(dp_layer_write(model_layer(&m, 1), &data, &frozen, &err), &err);
    free(data);
    assert_in_range(frozen, whole / 3, whole * 2 / 5); /* a third, and heads */
    model_close(&m);
    m = model_open(&c, cut, 1, 0.3);
    model_settle(&m);
    model_prune(&m, 0.6, cut, 1);
    model_freeze(&m, 5);
    same_stream(model_layer(&m, 2), 2);
    model_close(&m);
}

#define FLAGS (8 + 4 * 4 + 2 * 8 + 5 * 8) /* where they are in a stream of version 2; behind them rule and notes */
#define HEADER (FLAGS + 2 * 4 + DP_LAYER_NOTES * 8)

/* Bytes at `at` changed, the checksum made to fit again. */
static void refused_with(const struct dp_layer *l, size_t at, const void *bytes, size_t n_bytes, const char *why)
{
    struct dp_err err = {0};
    uint8_t *data;
    uint32_t crc;
    size_t n;

    check(dp_layer_write(l, &data, &n, &err), &err);
    memcpy(data + at, bytes, n_bytes);
    crc = dp_crc32c(0, data, HEADER);
    memcpy(data + HEADER, &crc, sizeof crc);
    assert_null(dp_layer_read(l->config, l->be, l->tune, data, n, &err));
    assert_int_equal(err.code, DP_ECORRUPT);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    free(data);
}

static void flags_that_cannot_be_are_refused(void **state)
{
    struct dp_train_config c = freeze_config("linear", 5, 4, 10, 2), tied = tiny_config();
    struct dp_tune tune = tune_at(&c, 1.0);
    struct dp_backend *be = cpu();
    struct dp_layer *l = layer_at(&c, 1, be, &tune), *head = layer_at(&c, 5, be, &tune), *embedding;
    const uint32_t none[2] = {0}, unknown[2] = {3}, frozen[2] = {1}, no_rule[2] = {1, 0};
    const double nan = NAN, inf = INFINITY, one = 1;
    struct dp_err err = {0};

    (void)state;
    check(dp_layer_freeze(l, &err), &err);
    refused_with(l, 7, &(uint8_t){3}, 1, "magic number");
    refused_with(l, 7, &(uint8_t){0}, 1, "magic number");
    refused_with(l, FLAGS, none, sizeof none, "flags that this program does not know"); /* version 1 says that */
    refused_with(l, FLAGS, unknown, sizeof unknown, "flags that this program does not know");
    refused_with(l, FLAGS + 8, &one, sizeof one, "notes of a rule that are none");
    l->notes.rule = 3;
    refused_with(l, FLAGS + 8, &nan, sizeof nan, "notes of a rule that are none");
    refused_with(l, FLAGS + 16, &inf, sizeof inf, "notes of a rule that are none");
    l->notes.value[1] = 2;
    refused_with(l, FLAGS, no_rule, sizeof no_rule, "notes of a rule that are none");
    head->notes.rule = 4;
    refused_with(head, FLAGS, frozen, sizeof frozen, "never frozen");
    tied.model.tied_head = true;
    embedding = layer_at(&tied, 0, be, &tune);
    embedding->notes.rule = 4;
    refused_with(embedding, FLAGS, frozen, sizeof frozen, "never frozen");
    assert_int_equal(dp_layer_freeze(embedding, &err), -1);
    assert_non_null(strstr(err.text, "learns through the head"));
    /* learning, but without moments; frozen, but with them */
    head->notes.rule = 0;
    refused_with(l, FLAGS, (const uint32_t[2]){0, 3}, 8, "shape of");
    dp_layer_destroy(l);
    l = layer_at(&c, 1, be, &tune);
    l->notes.rule = 3;
    refused_with(l, FLAGS, (const uint32_t[2]){1, 3}, 8, "shape of");
    dp_layer_destroy(l);
    dp_layer_destroy(head);
    dp_layer_destroy(embedding);
    dp_backend_destroy(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(events),
    cmocka_unit_test(schedules_are_their_formulas),
    cmocka_unit_test(plans_are_short_and_in_order),
    cmocka_unit_test(rules_choose_a_prefix),
    cmocka_unit_test(measures_are_what_arrays_say),
    cmocka_unit_test(another_rule_begins_anew),
    cmocka_unit_test(the_others_learn_as_before),
    cmocka_unit_test(memory_is_given_back),
    cmocka_unit_test(a_stage_of_frozen_layers_only_goes_forward),
    cmocka_unit_test(cuts_change_nothing),
    cmocka_unit_test(freezing_in_several_goes),
    cmocka_unit_test(a_run_begins_with_what_is_due),
    cmocka_unit_test(a_layer_begins_anew),
    cmocka_unit_test(streams_read_back),
    cmocka_unit_test(flags_that_cannot_be_are_refused),
};
TEST_MAIN("freeze", tests)
