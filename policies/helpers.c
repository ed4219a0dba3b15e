/* SPDX-License-Identifier: BSD-3-Clause */
/* What policies share: which devices count, and the exact min-max layout. See policy.h. Site policies
 * link these functions from libdynpipe-policy.a, so nothing here may need the rest of the library. */
#include "policies/policy.h"

#include <stdlib.h>

#include "common/schedule/schedule.h"
#include "policies/chain_problem.h"

uint32_t dp_policy_allowed(const struct dp_policy_in *in, uint32_t index[DP_MAX_WORKERS])
{
    uint32_t n = 0;

    for (uint32_t d = 0; d < in->n_devices; d++)
        if (in->device[d].is_allowed && !in->current->gone[d])
            index[n++] = d;
    return n;
}

uint32_t dp_policy_in_flight(const struct dp_policy_in *in, uint32_t i, uint32_t n)
{
    return dp_schedule_in_flight(in->schedule, i, n, in->microbatches);
}

void dp_policy_spread(const struct dp_policy_in *in, const uint32_t *index, uint32_t n, const uint32_t *cut,
                      struct dp_layout *out)
{
    uint32_t i = 0;

    *out = *in->current;
    out->cut[0] = 0;
    for (uint32_t d = 0; d < in->n_devices; d++) {
        if (i < n && index[i] == d)
            i++;
        out->cut[d + 1] = cut[i];
    }
}

uint64_t dp_policy_layer_work_ns(const struct dp_policy_in *in, uint32_t layer)
{
    const struct dp_layer_load *l = &in->layer[layer];

    return in->microbatches * (l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns) +
           (in->layer_opt_ns ? in->layer_opt_ns[layer] : 0);
}

double dp_policy_message_ns(const struct dp_policy_in *in)
{
    double message_s = in->link_latency_s;

    if (in->link_bytes_per_s > 0.0)
        message_s += (double)in->stage_message_bytes / in->link_bytes_per_s;
    return 2e9 * in->microbatches * message_s;
}

int dp_policy_minmax(const struct dp_policy_in *in, const uint64_t *weight, bool with_speed,
                     struct dp_layout *out, uint64_t *largest, struct dp_err *err)
{
    struct dp_chain_problem *t = dp_chain_problem_create(in, with_speed);
    int rc;

    if (!t)
        return dp_err_set(err, DP_ENOMEM, "layout: out of memory");
    t->q.weight = weight;
    rc = dp_partition_minmax(&t->q, t->cut, largest, err);
    if (rc == 0)
        dp_policy_spread(in, t->index, t->q.p, t->cut, out);
    free(t);
    return rc;
}
