/* SPDX-License-Identifier: BSD-3-Clause */
/* See classes.h: what a plan for such devices is worth. */
#include "config.h"

#include "policies/graph/classes/classes.h"

#include <math.h>
#include <stdlib.h>

#include "policies/graph/check.h"
#include "policies/graph/units.h"

uint32_t dp_classes_devices(const struct dp_classes *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += c->of[i].devices;
    return n;
}

double dp_classes_speed(const struct dp_classes *c)
{
    double speed = 0;

    for (uint32_t i = 0; i < c->n; i++)
        speed += c->of[i].devices * c->of[i].speed;
    return speed;
}

double dp_classes_link(const struct dp_classes *c, uint32_t a, uint32_t b)
{
    return a == b ? c->of[a].bytes_per_s : fmin(c->of[a].bytes_per_s, c->between_bytes_per_s);
}

/* The part of a microbatch's time in which replicas exchange gradients, times their number (hierarchical.h). */
static double sync_s(const struct dp_device_class *d, const struct dp_plan_hierarchical *net, uint64_t param_bytes, uint32_t replicas)
{
    const struct dp_plan_hierarchical own = {.n_levels = 1, .bytes_per_s = {d->bytes_per_s}, .microbatches = net->microbatches};

    return dp_plan_sync_s(&own, 0, (double)param_bytes, replicas, false);
}

/* ---- bounds ---- */

/* With more replicas the time of a unit falls, or rises: one or all. */
static double least_s(const struct dp_classes *c, const struct dp_plan_hierarchical *net, uint64_t compute_ns, uint64_t param_bytes)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < c->n; i++) {
        const struct dp_device_class *d = &c->of[i];
        uint32_t all = net->is_straight ? 1 : d->devices;
        double compute = (double)compute_ns / 1e9 / d->speed;

        least = fmin(least, fmin(compute, (compute + sync_s(d, net, param_bytes, all)) / all));
    }
    return least;
}

uint64_t dp_classes_bound_ns(const struct dp_classes *c, const struct dp_plan_hierarchical *net, const struct dp_graph *g,
                             const struct dp_units *u, enum dp_plan_bound *by)
{
    double work = 0, unit = 0;

    /* of nodes, not units: what is dear enough to count is mostly one node, and a part of a unit bounds it, too */
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (u->unit_of[i] != DP_NO_UNIT) {
            work += (double)dp_graph_accel_ns(&g->node[i]) / 1e9;
            unit = fmax(unit, least_s(c, net, dp_graph_accel_ns(&g->node[i]), g->node[i].param_bytes));
        }
    work /= dp_classes_speed(c);
    *by = unit > work ? DP_PLAN_BOUND_UNIT : DP_PLAN_BOUND_WORK;
    return (uint64_t)(fmax(unit, work) * 1e9);
}

/* ---- a plan ---- */

struct scale {
    const struct dp_classes *classes;
    const struct dp_plan_hierarchical *net;
    const struct dp_stage_load *load; /* [n_stages] */
    struct dp_graph_plan *p;
};

/* Transfers through the cut behind stage `cut`, on the devices of stage s at one side of it. */
static double transfer_s(const struct scale *w, uint32_t cut, uint32_t s)
{
    const struct dp_graph_stage *t = w->p->stage;
    uint32_t other = s == cut ? cut + 1 : cut;
    double link = dp_classes_link(w->classes, t[s].device_class, t[other].device_class);

    return (double)w->load[cut].out_bytes / (link * t[s].replicas);
}

static double weigh_stage(const struct scale *w, uint32_t s)
{
    struct dp_graph_stage *t = &w->p->stage[s];
    const struct dp_device_class *d = &w->classes->of[t->device_class];
    double compute = (double)w->load[s].accel_ns / 1e9 / d->speed, sync = sync_s(d, w->net, w->load[s].param_bytes, t->replicas);
    double traffic = 0, load;

    if (s > 0)
        traffic = transfer_s(w, s - 1, s);
    if (s + 1 < w->p->n_stages)
        traffic = fmax(traffic, transfer_s(w, s, s));
    load = fmax((compute + sync) / t->replicas, traffic);
    t->compute_ns = (uint64_t)(compute * 1e9 + 0.5);
    t->sync_ns = (uint64_t)(sync * 1e9 + 0.5);
    t->traffic_ns = (uint64_t)(traffic * 1e9 + 0.5);
    t->load_ns = (uint64_t)(load * 1e9 + 0.5);
    return load;
}

int dp_classes_evaluate(const struct dp_graph *g, const struct dp_classes *classes, const struct dp_plan_hierarchical *net,
                        struct dp_graph_plan *p, struct dp_err *err)
{
    struct dp_stage_load *load = calloc((size_t)p->n_stages + 1, sizeof *load);
    struct scale w = {.classes = classes, .net = net, .load = load, .p = p};
    double worst = 0;
    int rc = load ? 0 : dp_err_set(err, DP_ENOMEM, "a plan of %u stages: out of memory", p->n_stages);

    if (rc == 0)
        rc = dp_graph_loads(g, p->stage_of, p->n_stages, load, err);
    for (uint32_t s = p->n_stages, behind = 0; rc == 0 && s-- > 0;) {
        struct dp_graph_stage *t = &p->stage[s];

        worst = fmax(worst, weigh_stage(&w, s));
        t->bytes = dp_plan_memory_bytes(&load[s], t->replicas, behind);
        behind += t->replicas;
    }
    p->load_ns = (uint64_t)(worst * 1e9 + 0.5);
    free(load);
    return rc;
}
