/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker measures of a layer. A layer that is frozen only goes forward: it has no backward pass, and keeps nothing for it.
 * Part of the interface of policies (policies/policy.h), which sites compile against: no other header is needed here. */
#ifndef DP_COMMON_RUN_LOAD_H
#define DP_COMMON_RUN_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct dp_layer_load {
    uint64_t fwd_ns;       /* device time, forward of one microbatch, median of the window */
    uint64_t bwd_input_ns; /* device time, gradient of the input, one microbatch */
    uint64_t bwd_weight_ns;/* device time, gradient of the weights, one microbatch */
    uint64_t state_bytes;  /* weights, gradients, optimizer state, indexes */
    uint64_t act_bytes;    /* activations kept from forward to backward, one microbatch */
    uint64_t params;       /* parameters of the unpruned layer */
    uint64_t nnz;          /* parameters that are left */
};

/* Is the layer frozen? One that learns always has some backward time where it was measured at all. */
static inline bool dp_load_is_frozen(const struct dp_layer_load *l)
{
    return l->fwd_ns && !l->bwd_input_ns && !l->bwd_weight_ns && !l->act_bytes;
}

#endif
