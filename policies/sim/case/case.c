/* SPDX-License-Identifier: BSD-3-Clause */
/* See case.h. */
#include "policies/sim/case/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void dp_sim_case_release(struct dp_sim_case *c)
{
    for (uint32_t i = 0; i < c->n_kinds && c->kind; i++)
        free(c->kind[i].point);
    for (uint32_t i = 0; i < c->n_events && c->event; i++) {
        free(c->event[i].densities);
        free(c->event[i].layer);
        free(c->event[i].count);
    }
    free(c->kind);
    free(c->kind_of);
    free(c->count);
    free(c->width);
    free(c->place);
    free(c->event);
    free(c->speed);
    free(c->next);
    memset(c, 0, sizeof *c);
}

int dp_sim_case_check_shape(const struct dp_sim_case *c, struct dp_err *err)
{
    uint64_t stages = (uint64_t)c->devices * c->chunks;

    if (stages > DP_SIM_MAX_CELLS || stages * c->replicas > DP_SIM_MAX_CELLS)
        return dp_err_set(err, DP_EINVAL, "%u replicas of %llu stages; at most %u stages together can be simulated", c->replicas,
                          (unsigned long long)stages, DP_SIM_MAX_CELLS);
    return 0;
}

int dp_sim_case_check(const struct dp_sim_case *c, struct dp_err *err)
{
    if (c->n_layers < 1 || c->n_layers > DP_SIM_MAX_LAYERS)
        return dp_err_set(err, DP_EINVAL, "%u layers; 1 to %u can be simulated", c->n_layers, DP_SIM_MAX_LAYERS);
    if (dp_sim_case_check_shape(c, err) < 0)
        return -1;
    if (c->is_data_inside && c->replicas < 2)
        return dp_err_set(err, DP_EINVAL, "neighbours are replicas, but there is one replica");
    if (c->width && (c->chunks > 1 || c->replicas > 1 || c->n_events > 1))
        return dp_err_set(err, DP_EINVAL, "stages of several devices: with %u chunks, %u replicas and %u events", c->chunks, c->replicas,
                          c->n_events);
    for (uint32_t i = 0; i < c->n_events; i++) {
        if (c->event[i].iteration < 1 || c->event[i].iteration > c->iterations)
            return dp_err_set(err, DP_EINVAL, "event %u: iteration %llu of %llu", i, (unsigned long long)c->event[i].iteration,
                              (unsigned long long)c->iterations);
        if (i && c->event[i].iteration < c->event[i - 1].iteration)
            return dp_err_set(err, DP_EINVAL, "event %u: iteration %llu is before that of the event before it", i,
                              (unsigned long long)c->event[i].iteration);
    }
    return 0;
}

static uint64_t between(uint64_t a, uint64_t b, double share)
{
    return (uint64_t)llround((double)a + ((double)b - (double)a) * share);
}

int dp_sim_cost_at(const struct dp_sim_layer_kind *k, double density, struct dp_sim_layer *out, struct dp_err *err)
{
    const struct dp_sim_point *p = k->point, *q;
    double share;

    if (k->n_points == 1) {
        *out = p->cost;
        return 0;
    }
    if (!(density >= p[0].density && density <= p[k->n_points - 1].density))
        return dp_err_set(err, DP_EINVAL, "layers '%s': density %g is outside of the table's %g to %g", k->name, density,
                          p[0].density, p[k->n_points - 1].density);
    while (p[1].density < density)
        p++;
    q = p + 1;
    share = (density - p->density) / (q->density - p->density);
    *out = (struct dp_sim_layer){
        .fwd_ns = between(p->cost.fwd_ns, q->cost.fwd_ns, share),
        .bwd_input_ns = between(p->cost.bwd_input_ns, q->cost.bwd_input_ns, share),
        .bwd_weight_ns = between(p->cost.bwd_weight_ns, q->cost.bwd_weight_ns, share),
        .opt_ns = between(p->cost.opt_ns, q->cost.opt_ns, share),
        .state_bytes = between(p->cost.state_bytes, q->cost.state_bytes, share),
        .act_bytes = between(p->cost.act_bytes, q->cost.act_bytes, share),
        .wgrad_bytes = between(p->cost.wgrad_bytes, q->cost.wgrad_bytes, share),
        .grad_bytes = between(p->cost.grad_bytes, q->cost.grad_bytes, share),
        .output_bytes = between(p->cost.output_bytes, q->cost.output_bytes, share),
        .message_ns = between(p->cost.message_ns, q->cost.message_ns, share),
        .params = q->cost.params,
        .nnz = (uint64_t)llround((double)q->cost.params * density),
    };
    return 0;
}

uint32_t dp_sim_forward_only(const struct dp_sim_layer *layer, uint32_t n_layers)
{
    uint32_t n = 0;

    while (n < n_layers && !layer[n].bwd_input_ns && !layer[n].bwd_weight_ns && !layer[n].act_bytes)
        n++;
    return n < n_layers ? n : 0;
}

uint32_t dp_sim_device_number(const struct dp_sim_case *c, uint32_t replica, uint32_t device)
{
    return c->is_data_inside ? device * c->replicas + replica : replica * c->devices + device;
}

uint32_t dp_sim_node(const struct dp_sim_case *c, uint32_t replica, uint32_t device)
{
    return c->devices_per_node ? dp_sim_device_number(c, replica, device) / c->devices_per_node : 0;
}

const struct dp_sim_tier *dp_sim_tier_between(const struct dp_sim_case *c, uint32_t replica, uint32_t a, uint32_t b)
{
    if (c->next && (a + 1 == b || b + 1 == a))
        return &c->next[a < b ? a : b];
    return dp_sim_node(c, replica, a) == dp_sim_node(c, replica, b) ? &c->inside : &c->between;
}

uint64_t dp_sim_transfer_ns(const struct dp_sim_tier *tier, double bytes)
{
    double ns = tier->bytes_per_s > 0 ? bytes / tier->bytes_per_s * 1e9 : 0;

    return ns < DP_SIM_LONGEST_NS ? (uint64_t)ns : (uint64_t)DP_SIM_LONGEST_NS;
}
