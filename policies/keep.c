/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy keep: the layout stays as it is. The baseline that every other policy is compared with. */
#include <stdio.h>

#include "policies/balancer.h"

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

static int keep_chain(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note, struct dp_err *err)
{
    (void)note;
    for (uint32_t b = 0; b <= q->p; b++)
        cut[b] = q->prefer[b];
    return q->prefer[q->p] == q->n ? 0 : dp_err_set(err, DP_EINVAL, "worker %u may not keep its layers", q->p);
}

const struct dp_policy dp_policy_keep = {
    .abi = DP_POLICY_ABI,
    .name = "keep",
    .help = "never move a layer (baseline)",
    .decide = keep_decide,
};
const struct dp_policy_chain dp_policy_chain_keep = {.by = DP_BY_TIME, .fn = keep_chain};
