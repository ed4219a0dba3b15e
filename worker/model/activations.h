/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the stage: what layers keep between forward and backward, and the workspace they share.
 *
 * A set is what one layer keeps of one microbatch. Layer norm outputs and the GELU output are not kept: they are
 * computed again in backward, which costs little and saves 6 of 16 (n, c) tensors per block.
 */
#ifndef DP_WORKER_MODEL_ACTIVATIONS_H
#define DP_WORKER_MODEL_ACTIVATIONS_H

#include "worker/model/layer.h"

struct dp_activations {
    enum dp_layer_kind kind;
    void *mem;           /* [device] all that follows, one allocation; NULL for the embedding */
    size_t bytes;        /* of it */
    void *x;             /* (n, c) input of the layer; of a stage's first layer not in mem */
    float *mean1, *rstd1, *mean2, *rstd2; /* (n); the head uses the first pair */
    void *qkv, *att, *x2, *fc; /* block: (n, 3c), (n, c), (n, c), (n, 4c) in any format */
    float *lse;                /* block: (b, h, t) */
    void *dx;                  /* head: (n, c), gradient of the final norm's output */
    bool has_loss;                        /* head: dx is there */
};

struct dp_workspace {
    void *mem;          /* [device] */
    void *a;            /* (n, c) in any format */
    void *b;            /* (n, c) */
    void *h, *g;        /* (n, 4c) in any format */
    void *d;            /* (n, c) gradient on its way back */
    void *t;            /* (n, c) the same in another format; nothing where sparse operations like rows */
    double *doubles;    /* [device] what the next two are parts of */
    double *loss;       /* n */
    double *squares;    /* [layers][DP_LAYER_MAX_PARAMS] sums of squares of gradients */
    struct dp_step_scalars *step; /* [device] of the optimizer step */
    size_t bytes;
};

/* Bytes of a set on a device, the layer's input included. */
size_t dp_activations_bytes(const struct dp_train_config *config, const struct dp_device_info *device, enum dp_layer_kind kind);
/* A set for a layer, is_first: of a stage. returns 0, or -1 and err; release it either way. */
int dp_activations_init(struct dp_activations *act, const struct dp_train_config *config, struct dp_backend *be,
                        enum dp_layer_kind kind, bool is_first, struct dp_err *err);
void dp_activations_release(struct dp_activations *act, struct dp_backend *be); /* one of zeroes is fine */

/* Room for the intermediate results of one microbatch, which all layers of a stage share. returns 0, or -1; release
 * it either way. */
int dp_workspace_init(struct dp_workspace *work, const struct dp_train_config *config, struct dp_backend *be,
                      uint32_t n_layers, struct dp_err *err);
/* Free it; be: the backend that it was made on. A struct of zeroes may be released, too. */
void dp_workspace_release(struct dp_workspace *work, struct dp_backend *be);

#endif
