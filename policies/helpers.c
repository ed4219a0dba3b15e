/* What policies share: which devices count, and the exact min-max layout. See policy.h. Site policies
 * link these functions from libdynpipe-policy.a, so nothing here may need the rest of the library. */
#include "policies/policy.h"

#include <stdlib.h>

#include "policies/partition.h"

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
    uint32_t deep = in->schedule == DP_SCHED_GPIPE ? in->microbatches : n - i;

    return deep < in->microbatches ? deep : in->microbatches;
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

/* The current cuts seen from the allowed devices alone: where the new cuts would like to stay. */
static void prefer_current(const struct dp_policy_in *in, const uint32_t *index, uint32_t n, uint32_t *prefer)
{
    prefer[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        prefer[i + 1] = in->current->cut[index[i] + 1];
    prefer[n] = in->n_layers;
}

int dp_policy_minmax(const struct dp_policy_in *in, const uint64_t *weight, bool with_speed,
                     struct dp_layout *out, uint64_t *largest, struct dp_err *err)
{
    uint32_t index[DP_MAX_WORKERS], prefer[DP_MAX_WORKERS + 1], cut[DP_MAX_WORKERS + 1];
    uint32_t copies[DP_MAX_WORKERS];
    double speed[DP_MAX_WORKERS];
    uint64_t cap[DP_MAX_WORKERS];
    uint64_t *fixed = calloc(2 * (size_t)in->n_layers, sizeof *fixed);
    uint64_t *multi = fixed ? fixed + in->n_layers : NULL;
    struct dp_partition q = {.n = in->n_layers, .weight = weight, .fixed_bytes = fixed, .multi_bytes = multi,
                             .copies = copies, .cap_bytes = cap, .prefer = prefer};
    int rc;

    if (!fixed)
        return dp_err_set(err, DP_ENOMEM, "layout: out of memory");
    q.p = dp_policy_allowed(in, index);
    for (uint32_t i = 0; i < q.p; i++) {
        speed[i] = in->device[index[i]].speed;
        cap[i] = in->device[index[i]].mem_limit_bytes;
        copies[i] = dp_policy_in_flight(in, i, q.p);
    }
    if (with_speed)
        q.speed = speed;
    for (uint32_t l = 0; l < in->n_layers; l++) {
        fixed[l] = in->layer[l].state_bytes;
        multi[l] = in->layer[l].act_bytes;
    }
    prefer_current(in, index, q.p, prefer);
    rc = dp_partition_minmax(&q, cut, largest, err);
    if (rc == 0)
        dp_policy_spread(in, index, q.p, cut, out);
    free(fixed);
    return rc;
}
