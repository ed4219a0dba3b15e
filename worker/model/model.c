/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a GPT-2's parameters (model.h; Radford et al. 2019). Matrices are (outputs, inputs) as
 * the linear operation of kernels/backend.h takes them. Everything that must agree between layers,
 * checkpoints, pruning and messages about shapes is derived from here.
 */
#include "worker/model/model.h"

#include <string.h>

uint32_t dp_model_layers(const struct dp_train_config *config)
{
    return (uint32_t)config->model.blocks + 2;
}

enum dp_layer_kind dp_model_kind(const struct dp_train_config *config, uint32_t index)
{
    if (index == 0)
        return DP_LAYER_EMBEDDING;
    return index + 1 == dp_model_layers(config) ? DP_LAYER_HEAD : DP_LAYER_BLOCK;
}

const char *dp_layer_kind_name(enum dp_layer_kind kind)
{
    static const char *const names[] = {"embedding", "block", "head"};

    return (unsigned)kind < 3 ? names[kind] : "?";
}

uint32_t dp_model_specs(const struct dp_train_config *config, uint32_t index,
                        struct dp_param_spec out[DP_LAYER_MAX_PARAMS])
{
    const int64_t c = config->model.channels, v = config->model.vocabulary, t = config->model.context;
    const bool tied = config->model.tied_head;
    const struct dp_param_spec embedding[] = {
        {"wte", v, c, DP_INIT_NORMAL, true, false, false},
        {"wpe", t, c, DP_INIT_NORMAL, true, false, false},
    };
    const struct dp_param_spec block[] = {
        {"ln1.weight", c, 1, DP_INIT_ONE, false, false, false},
        {"ln1.bias", c, 1, DP_INIT_ZERO, false, false, false},
        {"attn.qkv.weight", 3 * c, c, DP_INIT_NORMAL, true, true, false},
        {"attn.qkv.bias", 3 * c, 1, DP_INIT_ZERO, false, false, false},
        {"attn.proj.weight", c, c, DP_INIT_RESIDUAL, true, true, false},
        {"attn.proj.bias", c, 1, DP_INIT_ZERO, false, false, false},
        {"ln2.weight", c, 1, DP_INIT_ONE, false, false, false},
        {"ln2.bias", c, 1, DP_INIT_ZERO, false, false, false},
        {"mlp.fc.weight", 4 * c, c, DP_INIT_NORMAL, true, true, false},
        {"mlp.fc.bias", 4 * c, 1, DP_INIT_ZERO, false, false, false},
        {"mlp.proj.weight", c, 4 * c, DP_INIT_RESIDUAL, true, true, false},
        {"mlp.proj.bias", c, 1, DP_INIT_ZERO, false, false, false},
    };
    const struct dp_param_spec head[] = {
        {"lnf.weight", c, 1, DP_INIT_ONE, false, false, false},
        {"lnf.bias", c, 1, DP_INIT_ZERO, false, false, false},
        {"head.weight", v, c, DP_INIT_NORMAL, true, false, tied},
    };

    switch (dp_model_kind(config, index)) {
    case DP_LAYER_EMBEDDING:
        memcpy(out, embedding, sizeof embedding);
        return sizeof embedding / sizeof embedding[0];
    case DP_LAYER_HEAD:
        memcpy(out, head, sizeof head);
        return sizeof head / sizeof head[0];
    default:
        memcpy(out, block, sizeof block);
        return sizeof block / sizeof block[0];
    }
}

static uint64_t prunable_of(const struct dp_train_config *config, uint32_t index)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    uint32_t n = dp_model_specs(config, index, spec);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        if (spec[i].prunable)
            sum += (uint64_t)(spec[i].rows * spec[i].cols);
    return sum;
}

uint64_t dp_model_first_prunable(const struct dp_train_config *config, uint32_t index)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < index; i++)
        sum += prunable_of(config, i);
    return sum;
}

uint64_t dp_model_prunable(const struct dp_train_config *config)
{
    return dp_model_first_prunable(config, dp_model_layers(config));
}
