/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy uniform: Megatron-LM's, the same number of layers on every device, the first devices one more. */
#include <stdio.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"

static int uniform_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                          struct dp_err *err)
{
    uint32_t index[DP_MAX_WORKERS], cut[DP_MAX_WORKERS + 1] = {0};
    uint32_t p = dp_policy_allowed(in, index);

    (void)state;
    if (!p)
        return dp_err_set(err, DP_EINVAL, "no device is allowed");
    for (uint32_t i = 0; i < p; i++)
        cut[i + 1] = cut[i] + in->n_layers / p + (i < in->n_layers % p);
    dp_policy_spread(in, index, p, cut, &out->layout);
    snprintf(out->reason, sizeof out->reason, "uniform: %u layers on %u devices, %u to %u each",
             in->n_layers, p, in->n_layers / p, (in->n_layers + p - 1) / p);
    return 0;
}

static int uniform_chain(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note, struct dp_err *err)
{
    (void)note;
    (void)err;
    dp_chain_uniform(q->n, q->p, cut);
    return 0;
}

const struct dp_policy dp_policy_uniform = {
    .abi = DP_POLICY_ABI,
    .name = "uniform",
    .help = "equal number of layers on every device",
    .decide = uniform_decide,
};
const struct dp_policy_chain dp_policy_chain_uniform = {.by = DP_BY_TIME, .fn = uniform_chain};
