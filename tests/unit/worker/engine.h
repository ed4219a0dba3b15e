/* SPDX-License-Identifier: BSD-3-Clause */
/* A tiny model on backend cpu for the tests of the engine. */
#ifndef DP_TESTS_UNIT_ENGINE_H
#define DP_TESTS_UNIT_ENGINE_H

#include "tests/unit/unit.h"
#include "tests/unit/worker/tiny_model.h"
#include "worker/scheme/prune_run.h"
#include "worker/model/stage.h"

static inline struct dp_train_config tiny_config(void)
{
    struct dp_train_config c;
    struct dp_err err = {0};

    if (tiny_model(&c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static inline struct dp_backend *cpu(void)
{
    struct dp_err err = {0};
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, &err);

    if (!be)
        fail_msg("%s", err.text);
    return be;
}

static inline struct dp_layer *layer_at(const struct dp_train_config *c, uint32_t index, struct dp_backend *be,
                                        const struct dp_tune *tune)
{
    struct dp_err err = {0};
    struct dp_layer *l = dp_layer_create(c, index, be, tune, &err);

    if (!l)
        fail_msg("%s", err.text);
    return l;
}

/* Layers [first, end) as a stage. */
static inline struct dp_stage *stage_of(const struct dp_train_config *c, uint32_t first, uint32_t end,
                                        struct dp_backend *be, const struct dp_tune *tune)
{
    struct dp_layer *layers[64];
    struct dp_err err = {0};
    struct dp_stage *s;

    for (uint32_t i = first; i < end; i++)
        layers[i - first] = layer_at(c, i, be, tune);
    s = dp_stage_create(c, be, layers, end - first, (uint32_t)c->train.microbatches, &err);
    if (!s)
        fail_msg("%s", err.text);
    return s;
}

/* Tokens of a microbatch without a file: a counter hashed. */
static inline void fake_tokens(const struct dp_train_config *c, uint64_t step, uint32_t mb, uint32_t *tokens,
                               uint32_t *targets)
{
    const int64_t n = c->train.batch * c->model.context;

    for (int64_t i = 0; i < n; i++) {
        uint64_t h = (step * 1000003 + mb * 8191 + (uint64_t)i) * 0x9e3779b97f4a7c15u;

        tokens[i] = (uint32_t)((h >> 33) % (uint64_t)c->model.vocabulary);
        targets[i] = (uint32_t)((h >> 45) % (uint64_t)c->model.vocabulary);
    }
}

/* A fully trained-looking layer: weights, moments and pattern that are not all zero or equal. */
static inline void shake(struct dp_layer *l, uint32_t seed)
{
    for (uint32_t i = 0; i < l->n_params; i++) {
        struct dp_param *p = &l->param[i];

        for (int64_t k = 0; k < p->n; k++) {
            seed = seed * 1664525u + 1013904223u;
            p->w[k] += (float)((double)(seed >> 8) / 16777216.0 - 0.5);
            if (p->m) {
                p->m[k] = p->w[k] * 0.25f;
                p->v[k] = p->w[k] * p->w[k];
            }
        }
    }
}

#endif
