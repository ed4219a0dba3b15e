/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy time: the slowest device is as fast as possible, by measured times of forward, both backward
 * parts and the optimizer, device speeds and memory included. With 1F1B an iteration takes about
 * sum(t_s) + (m-1) max(t_s): the sum does not depend on the cuts, so the maximum is what counts. */
#include <stdio.h>
#include <stdlib.h>

#include "policies/balancer.h"

static int time_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                       struct dp_err *err)
{
    uint64_t *weight = calloc(in->n_layers, sizeof *weight), largest = 0, total = 0;
    uint32_t index[DP_MAX_WORKERS], p = dp_policy_allowed(in, index);
    double speed = 0.0;
    int rc;

    (void)state;
    if (!weight)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    for (uint32_t l = 0; l < in->n_layers; l++)
        total += weight[l] = dp_policy_layer_work_ns(in, l);
    rc = dp_policy_minmax(in, weight, true, &out->layout, &largest, err);
    free(weight);
    if (rc < 0)
        return -1;
    for (uint32_t i = 0; i < p; i++)
        speed += in->device[index[i]].speed;
    snprintf(out->reason, sizeof out->reason,
             "time: slowest device computes %.3f ms a step, perfectly even would be %.3f ms on %u devices",
             (double)largest / 1e6, (double)total / speed / 1e6, p);
    return 0;
}

const struct dp_policy dp_policy_time = {
    .abi = DP_POLICY_ABI,
    .name = "time",
    .help = "exact min-max of the measured time per device",
    .decide = time_decide,
};
const struct dp_policy_chain dp_policy_chain_time = {.by = DP_BY_TIME, .fn = dp_balancer_minmax};
