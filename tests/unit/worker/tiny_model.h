/* SPDX-License-Identifier: BSD-3-Clause */
/* The tiny model of tests and fuzzers. */
#ifndef DP_TESTS_UNIT_WORKER_TINY_MODEL_H
#define DP_TESTS_UNIT_WORKER_TINY_MODEL_H

#include "kernels/autotune.h"
#include "worker/model/train_config.h"

/* blocks, channels, heads and context are small; vocabulary 17 keeps rows off the vector width. returns 0 or -1. */
static inline int tiny_model(struct dp_train_config *c, struct dp_err *err)
{
    if (dp_train_config_load(NULL, 0, NULL, c, err) < 0)
        return -1;
    c->model.blocks = 2;
    c->model.channels = 12;
    c->model.heads = 3;
    c->model.context = 5;
    c->model.vocabulary = 17;
    c->train.batch = 2;
    c->train.microbatches = 2;
    c->train.steps = 20;
    c->train.warmup = 2;
    c->train.seed = 42;
    return 0;
}

/* Every shape becomes sparse from this sparsity on, at the run's granularity. */
static inline struct dp_tune tune_at(const struct dp_train_config *c, double crossover)
{
    const int64_t ch = c->model.channels, n = c->train.batch * c->model.context;
    const int64_t block = dp_train_block_rows(c);
    const struct dp_tune t = {.n_entries = 4,
                              .entry = {{3 * ch, ch, n, crossover, block},
                                        {ch, ch, n, crossover, block},
                                        {4 * ch, ch, n, crossover, block},
                                        {ch, 4 * ch, n, crossover, block}}};

    return t;
}

#endif
