/* SPDX-License-Identifier: BSD-3-Clause */
/* See staged_model.h. */
#include "tests/unit/worker/staged_model.h"

#include <math.h>

#include "worker/model/model.h"
#include "worker/scheme/scheme.h"

static void model_stages(struct model *m, struct dp_layer **layers, const uint32_t *cut)
{
    struct dp_err err = {0};

    for (uint32_t s = 0; s < m->n_stages; s++) {
        m->stage[s] = dp_stage_create(m->config, m->be, layers + cut[s], cut[s + 1] - cut[s],
                                      (uint32_t)m->config->train.microbatches, &err);
        if (!m->stage[s])
            fail_msg("%s", err.text);
    }
}

struct model model_open(struct dp_train_config *c, const uint32_t *cut, uint32_t n_stages,
                               double crossover)
{
    struct model m = {.config = c, .be = cpu(), .tune = tune_at(c, crossover), .n_stages = n_stages};
    size_t n = (size_t)(c->train.batch * c->model.context * c->model.channels * c->train.microbatches);
    struct dp_layer *layers[64];

    for (uint32_t i = 0; i < dp_model_layers(c); i++)
        layers[i] = layer_at(c, i, m.be, &m.tune);
    for (uint32_t s = 0; s <= n_stages; s++)
        m.wire[s] = calloc(n, sizeof(float));
    model_stages(&m, layers, cut);
    return m;
}

void model_settle(struct model *m)
{
    for (uint32_t s = 0; s < m->n_stages; s++)
        for (uint32_t i = 0; i < dp_stage_n_layers(m->stage[s]); i++)
            dp_stage_layer(m->stage[s], i)->tune = &m->tune;
}

void model_close(struct model *m)
{
    for (uint32_t s = 0; s < m->n_stages; s++)
        dp_stage_destroy(m->stage[s]);
    for (uint32_t s = 0; s <= m->n_stages; s++)
        free(m->wire[s]);
    dp_backend_destroy(m->be);
}

struct dp_layer *model_layer(struct model *m, uint32_t index)
{
    uint32_t s = 0;

    while (index >= dp_stage_n_layers(m->stage[s]))
        index -= dp_stage_n_layers(m->stage[s++]);
    return dp_stage_layer(m->stage[s], index);
}

void check(int rc, const struct dp_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

double model_forward(struct model *m, uint64_t step, uint32_t mb, bool keep)
{
    const struct dp_train_config *c = m->config;
    int64_t n = c->train.batch * c->model.context;
    uint32_t tokens[256], targets[256];
    struct dp_err err = {0};
    double loss = keep ? NAN : 0.0;

    fake_tokens(c, step, mb, tokens, targets);
    if (keep)
        dp_stage_touch_tokens(m->stage[0], tokens, n);
    for (uint32_t s = 0; s < m->n_stages; s++)
        check(dp_stage_forward(m->stage[s], mb, m->wire[s] + mb * n * c->model.channels, tokens, targets,
                               m->wire[s + 1] + mb * n * c->model.channels, &loss, keep, &err), &err);
    return loss;
}

void model_backward(struct model *m, uint64_t step, uint32_t mb)
{
    const struct dp_train_config *c = m->config;
    int64_t n = c->train.batch * c->model.context * c->model.channels, at = mb * n;
    uint32_t tokens[256], targets[256];
    struct dp_err err = {0};

    fake_tokens(c, step, mb, tokens, targets);
    for (uint32_t s = m->n_stages; s-- > 0 && dp_stage_n_frozen(m->stage[s]) < dp_stage_n_layers(m->stage[s]);) {
        check(dp_stage_backward(m->stage[s], mb, m->wire[s + 1] + at, tokens, &err), &err);
        memcpy(m->wire[s] + at, m->wire[s + 1] + at, (size_t)n * sizeof *m->wire[s]);
    }
}

double model_gradients(struct model *m, uint64_t step)
{
    const struct dp_train_config *c = m->config;
    uint32_t n_mb = (uint32_t)c->train.microbatches;
    double sum = 0;

    for (uint32_t s = 0; s < m->n_stages; s++)
        dp_stage_begin_step(m->stage[s], step, dp_schemes_runs(c));
    for (uint32_t mb = 0; mb < n_mb; mb++) {
        sum += model_forward(m, step, mb, true);
        if (!m->all_forwards_first)
            model_backward(m, step, mb);
    }
    for (uint32_t mb = 0; mb < n_mb && m->all_forwards_first; mb++)
        model_backward(m, step, mb);
    if (c->model.tied_head) {
        struct dp_layer *head = model_layer(m, dp_model_layers(c) - 1);
        struct dp_err err = {0};

        check(dp_layer_tied_merge(model_layer(m, 0), dp_layer_tied_gradient(head), &err), &err);
    }
    return sum / (double)(c->train.batch * c->model.context * c->train.microbatches);
}

void tie_weights(struct model *m)
{
    struct dp_layer *head = model_layer(m, dp_model_layers(m->config) - 1);
    struct dp_err err = {0};

    if (!m->config->model.tied_head)
        return;
    check(dp_layer_tied_set(head, dp_layer_tied_weight(model_layer(m, 0)), &err), &err);
}

void model_squares(struct model *m, double *squares)
{
    struct dp_err err = {0};

    for (uint32_t s = 0; s < m->n_stages; squares += dp_stage_n_layers(m->stage[s++])) {
        check(dp_stage_sum_squares(m->stage[s], &err), &err);
        check(dp_stage_grad_squares(m->stage[s], squares, &err), &err);
    }
}

void model_optimize(struct model *m, uint64_t step, const double *squares)
{
    double sum = 0, norm, scale;
    struct dp_err err = {0};

    for (uint32_t i = 0; i < dp_model_layers(m->config); i++)
        sum += squares[i];
    norm = sqrt(sum);
    scale = norm > 0.5 ? 0.5 / norm : 1.0;
    for (uint32_t s = 0; s < m->n_stages; squares += dp_stage_n_layers(m->stage[s++])) {
        dp_schemes_observe(m->stage[s], m->config, step + 1, squares, scale);
        check(dp_stage_step(m->stage[s], step, scale, &err), &err);
    }
    if (m->config->model.tied_head)
        dp_layer_tied_split(model_layer(m, 0),
                            dp_layer_tied_gradient(model_layer(m, dp_model_layers(m->config) - 1)));
    tie_weights(m);
}

double model_step(struct model *m, uint64_t step)
{
    double loss = model_gradients(m, step), squares[64];

    model_squares(m, squares);
    model_optimize(m, step, squares);
    return loss;
}

/* All layers out of their stages, which are gone. */
static void take_layers(struct model *m, struct dp_layer **layers)
{
    for (uint32_t s = 0, at = 0; s < m->n_stages; s++) {
        uint32_t count = dp_stage_n_layers(m->stage[s]);

        dp_stage_take_layers(m->stage[s], layers + at);
        assert_int_equal(dp_stage_n_layers(m->stage[s]), 0);
        dp_stage_destroy(m->stage[s]);
        at += count;
    }
}

/* Into new stages, every one through its byte stream. */
static void put_layers(struct model *m, struct dp_layer **layers, const uint32_t *cut, uint32_t n_stages)
{
    struct dp_err err = {0};

    for (uint32_t i = 0; i < dp_model_layers(m->config); i++) {
        struct dp_layer *old = layers[i];
        uint8_t *data;
        size_t bytes;

        check(dp_layer_write(old, &data, &bytes, &err), &err);
        layers[i] = dp_layer_read(m->config, m->be, &m->tune, data, bytes, &err);
        if (!layers[i])
            fail_msg("%s", err.text);
        free(data);
        dp_layer_destroy(old);
    }
    for (uint32_t s = 0; s <= (m->n_stages > n_stages ? m->n_stages : n_stages); s++) {
        size_t n = (size_t)(m->config->train.batch * m->config->model.context * m->config->model.channels *
                            m->config->train.microbatches);

        if (s > m->n_stages)
            m->wire[s] = calloc(n, sizeof(float));
        else if (s > n_stages)
            free(m->wire[s]);
    }
    m->n_stages = n_stages;
    model_stages(m, layers, cut);
}

void model_cut(struct model *m, const uint32_t *cut, uint32_t n_stages)
{
    struct dp_layer *layers[64];

    take_layers(m, layers);
    put_layers(m, layers, cut, n_stages);
}

void model_freeze(struct model *m, uint32_t n)
{
    struct dp_err err = {0};

    for (uint32_t s = 0, first = 0; s < m->n_stages; first += dp_stage_n_layers(m->stage[s++]))
        if (n > first)
            check(dp_stage_freeze(m->stage[s], n - first, &err), &err);
}

void model_prune(struct model *m, double target, const uint32_t *cut, uint32_t n_stages)
{
    struct dp_layer *layers[64];
    struct dp_err err = {0};
    struct dp_stage *whole;
    double reached = 0;

    take_layers(m, layers);
    whole = dp_stage_create(m->config, m->be, layers, dp_model_layers(m->config), 1, &err);
    check(dp_prune_run(whole, NULL, m->config, target, NULL, NULL, &reached, &err), &err);
    assert_true(fabs(reached - target) * (double)dp_model_prunable(m->config) <=
                (double)dp_block_weights(dp_train_block_rows(m->config))); /* of whole blocks */
    dp_stage_take_layers(whole, layers);
    dp_stage_destroy(whole);
    put_layers(m, layers, cut, n_stages);
}

void model_bytes(struct model *m, uint8_t **bytes, size_t *n_bytes)
{
    *bytes = NULL;
    *n_bytes = 0;
    for (uint32_t i = 0; i < dp_model_layers(m->config); i++) {
        uint8_t *one;
        size_t n;

        assert_int_equal(dp_layer_write(model_layer(m, i), &one, &n, NULL), 0);
        *bytes = realloc(*bytes, *n_bytes + n);
        assert_non_null(*bytes);
        memcpy(*bytes + *n_bytes, one, n);
        *n_bytes += n;
        free(one);
    }
}
