/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the stage: what layers keep between forward and backward, and the workspace they share.
 *
 * A set is what one layer keeps of one microbatch; free sets stay in a pool, so that a training step
 * allocates nothing once every microbatch in flight has had its sets. Layer norm outputs and the GELU
 * output are not kept: they are computed again in backward, which costs little and saves 6 of 16
 * (n, c) tensors per block.
 */
#ifndef DP_WORKER_MODEL_ACTIVATIONS_H
#define DP_WORKER_MODEL_ACTIVATIONS_H

#include "worker/model/layer.h"

struct dp_activations {
    struct dp_activations *next; /* in the pool */
    enum dp_layer_kind kind;
    void *mem;           /* [device] all that follows, one allocation; NULL for the embedding */
    float *x;            /* (n, c) input of the layer */
    float *mean1, *rstd1, *mean2, *rstd2; /* (n); the head uses the first pair */
    float *qkv, *att, *lse, *x2, *fc;     /* block: (n, 3c), (n, c), (b, h, t), (n, c), (n, 4c) in any format */
    float *dx;                            /* head: (n, c), gradient of the final norm's output */
    bool has_loss;                        /* head: dx is there */
};

struct dp_workspace {
    void *mem;          /* [device] */
    float *a;           /* (n, c) in any format */
    float *b;           /* (n, c) */
    float *h, *g;       /* (n, 4c) in any format */
    float *d;           /* (n, c) gradient on its way back */
    float *t;           /* (n, c) the same in tiles */
    double *loss;       /* [host] n */
    size_t bytes;
};

struct dp_activation_pool {
    const struct dp_train_config *config;
    struct dp_backend *be;
    struct dp_activations *free[3]; /* by kind */
    size_t bytes;           /* of all sets, used and free */
};

/* Bytes of a set. */
size_t dp_activations_bytes(const struct dp_train_config *config, enum dp_layer_kind kind);
/* A set from the pool, or a new one; NULL and err when there is no memory. */
struct dp_activations *dp_activations_take(struct dp_activation_pool *pool, enum dp_layer_kind kind, struct dp_err *err);
/* Back into the pool; NULL is fine. */
void dp_activations_give(struct dp_activation_pool *pool, struct dp_activations *act);
void dp_activation_pool_release(struct dp_activation_pool *pool); /* sets that are still taken are the caller's */
void dp_activations_destroy(struct dp_activation_pool *pool, struct dp_activations *act);

/* Room for the intermediate results of one microbatch, which all layers of a stage share. returns 0, or -1; release
 * it either way. */
int dp_workspace_init(struct dp_workspace *work, const struct dp_train_config *config, struct dp_backend *be,
                      struct dp_err *err);
/* Free it; be: the backend that it was made on. A struct of zeroes may be released, too. */
void dp_workspace_release(struct dp_workspace *work, struct dp_backend *be);

#endif
