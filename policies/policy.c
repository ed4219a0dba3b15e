/* SPDX-License-Identifier: BSD-3-Clause */
/* The check of policies, and of what they are asked. See policy.h; what they answer: predict/answer.c. */
#include "policies/policy.h"

#include <math.h>

#include "common/schedule/schedule.h"

#define SUM_MAX 4e18 /* below 2^62: a few such sums may be added */

bool dp_policy_is_broken(const struct dp_err *err)
{
    return err->code == DP_EPROTO || err->code == DP_ETIMEOUT || err->code == DP_EGONE || err->code == DP_ENOTSUP;
}

int dp_policy_check(const struct dp_policy *policy, struct dp_err *err)
{
    if (policy->abi != DP_POLICY_ABI)
        return dp_err_set(err, DP_ENOTSUP, "it has policy interface %u, this program has %d", policy->abi,
                          DP_POLICY_ABI);
    if (!policy->name || !policy->help || !policy->decide)
        return dp_err_set(err, DP_ENOTSUP, "it has no %s", !policy->decide ? "decide()" : !policy->name ? "name" : "help");
    return 0;
}

/* The longest sums that anybody forms, in floating point: a step's work on the slowest device and all its messages
 * one after the other, and the memory of everything at once. */
static int sums_check(const struct dp_policy_in *in, struct dp_err *err)
{
    double ns = 0.0, bytes = 0.0, nonzeros = 0.0, slowest = 1.0;

    for (uint32_t d = 0; d < in->n_devices; d++)
        if (in->device[d].speed < slowest)
            slowest = in->device[d].speed;
    for (uint32_t l = 0; l < in->n_layers; l++) {
        const struct dp_layer_load *k = &in->layer[l];

        ns += in->microbatches * ((double)k->fwd_ns + (double)k->bwd_input_ns + (double)k->bwd_weight_ns) +
              (in->layer_opt_ns ? (double)in->layer_opt_ns[l] : 0.0);
        bytes += (double)k->state_bytes + in->microbatches * (double)k->act_bytes;
        nonzeros += (double)k->nnz;
    }
    ns = ns / slowest + in->n_devices * dp_policy_message_ns(in);
    if (!(ns < SUM_MAX) || !(bytes < SUM_MAX) || !(nonzeros < SUM_MAX))
        return dp_err_set(err, DP_EINVAL, "snapshot: a step of %g s in %g bytes with %g parameters", ns / 1e9,
                          bytes, nonzeros);
    return 0;
}

int dp_policy_in_check(const struct dp_policy_in *in, struct dp_err *err)
{
    if (in->n_layers < 1 || in->n_layers > DP_MAX_LAYERS || in->n_devices < 1 ||
        in->n_devices > DP_MAX_WORKERS)
        return dp_err_set(err, DP_EINVAL, "snapshot: %u layers on %u devices", in->n_layers, in->n_devices);
    if (in->current->n_layers != in->n_layers || in->current->n_workers != in->n_devices)
        return dp_err_set(err, DP_EINVAL, "snapshot: layout of %u layers on %u workers, loads of %u on %u",
                          in->current->n_layers, in->current->n_workers, in->n_layers, in->n_devices);
    if (in->microbatches < 1)
        return dp_err_set(err, DP_EINVAL, "snapshot: no microbatches");
    if (!dp_schedule_is_trained(in->schedule))
        return dp_err_set(err, DP_EINVAL, "snapshot: no schedule %u", (unsigned)in->schedule);
    if (in->n_slots < 1 || in->n_slots > DP_MAX_WORKERS || in->batch_slot >= in->n_slots)
        return dp_err_set(err, DP_EINVAL, "snapshot: batch slot %u of %u", in->batch_slot, in->n_slots);
    for (uint32_t s = 0; in->slot_host && s < in->n_slots; s++)
        if (in->slot_host[s] >= in->n_slots)
            return dp_err_set(err, DP_EINVAL, "snapshot: slot %u of %u on node %u", s, in->n_slots, in->slot_host[s]);
    if (!(in->link_latency_s >= 0.0 && in->link_latency_s < 1e6) || !(in->link_bytes_per_s >= 0.0))
        return dp_err_set(err, DP_EINVAL, "snapshot: links of %g s, %g bytes/s", in->link_latency_s,
                          in->link_bytes_per_s);
    for (uint32_t d = 0; d < in->n_devices; d++) {
        if (!(in->device[d].speed > 0.0) || !isfinite(in->device[d].speed))
            return dp_err_set(err, DP_EINVAL, "snapshot: device %u has speed %g", d, in->device[d].speed);
        if (in->device[d].slot >= in->n_slots)
            return dp_err_set(err, DP_EINVAL, "snapshot: device %u in slot %u of %u", d, in->device[d].slot,
                              in->n_slots);
    }
    if (sums_check(in, err) < 0)
        return -1;
    return dp_layout_check(in->current, err);
}
