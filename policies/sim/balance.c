/* SPDX-License-Identifier: BSD-3-Clause */
/* See balance.h. */
#include "policies/sim/balance.h"

#include <stdlib.h>
#include <string.h>

#include "common/schedule/schedule.h"
#include "policies/list.h"
#include "policies/predict/answer.h"
#include "policies/sim/balance_chain.h"

/* What a snapshot points to. */
struct question {
    struct dp_policy_in in;
    struct dp_layout current;
    struct dp_layer_load load[DP_MAX_LAYERS];
    uint64_t opt_ns[DP_MAX_LAYERS];
    struct dp_device device[DP_MAX_WORKERS];
    struct dp_policy_out out;
};

static void uniform(const struct dp_sim_case *c, uint32_t stages, uint32_t *count)
{
    for (uint32_t k = 0; k < stages; k++)
        count[k] = c->n_layers / stages + (k < c->n_layers % stages);
}

/* Layers per stage of the layout in force, one number a stage of all devices. */
static void count_layers(const struct dp_sim_case *c, const struct dp_sim_layout *l, uint32_t *count)
{
    memset(count, 0, (size_t)c->devices * c->chunks * sizeof *count);
    for (uint32_t k = 0; k < l->n_used * c->chunks; k++)
        count[c->chunks == 1 ? l->used[k] : k] = l->cut[k + 1] - l->cut[k];
}

/* Policies know what workers follow: of the others they are told the one that keeps as many microbatches. */
static enum dp_schedule_kind trained_like(enum dp_schedule_kind schedule)
{
    if (dp_schedule_is_trained(schedule))
        return schedule;
    return dp_schedules[schedule].rule->keeps_all ? DP_SCHED_GPIPE : DP_SCHED_1F1B;
}

static void fill_question(const struct dp_sim_case *c, const struct dp_sim_layer *layer, uint32_t allowed, uint32_t stages,
                          const uint32_t *count, struct question *q)
{
    q->current.n_workers = stages;
    q->current.n_layers = c->n_layers;
    for (uint32_t k = 0; k < stages; k++) {
        q->current.cut[k + 1] = q->current.cut[k] + count[k];
        q->device[k] = (struct dp_device){
            .speed = c->speed ? c->speed[k % c->devices] : 1.0,
            .mem_limit_bytes = c->chunks == 1 ? c->memory_bytes : 0,
            .slot = dp_sim_node(c, 0, k % c->devices),
            .is_allowed = k < allowed,
        };
        if (q->device[k].slot >= q->in.n_slots)
            q->in.n_slots = q->device[k].slot + 1;
    }
    for (uint32_t i = 0; i < c->n_layers; i++) {
        q->load[i] = (struct dp_layer_load){
            .fwd_ns = layer[i].fwd_ns,
            .bwd_input_ns = layer[i].bwd_input_ns,
            .bwd_weight_ns = layer[i].bwd_weight_ns,
            .state_bytes = layer[i].state_bytes,
            .act_bytes = layer[i].act_bytes,
            .params = layer[i].params,
            .nnz = layer[i].nnz,
        };
        q->opt_ns[i] = layer[i].opt_ns;
    }
    q->in.n_layers = c->n_layers;
    q->in.n_devices = stages;
    q->in.layer = q->load;
    q->in.layer_opt_ns = q->opt_ns;
    q->in.current = &q->current;
    q->in.device = q->device;
    q->in.schedule = trained_like(c->schedule);
    q->in.microbatches = c->microbatches;
    q->in.stage_message_bytes = layer[0].output_bytes;
    q->in.link_latency_s = (double)c->inside.latency_ns * 1e-9;
    q->in.link_bytes_per_s = c->inside.bytes_per_s;
    q->in.steps_total = c->iterations;
}

static const struct dp_policy *find(const struct dp_sim_case *c, const char *name, struct dp_err *err)
{
    return c->own && !strcmp(name, DP_SIM_OWN_POLICY) ? c->own : dp_policy_find(name, err);
}

/* count: in: the layout in force, out: the answer, both one number a stage. */
static int ask(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const struct dp_policy *policy, uint32_t allowed,
               uint32_t *count, struct dp_err *err)
{
    uint32_t stages = c->devices * c->chunks;
    bool is_own = policy == c->own, is_large = stages > DP_MAX_WORKERS || c->n_layers > DP_MAX_LAYERS;
    void *state = is_own ? c->own_state : NULL;
    struct question *q;
    int rc;

    if (is_large && is_own)
        return dp_err_set(err, DP_EINVAL, "policy %s: %u layers in %u stages; such a policy can be asked about %u in %u at most",
                          policy->name, c->n_layers, stages, DP_MAX_LAYERS, DP_MAX_WORKERS);
    if (is_large)
        return dp_sim_balance_chain(c, layer, policy->name, allowed, count, err);
    q = calloc(1, sizeof *q);
    if (!q)
        return dp_err_set(err, DP_ENOMEM, "policy %s: out of memory", policy->name);
    fill_question(c, layer, allowed, stages, count, q);
    rc = dp_policy_in_check(&q->in, err);
    if (rc == 0 && policy->open)
        rc = policy->open(&state, 0, NULL, err);
    if (rc == 0) {
        rc = dp_policy_run(policy, state, &q->in, &q->out, err);
        if (policy->close)
            policy->close(state);
    }
    for (uint32_t k = 0; rc == 0 && k < stages; k++)
        count[k] = q->out.layout.cut[k + 1] - q->out.layout.cut[k];
    free(q);
    return rc;
}

int dp_sim_balance(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const char *name, uint32_t devices,
                   struct dp_sim_layout *layout, struct dp_err *err)
{
    const struct dp_policy *policy = find(c, name, err);
    uint32_t stages = devices * c->chunks, *count;
    int rc = 0;

    if (!policy)
        return -1;
    if (devices < 1 || devices > c->devices)
        return dp_err_set(err, DP_EINVAL, "policy %s: %u of %u devices", name, devices, c->devices);
    count = calloc((size_t)c->devices * c->chunks, sizeof *count);
    if (!count)
        return dp_err_set(err, DP_ENOMEM, "policy %s: out of memory", name);
    if (layout->n_used)
        count_layers(c, layout, count);
    else
        uniform(c, stages, count);
    if (policy == &dp_policy_uniform) {
        memset(count, 0, (size_t)c->devices * c->chunks * sizeof *count);
        uniform(c, stages, count);
    } else {
        rc = ask(c, layer, policy, stages, count, err);
    }
    if (rc == 0)
        rc = dp_sim_layout_set(c, count, c->chunks == 1 ? c->devices : stages, layout, err);
    free(count);
    return rc;
}
