/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker measures of a layer. Part of the interface of
 * policies (policies/policy.h), which sites compile against: no other header is needed here. */
#ifndef DP_COMMON_RUN_LOAD_H
#define DP_COMMON_RUN_LOAD_H

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

#endif
