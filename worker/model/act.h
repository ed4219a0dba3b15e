/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the stage: what layers keep between forward and backward, and the workspace they share.
 *
 * A slot is what one layer keeps of one microbatch; free slots stay in a pool, so that a training step
 * allocates nothing once every microbatch in flight has had its slots. Layer norm outputs and the GELU
 * output are not kept: they are computed again in backward, which costs little and saves 6 of 16
 * (n, c) tensors per block.
 */
#ifndef DP_WORKER_MODEL_ACT_H
#define DP_WORKER_MODEL_ACT_H

#include "worker/model/layer.h"

struct dp_act {
    struct dp_act *next; /* in the pool */
    enum dp_layer_kind kind;
    void *mem;           /* [device] all that follows, one allocation; NULL for the embedding */
    float *x;            /* (n, c) input of the layer */
    float *mean1, *rstd1, *mean2, *rstd2; /* (n); the head uses the first pair */
    float *qkv, *att, *lse, *x2, *fc;     /* block: (n, 3c), (n, c), (b, h, t), (n, c), (n, 4c) in any order */
    float *dx;                            /* head: (n, c), gradient of the final norm's output */
    bool has_loss;                        /* head: dx is there */
};

struct dp_work {
    void *mem;          /* [device] */
    float *a;           /* (n, c) in any order */
    float *b;           /* (n, c) */
    float *h, *g;       /* (n, 4c) in any order */
    float *d;           /* (n, c) gradient on its way back */
    float *t;           /* (n, c) the same in tiles */
    double *loss;       /* [host] n */
    size_t bytes;
};

struct dp_act_pool {
    const struct dp_train_config *config;
    struct dp_backend *be;
    struct dp_act *free[3]; /* by kind */
    size_t bytes;           /* of all slots, used and free */
};

/* Bytes of a slot. */
size_t dp_act_bytes(const struct dp_train_config *config, enum dp_layer_kind kind);
/* A slot from the pool, or a new one; NULL and err when there is no memory. */
struct dp_act *dp_act_take(struct dp_act_pool *pool, enum dp_layer_kind kind, struct dp_err *err);
/* Back into the pool; NULL is fine. */
void dp_act_give(struct dp_act_pool *pool, struct dp_act *act);
void dp_act_pool_release(struct dp_act_pool *pool); /* slots that are still taken are the caller's */
void dp_act_destroy(struct dp_act_pool *pool, struct dp_act *act);

int dp_work_init(struct dp_work *work, const struct dp_train_config *config, struct dp_backend *be,
                 struct dp_err *err);
void dp_work_release(struct dp_work *work, struct dp_backend *be);

/* One layer, one microbatch. forward: act->x -> y (n, c) (the head: -> loss and act->dx). backward: work->d
 * is the gradient of y on entry and of x on return; += into the layer's gradients. They add to the
 * layer's times. targets NULL: no loss. keep: backward will follow. */
int dp_embedding_forward(struct dp_layer *l, const uint32_t *tokens, float *y, bool keep, struct dp_err *err);
int dp_embedding_backward(struct dp_layer *l, struct dp_work *work, const uint32_t *tokens, struct dp_err *err);
int dp_block_forward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, float *y, bool keep,
                     struct dp_err *err);
int dp_block_backward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, struct dp_err *err);
int dp_head_forward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, const uint32_t *targets,
                    double *loss, bool keep, struct dp_err *err);
int dp_head_backward(struct dp_layer *l, struct dp_act *act, struct dp_work *work, struct dp_err *err);

#endif
