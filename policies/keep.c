/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy keep: the layout stays as it is. The baseline that every other policy is compared with. */
#include <stdio.h>

#include "policies/policy.h"

static int keep_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                       struct dp_err *err)
{
    (void)state;
    for (uint32_t d = 0; d < in->n_devices; d++)
        if (!in->device[d].is_allowed && in->current->cut[d + 1] > in->current->cut[d])
            return dp_err_set(err, DP_EINVAL, "worker %u may not keep its layers", d);
    out->layout = *in->current;
    snprintf(out->reason, sizeof out->reason, "keep: never moves a layer");
    return 0;
}

const struct dp_policy dp_policy_keep = {
    .abi = DP_POLICY_ABI,
    .name = "keep",
    .help = "never move a layer (baseline)",
    .decide = keep_decide,
};
