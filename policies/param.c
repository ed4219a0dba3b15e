/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy param: the fullest device holds as few remaining parameters as possible. Needs no timing, so
 * it is what a run can do before anything was measured; it knows nothing of device speeds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "policies/balancer.h"

static int param_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                        struct dp_err *err)
{
    uint64_t *weight = calloc(in->n_layers, sizeof *weight), largest = 0, total = 0;
    int rc;

    (void)state;
    if (!weight)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    for (uint32_t l = 0; l < in->n_layers; l++)
        total += weight[l] = in->layer[l].nnz;
    rc = dp_policy_minmax(in, weight, false, &out->layout, &largest, err);
    free(weight);
    if (rc < 0)
        return -1;
    snprintf(out->reason, sizeof out->reason,
             "param: fullest device holds %" PRIu64 " of %" PRIu64 " remaining parameters", largest, total);
    return 0;
}

const struct dp_policy dp_policy_param = {
    .abi = DP_POLICY_ABI,
    .name = "param",
    .help = "exact min-max of the remaining parameters per device",
    .decide = param_decide,
};
const struct dp_policy_chain dp_policy_chain_param = {.by = DP_BY_PARAM, .fn = dp_balancer_minmax};
