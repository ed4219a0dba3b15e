/* SPDX-License-Identifier: BSD-3-Clause */
/* The shapes of a GPT-2: which parameters a layer has, how they begin, what pruning may take. */
#ifndef DP_WORKER_MODEL_MODEL_H
#define DP_WORKER_MODEL_MODEL_H

#include "worker/model/layer.h"

enum dp_param_init { DP_INIT_ZERO, DP_INIT_ONE, DP_INIT_NORMAL, DP_INIT_RESIDUAL };

struct dp_param_spec {
    const char *name;
    int64_t rows, cols;
    enum dp_param_init init;
    bool decays, prunable;
    bool is_tied_copy; /* the head's copy of wte */
};

/* Positions in a layer's param array. */
enum { DP_WTE, DP_WPE };
enum { DP_LN1_W, DP_LN1_B, DP_QKV_W, DP_QKV_B, DP_PROJ_W, DP_PROJ_B, DP_LN2_W, DP_LN2_B, DP_FC_W, DP_FC_B,
       DP_MLP_W, DP_MLP_B };
enum { DP_LNF_W, DP_LNF_B, DP_HEAD_W };

/* 0 is the embedding, the last one of dp_model_layers() the head, the others are blocks. */
enum dp_layer_kind dp_model_kind(const struct dp_train_config *config, uint32_t index);
/* For texts: "embedding", "block", "head"; "?" for no kind. */
const char *dp_layer_kind_name(enum dp_layer_kind kind);

/* The parameters of layer `index` in order. returns their number, at most DP_LAYER_MAX_PARAMS. */
uint32_t dp_model_specs(const struct dp_train_config *config, uint32_t index,
                        struct dp_param_spec out[DP_LAYER_MAX_PARAMS]);

/* Index of the first prunable weight of layer `index` among all of the model. */
uint64_t dp_model_first_prunable(const struct dp_train_config *config, uint32_t index);

#endif
