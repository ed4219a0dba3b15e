/* SPDX-License-Identifier: BSD-3-Clause */
/* The tiny model of engine.h cut into stages that run in one process, one after the other, as workers would. */
#ifndef DP_TESTS_UNIT_WORKER_STAGED_MODEL_H
#define DP_TESTS_UNIT_WORKER_STAGED_MODEL_H

#include "tests/unit/worker/engine.h"

#define MAX_STAGES 8

struct model {
    struct dp_train_config *config;
    struct dp_backend *be;
    struct dp_tune tune;
    uint32_t n_stages;
    struct dp_stage *stage[MAX_STAGES];
    float *wire[MAX_STAGES + 1]; /* messages in front of stage s */
    bool all_forwards_first;     /* GPipe's order instead of one after the other */
};

/* New layers; cut: [n_stages + 1]. Sparse from a sparsity of `crossover` on. Then model_settle(). */
struct model model_open(struct dp_train_config *c, const uint32_t *cut, uint32_t n_stages, double crossover);
/* The tune table moved with the struct: layers must not point into the old place. */
void model_settle(struct model *m);
void model_close(struct model *m);

/* Borrowed, by its index in the model. */
struct dp_layer *model_layer(struct model *m, uint32_t index);
/* Fails the test where a call failed. */
void check(int rc, const struct dp_err *err);

/* One microbatch of fake_tokens(): the loss summed over its tokens. keep: its backward follows. */
double model_forward(struct model *m, uint64_t step, uint32_t mb, bool keep);
void model_backward(struct model *m, uint64_t step, uint32_t mb);
/* Forward and backward of a step, with the layers that the configuration's schemes let run: mean loss. */
double model_gradients(struct model *m, uint64_t step);
/* The tied head has the embedding's weights again. */
void tie_weights(struct model *m);
/* Of each layer's gradients, which are there. */
void model_squares(struct model *m, double *squares);
/* What ends step number `step`: schemes take note, the optimizer steps, norms clipped at 1/2. */
void model_optimize(struct model *m, uint64_t step, const double *squares);
/* A step from its forwards to its end: mean loss. */
double model_step(struct model *m, uint64_t step);
/* The first n layers only go forward from here on. */
void model_freeze(struct model *m, uint32_t n);
/* Cut anew: every layer goes through its byte stream. */
void model_cut(struct model *m, const uint32_t *cut, uint32_t n_stages);
/* Prune as one stage, then cut anew: every layer goes through its byte stream. */
void model_prune(struct model *m, double target, const uint32_t *cut, uint32_t n_stages);
/* The byte streams of all layers in their order; *bytes: the caller frees. */
void model_bytes(struct model *m, uint8_t **bytes, size_t *n_bytes);

#endif
