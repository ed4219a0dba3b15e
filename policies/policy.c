/* Registry of policies, the check of their answers, and what they share. See policy.h. */
#include "policies/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/partition.h"
#include "policies/sim/predict.h"

static const struct dp_policy *const known[] = {&dp_policy_keep, &dp_policy_uniform, &dp_policy_param,
                                                &dp_policy_time};
#define N_KNOWN (sizeof known / sizeof known[0])

const struct dp_policy *dp_policy_at(size_t i)
{
    return i < N_KNOWN ? known[i] : NULL;
}

const struct dp_policy *dp_policy_find(const char *name, struct dp_err *err)
{
    char names[256] = "";
    size_t n = 0;

    for (size_t i = 0; i < N_KNOWN; i++) {
        if (!strcmp(known[i]->name, name))
            return known[i];
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", known[i]->name);
    }
    dp_err_set(err, DP_EINVAL, "unknown policy \"%.64s\": known are %s", name, names);
    return NULL;
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
    for (uint32_t d = 0; d < in->n_devices; d++)
        if (!(in->device[d].speed > 0.0) || !isfinite(in->device[d].speed))
            return dp_err_set(err, DP_EINVAL, "snapshot: device %u has speed %g", d, in->device[d].speed);
    return dp_layout_check(in->current, err);
}

/* What dp_layout_check() cannot know: who may own layers, and the memory. */
static int answer_check(const struct dp_policy *policy, const struct dp_policy_in *in,
                        const struct dp_layout *l, const struct dp_sim_stage_out *stage, struct dp_err *err)
{
    if (l->n_layers != in->n_layers || l->n_workers != in->n_devices)
        return dp_err_set(err, DP_EINVAL, "policy %s: layout of %u layers on %u workers, asked for %u on %u",
                          policy->name, l->n_layers, l->n_workers, in->n_layers, in->n_devices);
    for (uint32_t d = 0, s = 0; d < in->n_devices; d++) {
        uint64_t limit = in->device[d].mem_limit_bytes;

        if (l->cut[d + 1] == l->cut[d])
            continue;
        if (!in->device[d].is_allowed || in->current->gone[d])
            return dp_err_set(err, DP_EINVAL, "policy %s: gives layers to worker %u, which may not own any",
                              policy->name, d);
        if (limit && stage[s].mem_bytes > limit)
            return dp_err_set(err, DP_ENOMEM, "policy %s: worker %u would need %.1f MiB of its %.1f MiB",
                              policy->name, d, (double)stage[s].mem_bytes / 1048576.0,
                              (double)limit / 1048576.0);
        s++;
    }
    return 0;
}

int dp_policy_run(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                  struct dp_policy_out *out, struct dp_err *err)
{
    struct dp_sim_stage_out *stage = NULL;
    int rc = -1;

    if (policy->abi != DP_POLICY_ABI || !policy->decide)
        return dp_err_set(err, DP_ENOTSUP, "policy %s: interface %u, this program has %d", policy->name,
                          policy->abi, DP_POLICY_ABI);
    memset(out, 0, sizeof *out);
    if (policy->decide(state, in, out, err) < 0)
        return -1;
    out->reason[sizeof out->reason - 1] = '\0';
    if (dp_layout_check(&out->layout, err) < 0)
        return dp_err_prefix(err, "policy %s", policy->name);
    stage = calloc(DP_MAX_WORKERS, sizeof *stage);
    if (!stage)
        return dp_err_set(err, DP_ENOMEM, "policy %s: out of memory", policy->name);
    if (out->layout.n_layers == in->n_layers && out->layout.n_workers == in->n_devices &&
        dp_sim_layout(in, &out->layout, stage, &out->iteration_ns, err) < 0)
        goto out;
    if (answer_check(policy, in, &out->layout, stage, err) < 0)
        goto out;
    for (uint32_t s = 0; s < dp_layout_active(&out->layout); s++)
        if (stage[s].busy_ns > out->bottleneck_ns)
            out->bottleneck_ns = stage[s].busy_ns;
    rc = 0;
out:
    free(stage);
    return rc;
}

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
